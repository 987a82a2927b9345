// SPDX-License-Identifier: Apache-2.0
//! Certificates of a fleet, made by `openssl` in a directory. Each has the addresses of all hosts
//! of the rig.

use super::ADDRESSES;
use super::net::addresses_in_nets;
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .current_dir(directory)
        .args(arguments.split_whitespace())
        .output()
        .expect("openssl");
    assert!(
        output.status.success(),
        "openssl {arguments}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Makes an authority.
pub(crate) fn authority(directory: &Path, name: &str) {
    openssl(
        directory,
        &format!("req -x509 {KEY} -keyout {name}.key -out {name}.pem -subj /CN={name} -days 2"),
    );
}

/// Makes a certificate of a host, signed by this authority.
pub(crate) fn certificate(directory: &Path, host: &str, authority: &str) {
    let addresses = ADDRESSES.into_iter().chain([Ipv4Addr::LOCALHOST]).chain(addresses_in_nets());
    let names: Vec<String> = addresses.map(|address| format!("IP:{address}")).collect();
    std::fs::write(directory.join("names"), format!("subjectAltName={}\n", names.join(",")))
        .expect("the names");
    openssl(directory, &format!("req {KEY} -keyout {host}.key -out {host}.csr -subj /CN={host}"));
    let signed = format!(
        "x509 -req -in {host}.csr -CA {authority}.pem -CAkey {authority}.key -CAcreateserial -days \
         2 -out {host}.pem -extfile names"
    );
    openssl(directory, &signed);
}

/// Hosts that connect over TLS, each with its own certificate, or over TCP only.
pub(crate) struct Fleet<'a> {
    directory: &'a Path,
    over_tls: bool,
}

impl<'a> Fleet<'a> {
    /// Makes a fleet with an authority in this directory, if over TLS.
    pub(crate) fn new(directory: &'a Path, over_tls: bool) -> Self {
        if over_tls {
            authority(directory, "fleet");
        }
        Self { directory, over_tls }
    }

    /// Returns the endpoint of these hosts for a TCP endpoint.
    pub(crate) fn endpoint(&self, over_tcp: &str) -> String {
        if self.over_tls { over_tcp.replace("tcp/", "tls/") } else { over_tcp.to_owned() }
    }

    /// Returns a host's network configuration, with its certificate.
    pub(crate) fn network(&self, host: &str, mut network: Value) -> Value {
        if self.over_tls {
            certificate(self.directory, host, "fleet");
            network["tls"] = tls(self.directory, host);
        }
        network
    }
}

/// Two hosts of a fleet; the second connects to the first over TLS.
pub(crate) fn calls_over_tls(directory: &Path, endpoint: &str) -> [Value; 2] {
    authority(directory, "fleet");
    let listen = endpoint.replace("tcp/", "tls/");
    let [a, b] = ["a", "b"].map(|host| {
        certificate(directory, host, "fleet");
        tls(directory, host)
    });
    [
        json!({ "host": "a", "listen": [listen], "tls": a }),
        json!({ "host": "b", "connect": [listen], "tls": b }),
    ]
}

/// Settings under `tls:` for a host of the authority `fleet`.
pub(crate) fn tls(directory: &Path, host: &str) -> Value {
    let file = |name: &str| directory.join(name);
    json!({
        "authority": file("fleet.pem"), "certificate": file(&format!("{host}.pem")),
        "private_key": file(&format!("{host}.key")),
    })
}
