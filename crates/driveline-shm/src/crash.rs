// SPDX-License-Identifier: Apache-2.0
//! Reports a fatal signal before it ends the process.
//!
//! Not part of the transport: it is here because signal handlers need unsafe code. The caller
//! writes the report: `driveline-host` names the component whose callback crashed. A core file is
//! written as usual: the handler restores the previous handler and returns. Then the faulting
//! instruction runs again, and faults again. A signal that was sent is sent again.
#![allow(unsafe_code, reason = "handlers of signals")]

use std::cell::RefCell;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that end a process for a defect in its own code.
const FATAL: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS];

/// Length of the handler's stack, in bytes: more than any kernel needs. The handler does not use
/// the thread's own stack, because that may have overflowed.
const STACK_LEN: usize = 64 * 1024;

/// An existing signal stack is kept if it has at least this size; the signal stacks of Rust's own
/// threads are smaller.
const STACK_ENOUGH: usize = 32 * 1024;

/// Time that a second crashing thread waits for the first one's report.
const REPORT_MS: libc::c_int = 200;

/// Description of the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crash {
    /// Number of the signal.
    pub signal: i32,
    /// Address whose access faulted (SIGSEGV, SIGBUS), if the kernel reports it.
    pub address: Option<usize>,
}

struct Installed {
    report: fn(&Crash),
    before: [libc::sigaction; FATAL.len()],
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Calls `report` once when SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT or SIGSYS is about to end the
/// process; then the signal has its usual effect. Only the first call of this function has an
/// effect.
///
/// `report` runs in the signal handler, on the thread that crashes: it may only use
/// async-signal-safe calls and atomics, and must neither allocate nor lock nor panic.
///
/// # Errors
/// If the system refuses a handler.
pub fn report_crashes(report: fn(&Crash)) -> io::Result<()> {
    let mut before = [const { MaybeUninit::<libc::sigaction>::zeroed() }; FATAL.len()];
    for (signal, old) in FATAL.iter().zip(&mut before) {
        // SAFETY: only asks for the action in force, into memory of its type.
        if unsafe { libc::sigaction(*signal, ptr::null(), old.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: zeroed above, which is a value of this type, or filled by the kernel.
    let before = before.map(|b| unsafe { b.assume_init() });
    if INSTALLED.set(Installed { report, before }).is_err() {
        return Ok(());
    }
    for signal in FATAL {
        // SAFETY: all-zero is a value of this type; what matters is set below.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: the mask is part of a live value.
        unsafe { libc::sigemptyset(&raw mut action.sa_mask) };
        // SAFETY: the handler has the type that SA_SIGINFO asks for and uses only async-signal-safe
        // calls.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel hands a valid siginfo to SA_SIGINFO handlers.
    let code = unsafe { (*info).si_code };
    let Some((installed, at)) = INSTALLED.get().zip(FATAL.iter().position(|s| *s == signal)) else {
        return;
    };
    if REPORTED.swap(true, Ordering::AcqRel) {
        // SAFETY: waits without looking at any descriptor.
        unsafe { libc::poll(ptr::null_mut(), 0, REPORT_MS) };
    } else {
        let faulted = code > 0 && matches!(signal, libc::SIGSEGV | libc::SIGBUS);
        // SAFETY: si_addr is set for faults, by the kernel.
        let address = faulted.then(|| unsafe { (*info).si_addr() } as usize);
        (installed.report)(&Crash { signal, address });
    }
    let sent = code <= 0;
    let mut action = installed.before[at];
    if sent && matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
        // Rust's handler treats a sent signal as a fault: it returns, and expects the signal again.
        action.sa_sigaction = libc::SIG_DFL;
    }
    // SAFETY: sets an action that the kernel returned, with its own handler or with SIG_DFL.
    unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
    if sent {
        // The signal was sent, so no instruction will raise it again: send it once more. It stays
        // pending until this handler has returned. SAFETY: sends a signal to this very thread.
        unsafe {
            libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal)
        };
    }
}

struct SignalStack(Option<*mut libc::c_void>);

impl Drop for SignalStack {
    fn drop(&mut self) {
        let Some(memory) = self.0.take() else { return };
        let off = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: disables the calling thread's own signal stack, on which the thread does not run
        // now.
        unsafe { libc::sigaltstack(&raw const off, ptr::null_mut()) };
        // SAFETY: the mapping that `reserve` made, which is no longer in use.
        unsafe { libc::munmap(memory, STACK_LEN) };
    }
}

thread_local! {
    static STACK: RefCell<Option<SignalStack>> = const { RefCell::new(None) };
}

/// Gives the calling thread a stack for the handler, unless it has a large one, so that an overflow
/// of its own stack is reported as well. Cheap after the first call. Without memory for the stack,
/// the thread continues without it.
pub fn reserve_signal_stack() {
    let _ = STACK.try_with(|stack| {
        if let Ok(mut stack) = stack.try_borrow_mut() {
            stack.get_or_insert_with(reserve);
        }
    });
}

fn reserve() -> SignalStack {
    let mut now = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    // SAFETY: only asks for the stack in force.
    let asked = unsafe { libc::sigaltstack(ptr::null(), &raw mut now) };
    if asked != 0 || (now.ss_flags & libc::SS_DISABLE == 0 && now.ss_size >= STACK_ENOUGH) {
        return SignalStack(None);
    }
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh private mapping at an address of the kernel's choice touches nothing that
    // exists.
    let memory = unsafe { libc::mmap(ptr::null_mut(), STACK_LEN, access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return SignalStack(None);
    }
    let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: STACK_LEN };
    // SAFETY: the mapping above, which lives until `drop` has taken it out of use.
    if unsafe { libc::sigaltstack(&raw const stack, ptr::null_mut()) } != 0 {
        // SAFETY: the mapping is not in use.
        unsafe { libc::munmap(memory, STACK_LEN) };
        return SignalStack(None);
    }
    SignalStack(Some(memory))
}
