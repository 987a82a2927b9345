// SPDX-License-Identifier: Apache-2.0
//! Two hosts on one machine: two network namespaces and a cable between them, made for one run and
//! removed after it. The cable is a veth pair, or, if it has a delay, a relay ([`TapRelay`]):
//! threads of this process that pass the frames on between two TAP devices.

use crate::harness::HOSTS;
use crate::observations::Observations;
use anyhow::{Context, Result};
use driveline_namespaces::{Direction, Namespace, SWITCH, TapRelay};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The cable's two ends have the same name, each in its namespace.
const DEVICE: &str = "dl0";
/// Greatest rate for which the queue of a delayed link is sized; the relay cannot carry that much.
/// Scenarios limit the delay to half a second, so the memory for each direction stays within
/// 256 MiB.
const RELAYED_MBIT: u32 = 4000;

/// Properties of the cable between two hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CableSpec {
    /// Megabits per second in each direction; `None`: as fast as the processors are.
    pub mbit: Option<u32>,
    /// Share of packets that are lost in each direction, in percent.
    pub loss_percent: f64,
    /// Delay of each direction in addition to the time for the bits, in milliseconds.
    #[serde(default)]
    pub delay_ms: f64,
}

impl CableSpec {
    /// Returns the delay and the size of the queue of each direction of a delayed link. The queue
    /// has room for the data in flight, and for as much as an ordinary switch buffers.
    fn direction(self) -> Direction {
        let delay = Duration::from_secs_f64(self.delay_ms.max(0.0) / 1000.0);
        let bytes_per_s =
            f64::from(self.mbit.unwrap_or(RELAYED_MBIT).min(RELAYED_MBIT)) * 125_000.0;
        Direction { delay, queue_bytes: (bytes_per_s * (delay + SWITCH).as_secs_f64()) as usize }
    }
}

/// Two hosts and the connection between them.
#[derive(Debug)]
pub(crate) struct Cable {
    /// Relay of a delayed link. Its devices keep the namespaces alive, so it is dropped first.
    relay: Option<TapRelay>,
    hosts: [Namespace; 2],
}

impl Cable {
    /// Makes a cable.
    ///
    /// # Errors
    /// The refusal of the kernel, or the error of a command that makes the hosts.
    pub(crate) fn new(spec: CableSpec) -> Result<Self> {
        let hosts = [Namespace::new()?, Namespace::new()?];
        let relay = lay(spec, &hosts).context("cannot make two hosts with a cable between them")?;
        Ok(Self { relay, hosts })
    }

    /// Returns a command for a program on one of the hosts. The process of the command itself
    /// becomes the program.
    pub(crate) fn command(&self, side: usize, program: &Path) -> Command {
        let [nsenter, within, end] = self.hosts[side].command_prefix();
        let mut command = Command::new(nsenter);
        command.args([within, end]).arg(program);
        command
    }

    /// Records the losses of a relay, which are not the middleware's, and makes a run invalid if
    /// its relay has ended.
    pub(crate) fn report(&self, observations: &mut Observations) {
        for (host, direction) in self.relay.iter().flat_map(TapRelay::figures).enumerate() {
            for (what, n) in [
                ("frames dropped", direction.dropped),
                ("frames refused", direction.refused),
                ("ended", direction.ended.is_some().into()),
            ] {
                observations.counters.insert(format!("cable: {what}, from host {host}"), n);
            }
            // If the device is gone, its direction has ended, and `ended` reports this.
            if let Ok(n) = self.hosts[host].dropped_at(DEVICE) {
                observations
                    .counters
                    .insert(format!("cable: frames lost before the relay, from host {host}"), n);
            }
        }
        observations.invalid.extend(self.ended());
    }

    /// Returns the reason if the cable no longer carries data in one direction.
    pub(crate) fn ended(&self) -> Option<String> {
        let directions = self.relay.as_ref()?.figures().into_iter().enumerate();
        directions
            .filter_map(|(host, direction)| {
                Some(format!(
                    "the cable carries nothing any more from host {host}: {}",
                    direction.ended?
                ))
            })
            .next()
    }
}

fn lay(spec: CableSpec, [a, b]: &[Namespace; 2]) -> Result<Option<TapRelay>> {
    let is_delayed = spec.delay_ms > 0.0;
    let relay = is_delayed
        .then(|| TapRelay::new([(a, DEVICE), (b, DEVICE)], [spec.direction(); 2]))
        .transpose()?;
    if relay.is_none() {
        a.add_veth(DEVICE, (b, DEVICE))?;
    }
    for (host, address) in [a, b].into_iter().zip(HOSTS) {
        host.add_address(DEVICE, address)?;
        spec.mbit.map_or(Ok(()), |mbit| host.limit_rate(DEVICE, mbit))?;
        host.disable_offloads(DEVICE)?;
        if spec.loss_percent > 0.0 {
            host.drop_incoming(DEVICE, spec.loss_percent)?;
        }
    }
    Ok(relay)
}

/// Returns the reason why two hosts are not possible on this machine, or nothing. It makes a cable
/// to find out, which blocks for some tens of milliseconds, once for each kind of cable in a
/// process.
#[must_use]
pub fn cable_refused(spec: CableSpec) -> Option<String> {
    static KNOWN: Mutex<Vec<(CableSpec, Option<String>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = known.iter().find(|(of, _)| *of == spec) {
        return answer.clone();
    }
    let answer = Cable::new(spec).err().map(|e| format!("{e:#}: {}", needs(spec)));
    known.push((spec, answer.clone()));
    answer
}

/// Describes what this cable requires of the machine.
fn needs(spec: CableSpec) -> String {
    let tap = if spec.delay_ms > 0.0 {
        "; for delay_ms also the device /dev/net/tun, which a container must be given"
    } else {
        ""
    };
    format!("it needs root, and the packages iproute2, nftables and ethtool{tap}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::Instant;

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn hosts_reach_only_each_other_and_are_gone_afterwards() {
        [(0.0, 0.0), (1.0, 0.0), (1.0, 5.0)]
            .into_iter()
            .for_each(|(loss_percent, delay_ms)| hosts_with(loss_percent, delay_ms));
    }

    #[test]
    fn a_relay_keeps_what_is_on_its_way_and_never_more_than_256_mib() {
        let keeps = |mbit, delay_ms| {
            CableSpec { mbit, delay_ms, ..CableSpec::default() }.direction().queue_bytes
        };
        // 1000 Mbit/s are 125 kB/ms. The queue has room for 5 ms of delay and 20 ms of a switch.
        assert_eq!(keeps(Some(1000), 5.0), 25 * 125_000);
        for mbit in [None, Some(4000), Some(100_000)] {
            assert!(
                (250_000_000..=256 << 20).contains(&keeps(mbit, 500.0)),
                "{mbit:?}: {}",
                keeps(mbit, 500.0)
            );
        }
    }

    #[test]
    fn only_a_delayed_link_needs_tap_devices() {
        let names_tap = |delay_ms| {
            needs(CableSpec { delay_ms, ..CableSpec::default() }).contains("/dev/net/tun")
        };
        assert_eq!((names_tap(0.0), names_tap(5.0)), (false, true));
    }

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn losses_of_a_relay_are_reported_and_a_run_whose_relay_ended_does_not_count() {
        let cable = Cable::new(CableSpec { delay_ms: 1.0, ..CableSpec::default() }).unwrap();
        let measured = || {
            let mut observations = Observations::default();
            cable.report(&mut observations);
            observations
        };
        let sound = measured();
        let names: Vec<&str> = sound.counters.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "cable: ended, from host 0",
                "cable: ended, from host 1",
                "cable: frames dropped, from host 0",
                "cable: frames dropped, from host 1",
                "cable: frames lost before the relay, from host 0",
                "cable: frames lost before the relay, from host 1",
                "cable: frames refused, from host 0",
                "cable: frames refused, from host 1",
            ]
        );
        assert_eq!(
            (sound.counters["cable: ended, from host 1"], cable.ended(), sound.invalid),
            (0, None, vec![])
        );
        cable.hosts[1].run(&format!("ip link delete {DEVICE}")).unwrap();
        let began = Instant::now();
        while cable.ended().is_none() && began.elapsed() < Duration::from_secs(60) {
            // time: a pause between polls; they end with the condition
            std::thread::sleep(Duration::from_millis(1));
        }
        let ended = measured();
        assert_eq!(
            (
                ended.counters["cable: ended, from host 0"],
                ended.counters["cable: ended, from host 1"]
            ),
            (0, 1)
        );
        assert!(
            matches!(&ended.invalid[..], [why] if why.contains("from host 1: cannot read frames")),
            "{:?}",
            ended.invalid
        );
    }

    fn hosts_with(loss_percent: f64, delay_ms: f64) {
        let cable = Cable::new(CableSpec { mbit: Some(100), loss_percent, delay_ms }).unwrap();
        let paths = cable.hosts.each_ref().map(Namespace::path);
        let devices = cable.command(0, Path::new("cat")).arg("/proc/net/dev").output().unwrap();
        let devices = String::from_utf8(devices.stdout).unwrap();
        let names: Vec<&str> = devices
            .lines()
            .filter_map(|l| l.split_once(':'))
            .map(|(name, _)| name.trim())
            .collect();
        assert!(names.contains(&"lo") && names.contains(&DEVICE) && names.len() == 2, "{names:?}");
        for side in [0, 1] {
            let features =
                cable.command(side, Path::new("ethtool")).args(["-k", DEVICE]).output().unwrap();
            let features = String::from_utf8(features.stdout).unwrap();
            for joined in [
                "tcp-segmentation-offload",
                "generic-segmentation-offload",
                "generic-receive-offload",
            ] {
                assert!(features.contains(&format!("{joined}: off")), "{features}");
            }
        }
        let there =
            cable.command(1, Path::new("ip")).args(["route", "get", "10.98.0.1"]).output().unwrap();
        assert!(String::from_utf8_lossy(&there.stdout).contains(DEVICE), "{there:?}");
        let refused_after = std::thread::scope(|scope| {
            let connect = || {
                cable.hosts[0].enter().unwrap();
                let began = Instant::now();
                TcpStream::connect((HOSTS[1], 9)).unwrap_err();
                began.elapsed()
            };
            scope.spawn(connect).join().unwrap()
        });
        let round_trip = Duration::from_secs_f64(2.0 * delay_ms / 1000.0);
        assert!(refused_after >= round_trip, "there and back in {refused_after:?}");
        drop(cable);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
