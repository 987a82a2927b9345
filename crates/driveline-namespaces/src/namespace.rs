// SPDX-License-Identifier: Apache-2.0
//! A host that is a network namespace of this machine, and its devices.

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use rustix::time::Timespec;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A namespace is there at once, or never.
const START: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Time-out of commands in a namespace, which change or read a setting.
const RUN: Duration = Duration::from_secs(10);
/// Exit status of `timeout` after it ended its command, and if that took a kill.
const TIMED_OUT: Option<i32> = Some(124);
const KILLED: Option<i32> = Some(137);
/// Buffer of an ordinary switch, as a transmission time.
pub const SWITCH: Duration = Duration::from_millis(20);

/// A network namespace, held by a process in it that ends when this does, or when the process that
/// made it dies. Nothing of it is left behind.
///
/// All that is done here blocks, for some milliseconds; an error says which command was refused,
/// and why. What is needed: root, and the packages iproute2, nftables and ethtool.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// One in which there is nothing but a loopback device that works.
    ///
    /// # Errors
    /// If this process may make none.
    pub fn new() -> Result<Self> {
        let mut command = Command::new("unshare");
        command
            .args(["--net", "sh", "-c", "echo made; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut holder = command.spawn().context("cannot start unshare")?;
        let mut word = [0; 5];
        if let Some(out) = &mut holder.stdout
            && poll(&mut [PollFd::new(&*out, PollFlags::IN)], Some(&START))
                .is_ok_and(|ready| ready > 0)
            && out.read_exact(&mut word).is_ok()
            && word == *b"made\n"
        {
            let namespace = Self { holder };
            namespace.run("ip link set lo up")?;
            return Ok(namespace);
        }
        let _ = holder.kill();
        let output = holder.wait_with_output().context("cannot wait for unshare")?;
        bail!(
            "no network namespace can be made here: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )
    }

    /// The file that stands for it, as long as this is there.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// Returns the prefix of a command that runs in it. The started process itself becomes the
    /// program.
    #[must_use]
    pub fn command_prefix(&self) -> [String; 3] {
        ["nsenter".into(), format!("--net={}", self.path().display()), "--".into()]
    }

    /// Moves the calling thread into it, and threads that it starts later.
    ///
    /// # Errors
    /// If this process may not enter it.
    pub fn enter(&self) -> Result<()> {
        let path = self.path();
        let entered = File::open(&path).and_then(|file| {
            Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
        });
        entered.with_context(|| format!("cannot enter the network namespace {}", path.display()))
    }

    /// Runs a command in it, whose words have no spaces; what it says.
    ///
    /// # Errors
    /// If it cannot be started, fails, or takes longer than 10 s.
    pub fn run(&self, command: &str) -> Result<String> {
        self.run_within(command, RUN)
    }

    fn run_within(&self, command: &str, limit: Duration) -> Result<String> {
        let limit_s = limit.as_secs_f64().to_string();
        let mut run = Command::new("timeout");
        run.args(["--kill-after=1", &limit_s])
            .args(self.command_prefix())
            .args(command.split_whitespace())
            .stdin(Stdio::null());
        let output = run.output().with_context(|| format!("cannot start `{command}`"))?;
        ensure!(
            ![TIMED_OUT, KILLED].contains(&output.status.code()),
            "`{command}` did not end within {limit:?}"
        );
        ensure!(
            output.status.success(),
            "`{command}` failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The Ethernet address of a device, as text.
    ///
    /// # Errors
    /// As [`run`](Self::run); if it has none.
    pub fn hardware_address(&self, device: &str) -> Result<String> {
        let told = self.run(&format!("ip -o link show {device}"))?;
        let address = told.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
        address.map(str::to_owned).with_context(|| format!("{device} has no Ethernet address"))
    }

    /// Returns the number of frames that a device dropped before sending.
    ///
    /// # Errors
    /// As [`run`](Self::run); if `ip` does not report it.
    pub fn dropped_at(&self, device: &str) -> Result<u64> {
        let told: serde_json::Value =
            serde_json::from_str(&self.run(&format!("ip -j -s link show dev {device}"))?)?;
        told.pointer("/0/stats64/tx/dropped")
            .and_then(serde_json::Value::as_u64)
            .with_context(|| format!("`ip` does not report the losses of {device}"))
    }

    /// Makes a pair of devices, one here and one there, that pass on without delay what either
    /// sends. Both are without address and off.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn add_veth(&self, device: &str, other: (&Self, &str)) -> Result<()> {
        let (other, there) = other;
        self.run(&format!(
            "ip link add {device} type veth peer name {there} netns {}",
            other.holder.id()
        ))
        .map(drop)
    }

    /// Gives a device its address, in a network of 256, and switches it on.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn add_address(&self, device: &str, address: Ipv4Addr) -> Result<()> {
        self.run(&format!("ip address add {address}/24 dev {device}"))?;
        self.run(&format!("ip link set {device} up")).map(drop)
    }

    /// Lets so many megabits out of a device each second: as much as passes in 2 ms at once, and a
    /// queue that is an ordinary switch's. A second limit of a device is refused.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn limit_rate(&self, device: &str, mbit: u32) -> Result<()> {
        let (burst, queue) = ((u64::from(mbit) * 250).max(32_000), SWITCH.as_millis());
        self.run(&format!(
            "tc qdisc add dev {device} root tbf rate {mbit}mbit burst {burst}b latency {queue}ms"
        ))
        .map(drop)
    }

    /// Disables segmentation and receive offloads of a device: its packets are as on a wire, not
    /// what the kernel has joined to spare itself work.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn disable_offloads(&self, device: &str) -> Result<()> {
        self.run(&format!("ethtool -K {device} tso off gso off gro off")).map(drop)
    }

    /// Drops so many of a hundred packets that come in by a device; for them to be packets of the
    /// wire, both ends must have their [offloads disabled](Self::disable_offloads). A second call
    /// drops as many again of what the first one has left.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn drop_incoming(&self, device: &str, percent: f64) -> Result<()> {
        let lost = (percent * 1000.0).round();
        self.run("nft add table ip cable")?;
        self.run("nft add chain ip cable arriving { type filter hook prerouting priority raw; }")?;
        self.run(&format!(
            "nft add rule ip cable arriving iifname {device} numgen random mod 100000 < {lost} drop"
        ))
        .map(drop)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        // `cat` ends by itself; it is not waited for longer than that takes.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root, to make namespaces: make test-gateways runs it as root"]
    fn processes_that_do_not_end_are_not_waited_for_and_ended_ones_report_their_own_status() {
        let host = Namespace::new().unwrap();
        let why = host.run_within("sleep 60", Duration::from_millis(100)).unwrap_err().to_string();
        assert_eq!(why, "`sleep 60` did not end within 100ms");
        assert_eq!(host.run("echo here").unwrap(), "here\n");
        assert!(host.run("false").unwrap_err().to_string().contains("`false` failed"));
        assert!(
            host.hardware_address("lo").unwrap_err().to_string().contains("no Ethernet address")
        );
    }
}
