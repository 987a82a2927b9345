// SPDX-License-Identifier: Apache-2.0
//! Addresses that a gateway listens on or connects to, in Zenoh's form: `tcp/192.168.1.10:7450`.
//! Checks for impossible addresses, and for listeners on all addresses without TLS, which the graph
//! must permit explicitly. The texts are the same for every gateway.

use driveline_graph::suggest;
use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;

/// Protocol of Unix sockets.
const UNIX: &str = "unixsock-stream";
/// Zenoh's protocols that stay on this host.
const LOCAL: [&str; 2] = [UNIX, "unixpipe"];
/// Zenoh's protocols that can request a certificate.
const ENCRYPTED: [&str; 2] = ["tls", "quic"];
/// Zenoh's setting for requesting certificates, of one endpoint or of all.
const MTLS: &str = "enable_mtls";
/// Maximum length of an endpoint.
const MAX_LEN: usize = 256;
/// Maximum length of a Unix socket's path, including the terminating zero byte.
const SOCKET_PATH_LEN: usize = 108;

/// Endpoint settings that are numbers of bytes. For outgoing connections, Zenoh would not report a
/// wrong value.
const BYTES: [&str; 2] = ["so_sndbuf", "so_rcvbuf"];

/// Settings for retries of an endpoint, which the gateway sets itself. With other values the
/// gateway would not start before a host is reached, or would retry without a pause.
const AGAIN: [&str; 4] = [
    "exit_on_failure",
    "retry_period_init_ms",
    "retry_period_max_ms",
    "retry_period_increase_factor",
];

/// All permitted settings of an endpoint. Others are refused: Zenoh ignores settings that it does
/// not know, and its settings for TLS could switch off the check of the other end's certificate.
const SETTINGS: [&str; 5] = ["iface", "bind", BYTES[0], BYTES[1], "dscp"];

/// Kinds of endpoints that a gateway accepts.
pub(crate) struct Rules {
    /// Protocols.
    pub(crate) protocols: &'static [&'static str],
    /// Form of an endpoint, for remedies.
    pub(crate) form: &'static str,
    /// Default port.
    pub(crate) port: u16,
    /// Remedy for a listener on all addresses, other than to permit it explicitly.
    pub(crate) instead: &'static str,
    /// True if certificates are configured.
    pub(crate) tls: bool,
    /// True if listening on all addresses is intended.
    pub(crate) insecure: bool,
}

/// Use of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Listen,
    Connect,
}

/// Splits an endpoint into protocol and address.
fn parts(endpoint: &str) -> Option<(&str, &str)> {
    let (protocol, rest) = endpoint.split_once('/')?;
    // `?` starts Zenoh's metadata of an endpoint, and `#` starts its settings.
    Some((protocol, rest.split(['?', '#']).next().unwrap_or(rest)))
}

/// Returns the path of an endpoint's socket, if it is a Unix socket.
pub(crate) fn socket_path(endpoint: &str) -> Option<&Path> {
    parts(endpoint).filter(|(protocol, _)| *protocol == UNIX).map(|(_, path)| Path::new(path))
}

/// Returns the settings of an endpoint.
fn settings(endpoint: &str) -> impl Iterator<Item = (&str, &str)> {
    let settings = endpoint.split_once('#').map_or("", |(_, settings)| settings);
    settings
        .split(';')
        .filter(|setting| !setting.is_empty())
        .map(|setting| setting.split_once('=').unwrap_or((setting, "")))
}

/// Returns true if a host name stands for all addresses, in any notation: the system accepts `0`,
/// `00.0` and `0x0` for `0.0.0.0`.
fn is_everywhere(host: &str) -> bool {
    let inside = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let address = inside.split('%').next().unwrap_or(inside);
    let zero = |part: &str| {
        part.strip_prefix('0')
            .is_some_and(|rest| rest.trim_start_matches(['x', 'X']).bytes().all(|b| b == b'0'))
    };
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_unspecified(),
        Err(_) => matches!(address, "*" | "") || address.split('.').all(zero),
    }
}

/// Returns true if this can be the name of a network interface, alone and in an endpoint's
/// settings.
pub(crate) fn is_interface(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'@'))
}

/// Returns the host name in an endpoint; `None` if it has an address or neither.
pub fn name(endpoint: &str) -> Option<&str> {
    let (protocol, address) = parts(endpoint)?;
    let (host, _) = address.rsplit_once(':').filter(|_| protocol != UNIX)?;
    (!host.starts_with('[') && host.parse::<IpAddr>().is_err()).then_some(host)
}

/// Returns the interface that an endpoint is bound to.
pub(crate) fn interface(endpoint: &str) -> Option<&str> {
    settings(endpoint).find(|(key, _)| *key == "iface").map(|(_, name)| name)
}

/// Returns the address of an endpoint; `None` if it has no address, or the address that stands for
/// all addresses.
pub(crate) fn address(endpoint: &str) -> Option<IpAddr> {
    let (protocol, address) = parts(endpoint)?;
    let (host, _) = host_and_port(address).ok().filter(|_| protocol != UNIX)?;
    let inside = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    inside.parse().ok().filter(|_| !is_everywhere(host))
}

/// Returns true if a listener at this endpoint admits every host that reaches this one on any
/// network. Such a listener accepts connections on all addresses of all interfaces and requests no
/// certificate. Covers all protocols of Zenoh. `mtls`: certificates are requested over TLS unless
/// the endpoint says otherwise.
pub(crate) fn is_open_to_all(endpoint: &str, mtls: bool) -> bool {
    let Some((protocol, address)) =
        parts(endpoint).filter(|(protocol, _)| !LOCAL.contains(protocol))
    else {
        return false;
    };
    let mut said = settings(endpoint)
        .filter(|(key, _)| *key == MTLS)
        .map(|(_, value)| value == "true")
        .peekable();
    let asks = ENCRYPTED.contains(&protocol)
        && if said.peek().is_some() { said.all(|asks| asks) } else { mtls };
    let host = host_and_port(address).map_or("", |(host, _)| host);
    // With an empty name Zenoh binds to no interface.
    let is_bound = interface(endpoint).is_some_and(is_interface);
    !asks && !is_bound && is_everywhere(host)
}

/// Splits an address into host and port. An IPv6 address stands in brackets.
fn host_and_port(address: &str) -> Result<(&str, &str), &'static str> {
    let brackets = "has brackets that are not around an address of IPv6";
    let Some(rest) = address.strip_prefix('[') else {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
        return if host.contains(['[', ']']) { Err(brackets) } else { Ok((host, port)) };
    };
    let (inside, port) = rest.split_once(']').ok_or(brackets)?;
    let is_address = inside.split('%').next().is_some_and(|a| a.parse::<Ipv6Addr>().is_ok());
    match (port.strip_prefix(':'), is_address) {
        (Some(port), true) => Ok((&address[..inside.len() + 2], port)),
        (None, true) if port.is_empty() => Ok((address, "")),
        _ => Err(brackets),
    }
}

/// Describes a wrong value of a setting, with the remedy. For outgoing connections, Zenoh would not
/// report the wrong value, and would retry forever.
fn wrong_value(key: &str, value: &str) -> Option<(String, String)> {
    let number = |n: &str| {
        n.strip_prefix("0x")
            .map_or_else(|| n.parse::<u32>(), |hex| u32::from_str_radix(hex, 16))
            .is_ok()
    };
    let (good, help) = match key {
        _ if BYTES.contains(&key) => {
            let (message, help) = (
                format!("`{value}` is no size of a buffer"),
                format!("write how many bytes, as a number: `{key}=65536`"),
            );
            return value.parse::<u32>().is_err().then_some((message, help));
        }
        "dscp" => (value.split('|').all(number), "write numbers as in `dscp=0x10`"),
        "iface" => (is_interface(value), "one interface; `ip link` lists them"),
        "bind" => {
            let is_address = host_and_port(value)
                .is_ok_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
            (is_address, "write an address of this host and a port, 0 for any: `bind=10.0.0.2:0`")
        }
        _ => return None,
    };
    (!good).then(|| (format!("`{value}` is no value of `{key}`"), help.into()))
}

/// Returns the reason why this endpoint is not possible for that use, with the remedy.
pub(crate) fn mistake(endpoint: &str, what_for: Use, rules: &Rules) -> Option<(String, String)> {
    if endpoint.len() > MAX_LEN {
        return Some((
            format!("an endpoint has {} bytes", endpoint.len()),
            format!("at most {MAX_LEN} are possible"),
        ));
    }
    let Some((protocol, address)) = parts(endpoint) else {
        return Some((format!("`{endpoint}` is not an endpoint"), rules.form.into()));
    };
    let blank = |text: &str| text.contains(char::is_whitespace);
    // The path of a socket may contain blanks.
    if endpoint.trim() != endpoint || blank(protocol) || (protocol != UNIX && blank(address)) {
        return Some((format!("`{endpoint}` has a blank"), "remove it".into()));
    }
    if !rules.protocols.contains(&protocol) {
        let help = format!("the gateway speaks {}", rules.protocols.join(", "));
        return Some((format!("`{endpoint}`: there is no protocol `{protocol}`"), help));
    }
    if endpoint.split('#').next().is_some_and(|named| named.contains('?')) {
        // Zenoh panics at some of these characters.
        return Some((
            format!("`{endpoint}` has metadata (`?…`), which a gateway has no use for"),
            "remove it".into(),
        ));
    }
    if let Some((key, _)) = settings(endpoint).find(|(key, _)| AGAIN.contains(key)) {
        let help = "leave it out: a missing end is tried again until it exists";
        return Some((
            format!("`{endpoint}` has `{key}`, but the gateway sets retries itself"),
            help.into(),
        ));
    }
    if let Some((key, _)) = settings(endpoint).find(|(key, _)| !SETTINGS.contains(key)) {
        let is_tls = ["certificate", "private_key", "mtls", "verify_name"]
            .iter()
            .any(|part| key.contains(part));
        let help = if is_tls && rules.protocols.contains(&"tls") {
            "certificates of all endpoints stand under `tls:`, and both ends always show theirs"
                .to_owned()
        } else {
            suggest(key, "settings", SETTINGS)
        };
        return Some((format!("`{endpoint}`: an endpoint has no setting `{key}`"), help));
    }
    if protocol == UNIX {
        let fits = address.starts_with('/') && address.len() < SOCKET_PATH_LEN;
        return (!fits).then(|| {
            (
                format!("`{endpoint}` names no socket"),
                "write an absolute path of at most 107 bytes".into(),
            )
        });
    }
    let (host, port) = match host_and_port(address) {
        Ok(parts) => parts,
        Err(why) => {
            return Some((
                format!("`{endpoint}` {why}"),
                format!("write an IPv6 address as in `{protocol}/[::1]:{}`", rules.port),
            ));
        }
    };
    if port.is_empty() {
        return Some((
            format!("`{endpoint}` has no port"),
            format!("{}; {} is usual", rules.form, rules.port),
        ));
    }
    let Some(port) = port.parse::<u16>().ok().filter(|_| port.bytes().all(|b| b.is_ascii_digit()))
    else {
        let help = format!("a port is a number from 1 to 65535; {} is usual", rules.port);
        return Some((format!("`{endpoint}`: `{port}` is no port"), help));
    };
    if let Some((message, help)) =
        settings(endpoint).find_map(|(key, value)| wrong_value(key, value))
    {
        return Some((format!("`{endpoint}`: {message}"), help));
    }
    if ["iface", "bind"].iter().all(|wanted| settings(endpoint).any(|(key, _)| key == *wanted)) {
        return Some((
            format!("`{endpoint}` has both settings `iface` and `bind`"),
            "keep one of the two".into(),
        ));
    }
    if what_for == Use::Connect && port == 0 {
        return Some((
            format!("`{endpoint}`: port 0 has no listener"),
            format!("{} is where others usually listen", rules.port),
        ));
    }
    if what_for == Use::Connect && is_everywhere(host) {
        return Some((format!("`{endpoint}` names no host to connect to"), rules.form.into()));
    }
    if protocol == "tls" && !rules.tls {
        let help = "add `tls: {authority: ca.pem, certificate: host.pem, private_key: host.key}`";
        return Some((format!("`{endpoint}` needs certificates"), help.into()));
    }
    if what_for == Use::Listen && is_everywhere(host) && protocol != "tls" && !rules.insecure {
        return Some((
            format!(
                "`{endpoint}` permits every program that reaches this host on any network to \
                 publish and subscribe"
            ),
            format!("{}, or write `insecure: true`", rules.instead),
        ));
    }
    let inside = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    if let Some((address, interface)) = inside.split_once('%') {
        let message = format!("`{endpoint}` names its interface where Zenoh does not read it");
        return Some((message, format!("write `{protocol}/[{address}]:{port}#iface={interface}`")));
    }
    let is_of_one_link = inside.parse::<Ipv6Addr>().is_ok_and(|a| a.is_unicast_link_local());
    if is_of_one_link && !settings(endpoint).any(|(key, _)| ["iface", "bind"].contains(&key)) {
        return Some((
            format!("`{endpoint}` is a link-local address"),
            format!("name the interface: `{endpoint}#iface=eth0`"),
        ));
    }
    // A mistake in an address (`10.77.0.300`) would count as a host name, which would be looked up
    // forever. Hosts with fewer numbers (`10.1`) are not checked here.
    let like_an_address = host.split('.').count() == 4
        && host.split('.').all(|part| part.bytes().all(|b| b.is_ascii_digit()));
    if like_an_address && host.parse::<IpAddr>().is_err() {
        return Some((
            format!("`{endpoint}`: `{host}` is no address"),
            "an address has four numbers from 0 to 255".into(),
        ));
    }
    None
}
