// SPDX-License-Identifier: Apache-2.0
//! DDS participant: CycloneDDS's configuration from the settings under `ros2:`, and the ROS graph.

mod feed;
mod graph;
mod service;
mod transport;
mod writer;

#[cfg(test)]
pub(super) use feed::GRACE;
pub(super) use transport::DdsTransport;

use super::error::GatewayError;
use crate::dds::DdsError;
use driveline_gateway::ros2::Ros2Spec;

/// Space for a sample in addition to its payload.
pub(super) const HEAD_BYTES: u64 = 4096;
/// Greatest index of a participant on this host that is discovered without multicast; the first is
/// 0.
const MAX_LOCAL_PARTICIPANT: u32 = 32;
/// Size of receive buffers, as far as the kernel permits; for bursts such as a 4 MiB sample.
const RECEIVE_BUFFER: &str = "16 MiB";

/// Pause after which a written sample requests an acknowledgement. With CycloneDDS's 100 ms,
/// readers of a topic faster than 10 Hz would not acknowledge.
const ACKNOWLEDGED: &str = "100 us";

/// Returns CycloneDDS's configuration, which uses nothing from the environment. `longest`: maximum
/// payload, in bytes.
fn configuration(spec: &Ros2Spec, longest: u64) -> String {
    let (interface, discovery) = match &spec.interface {
        // The configuration check permits only letters, digits and a few signs in the name.
        Some(name) => (format!("<NetworkInterface name=\"{name}\"/>"), String::new()),
        None => (
            "<NetworkInterface address=\"127.0.0.1\" multicast=\"false\"/>".to_owned(),
            format!(
                "<ParticipantIndex>auto</ParticipantIndex><MaxAutoParticipantIndex>\
                 {MAX_LOCAL_PARTICIPANT}</MaxAutoParticipantIndex>\
                 <Peers><Peer address=\"127.0.0.1\"/></Peers>"
            ),
        ),
    };
    let multicast = if spec.interface.is_some() { "default" } else { "false" };
    format!(
        "<CycloneDDS><Domain><General><Interfaces>{interface}</Interfaces>\
         <AllowMulticast>{multicast}</AllowMulticast>\
         <MaxMessageSize>65500 B</MaxMessageSize></General>\
         <Internal><HeartbeatInterval>{ACKNOWLEDGED}</HeartbeatInterval><SocketReceiveBufferSize \
         max=\"{RECEIVE_BUFFER}\"/><MaxSampleSize>{} B</MaxSampleSize></Internal>\
         <Discovery>{discovery}</Discovery></Domain></CycloneDDS>",
        longest.saturating_add(HEAD_BYTES)
    )
}

/// Returns the error of joining, with the required ports and interface. Ports: RTPS 2.5, section
/// 9.6.2, with its default numbers.
fn refused(spec: &Ros2Spec, source: DdsError) -> GatewayError {
    let base = 7400 + 250 * spec.domain_id;
    let (interface, ports) = match &spec.interface {
        Some(name) => (
            format!("the interface `{name}`"),
            format!("{base} and {}, shared with other nodes", base + 1),
        ),
        None => {
            let (first, last) = (base + 10, base + 11 + 2 * MAX_LOCAL_PARTICIPANT);
            (
                "the loopback device".to_owned(),
                format!("{first} to {last}, two for each process of this host that takes part"),
            )
        }
    };
    GatewayError::Network { source, interface, domain_id: spec.domain_id, ports }
}
