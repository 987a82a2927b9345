// SPDX-License-Identifier: Apache-2.0
//! Settings of the session: those of rmw_zenoh, with limits.

use super::GatewayError;
use driveline_gateway::ros2::Ros2ZenohSpec;
use driveline_gateway::zenoh_says;
use std::time::Duration;
use zenoh::Config;

/// Space for a message in addition to its payload.
const MESSAGE_HEAD_BYTES: u64 = 64 * 1024;
/// Maximum number of routers and nodes connected at once.
const MAX_SESSIONS: u32 = 64;
/// Time that a reliable sample waits for space; then Zenoh closes the connection.
const ROOM_WITHIN_MS: u64 = 2_000;
/// Time after which the kernel breaks a connection to a router or node that has unacknowledged data
/// or a full buffer: 1.25 s. Together with the 0.2 s until the first retransmission, this is less
/// than the 2 s that samples wait for space. So the socket fails first, and its error wakes all
/// waiting threads at once. Otherwise each thread would have Zenoh close the connection, one after
/// the other. Zenoh finds the connection by the id of the other end, so a late thread would close
/// the next connection.
pub(in crate::engine) const UNANSWERED: Duration = Duration::from_millis(ROOM_WITHIN_MS * 5 / 8);

/// Returns the configuration of the session. `longest`: maximum payload, in bytes.
pub(super) fn session(spec: &Ros2ZenohSpec, longest: u64) -> Result<Config, GatewayError> {
    let list = |endpoints: &[String]| serde_json::Value::from(endpoints.to_vec()).to_string();
    let (connect, listen) = (list(&spec.connect), list(&spec.listen));
    let (longest, sessions) =
        ((longest + MESSAGE_HEAD_BYTES).to_string(), MAX_SESSIONS.to_string());
    let room_within_us = (ROOM_WITHIN_MS * 1_000).to_string();
    let mut config = Config::default();
    for (key, value) in [
        ("mode", "'peer'"),
        ("connect/endpoints", connect.as_str()),
        ("listen/endpoints", listen.as_str()),
        // The session opens at once. A missing router is retried after a constant pause. With
        // growing pauses, a router that has come back would stay unused for longer.
        ("connect/timeout_ms", "-1"),
        ("connect/exit_on_failure", "false"),
        ("connect/retry", "{ period_init_ms: 200, period_max_ms: 200, period_increase_factor: 1 }"),
        ("open/return_conditions", "{ connect_scouted: false, declares: false }"),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "true"),
        // A node may wait for the other end to connect if that end has the greater Zenoh id. So
        // this gateway always connects.
        ("scouting/gossip/autoconnect_strategy", "'always'"),
        ("timestamping/enabled", "true"),
        // As in rmw_zenoh, for calls of services without a time-out of their own.
        ("queries_default_timeout", "600000"),
        ("transport/unicast/max_sessions", sessions.as_str()),
        ("transport/link/tx/lease", "10000"),
        // A large reliable message has many pieces. Its publisher waits this long for space for the
        // last piece.
        (
            "transport/link/tx/queue/congestion_control/block/wait_before_close",
            room_within_us.as_str(),
        ),
        ("transport/link/tx/queue/congestion_control/drop/wait_before_drop", "50000"),
        ("transport/link/rx/max_message_size", longest.as_str()),
    ] {
        let refused = |e: zenoh::Error| GatewayError::Zenoh {
            endpoints: format!("{key} = {value}"),
            reason: zenoh_says(&e),
        };
        config.insert_json5(key, value).map_err(refused)?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zenoh_takes_every_setting() {
        session(&Ros2ZenohSpec::default(), 8 << 20).unwrap();
        let elsewhere = Ros2ZenohSpec {
            connect: vec!["udp/10.0.0.1:7447".into()],
            listen: vec!["tcp/[::]:7447#iface=eth0".into()],
            insecure: true,
        };
        session(&elsewhere, 0).unwrap();
        let nonsense = Ros2ZenohSpec { listen: vec!["nowhere".into()], ..Ros2ZenohSpec::default() };
        assert!(session(&nonsense, 0).unwrap_err().to_string().contains("nowhere"));
    }
}
