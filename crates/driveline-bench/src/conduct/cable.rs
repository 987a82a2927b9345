// SPDX-License-Identifier: Apache-2.0
//! Two hosts on one machine: two network namespaces and the cable between them, made for one run and gone with it.

use crate::harness::{HOSTS, Job, Pace, Role};
use crate::peer::{domain_dir, ping, pong, reliability};
use anyhow::{Context, Result, bail, ensure};
use driveline::types::Qos;
use driveline_runtime::graph::model::Access;
use driveline_runtime::network::{CarriedTopic, GatewayConfig, NetworkSpec};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// The cable's two ends have the same name, each in its namespace.
const DEVICE: &str = "dl0";
/// A namespace is there at once, or never.
const NAMESPACE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// What gateways are told of a cable without a limit: more than processors here carry.
const UNLIMITED_MBIT: u32 = 10_000;
/// Port on which the gateway of the sending host listens.
const GATEWAY_PORT: u16 = 7450;

/// What the cable between two hosts does to what it carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CableSpec {
    /// Megabits per second in each direction; `None`: as fast as the processors are.
    pub mbit: Option<u32>,
    /// Share of packets that are lost in each direction, in percent.
    pub loss_percent: f64,
}

/// Two namespaces, which live as long as this: each is held by a process that ends when this does, or when the conductor dies.
#[derive(Debug)]
pub(super) struct Cable {
    hosts: [Child; 2],
}

impl Cable {
    /// Lays a cable.
    ///
    /// # Errors
    /// What was refused, and what is needed for it.
    pub(super) fn new(spec: CableSpec) -> Result<Self> {
        let mut cable = Self { hosts: [namespace()?, namespace()?] };
        cable.lay(spec).context("cannot make two hosts with a cable between them")?;
        Ok(cable)
    }

    fn lay(&mut self, spec: CableSpec) -> Result<()> {
        let [a, b] = [self.hosts[0].id(), self.hosts[1].id()];
        tool(Command::new("ip"), &format!("link add {DEVICE} netns {a} type veth peer name {DEVICE} netns {b}"))?;
        for (side, address) in HOSTS.into_iter().enumerate() {
            let within = |program: &str, arguments: &str| tool(self.command(side, Path::new(program)), arguments);
            within("ip", &format!("address add {address}/24 dev {DEVICE}"))?;
            within("ip", "link set lo up")?;
            within("ip", &format!("link set {DEVICE} up"))?;
            if let Some(mbit) = spec.mbit {
                // As much as passes in 2 ms at once, and a queue of 20 ms: that of an ordinary switch.
                let burst = (u64::from(mbit) * 250).max(32_000);
                within("tc", &format!("qdisc add dev {DEVICE} root tbf rate {mbit}mbit burst {burst}b latency 20ms"))?;
            }
            // What is sent, limited and lost are packets as they are on a wire, not what the kernel has joined to spare itself work.
            within("ethtool", &format!("-K {DEVICE} tso off gso off gro off"))?;
            if spec.loss_percent > 0.0 {
                let lost = (spec.loss_percent * 1000.0).round();
                within("nft", "add table ip cable")?;
                within("nft", "add chain ip cable arriving { type filter hook prerouting priority raw; }")?;
                within("nft", &format!("add rule ip cable arriving iifname {DEVICE} numgen random mod 100000 < {lost} drop"))?;
            }
        }
        Ok(())
    }

    /// A program on one of the hosts. It is this very process that becomes the program.
    pub(super) fn command(&self, side: usize, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.hosts.get(side).map_or(0, Child::id);
        command.arg(format!("--net=/proc/{holder}/ns/net")).arg("--").arg(program);
        command
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            drop(host.stdin.take());
            // `cat` ends by itself; it is not waited for longer than that takes.
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Why there can be no two hosts here; nothing if there can.
#[must_use]
pub fn cable_refused(spec: CableSpec) -> Option<String> {
    static KNOWN: Mutex<Vec<(CableSpec, Option<String>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, answer)) = known.iter().find(|(of, _)| *of == spec) {
        return answer.clone();
    }
    let answer = Cable::new(spec).err().map(|e| format!("{e:#}: it needs root, and the packages iproute2, nftables and ethtool"));
    known.push((spec, answer.clone()));
    answer
}

/// A process in a network namespace of its own, which ends when its standard input does.
fn namespace() -> Result<Child> {
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", "echo made; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut holder = command.spawn().context("cannot start unshare")?;
    let mut word = [0; 5];
    if let Some(out) = &mut holder.stdout
        && poll(&mut [PollFd::new(&*out, PollFlags::IN)], Some(&NAMESPACE)).is_ok_and(|ready| ready > 0)
        && out.read_exact(&mut word).is_ok()
        && word == *b"made\n"
    {
        return Ok(holder);
    }
    let _ = holder.kill();
    let output = holder.wait_with_output().context("cannot wait for unshare")?;
    bail!("no network namespace can be made here: {}", String::from_utf8_lossy(&output.stderr).trim())
}

fn tool(mut command: Command, arguments: &str) -> Result<()> {
    let named = || format!("`{} {arguments}`", command_name(&command));
    let name = named();
    let output =
        command.args(arguments.split_whitespace()).stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn command_name(command: &Command) -> String {
    let last = command.get_args().last().unwrap_or(command.get_program());
    last.to_string_lossy().into_owned()
}

/// What the gateways of both hosts are started with when Driveline is measured, as files.
pub(super) fn gateways(job: &Job, cable: CableSpec, dir: &Path) -> Result<[PathBuf; 2]> {
    let write = |side: usize| -> Result<PathBuf> {
        let config = serde_json::to_string(&gateway(job, cable, side)?).context("the configuration of a gateway")?;
        let path = dir.join(format!("gateway-{side}.json"));
        std::fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    Ok([write(0)?, write(1)?])
}

fn gateway(job: &Job, cable: CableSpec, side: usize) -> Result<GatewayConfig> {
    let [listening, _] = HOSTS;
    let endpoints = vec![format!("tcp/{listening}:{GATEWAY_PORT}")];
    let (role, listen, connect) =
        if side == 0 { (Role::Publisher, endpoints, Vec::new()) } else { (Role::Subscriber, Vec::new(), endpoints) };
    // Who sends each topic.
    let topics = match job.pace {
        Pace::PingPong => vec![(ping(job), 0), (pong(job), 1)],
        Pace::RateHz(_) => vec![(job.topic.clone(), 0)],
    };
    let carried = |(topic, from): (String, usize)| -> Result<CarriedTopic> {
        Ok(CarriedTopic {
            topic: topic.parse().with_context(|| format!("`{topic}` is no name of a topic"))?,
            send: from == side,
            receive: from != side,
            max_payload: job.size as u64,
            pins: job.subscribers.max(1) as u32,
            qos: Qos { reliability: reliability(job), depth: job.depth, ..Qos::default() },
            max_rate_hz: None,
            every: None,
            access: Access::default(),
        })
    };
    let host = Some(format!("host-{side}"));
    let bandwidth_mbit = Some(cable.mbit.unwrap_or(UNLIMITED_MBIT));
    Ok(GatewayConfig {
        domain: "bench".into(),
        domain_dir: domain_dir(&Job { role, ..job.clone() }),
        network: NetworkSpec { host, listen, connect, bandwidth_mbit, ..NetworkSpec::default() },
        topics: topics.into_iter().map(carried).collect::<Result<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn hosts_reach_each_other_and_nobody_else_and_are_gone_afterwards() {
        [0.0, 1.0].into_iter().for_each(hosts_with);
    }

    fn hosts_with(loss_percent: f64) {
        let cable = Cable::new(CableSpec { mbit: Some(100), loss_percent }).unwrap();
        let pids = [cable.hosts[0].id(), cable.hosts[1].id()];
        let devices = cable.command(0, Path::new("cat")).arg("/proc/net/dev").output().unwrap();
        let devices = String::from_utf8(devices.stdout).unwrap();
        let names: Vec<&str> = devices.lines().filter_map(|l| l.split_once(':')).map(|(name, _)| name.trim()).collect();
        assert!(names.contains(&"lo") && names.contains(&DEVICE) && names.len() == 2, "{names:?}");
        for side in [0, 1] {
            let features = cable.command(side, Path::new("ethtool")).args(["-k", DEVICE]).output().unwrap();
            let features = String::from_utf8(features.stdout).unwrap();
            for joined in ["tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload"] {
                assert!(features.contains(&format!("{joined}: off")), "{features}");
            }
        }
        let there = cable.command(1, Path::new("ip")).args(["route", "get", "10.98.0.1"]).output().unwrap();
        assert!(String::from_utf8_lossy(&there.stdout).contains(DEVICE), "{there:?}");
        drop(cable);
        assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    }
}
