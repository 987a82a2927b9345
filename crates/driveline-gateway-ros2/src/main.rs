// SPDX-License-Identifier: Apache-2.0
//! `driveline-gateway-ros2`: exchanges topics of one domain with ROS 2 nodes over DDS.
//!
//! `driveline run` starts it with `--account-stdin`: the configuration is then the first line on standard input, a socket whose end
//! is the end of the gateway. By hand: `driveline-gateway-ros2 gateway.json`.

use driveline_gateway_ros2::engine::Gateway;
use driveline_runtime::account::Record;
use driveline_runtime::ros2::Ros2GatewayConfig;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

const USAGE: &str = "usage: driveline-gateway-ros2 CONFIG.json\n\nExchanges topics of one domain with ROS 2 nodes over DDS. \
`driveline run` starts it for graphs that have rules under `ros2:`; CONFIG.json has the keys domain_dir, ros2 (as in graph files) and topics.";
/// Longest configuration.
const MAX_CONFIG_LEN: u64 = 4 << 20;
/// How often it is looked whether there is something to tell.
const TELL: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.as_slice() {
        [flag] if flag == "--help" || flag == "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [flag] if flag == "--account-stdin" => from_launcher(),
        [path] => from_file(path),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("error: {text}");
            ExitCode::FAILURE
        }
    }
}

fn parse(text: &str) -> Result<Ros2GatewayConfig, String> {
    serde_json::from_str(text).map_err(|e| format!("the configuration cannot be read: {e}"))
}

fn from_file(path: &str) -> Result<(), String> {
    let file = std::fs::File::open(path).map_err(|e| format!("cannot read {path}: {e}"))?;
    let mut text = String::new();
    file.take(MAX_CONFIG_LEN).read_to_string(&mut text).map_err(|e| format!("cannot read {path}: {e}"))?;
    run(parse(&text)?, None)
}

fn from_launcher() -> Result<(), String> {
    let stdin = std::io::stdin().as_fd().try_clone_to_owned().map_err(|e| format!("standard input: {e}"))?;
    let mut launcher = UnixStream::from(stdin);
    let mut reader = BufReader::new(launcher.try_clone().map_err(|e| e.to_string())?);
    let mut line = String::new();
    Read::by_ref(&mut reader).take(MAX_CONFIG_LEN).read_line(&mut line).map_err(|e| format!("no configuration came: {e}"))?;
    let config = match parse(&line) {
        Ok(config) => config,
        Err(text) => {
            say(&mut launcher, &Record::Failed { call: None, text: text.clone() });
            return Err(text);
        }
    };
    run(config, Some((launcher, reader)))
}

fn say(launcher: &mut UnixStream, record: &Record) {
    // A launcher that is gone is noticed as the end of the socket.
    if let Ok(mut line) = serde_json::to_string(record) {
        line.push('\n');
        let _ = launcher.write_all(line.as_bytes());
    }
}

fn run(config: Ros2GatewayConfig, launcher: Option<(UnixStream, BufReader<UnixStream>)>) -> Result<(), String> {
    let (ended, wait) = channel();
    listen_for_signals(ended.clone()).map_err(|e| format!("cannot listen for signals: {e}"))?;
    let domain = config.ros2.domain_id;
    let (mut to_launcher, from_launcher) = launcher.map_or((None, None), |(a, b)| (Some(a), Some(b)));
    let gateway = match Gateway::start(config) {
        Ok(gateway) => gateway,
        Err(e) => {
            let text = e.to_string();
            if let Some(launcher) = &mut to_launcher {
                say(launcher, &Record::Failed { call: None, text: text.clone() });
            }
            return Err(text);
        }
    };
    if let Some(reader) = from_launcher {
        std::thread::spawn(move || until_end(reader, &ended));
    }
    println!("exchanges topics with ROS 2 in DDS domain {domain}");
    if let Some(launcher) = &mut to_launcher {
        say(launcher, &Record::Ready);
    }
    loop {
        let over = wait.recv_timeout(TELL);
        gateway.take_notices().iter().for_each(|line| println!("{line}"));
        if over != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}

fn listen_for_signals(ended: Sender<()>) -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::spawn(move || {
        signals.forever().next();
        let _ = ended.send(());
    });
    Ok(())
}

/// What the launcher says after the configuration (`go`) changes nothing; its end is the gateway's.
fn until_end(mut reader: BufReader<UnixStream>, ended: &Sender<()>) {
    let mut buffer = [0; 64];
    while matches!(reader.read(&mut buffer), Ok(n) if n > 0) {}
    let _ = ended.send(());
}
