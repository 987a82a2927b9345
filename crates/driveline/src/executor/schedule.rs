// SPDX-License-Identifier: Apache-2.0
//! Scheduling class, priority, CPUs and timer slack of threads: applies them, reads them back, and
//! reports refusals.

use rustix::thread::{
    CpuSet, current_timer_slack, sched_getaffinity, sched_setaffinity, set_current_timer_slack,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroU64;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, RealtimeThreadSchedulePolicy, ThreadSchedulePolicy,
    set_thread_priority_and_policy, thread_native_id, thread_schedule_policy_param,
};
use thread_priority::{ThreadPriority, ThreadPriorityValue};

/// Scheduling class of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SchedulingClass {
    /// `SCHED_OTHER`, time sharing.
    #[default]
    Other,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO`, real time.
    Fifo,
    /// `SCHED_RR`, real time with time slices.
    RoundRobin,
}

/// Scheduling that the threads of an executor request from the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// See [`SchedulingClass`].
    pub class: SchedulingClass,
    /// 1 (lowest) to 99 for the real-time classes; 0 for the others.
    pub priority: u8,
    /// -20 (most favourable) to 19 for the time-sharing classes.
    pub nice: i8,
    /// CPUs on which the threads may run; empty leaves it as it is.
    pub cpus: Vec<usize>,
    /// No other thread of the graph runs on `cpus`. Default: false.
    pub exclusive: bool,
    /// Time by which the kernel may delay a wake-up that a timer causes, in nanoseconds. Real-time
    /// classes have none. Default: as the process has it, 50 000 in most systems.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub timer_slack_ns: Option<u32>,
}

/// Result of a [`Schedule`] on one thread, read back from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScheduleReport {
    /// Name of the thread.
    pub thread: String,
    /// Class and priority in force, and the nice value if one was requested.
    pub in_force: String,
    /// CPUs in force.
    pub cpus: Vec<usize>,
    /// Timer slack in force, in nanoseconds; 0 also if the kernel does not report it.
    #[serde(default)]
    pub timer_slack_ns: u64,
    /// Refused requests, with the kernel's reason and the remedy; empty if there are none.
    pub refused: Vec<String>,
}

impl fmt::Display for ScheduleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "thread {}: {}", self.thread, self.granted())?;
        self.refused.iter().try_for_each(|r| write!(f, "; refused: {r}"))
    }
}

impl ScheduleReport {
    /// Returns the schedule in force as text for people.
    #[must_use]
    pub fn granted(&self) -> String {
        format!("{} on CPUs {:?}, timer slack {} ns", self.in_force, self.cpus, self.timer_slack_ns)
    }
}

impl Schedule {
    /// Applies the schedule to the calling thread and reports what is then in force.
    #[must_use]
    pub fn apply_to_this_thread(&self, thread: &str) -> ScheduleReport {
        let mut refused = Vec::new();
        if !self.cpus.is_empty()
            && let Err(reason) = self.apply_cpus()
        {
            refused.push(reason);
        }
        let default = Self::default();
        if (self.class, self.priority, self.nice) != (default.class, default.priority, default.nice)
            && let Err(reason) = self.apply_class()
        {
            refused.push(reason);
        }
        // After the class: a real-time class sets the slack to 0.
        if let Some(asked) = self.timer_slack_ns
            && let Err(reason) = self.apply_slack(asked)
        {
            refused.push(reason);
        }
        let in_force = match thread_schedule_policy_param(thread_native_id()) {
            Ok((policy, param)) => {
                let mut text = format!("{policy:?} priority {}", param.sched_priority);
                if self.nice != default.nice && matches!(policy, ThreadSchedulePolicy::Normal(_)) {
                    let nice = rustix::process::getpriority_process(Some(rustix::thread::gettid()));
                    text += &nice.map_or_else(
                        |e| format!(" nice unknown ({e})"),
                        |nice| format!(" nice {nice}"),
                    );
                }
                text
            }
            Err(e) => format!("unknown ({e})"),
        };
        ScheduleReport {
            thread: thread.to_owned(),
            in_force,
            cpus: current_cpus(),
            timer_slack_ns: current_timer_slack().unwrap_or(0),
            refused,
        }
    }

    fn apply_slack(&self, asked: u32) -> Result<(), String> {
        // Wake-ups of real-time threads are not delayed, and newer kernels refuse to set it.
        if matches!(self.class, SchedulingClass::Fifo | SchedulingClass::RoundRobin) {
            return Ok(());
        }
        let refusal = |reason: &dyn fmt::Display| format!("timer slack {asked} ns: {reason}");
        // 0 would set the slack that the thread had when it was made.
        let slack = NonZeroU64::new(u64::from(asked)).ok_or_else(|| refusal(&"the least is 1"))?;
        set_current_timer_slack(Some(slack)).map_err(|e| refusal(&e))?;
        match current_timer_slack() {
            Ok(in_force) if in_force == u64::from(asked) => Ok(()),
            Ok(in_force) => Err(refusal(&format!("the kernel has {in_force} ns instead"))),
            Err(e) => Err(refusal(&e)),
        }
    }

    fn apply_cpus(&self) -> Result<(), String> {
        let mut set = CpuSet::new();
        for &cpu in &self.cpus {
            if cpu >= CpuSet::MAX_CPU {
                return Err(format!("CPU {cpu} does not exist"));
            }
            set.set(cpu);
        }
        sched_setaffinity(None, &set).map_err(|e| {
            format!("CPUs {:?}: {e}; the machine or its cpuset has {:?}", self.cpus, current_cpus())
        })?;
        let missing: Vec<_> =
            self.cpus.iter().filter(|c| !current_cpus().contains(c)).copied().collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("CPUs {missing:?} do not exist here")) }
    }

    fn apply_class(&self) -> Result<(), String> {
        let realtime = matches!(self.class, SchedulingClass::Fifo | SchedulingClass::RoundRobin);
        if realtime != (1..=99).contains(&self.priority) || (!realtime && self.priority != 0) {
            return Err(format!(
                "class {:?} with priority {}: real-time classes take 1 to 99, the others 0",
                self.class, self.priority
            ));
        }
        let policy = match self.class {
            SchedulingClass::Other => {
                ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Other)
            }
            SchedulingClass::Batch => {
                ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Batch)
            }
            SchedulingClass::Idle => ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle),
            SchedulingClass::Fifo => {
                ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::Fifo)
            }
            SchedulingClass::RoundRobin => {
                ThreadSchedulePolicy::Realtime(RealtimeThreadSchedulePolicy::RoundRobin)
            }
        };
        let advice = "needs CAP_SYS_NICE or an rtprio limit (ulimit -r); in a container also \
             --cap-add SYS_NICE and a real-time budget";
        if realtime {
            let value = ThreadPriorityValue::try_from(self.priority).map_err(|e| e.to_owned())?;
            set_thread_priority_and_policy(
                thread_native_id(),
                ThreadPriority::Crossplatform(value),
                policy,
            )
            .map_err(|e| {
                format!("class {:?} priority {}: {e:?}; {advice}", self.class, self.priority)
            })?;
        } else {
            if self.class != SchedulingClass::Other {
                set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, policy)
                    .map_err(|e| format!("class {:?}: {e:?}", self.class))?;
            }
            if self.nice != 0 {
                rustix::process::setpriority_process(
                    Some(rustix::thread::gettid()),
                    i32::from(self.nice),
                )
                .map_err(|e| format!("nice {}: {e}; raising one's priority {advice}", self.nice))?;
                let in_force = rustix::process::getpriority_process(Some(rustix::thread::gettid()))
                    .map_err(|e| e.to_string())?;
                if in_force != i32::from(self.nice) {
                    return Err(format!("nice {}: the kernel has {in_force} instead", self.nice));
                }
            }
        }
        let (in_force, param) =
            thread_schedule_policy_param(thread_native_id()).map_err(|e| e.to_string())?;
        if in_force != policy || (realtime && param.sched_priority != i32::from(self.priority)) {
            return Err(format!(
                "class {:?} priority {}: the kernel has {in_force:?} priority {} instead",
                self.class, self.priority, param.sched_priority
            ));
        }
        Ok(())
    }
}

fn current_cpus() -> Vec<usize> {
    sched_getaffinity(None)
        .map(|set| (0..CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_a_thread(schedule: Schedule) -> ScheduleReport {
        std::thread::spawn(move || schedule.apply_to_this_thread("test")).join().unwrap()
    }

    #[test]
    fn the_default_changes_nothing() {
        let before = current_cpus();
        let report = on_a_thread(Schedule::default());
        assert_eq!((report.refused.as_slice(), report.cpus), (&[][..], before));
    }

    #[test]
    fn cpus_are_applied_and_read_back() {
        let first = current_cpus()[0];
        let report = on_a_thread(Schedule { cpus: vec![first], ..Schedule::default() });
        assert_eq!((report.refused.as_slice(), report.cpus), (&[][..], vec![first]));
    }

    #[test]
    fn timer_slack_is_applied_and_read_back() {
        let asked = Schedule { timer_slack_ns: Some(1234), ..Schedule::default() };
        let report = on_a_thread(asked);
        assert_eq!((report.refused.as_slice(), report.timer_slack_ns), (&[][..], 1234));
        let report = on_a_thread(Schedule { timer_slack_ns: Some(0), ..Schedule::default() });
        assert!(report.refused[0].contains("timer slack 0 ns"), "{report}");
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let report = on_a_thread(Schedule { cpus: vec![1000], ..Schedule::default() });
        assert!(report.refused[0].contains("1000"), "{report}");
        let report = on_a_thread(Schedule { class: SchedulingClass::Fifo, ..Schedule::default() });
        assert!(report.refused[0].contains("1 to 99"), "{report}");
    }

    #[test]
    fn a_real_time_class_is_in_force_or_its_refusal_is_explained() {
        let report = on_a_thread(Schedule {
            class: SchedulingClass::Fifo,
            priority: 7,
            ..Schedule::default()
        });
        if report.refused.is_empty() {
            assert!(
                report.in_force.contains("Fifo") && report.in_force.ends_with("priority 7"),
                "{report}"
            );
        } else {
            assert!(report.refused[0].contains("CAP_SYS_NICE"), "{report}");
        }
    }
}
