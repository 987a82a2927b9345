// SPDX-License-Identifier: Apache-2.0
//! Special roles: load on the CPUs (`Hog`), one thread for both ends, the ends of an idle link, a
//! publisher for late subscribers and a late subscriber, memcpy.

use super::driveline_link::Ends;
use super::link::{Receiver, Sender};
use super::open_loop::MATCH_TIMEOUT;
use super::recorder::{Recorder, cpu_ns, now, sleep_until};
use crate::harness::{
    End, Event, Job, MEMCPY_KINDS, MemcpyKind, Pace, ReceivedRow, Role, SentRow, Wait,
};
use anyhow::{Context, Result, anyhow, ensure};
use driveline::types::{Durability, Qos};
use driveline::{CallbackOptions, Executor, ExecutorOptions, GroupKind, Schedule, Trigger};
use driveline_shm::floor::SharedBytes;
use std::io::BufRead;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time after which a subscriber of an idle link gives up: longer than any link is left idle, which
/// is at most a day.
const LONGEST_REST: Duration = Duration::from_secs(2 * 86_400);

/// Burns processor time on the CPUs of the subscribers until it is killed. If the kernel refuses
/// these CPUs, it runs on any CPU: `Ready` is reported in any case.
pub(crate) fn hog(job: &Job, emit: &dyn Fn(&Event)) -> ! {
    // All CPUs of subscribers, not only one, and normal priority instead of the job's.
    let cpus = job.subscriber_cpus.clone();
    let _ = Schedule { cpus, ..Schedule::default() }.apply_to_this_thread("bench");
    emit(&Event::Ready);
    let mut x = 1u64;
    loop {
        x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}

/// Publishes, then runs the callback on the same thread: the whole path through executor and
/// trigger, without a wake-up.
pub(crate) fn same_thread(job: &Job) -> Result<End> {
    let ends = Ends::new(job, "same-thread")?;
    let mut sender = ends.sender_with(job, &job.topic, Qos::default())?;
    let receiver = ends.receiver_with(job, &job.topic, Qos::default())?;
    sender.wait_matched(1, MATCH_TIMEOUT)?;
    // The publisher may know its subscription before the subscription has mapped the segment.
    let start = Instant::now();
    while receiver.subscription.matched() == 0 {
        ensure!(
            start.elapsed() < MATCH_TIMEOUT,
            "the subscription did not find its publisher within {MATCH_TIMEOUT:?}"
        );
        std::thread::sleep(Duration::from_micros(200));
    }
    let executor =
        Executor::new(ExecutorOptions { name: "bench".into(), ..ExecutorOptions::default() })?;
    let entered = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
    let noted = entered.clone();
    let options = CallbackOptions {
        name: "reader".into(),
        group: executor.group(GroupKind::MutuallyExclusive),
        trigger: Trigger::any(),
        inputs: vec![("in".into(), receiver.subscription)],
    };
    executor.add_callback(options, move |invocation| {
        // Relaxed: one thread.
        noted.0.store(now(), Relaxed);
        noted.1.store(invocation.sample(0).map_or(0, |s| s.header().sequence), Relaxed);
    })?;
    let mut end = End::new(job.role, 0);
    let mut sent = Recorder::<SentRow>::for_job(job);
    let mut received = Recorder::<ReceivedRow>::for_job(job);
    let mut cpu = 0;
    for i in 0..job.warm_up + job.messages {
        if i == job.warm_up {
            cpu = cpu_ns(job);
        }
        let before_fill = now();
        let loan = sender.loan(job.size).map_err(|e| anyhow!(e))?;
        let before_publish = now();
        let sequence = sender.publish(loan).map_err(|e| anyhow!(e))?;
        let returned = now();
        executor.run_ready();
        ensure!(
            entered.1.load(Relaxed) == sequence,
            "the callback was called for sample {} instead of {sequence}",
            entered.1.load(Relaxed)
        );
        let in_hand = entered.0.load(Relaxed);
        end.published += 1;
        end.received += 1;
        end.first_sample_ns.get_or_insert(in_hand);
        sent.push(SentRow { sequence, scheduled: 0, before_fill, before_publish, returned });
        received.push(ReceivedRow { sequence, woken: 0, in_hand, copied: 0, read: 0 });
    }
    end.first_sequence = 1;
    end.counted_from = 1 + job.warm_up;
    end.cpu_ns = cpu_ns(job) - cpu;
    end.cpu_samples = job.messages;
    end.sent_file = Some(sent.write(job, "sent", 0)?);
    end.received_file = Some(received.write(job, "received", 0)?);
    Ok(end)
}

/// Connects a link and leaves it idle until the order to end, so that it can be observed from
/// outside.
pub(crate) fn idle_publisher(
    job: &Job,
    emit: &dyn Fn(&Event),
    commands: &mut dyn BufRead,
) -> Result<End> {
    let mut sender = Ends::new(job, "publisher")?.sender_with(job, &job.topic, Qos::default())?;
    sender.wait_matched(job.subscribers, MATCH_TIMEOUT)?;
    emit(&Event::Idle);
    await_word(commands)?;
    let mut end = End::new(job.role, 0);
    end.first_sequence = sender.publish_end().map_err(|e| anyhow!(e))?;
    end.published = 1;
    Ok(end)
}

/// Publishes one sample that late subscribers get, and stays until the order to end.
pub(crate) fn keeps_last(
    job: &Job,
    emit: &dyn Fn(&Event),
    commands: &mut dyn BufRead,
) -> Result<End> {
    let mut sender = Ends::new(job, "publisher")?.sender_with(job, &job.topic, lasting())?;
    let loan = sender.loan(job.size).map_err(|e| anyhow!(e))?;
    let mut end = End::new(job.role, 0);
    end.first_sequence = sender.publish(loan).map_err(|e| anyhow!(e))?;
    emit(&Event::Ready);
    await_word(commands)?;
    sender.publish_end().map_err(|e| anyhow!(e))?;
    end.published = 2;
    Ok(end)
}

/// Returns the QoS with which a late subscription gets the last sample.
pub(crate) fn lasting() -> Qos {
    Qos { durability: Durability::TransientLocal, ..Qos::default() }
}

fn await_word(commands: &mut dyn BufRead) -> Result<()> {
    let mut line = String::new();
    commands.read_line(&mut line).context("the runner went away")?;
    Ok(())
}

/// Number of slots to copy into in turn: as many as a publisher with depth 1, one loan and one
/// reader uses.
const SLOTS: usize = 4;

/// Copies `size` bytes repeatedly.
pub(crate) fn memcpy(job: &Job) -> Result<End> {
    let kind = MEMCPY_KINDS.get(job.index).copied().context("no such kind of memcpy")?;
    let slots = if kind == MemcpyKind::IntoShared { 1 } else { SLOTS };
    // Slots begin on pages, as a segment's do.
    let stride = job.size.next_multiple_of(4096);
    let len = stride * slots;
    let mut shared = SharedBytes::create(len).with_context(|| {
        format!("cannot reserve {len} bytes of shared memory for the memcpy floor")
    })?;
    let mut private = vec![1u8; job.size];
    let mut end = End::new(job.role, job.index);
    let mut rows = Recorder::<SentRow>::for_job(job);
    let start = now();
    for i in 0..job.warm_up + job.messages {
        let at = (i as usize % slots) * stride;
        if let Pace::RateHz(hz) = job.pace {
            // Caches cool down between samples, so the baseline must also be measured at the rate
            // of the link.
            sleep_until(start + (i as f64 * 1e9 / hz) as u64);
        }
        let before_fill = now();
        if kind == MemcpyKind::FromSharedSlots {
            private.copy_from_slice(&shared.bytes()[at..at + job.size]);
            std::hint::black_box(&mut private);
        } else {
            shared.bytes_mut()[at..at + job.size].copy_from_slice(&private);
            std::hint::black_box(&mut shared);
        }
        rows.push(SentRow {
            sequence: i + 1,
            scheduled: 0,
            before_fill,
            before_publish: now(),
            returned: 0,
        });
    }
    end.published = rows.len();
    end.first_sequence = 1;
    end.counted_from = 1 + job.warm_up;
    end.sent_file = Some(rows.write(job, "memcpy", job.index)?);
    Ok(end)
}

/// Subscriber of an idle link, or one that starts late and records the time of its first sample. It
/// ends when the end mark comes.
pub(crate) fn quiet_subscriber(job: &Job, emit: &dyn Fn(&Event)) -> Result<End> {
    let late = job.role == Role::LateSubscriber;
    let qos = if late { lasting() } else { Qos::default() };
    let mut receiver = Ends::new(&Job { wait: Wait::Block, ..job.clone() }, "subscriber")?
        .receiver_with(job, &job.topic, qos)?;
    if !late {
        emit(&Event::Ready);
    }
    let mut end = End::new(job.role, job.index);
    let give_up = now().saturating_add(LONGEST_REST.as_nanos() as u64);
    loop {
        let left = give_up.saturating_sub(now());
        ensure!(
            left > 0,
            "no end mark came within {LONGEST_REST:?}; the sending process has ended, or its \
             samples do not arrive"
        );
        receiver.wait(Some(Duration::from_nanos(left)))?;
        let Some(sample) = receiver.take()? else { continue };
        end.received += 1;
        if end.first_sample_ns.is_none() && late {
            end.first_sample_ns = Some(now());
            emit(&Event::Ready);
        }
        if super::link::Received::is_end(&sample) {
            return Ok(end);
        }
    }
}
