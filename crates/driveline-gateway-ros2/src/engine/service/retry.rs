// SPDX-License-Identifier: Apache-2.0
//! Keeps the ends of a service and its local side alive: makes, replaces and drops them for the
//! control thread. `docs/protocols/ros2-services.md`, section 9.

use super::{Asking, Offered};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// First pause before a failed object is made again. It doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum of that pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Maximum time that a dropped object waits for threads that use it at that moment. It is longer
/// than these threads may wait for a link or for space.
const OTHERS_WITHIN: Duration = Duration::from_secs(10);
/// Pause between two checks for these threads.
const OTHERS_CHECK_EVERY: Duration = Duration::from_millis(10);

/// Reason why an object does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The previous object has not ended yet. This is temporary.
    Going,
    /// It could not be made, or broke.
    Failed(String),
}

/// Wakes the control thread.
pub(super) type Wake = Arc<dyn Fn() + Send + Sync>;

/// Object that is kept alive. A drop may block.
pub(super) trait Upheld: Send + 'static {
    /// Reason if it does not work any more.
    fn broken(&self) -> Option<String> {
        None
    }

    /// Hides it from others. May wait for a link of Zenoh, and for nothing else.
    fn withdraw(&self) {}

    /// Returns true if it has another owner. No owner is added after it was withdrawn.
    fn is_shared(&self) -> bool {
        false
    }
}

impl Upheld for Box<dyn Offered> {
    fn broken(&self) -> Option<String> {
        (**self).broken()
    }

    fn withdraw(&self) {
        (**self).withdraw();
    }
}

impl Upheld for Arc<dyn Asking> {
    fn is_shared(&self) -> bool {
        Self::strong_count(self) > 1
    }

    fn broken(&self) -> Option<String> {
        (**self).broken()
    }

    fn withdraw(&self) {
        (**self).withdraw();
    }
}

enum State<T> {
    Absent,
    There { what: T, since: Instant },
    Failed { reason: String, again: Instant },
}

/// Object that exists, does not exist, or has failed. Dropping this value waits for threads inside
/// the object. Methods of this type leave this wait to a new thread. They wait themselves only if
/// the system refuses to start that thread.
pub(super) struct Retry<T> {
    state: State<T>,
    /// Pause after the next failure.
    pause: Duration,
    going: Option<Going>,
    wake: Wake,
}

impl<T: Upheld> Retry<T> {
    pub(super) fn new(wake: &Wake) -> Self {
        Self { state: State::Absent, pause: FIRST_PAUSE, going: None, wake: wake.clone() }
    }

    /// Returns the object, if it exists.
    pub(super) fn get(&self) -> Option<&T> {
        match &self.state {
            State::There { what, .. } => Some(what),
            State::Absent | State::Failed { .. } => None,
        }
    }

    /// Returns the time since which it exists.
    pub(super) fn since(&self) -> Option<Instant> {
        match &self.state {
            State::There { since, .. } => Some(*since),
            State::Absent | State::Failed { .. } => None,
        }
    }

    /// Drops the object: it is not needed any more.
    pub(super) fn let_go(&mut self) {
        self.replace(State::Absent);
        self.pause = FIRST_PAUSE;
    }

    /// Drops the object if it broke. Returns the reason.
    pub(super) fn broke(&mut self, now: Instant) -> Option<String> {
        let State::There { what, since } = &self.state else { return None };
        let reason = what.broken()?;
        if now.saturating_duration_since(*since) > LONGEST_PAUSE {
            self.pause = FIRST_PAUSE;
        }
        self.fail(now, reason.clone());
        Some(reason)
    }

    /// Makes the object if it does not exist and may be made now.
    ///
    /// # Errors
    /// Reason why it does not exist; the same until it is retried.
    pub(super) fn keep(
        &mut self,
        now: Instant,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<(), Missing> {
        match &self.state {
            State::There { .. } => return Ok(()),
            State::Failed { reason, again } if now < *again => {
                return Err(Missing::Failed(reason.clone()));
            }
            State::Failed { .. } | State::Absent => {}
        }
        if self.going.as_ref().is_some_and(|going| !going.is_over()) {
            return Err(Missing::Going);
        }
        self.going = None;
        let what = make().map_err(|reason| {
            self.fail(now, reason.clone());
            Missing::Failed(reason)
        })?;
        self.state = State::There { what, since: now };
        Ok(())
    }

    fn fail(&mut self, now: Instant, reason: String) {
        self.replace(State::Failed { reason, again: now + self.pause });
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    fn replace(&mut self, state: State<T>) {
        if let State::There { what, .. } = std::mem::replace(&mut self.state, state) {
            what.withdraw();
            self.going = Some(Going::of(what, self.wake.clone()));
        }
    }
}

/// An object that is being dropped on a thread of its own, because a thread inside it may block.
struct Going {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Going {
    fn of(what: impl Upheld, wake: Wake) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let of_thread = over.clone();
        let go = move || {
            // Waits until no other thread owns the object, so that its last drop, which may block,
            // happens on this thread.
            let end = Instant::now() + OTHERS_WITHIN;
            while what.is_shared() && Instant::now() < end {
                std::thread::sleep(OTHERS_CHECK_EVERY);
            }
            drop(what);
            of_thread.store(true, Ordering::Release);
            wake();
        };
        // If no thread could be started, `spawn` has dropped the closure, and the object with it.
        let thread = std::thread::Builder::new().name("dl-lets-go".into()).spawn(go).ok();
        Self { over, thread }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
            || self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Parts;
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

    /// Only a failure takes this long.
    const PATIENCE: Duration = Duration::from_secs(60);

    /// Reason why an object is broken, if it is.
    type Broken = Arc<Mutex<Option<String>>>;

    /// Its drop blocks until the sender of `held` is dropped.
    struct Thing {
        broken: Broken,
        withdrawn: Sender<()>,
        held: Receiver<()>,
    }

    impl Upheld for Thing {
        fn broken(&self) -> Option<String> {
            self.broken.lock().unwrap().clone()
        }

        fn withdraw(&self) {
            self.withdrawn.send(()).unwrap();
        }
    }

    impl Drop for Thing {
        fn drop(&mut self) {
            let _ = self.held.recv_timeout(PATIENCE);
        }
    }

    /// Makes an object. Also returns a way to break it, a receiver that reports its withdrawal, and
    /// a sender that blocks its drop while the sender exists.
    fn thing() -> (Thing, Broken, Receiver<()>, Sender<()>) {
        let (broken, (withdrawn, seen), (hold, held)) = (Arc::default(), channel(), channel());
        (Thing { broken: Arc::clone(&broken), withdrawn, held }, broken, seen, hold)
    }

    fn retry() -> (Retry<Thing>, Receiver<()>) {
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        (Retry::new(&wake), woken)
    }

    #[test]
    fn a_failed_object_is_retried_after_growing_pauses_with_a_limit() {
        let (mut retry, _woken) = retry();
        let (began, mut tried) = (Instant::now(), Vec::new());
        for second in 0..300 {
            let refused = retry.keep(began + Duration::from_secs(second), || {
                tried.push(second);
                Err("no room".into())
            });
            assert_eq!(
                refused,
                Err(Missing::Failed("no room".into())),
                "the reason stands all the time"
            );
        }
        assert_eq!(tried, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        retry.let_go();
        let (thing, _broken, _withdrawn, hold) = thing();
        drop(hold);
        assert_eq!(retry.keep(began, || Ok(thing)), Ok(()), "after `let_go`: at once");
        assert!(retry.get().is_some());
    }

    #[test]
    fn a_broken_object_is_withdrawn_with_its_reason_and_made_again_after_a_pause() {
        let (mut retry, woken) = retry();
        let (first, broken, withdrawn, hold) = thing();
        let began = Instant::now();
        retry.keep(began, || Ok(first)).unwrap();
        assert_eq!(retry.broke(began), None);
        *broken.lock().unwrap() = Some("its thread has ended".into());
        assert_eq!(retry.broke(began).as_deref(), Some("its thread has ended"));
        withdrawn.recv_timeout(PATIENCE).unwrap();
        assert!(retry.get().is_none() && retry.broke(began).is_none(), "reported once");
        drop(hold);
        woken.recv_timeout(PATIENCE).unwrap();
        assert_eq!(
            retry.keep(began, || panic!("too early")),
            Err(Missing::Failed("its thread has ended".into()))
        );
        let (second, _broken, _withdrawn, hold) = thing();
        drop(hold);
        assert_eq!(retry.keep(began + FIRST_PAUSE, || Ok(second)), Ok(()));
    }

    #[test]
    fn a_slow_end_delays_no_other_and_there_are_never_two() {
        let (mut retry, woken) = retry();
        let (first, _broken, withdrawn, hold) = thing();
        retry.keep(Instant::now(), || Ok(first)).unwrap();
        let before = Instant::now();
        retry.let_go();
        assert!(before.elapsed() < PATIENCE, "it returns although the thing cannot go");
        withdrawn.recv_timeout(PATIENCE).unwrap();
        assert!(retry.get().is_none());
        assert_eq!(retry.keep(Instant::now(), || panic!("two at once")), Err(Missing::Going));
        drop(hold);
        woken.recv_timeout(PATIENCE).unwrap();
        let (second, _broken, _withdrawn, hold) = thing();
        drop(hold);
        assert_eq!(retry.keep(Instant::now(), || Ok(second)), Ok(()));
    }

    /// Ignores all requests.
    struct Silent;

    impl Asking for Silent {
        fn ask(&self, _: i64, _: Parts<'_>, _: Duration) -> Result<(), String> {
            Ok(())
        }
    }

    #[test]
    fn an_end_with_a_pending_call_has_not_gone() {
        let (sender, woken) = channel();
        let wake: Wake = Arc::new(move || {
            let _ = sender.send(());
        });
        let mut retry: Retry<Arc<dyn Asking>> = Retry::new(&wake);
        retry.keep(Instant::now(), || Ok(Arc::new(Silent))).unwrap();
        let asks = retry.get().unwrap().clone();
        retry.let_go();
        assert_eq!(
            // time: no wake-up may come in this time; a slow machine causes none
            woken.recv_timeout(Duration::from_millis(100)),
            Err(RecvTimeoutError::Timeout),
            "it is not over"
        );
        assert_eq!(retry.keep(Instant::now(), || panic!("two at once")), Err(Missing::Going));
        drop(asks);
        woken.recv_timeout(PATIENCE).unwrap();
        assert_eq!(retry.keep(Instant::now(), || Ok(Arc::new(Silent))), Ok(()));
    }
}
