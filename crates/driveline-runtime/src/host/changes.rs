// SPDX-License-Identifier: Apache-2.0
//! Changes of a component's parameters while it runs, by a command or by a mode: made in the group
//! of its callback. Changes by commands are acknowledged to the launcher.

use super::words::ParameterWord;
use crate::account::{Call, Record, Writer};
use crate::activity::Seen;
use crate::component::Component;
use driveline::{CallbackGroup, EndpointEvent, EventSender, Executor, ExecutorError, Node};
use driveline_types::MonotonicNs;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// If this number of changes waits, further changes by commands are refused. Of changes without a
/// waiting command, only the newest of each parameter waits.
const MAX_PENDING: usize = 64;
/// Number of a change without a waiting command: of a mode, or after a restart.
const UNASKED: u64 = 0;

/// Changes of the parameters of one component.
pub(super) struct Changes {
    queue: Arc<Queue>,
    wake: EventSender,
}

struct Queue {
    target: Target,
    /// Changes that wait for the component's group.
    pending: Mutex<VecDeque<ParameterWord>>,
    account: Option<Arc<Writer>>,
}

/// Component whose parameter is changed, its node, and its entry in the table of calls.
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
        let queue = Arc::new(Queue { target, pending: Mutex::default(), account });
        let own = queue.clone();
        // The event itself carries no data: the changes are in the queue.
        let (_, wake) = executor.add_event_callback(name, group, move |_, _| own.make_all())?;
        Ok(Self { queue, wake })
    }

    /// Requests a change, to be made after the running call. Does not wait for it.
    pub(super) fn request(&self, word: ParameterWord) {
        let mut pending = self.queue.lock();
        if word.change == UNASKED {
            pending.retain(|p| p.change != UNASKED || p.name != word.name);
        } else if pending.len() >= MAX_PENDING {
            let error = Some(format!("{MAX_PENDING} changes of this component wait already"));
            return self.queue.acknowledge(word.change, error);
        }
        pending.push_back(word);
        drop(pending);
        self.wake.send("", false, &EndpointEvent::EventsLost { count: 0 });
    }

    /// Makes a change on this thread, while nothing else of the component runs.
    pub(super) fn make(&self, word: &ParameterWord) -> Result<(), String> {
        self.queue.target.change(word)
    }

    /// Makes the changes that wait, for a caller in the component's group.
    pub(super) fn make_all(&self) {
        self.queue.make_all();
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ParameterWord>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make_all(&self) {
        let next = || self.lock().pop_front();
        while let Some(word) = next() {
            let error = self.target.change(&word).err();
            if word.change != UNASKED {
                self.acknowledge(word.change, error);
                continue;
            }
            let ParameterWord { component, name, value, mode, .. } = word;
            if let Some(error) = &error {
                tracing::error!("parameter {component}.{name} is not changed to {value}: {error}");
            }
            if let Some(account) = &self.account {
                account.send_vital(Record::ParameterSet { component, name, value, mode, error });
            }
        }
    }

    fn acknowledge(&self, change: u64, error: Option<String>) {
        if let Some(account) = &self.account {
            account.send_vital(Record::Changed { change, error });
        }
    }
}

impl Target {
    fn change(&self, word: &ParameterWord) -> Result<(), String> {
        let parameters = self.node.parameters();
        let before = parameters.get(&word.name).map_err(|e| e.to_string())?;
        // Checks the type, and converts the value to the declared one.
        parameters.set(&word.name, word.value.clone()).map_err(|e| e.to_string())?;
        let value = parameters.get(&word.name).map_err(|e| e.to_string())?;
        let _inside = self.seen.enter(Call::OnParameter, MonotonicNs::now(), None);
        let call = AssertUnwindSafe(|| self.component.on_parameter(&word.name, &value));
        let outcome = catch_unwind(call).map_err(|_| "its callback panicked".to_owned());
        let outcome = outcome.and_then(|done| done.map_err(|e| e.text));
        if outcome.is_err() {
            let _ = parameters.set(&word.name, before);
        }
        outcome
    }
}
