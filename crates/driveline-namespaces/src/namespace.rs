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

/// Time-out for making a namespace: it exists at once, or never.
const START: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };
/// Time-out of commands in a namespace, which change or read a setting.
const RUN: Duration = Duration::from_secs(10);
/// Exit statuses of `timeout` after its command was too slow: ended by SIGTERM, or by SIGKILL.
const TIMED_OUT: Option<i32> = Some(124);
const KILLED: Option<i32> = Some(137);
/// Buffer of an ordinary switch, given as the time in which the switch transmits a full buffer.
pub const SWITCH: Duration = Duration::from_millis(20);

/// A network namespace. A process inside keeps it alive. That process ends when the value is
/// dropped, or when the process that made the namespace dies. After that, nothing of the namespace
/// remains, unless another process or a [`TapRelay`](crate::TapRelay) still uses it.
///
/// Functions that run commands block for some milliseconds, and at most about 10 s for each
/// command. Their errors contain the command that failed, and the reason. They need root, and the
/// packages util-linux, iproute2, nftables and ethtool.
#[derive(Debug)]
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Makes a namespace that contains only a working loopback device.
    ///
    /// # Errors
    /// If this process may not make namespaces, or if a command fails.
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

    /// Returns the file that represents the namespace. It exists as long as this value.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.id()).into()
    }

    /// Returns the prefix of a command that runs in the namespace. The started process itself
    /// becomes the program.
    #[must_use]
    pub fn command_prefix(&self) -> [String; 3] {
        ["nsenter".into(), format!("--net={}", self.path().display()), "--".into()]
    }

    /// Moves the calling thread into the namespace, and with it all threads that it starts later.
    ///
    /// # Errors
    /// If this process may not enter the namespace.
    pub fn enter(&self) -> Result<()> {
        let path = self.path();
        let entered = File::open(&path).and_then(|file| {
            Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
        });
        entered.with_context(|| format!("cannot enter the network namespace {}", path.display()))
    }

    /// Runs a command in the namespace and returns its standard output. Spaces separate the words
    /// of the command.
    ///
    /// # Errors
    /// If the command cannot be started, fails, or takes longer than 10 s.
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

    /// Returns the Ethernet address of a device, as text.
    ///
    /// # Errors
    /// As [`run`](Self::run), or if the device has no Ethernet address.
    pub fn hardware_address(&self, device: &str) -> Result<String> {
        let told = self.run(&format!("ip -o link show {device}"))?;
        let address = told.split_whitespace().skip_while(|word| *word != "link/ether").nth(1);
        address.map(str::to_owned).with_context(|| format!("{device} has no Ethernet address"))
    }

    /// Returns the number of frames that a device dropped before sending.
    ///
    /// # Errors
    /// As [`run`](Self::run), or if `ip` does not report the number.
    pub fn dropped_at(&self, device: &str) -> Result<u64> {
        let told: serde_json::Value =
            serde_json::from_str(&self.run(&format!("ip -j -s link show dev {device}"))?)?;
        told.pointer("/0/stats64/tx/dropped")
            .and_then(serde_json::Value::as_u64)
            .with_context(|| format!("`ip` does not report the losses of {device}"))
    }

    /// Makes a pair of devices: `device` in this namespace, and one in the `other` namespace. Each
    /// receives without delay the frames that the other one sends. Both are switched off and have
    /// no address.
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

    /// Gives a device its address, in a `/24` network, and switches it on.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn add_address(&self, device: &str, address: Ipv4Addr) -> Result<()> {
        self.run(&format!("ip address add {address}/24 dev {device}"))?;
        self.run(&format!("ip link set {device} up")).map(drop)
    }

    /// Limits the rate at which a device sends, in Mbit/s. A burst has the size of 2 ms at this
    /// rate, at least 32 kB. The queue is that of an ordinary switch ([`SWITCH`]). A second limit
    /// on the same device is refused.
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

    /// Disables segmentation and receive offloads of a device. Its packets are then as on a wire;
    /// with offloads, the kernel joins several of them to save work.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn disable_offloads(&self, device: &str) -> Result<()> {
        self.run(&format!("ethtool -K {device} tso off gso off gro off")).map(drop)
    }

    /// Drops `percent` of the IPv4 packets that a device receives, at random. Both ends must have
    /// their [offloads disabled](Self::disable_offloads), so that each packet counts as on a wire.
    /// A second call drops its share of the packets that the first one has left.
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
        // `cat` ends when its input closes; the kill makes sure that the wait is short.
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
