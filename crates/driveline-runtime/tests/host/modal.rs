// SPDX-License-Identifier: Apache-2.0
//! `Modal` publishes 1, 2, 3, …, prints the samples that it gets and its state, and misbehaves when
//! asked to.

use super::{failure, hang, integer, number, publish};
use driveline::{Invocation, ParameterValue};
use driveline_runtime::component::{Component, ComponentFailure, ComponentIo, ModeRequests};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

pub(crate) struct Modal {
    name: String,
    settings: OnceLock<Settings>,
    got: AtomicU64,
}

struct Settings {
    fail_activate: bool,
    hang_activate: bool,
    hang_deactivate: bool,
    /// Number of samples after which it requests `mode`; never if 0. It repeats the request with
    /// each sample: the launcher refuses it while a switch of higher rank is in flight.
    request_on: u64,
    mode: String,
    modes: ModeRequests,
}

impl Modal {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), settings: OnceLock::new(), got: AtomicU64::new(0) }
    }
}

impl Component for Modal {
    fn init(&self, mut io: ComponentIo) -> Result<(), ComponentFailure> {
        let mode = match io.parameters.get("mode") {
            Some(ParameterValue::Text(mode)) => mode.clone(),
            _ => String::new(),
        };
        let settings = Settings {
            fail_activate: integer(&io, "fail_activate") != 0,
            hang_activate: integer(&io, "hang_activate") != 0,
            hang_deactivate: integer(&io, "hang_deactivate") != 0,
            request_on: integer(&io, "request_on").unsigned_abs(),
            mode,
            modes: io.modes.clone(),
        };
        let _ = self.settings.set(settings);
        let output = Mutex::new(io.outputs.pop().ok_or_else(|| failure("no output"))?);
        let next = Arc::new(AtomicU64::new(1));
        let added = io.timers.add(Duration::from_millis(5), move |_| {
            let mut output = output.lock().map_err(failure)?;
            publish(&mut output, next.fetch_add(1, Ordering::Relaxed))
        });
        added.map(drop).map_err(failure)
    }

    fn on_activate(&self) -> Result<(), ComponentFailure> {
        println!("{} is asked to be active", self.name);
        let settings = self.settings.get().ok_or_else(|| failure("no parameters"))?;
        if settings.hang_activate {
            hang();
        }
        if settings.fail_activate { Err(failure("asked to fail")) } else { Ok(()) }
    }

    fn on_deactivate(&self) -> Result<(), ComponentFailure> {
        println!("{} is asked to be inactive", self.name);
        if self.settings.get().is_some_and(|settings| settings.hang_deactivate) {
            hang();
        }
        Ok(())
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let number = number(invocation).ok_or_else(|| failure("not a number"))?;
        println!("{} got {number}", self.name);
        let settings = self.settings.get().ok_or_else(|| failure("no parameters"))?;
        let got = self.got.fetch_add(1, Ordering::Relaxed) + 1;
        if settings.request_on != 0 && got >= settings.request_on {
            settings.modes.request(&settings.mode)?;
        }
        Ok(())
    }

    fn on_parameter(&self, name: &str, value: &ParameterValue) -> Result<(), ComponentFailure> {
        println!("{} has {name} {value} now", self.name);
        if *value == ParameterValue::Integer(13) { Err(failure("13 is unlucky")) } else { Ok(()) }
    }

    fn shutdown(&self) {}
}
