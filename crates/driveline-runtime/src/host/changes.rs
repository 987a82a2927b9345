// SPDX-License-Identifier: Apache-2.0
//! Changes of a component's parameters while it runs: made in the group of its callback, and
//! acknowledged to the launcher.

use super::words::ParameterWord;
use crate::account::{Call, Record, Writer};
use crate::activity::Seen;
use crate::component::Component;
use driveline::{CallbackGroup, EndpointEvent, EventSender, Executor, ExecutorError, Node};
use driveline_types::MonotonicNs;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of changes that can wait; one more is refused.
const MAX_PENDING: usize = 64;

/// Changes that wait for the group of one component.
pub(super) struct Changes {
    pending: Arc<Mutex<VecDeque<ParameterWord>>>,
    wake: EventSender,
    account: Option<Arc<Writer>>,
}

/// What a change is made on.
pub(super) struct Target {
    pub(super) component: Arc<dyn Component>,
    pub(super) node: Node,
    pub(super) seen: Seen,
}

impl Changes {
    pub(super) fn add(
        name: &str,
        executor: &Executor,
        group: CallbackGroup,
        target: Target,
        account: Option<Arc<Writer>>,
    ) -> Result<Self, ExecutorError> {
        let pending: Arc<Mutex<VecDeque<ParameterWord>>> = Arc::default();
        let (own, acknowledge) = (pending.clone(), account.clone());
        // Of an event only that it came matters: what is to be done is in the queue.
        let (_, wake) = executor.add_event_callback(name, group, move |_, _| {
            let next = || own.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(word) = next() {
                let error = target.change(&word).err();
                if let Some(account) = &acknowledge {
                    account.send_vital(Record::Changed { change: word.change, error });
                }
            }
        })?;
        Ok(Self { pending, wake, account })
    }

    /// Has a change made after the call that runs. Does not wait for it.
    pub(super) fn request(&self, word: ParameterWord) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.len() >= MAX_PENDING {
            let error = Some(format!("{MAX_PENDING} changes of this component wait already"));
            if let Some(account) = &self.account {
                account.send_vital(Record::Changed { change: word.change, error });
            }
            return;
        }
        pending.push_back(word);
        drop(pending);
        self.wake.send("", false, &EndpointEvent::EventsLost { count: 0 });
    }
}

impl Target {
    fn change(&self, word: &ParameterWord) -> Result<(), String> {
        let parameters = self.node.parameters();
        let before = parameters.get(&word.name).map_err(|e| e.to_string())?;
        // Checks the type, and gives the value its own.
        parameters.set(&word.name, word.value.clone()).map_err(|e| e.to_string())?;
        let value = parameters.get(&word.name).map_err(|e| e.to_string())?;
        let _inside = self.seen.enter(Call::OnEvent, MonotonicNs::now(), None);
        let call = AssertUnwindSafe(|| self.component.on_parameter(&word.name, &value));
        let outcome = catch_unwind(call).map_err(|_| "its callback panicked".to_owned());
        let outcome = outcome.and_then(|done| done.map_err(|e| e.text));
        if outcome.is_err() {
            let _ = parameters.set(&word.name, before);
        }
        outcome
    }
}
