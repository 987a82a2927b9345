// SPDX-License-Identifier: Apache-2.0
//! Components as the runtime sees them, in whatever language they are written.

use crate::account::{Call, Record, Writer, note_line};
use crate::host::failures::Failures;
use driveline::{
    CallbackGroup, CallbackHandle, CallbackOptions, Executor, ExecutorError, Invocation, Node,
    ParameterValue, PortEvent, RawPublisher, TimerEnd, TimerTick, Trigger,
};
use driveline_graph::descriptor::ComponentClass;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use thiserror::Error;

/// Loads component libraries into this process.
pub trait ComponentLoader: Send + Sync {
    /// Loads a library. The library stays loaded as long as the process runs.
    ///
    /// # Errors
    /// [`LoadError`] if it cannot be loaded or holds no components.
    fn load(&self, library: &Path) -> Result<Box<dyn ComponentLibrary>, LoadError>;

    /// Changes the filter of this process's log, e.g. to `debug` or `driveline=debug,warn`.
    ///
    /// # Errors
    /// A text for people.
    fn set_log_level(&self, _filter: &str) -> Result<(), String> {
        Err("this program has no log whose level can be changed".into())
    }
}

/// A loaded library.
pub trait ComponentLibrary: Send + Sync {
    /// The classes in it.
    fn classes(&self) -> Vec<ComponentClass>;

    /// Creates a component of a class. `instance` is its name in the graph.
    ///
    /// # Errors
    /// [`LoadError`] if there is no such class or its construction fails.
    fn create(&self, class: &str, instance: &str) -> Result<Box<dyn Component>, LoadError>;
}

/// A component. `init` and `shutdown` come from one thread, once each, in this order; the other
/// calls come in between, from threads of the executor unless their description names another.
pub trait Component: Send + Sync {
    /// Initialises the component. Nothing runs yet; timers can be added to the executor.
    ///
    /// # Errors
    /// [`ComponentFailure`] ends the module before it has begun.
    fn init(&self, io: ComponentIo) -> Result<(), ComponentFailure>;

    /// Called when the trigger fires; inputs are in the order in which the class declares them.
    /// Runs on a thread of the executor, on several at once in a reentrant group.
    ///
    /// # Errors
    /// [`ComponentFailure`] is reported and counted, as is a panic; the component stays in service.
    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure>;

    /// Called for an event of a port, other than a sample: for example a missed deadline, a match,
    /// a refusal, a lost lease. Runs on a thread of the executor in the group of `on_trigger`, at
    /// most about 100 ms after the event unless the group is busy; for an output whose topic has
    /// neither deadline nor lease, at most a second after it. The event is logged as well. Not
    /// called while the component is inactive.
    ///
    /// # Errors
    /// As [`Self::on_trigger`].
    fn on_event(&self, _event: &PortEvent) -> Result<(), ComponentFailure> {
        Ok(())
    }

    /// Called when a parameter changes: by `driveline param set`, if the class declares it as
    /// changeable, or by a mode of the graph. The value has the declared type and is within the
    /// declared range. Runs on a thread of the executor in the group of `on_trigger`; for a mode,
    /// before `on_activate`. The node has the new value already. Also called while the component is
    /// inactive. After a restart of the module, these changes are made again in the new process:
    /// for a component that no mode names, on the thread of `init`, before `on_activate`.
    ///
    /// # Errors
    /// After a [`ComponentFailure`] the node gets the old value back. The caller of the change gets
    /// the failure's text; for a change by a mode or after a restart, the text is logged.
    fn on_parameter(&self, _name: &str, _value: &ParameterValue) -> Result<(), ComponentFailure> {
        Ok(())
    }

    /// Called when the component becomes active: its callback and timers run, and its outputs
    /// publish, from here on. Runs on a thread of the executor, never at the same time as the
    /// component's other calls, each time a mode makes the inactive component active, and after a
    /// restart of its module in such a mode. A component that no mode names is active from the
    /// start: the call is made once, after all `init` of the module, on the thread of `init`.
    ///
    /// # Errors
    /// After a [`ComponentFailure`] the component stays inactive and the mode is not entered; if no
    /// mode names the component, the module ends.
    fn on_activate(&self) -> Result<(), ComponentFailure> {
        Ok(())
    }

    /// Called when the component becomes inactive: neither callback nor timers run until the next
    /// [`Self::on_activate`], and its outputs refuse to publish once this has returned. Runs on a
    /// thread of the executor, as [`Self::on_activate`]. Not called at the end of a run.
    ///
    /// # Errors
    /// [`ComponentFailure`] is reported; the component is inactive all the same.
    fn on_deactivate(&self) -> Result<(), ComponentFailure> {
        Ok(())
    }

    /// Called after the last callback has returned. The component ends its own threads and releases
    /// what it holds.
    fn shutdown(&self);
}

/// Parameters, ports and handles that a component gets at its initialisation.
pub struct ComponentIo {
    /// The component's node, with its parameters declared and set.
    pub node: Node,
    /// One publisher for each output, in the order in which the class declares them.
    pub outputs: Vec<RawPublisher>,
    /// The parameters' values at the start.
    pub parameters: BTreeMap<String, ParameterValue>,
    /// Adds timers of the component.
    pub timers: Timers,
    /// Adds notes that belong next to the run's figures.
    pub facts: Facts,
    /// Reports the end of the run, and requests it.
    pub stop: StopHandle,
    /// Requests modes of the run.
    pub modes: ModeRequests,
}

/// Requests modes of the run for one component. Clones act for the same component, on any thread.
#[derive(Clone)]
pub struct ModeRequests {
    component: String,
    names: Arc<[String]>,
    account: Option<Arc<Writer>>,
}

impl ModeRequests {
    pub(crate) fn new(component: &str, names: Vec<String>, account: Option<Arc<Writer>>) -> Self {
        Self { component: component.to_owned(), names: names.into(), account }
    }

    /// Requests a switch of the whole run to a mode, which the launcher grants or refuses
    /// (`switched_by`, `latch`, `min_dwell_ms`). The outcome is an event of the run. Allocates;
    /// does not block.
    ///
    /// # Errors
    /// [`ComponentFailure`] if the graph has no such mode, or there is no launcher.
    pub fn request(&self, mode: &str) -> Result<(), ComponentFailure> {
        if !self.names.iter().any(|name| name == mode) {
            let text = if self.names.is_empty() {
                format!("there is no mode '{mode}': the graph declares no `modes`")
            } else {
                format!("there is no mode '{mode}'; the graph has: {}", self.names.join(", "))
            };
            return Err(ComponentFailure { text });
        }
        let Some(account) = &self.account else {
            let text = format!("mode '{mode}' cannot be requested: the module has no launcher");
            return Err(ComponentFailure { text });
        };
        let (component, mode) = (self.component.clone(), mode.to_owned());
        account.send_vital(Record::ModeRequest { component, mode });
        Ok(())
    }
}

/// Adds notes of one component for readers of a run's figures. Clones act for the same component,
/// on any thread.
#[derive(Clone)]
pub struct Facts {
    component: String,
    account: Option<Arc<Writer>>,
}

impl Facts {
    pub(crate) fn new(component: &str, account: Option<Arc<Writer>>) -> Self {
        Self { component: component.to_owned(), account }
    }

    /// Adds a note that is shown with the run and kept in its report, for example with the name
    /// `detector` and the text "classical, no model was given". Allocates; not for every sample.
    pub fn add(&self, name: &str, text: &str) {
        match &self.account {
            Some(account) => account.send(Record::Fact {
                component: self.component.clone(),
                name: name.to_owned(),
                text: text.to_owned(),
            }),
            None => crate::host::output::print(note_line(&self.component, name, text)),
        }
    }
}

/// Adds timers to the executor that runs a component. Clones act for the same component.
#[derive(Clone)]
pub struct Timers {
    component: String,
    // The executor owns the component through its callbacks. A strong reference back would keep
    // both alive for ever.
    executor: Weak<Executor>,
    group: CallbackGroup,
    failures: Arc<Failures>,
    stop: StopHandle,
    added: Arc<Mutex<Vec<CallbackHandle>>>,
}

impl Timers {
    pub(crate) fn new(
        component: &str,
        executor: &Arc<Executor>,
        group: CallbackGroup,
        failures: Arc<Failures>,
        stop: StopHandle,
    ) -> Self {
        let (component, executor) = (component.to_owned(), Arc::downgrade(executor));
        Self { component, executor, group, failures, stop, added: Arc::default() }
    }

    /// Adds a timer in the group of the component's callback. All its calls, also failed and
    /// panicked ones, are accounted to the component. Call it in `init`: once the executor runs, it
    /// accepts no timers. The handle moves the next tick ([`CallbackHandle::next_tick_at`]).
    ///
    /// # Errors
    /// [`ExecutorError`] if the period is zero or the executor runs already.
    pub fn add(
        &self,
        period: Duration,
        tick: impl Fn(&TimerTick) -> Result<(), ComponentFailure> + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        let Some(executor) = self.executor.upgrade() else {
            return Err(ExecutorError::Running { name: self.component.clone() });
        };
        let (group, trigger) = (self.group.clone(), Trigger::Timer { period, max_age: None });
        let options =
            CallbackOptions { name: self.component.clone(), group, trigger, inputs: Vec::new() };
        let failures = self.failures.clone();
        let handle = executor.add_callback(options, move |invocation| {
            if let Some(t) = invocation.tick() {
                let _ = failures.watch(invocation, Call::Timer, || tick(&t));
            }
        })?;
        self.stop.ends(handle.timer_end());
        self.added.lock().unwrap_or_else(PoisonError::into_inner).push(handle.clone());
        Ok(handle)
    }

    /// Returns the timers that were added.
    pub(crate) fn added(&self) -> Vec<CallbackHandle> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A component failed to do what was requested.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct ComponentFailure {
    /// Text from the component, for example of an exception.
    pub text: String,
}

/// A library or component could not be brought up.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text}")]
pub struct LoadError {
    /// The failure, and its remedy.
    pub text: String,
}

/// A component's handle for the end of the run. Clones act for the same component, on any thread.
#[derive(Clone, Debug)]
pub struct StopHandle {
    component: Arc<str>,
    shared: Arc<StopShared>,
    timers: Arc<Mutex<OwnTimers>>,
}

/// The timers of a component, which tick no more once it has finished.
#[derive(Debug, Default)]
struct OwnTimers {
    finished: bool,
    ends: Vec<TimerEnd>,
}

#[derive(Debug)]
struct StopShared {
    stopping: AtomicBool,
    finished: Mutex<Finished>,
    wake: UnixStream,
}

/// Components that have finished; the first `reported` of them are known to the process.
#[derive(Debug, Default)]
struct Finished {
    components: Vec<Arc<str>>,
    reported: usize,
}

/// The process's side of all its [`StopHandle`]s.
pub(crate) struct StopControl {
    shared: Arc<StopShared>,
    /// Readable when a component has finished.
    pub(crate) finished: UnixStream,
}

/// Notifies all components of the process that the run is ending.
pub(crate) struct StopSwitch(Arc<StopShared>);

impl StopSwitch {
    pub(crate) fn stop(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }
}

impl StopControl {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (finished, wake) = UnixStream::pair()?;
        finished.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let shared =
            StopShared { stopping: AtomicBool::new(false), finished: Mutex::default(), wake };
        Ok(Self { shared: Arc::new(shared), finished })
    }

    pub(crate) fn handle(&self, component: &str) -> StopHandle {
        StopHandle {
            component: component.into(),
            shared: self.shared.clone(),
            timers: Arc::default(),
        }
    }

    pub(crate) fn stop(&self) {
        self.shared.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Returns the switch that stops all components of the process.
    pub(crate) fn switch(&self) -> StopSwitch {
        StopSwitch(self.shared.clone())
    }

    /// Components that have finished since the last call.
    pub(crate) fn take_finished(&self) -> Vec<Arc<str>> {
        let mut drained = [0u8; 64];
        while matches!(std::io::Read::read(&mut &self.finished, &mut drained), Ok(n) if n > 0) {}
        let mut finished = self.shared.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let new = finished.components[finished.reported..].to_vec();
        finished.reported += new.len();
        new
    }
}

impl StopHandle {
    /// Makes a timer end when the component reports that its work is done ([`Self::finish`]).
    pub(crate) fn ends(&self, timer: TimerEnd) {
        let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
        if timers.finished {
            timer.end();
        } else {
            timers.ends.push(timer);
        }
    }

    /// Returns true if the run is ending; for a long callback or a thread of the component's own.
    /// One atomic load.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Acquire)
    }

    /// Reports that this component's work is done: for example, a video file has come to its end.
    /// The run of the whole graph then ends, after pending data is processed. The component's
    /// timers stop. Only the first call of a component counts. Does not block.
    pub fn finish(&self) {
        {
            let mut timers = self.timers.lock().unwrap_or_else(PoisonError::into_inner);
            timers.finished = true;
            timers.ends.drain(..).for_each(|t| t.end());
        }
        let mut finished = self.shared.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if !finished.components.contains(&self.component) {
            finished.components.push(self.component.clone());
            // A full socket has woken the process already.
            let _ = std::io::Write::write(&mut &self.shared.wake, &[1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_finishes_once() {
        let control = StopControl::new().unwrap();
        let (a, b) = (control.handle("a"), control.handle("b"));
        a.finish();
        a.clone().finish();
        assert_eq!(control.take_finished(), ["a".into()] as [Arc<str>; 1]);
        a.finish();
        b.finish();
        assert_eq!(control.take_finished(), ["b".into()] as [Arc<str>; 1]);
        assert_eq!(control.take_finished(), [] as [Arc<str>; 0]);
        assert!(!a.is_stopping());
        control.stop();
        assert!(b.is_stopping());
    }
}
