// SPDX-License-Identifier: Apache-2.0
//! Tasks that another user can block, on a thread that serves only that user.
//!
//! Closing the last descriptor of a file can block: a TCP socket may linger, a file's server may
//! hang. The other user decides what it sends, and which close is the last. Closing a socket closes
//! the unread descriptors in it, and receiving closes descriptors that do not fit. So closing
//! descriptors, closing sockets and receiving run here, for all users except this process's own
//! user and root, which have power over this process anyway.

use super::fork::{Birthplace, GuardedFd};
use super::peer::User;
use crate::limits::{MAX_BLOCKING_TASKS, MAX_BLOCKING_THREADS};
use crate::queue::lock;
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

type BlockingTask = Box<dyn FnOnce() + Send>;

/// The threads of one participant, one for each user that needs one. They end with this value;
/// hanging threads are abandoned.
pub(crate) struct BlockingTasks {
    /// Epoll instance of the connections. They are removed from it when they end, even if they are
    /// closed late.
    epoll: Arc<GuardedFd>,
    birthplace: Birthplace,
    threads: Mutex<Vec<(User, Sender<BlockingTask>)>>,
    waiting: Arc<AtomicUsize>,
}

impl std::fmt::Debug for BlockingTasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockingTasks").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl BlockingTasks {
    /// Creates the set without starting a thread.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let epoll = Arc::new(GuardedFd::new(epoll::create(epoll::CreateFlags::CLOEXEC)?)?);
        Ok(Arc::new(Self {
            epoll,
            birthplace: Birthplace::here()?,
            threads: Mutex::default(),
            waiting: Arc::default(),
        }))
    }

    /// Returns the epoll instance of the connections.
    pub(crate) fn epoll(&self) -> &Arc<GuardedFd> {
        &self.epoll
    }

    /// Returns true if so many tasks wait that no more connections may be accepted, because a
    /// user's descriptors hang.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Relaxed) >= MAX_BLOCKING_TASKS
    }

    /// Runs a task on the thread of a user.
    pub(crate) fn run(&self, user: User, task: impl FnOnce() + Send + 'static) {
        self.waiting.fetch_add(1, Relaxed);
        let waiting = Arc::clone(&self.waiting);
        let task: BlockingTask = Box::new(move || {
            task();
            waiting.fetch_sub(1, Relaxed);
        });
        let mut threads = lock(&self.threads);
        let index = threads.iter().position(|(u, _)| *u == user).or_else(|| {
            // If there are very many users, some share a thread.
            (threads.len() >= MAX_BLOCKING_THREADS)
                .then(|| user.uid() as usize % MAX_BLOCKING_THREADS)
        });
        if let Some((_, thread)) = index.and_then(|i| threads.get(i)) {
            // Cannot fail: the thread ends only with `self`.
            let _ = thread.send(task);
            return;
        }
        let (sender, blocking_tasks) = channel::<BlockingTask>();
        let spawned = std::thread::Builder::new()
            .name("driveline-close".into())
            .spawn(move || blocking_tasks.into_iter().for_each(|e| e()));
        if spawned.is_ok() {
            let _ = sender.send(task);
            threads.push((user, sender));
        } else {
            // The task is never run, and counts as waiting permanently: running it here could hang
            // this thread.
            std::mem::forget(task);
        }
    }
}

impl Drop for BlockingTasks {
    fn drop(&mut self) {
        if !self.birthplace.is_here() {
            // The threads do not exist in a child, and may have held any lock at the fork.
            std::mem::forget(std::mem::take(&mut self.threads));
        }
    }
}

/// A descriptor that a peer has sent, or a socket that may contain such descriptors.
#[derive(Debug)]
pub(crate) struct Foreign {
    fd: Arc<GuardedFd>,
    user: User,
    /// True if closing it cannot block.
    harmless: bool,
    connection: bool,
    blocking_tasks: Arc<BlockingTasks>,
}

impl Foreign {
    /// Wraps a socket of this process whose other end belongs to `user`.
    pub(crate) fn connection(
        fd: GuardedFd,
        user: User,
        blocking_tasks: &Arc<BlockingTasks>,
    ) -> Self {
        Self {
            fd: Arc::new(fd),
            user,
            harmless: user.is_trusted(),
            connection: true,
            blocking_tasks: Arc::clone(blocking_tasks),
        }
    }

    /// Wraps a descriptor sent by `user`.
    fn received(fd: OwnedFd, user: User, blocking_tasks: &Arc<BlockingTasks>) -> io::Result<Self> {
        let fd = Arc::new(GuardedFd::new(fd)?);
        Ok(Self {
            fd,
            user,
            harmless: user.is_trusted(),
            connection: false,
            blocking_tasks: Arc::clone(blocking_tasks),
        })
    }

    /// Wraps a descriptor that came over this connection.
    pub(crate) fn sent(&self, fd: OwnedFd) -> io::Result<Self> {
        Self::received(fd, self.user, &self.blocking_tasks)
    }

    /// Copies a descriptor of this process.
    #[cfg(test)]
    pub(crate) fn copy_of(fd: impl AsFd) -> Self {
        let copy = fd.as_fd().try_clone_to_owned().unwrap();
        Self::received(copy, User::own(), &BlockingTasks::new().unwrap()).unwrap()
    }

    /// The user at the other end.
    pub(crate) fn user(&self) -> User {
        self.user
    }

    /// Returns true if no operation on it can block.
    pub(crate) fn is_harmless(&self) -> bool {
        self.harmless
    }

    /// Notes that the other end can send descriptors from now on.
    pub(crate) fn is_open_to_descriptors(&mut self) {
        self.harmless = self.user.is_trusted();
    }

    /// Notes that it was checked, and is of a kind whose close never blocks.
    pub(crate) fn is_no_threat(&mut self) {
        self.harmless = true;
    }

    /// Runs a task with the connection on the thread of the user at its other end.
    pub(crate) fn apart(&self, task: impl FnOnce(Self) + Send + 'static) {
        let same = Self {
            fd: Arc::clone(&self.fd),
            user: self.user,
            harmless: true,
            connection: true,
            blocking_tasks: Arc::clone(&self.blocking_tasks),
        };
        self.blocking_tasks.run(self.user, move || task(same));
    }
}

impl AsFd for Foreign {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if self.harmless || !self.fd.is_here() {
            return;
        }
        if self.connection {
            // The other end is notified now, even if the close comes late; no more events come from
            // here.
            let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
            let _ = epoll::delete(&self.blocking_tasks.epoll, &self.fd);
        }
        // Replaces the descriptor by one that outlives this value. With a second reference instead,
        // thread timing would decide which of the two references is dropped last, and so which
        // thread closes the descriptor.
        let fd = std::mem::replace(&mut self.fd, Arc::clone(&self.blocking_tasks.epoll));
        self.blocking_tasks.run(self.user, move || drop(fd));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn who_hangs_keeps_only_itself_waiting() {
        let blocking_tasks = BlockingTasks::new().unwrap();
        let (release, held) = sync_channel::<()>(0);
        let (say, said) = sync_channel(10);
        blocking_tasks.run(User::Known(70_001), move || assert!(held.recv().is_err()));
        for user in [70_001, 70_002] {
            let say = say.clone();
            blocking_tasks.run(User::Known(user), move || say.send(user).unwrap());
        }
        assert_eq!(said.recv(), Ok(70_002));
        assert!(said.try_recv().is_err() && !blocking_tasks.is_full());
        let idle = Arc::clone(&blocking_tasks.waiting);
        for _ in 0..MAX_BLOCKING_TASKS {
            blocking_tasks.run(User::Known(70_001), || {});
        }
        assert!(blocking_tasks.is_full());
        drop((blocking_tasks, release));
        assert_eq!(said.recv(), Ok(70_001));
        while idle.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn users_without_number_share_threads() {
        let blocking_tasks = BlockingTasks::new().unwrap();
        let (say, said) = sync_channel(0);
        for user in 0..3 * MAX_BLOCKING_THREADS as u32 {
            let say = say.clone();
            blocking_tasks.run(User::Known(70_000 + user), move || say.send(()).unwrap());
        }
        assert_eq!(lock(&blocking_tasks.threads).len(), MAX_BLOCKING_THREADS);
        assert_eq!(said.iter().take(3 * MAX_BLOCKING_THREADS).count(), 3 * MAX_BLOCKING_THREADS);
    }
}
