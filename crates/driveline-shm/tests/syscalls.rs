// SPDX-License-Identifier: Apache-2.0
//! Number of system calls on the data path: none, except one to wake sleepers.
//!
//! A thread of a separate process forbids itself all system calls by a seccomp filter that turns
//! each into a signal. The handler records it. The record is complete, not sampled.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "the test traces system calls by C calls")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use driveline_shm::*;
use driveline_types::{Reliability, SampleHeader, Schema};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Marks the program as the watched process; the value is the domain directory.
const VARIABLE: &str = "DRIVELINE_TEST_SYSCALLS";
const ROOM: usize = 64;

/// The system calls that were attempted.
static CALLS: [AtomicI32; ROOM] = [const { AtomicI32::new(0) }; ROOM];
static COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn write_down(_: libc::c_int, info: *const libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a siginfo of SIGSYS: three ints and padding, the address of the call
    // (8 bytes), its number.
    let number = unsafe { info.cast::<u8>().add(24).cast::<i32>().read() };
    if let Some(place) = CALLS.get(COUNT.fetch_add(1, SeqCst)) {
        place.store(number, SeqCst);
    }
}

fn calls_since(start: usize) -> Vec<i32> {
    (start..COUNT.load(SeqCst)).map(|i| CALLS.get(i).map_or(-1, |c| c.load(SeqCst))).collect()
}

/// From now on, system calls of this thread are only recorded, not executed. This cannot be
/// undone, so the thread cannot end.
fn forbid_system_calls() {
    let statement = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let allow = |number: libc::c_long, to: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: to,
        jf: 0,
        k: number as u32,
    };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        // Permits the handler's return, and the clock: reading it needs a system call on some
        // machines.
        allow(libc::SYS_rt_sigreturn, 2),
        allow(libc::SYS_clock_gettime, 1),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_TRAP),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a handler that only touches atomics, for a signal that has no other use; a valid
    // filter of the given length.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = write_down as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter),
            0,
            "seccomp filters are needed"
        );
    }
}

fn publisher(p: &Participant, topic: &str, reliability: Reliability) -> Publisher {
    let mut c = PublisherConfig::new(
        topic.parse().unwrap(),
        "talker".parse().unwrap(),
        Schema::bytes("t", "e", ""),
        10_000,
    );
    (c.qos.reliability, c.qos.depth) = (reliability, 2);
    p.create_publisher(c).unwrap()
}

fn subscription(p: &Participant, topic: &str, reliability: Reliability) -> Subscription {
    let mut c = SubscriptionConfig::new(
        topic.parse().unwrap(),
        "listener".parse().unwrap(),
        Schema::bytes("t", "e", ""),
    );
    (c.qos.reliability, c.qos.depth) = (reliability, 2);
    p.create_subscription(c).unwrap()
}

fn publish(p: &mut Publisher) {
    let mut loan = p.loan(10_000).unwrap();
    loan.payload_mut().fill(7);
    p.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

/// Waits until a thread of this process sleeps in a futex.
fn asleep(thread: libc::pid_t) {
    let path = format!("/proc/self/task/{thread}/syscall");
    let futex = [libc::SYS_futex.to_string(), libc::SYS_futex_waitv.to_string()];
    let end = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&path)
        .is_ok_and(|t| t.split(' ').next().is_some_and(|n| futex.iter().any(|f| f == n)))
    {
        assert!(Instant::now() < end, "a waiting thread does not sleep");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Findings of the watched thread, as text for the other process.
fn watched(domain: &Path) -> String {
    let open = || {
        Participant::open(ParticipantConfig {
            domain_dir: Some(domain.into()),
            name: "watched".into(),
        })
        .unwrap()
    };
    let (here, there) = (open(), open());
    let pairs = [Reliability::BestEffort, Reliability::Reliable].map(|r| {
        let topic = format!("{r:?}").to_lowercase();
        (publisher(&here, &topic, r), subscription(&there, &topic, r))
    });
    let mut waking = publisher(&here, "waking", Reliability::BestEffort);
    let sleepers: Vec<Subscription> =
        (0..2).map(|_| subscription(&there, "waking", Reliability::BestEffort)).collect();
    let end = Instant::now() + Duration::from_secs(60);
    while pairs.iter().any(|(p, s)| p.matched() != 1 || s.matched() != 1)
        || waking.matched() != 2
        || sleepers.iter().any(|s| s.matched() != 1)
    {
        assert!(Instant::now() < end, "no match");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(1));
    }
    // A control thread answers tools after it has woken the waiting threads of a match, so no late
    // wake-up of a match reaches a sleeper.
    list(domain, Duration::from_secs(60)).unwrap();
    for s in sleepers {
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut set = WaitSet::new(WaitBackend::FutexWaitv).unwrap();
            set.attach(&s).unwrap();
            // SAFETY: no arguments, cannot fail.
            sender.send(unsafe { libc::gettid() }).unwrap();
            // The first wake-up may come from the match. From the second wait on, nothing wakes
            // this thread, because the publisher's wake-up calls are not executed.
            loop {
                set.wait(None, Duration::ZERO);
            }
        });
        asleep(receiver.recv().unwrap());
    }
    let found = Arc::new((AtomicBool::new(false), std::sync::Mutex::new(String::new())));
    let told = Arc::clone(&found);
    std::thread::spawn(move || {
        let mut pairs = pairs;
        let mut text = String::with_capacity(10_000);
        // Does the work of the first use, such as copying the list of publishers.
        for (p, s) in &mut pairs {
            publish(p);
            drop(s.take_next().unwrap().unwrap());
        }
        let mut text_of = |what: &str, calls: &[i32]| {
            use std::fmt::Write as _;
            writeln!(text, "{what}: {calls:?}").unwrap();
        };
        forbid_system_calls();
        // SAFETY: no arguments, cannot fail; the filter answers it.
        unsafe { libc::getppid() };
        let control = COUNT.load(SeqCst);
        let mut buffer = [0; 10_000];
        for (p, s) in &mut pairs {
            for i in 0..200 {
                publish(p);
                publish(p);
                drop(p.loan(1).unwrap());
                let first =
                    if i % 2 == 0 { s.take_next() } else { s.take_latest() }.unwrap().unwrap();
                assert!(first.payload().iter().all(|b| *b == 7));
                let _ = s.copy_next(&mut buffer).unwrap();
                assert!(!s.has_unread() && s.take_next().unwrap().is_none());
            }
        }
        let quiet = COUNT.load(SeqCst);
        publish(&mut waking);
        let woken = COUNT.load(SeqCst);
        // Both sleepers still sleep. They already had their wake-up call for the sample they wait
        // for.
        publish(&mut waking);
        let again = COUNT.load(SeqCst);
        text_of("control", &calls_since(0)[..control]);
        text_of("quiet", &calls_since(0)[control..quiet]);
        text_of("wake", &calls_since(0)[quiet..woken]);
        text_of("again", &calls_since(0)[woken..again]);
        if let Ok(mut place) = told.1.try_lock() {
            *place = text;
        }
        told.0.store(true, SeqCst);
        loop {
            std::hint::spin_loop();
        }
    });
    let end = Instant::now() + Duration::from_secs(60);
    while !found.0.load(SeqCst) {
        assert!(
            Instant::now() < end,
            "the watched thread does not finish; system calls so far: {:?}",
            calls_since(0)
        );
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(1));
    }
    found.1.lock().unwrap().clone()
}

#[test]
fn publishing_and_taking_make_no_system_call_but_the_one_that_wakes() {
    if let Some(domain) = std::env::var_os(VARIABLE) {
        println!("\n@{}@", watched(Path::new(&domain)));
        // The watched thread cannot end, and its values cannot be dropped.
        std::process::exit(0);
    }
    let domain = tempfile::tempdir().unwrap();
    let out = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "publishing_and_taking_make_no_system_call_but_the_one_that_wakes",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(VARIABLE, domain.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let found = text
        .split('@')
        .nth(1)
        .unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&out.stderr)));
    let expected = format!(
        "control: [{}]\nquiet: []\nwake: [{}]\nagain: []\n",
        libc::SYS_getppid,
        libc::SYS_futex
    );
    assert_eq!(found, expected, "system calls by number");
}
