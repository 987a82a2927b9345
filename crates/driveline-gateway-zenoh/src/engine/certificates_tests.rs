// SPDX-License-Identifier: Apache-2.0
use super::*;
use std::process::Command;
use tempfile::TempDir;

/// Files of two fleets: authorities `fleet` and `stranger`, and hosts `a` and `b` of the first.
fn files() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let openssl = |arguments: &str| {
        let output = Command::new("openssl")
            .current_dir(dir.path())
            .args(arguments.split_whitespace())
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "openssl {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    for authority in ["fleet", "stranger"] {
        openssl(&format!(
            "req -x509 {key} -keyout {authority}.key -out {authority}.pem -subj /CN={authority} \
             -days 2"
        ));
    }
    std::fs::write(dir.path().join("names"), "subjectAltName=IP:127.0.0.1\n").unwrap();
    std::fs::write(dir.path().join("server"), "extendedKeyUsage=serverAuth\n").unwrap();
    for (host, extensions) in [("a", "names"), ("b", "server")] {
        openssl(&format!("req {key} -keyout {host}.key -out {host}.csr -subj /CN={host}"));
        let signed = format!(
            "x509 -req -in {host}.csr -CA fleet.pem -CAkey fleet.key -CAcreateserial -days 2 -out \
             {host}.pem"
        );
        openssl(&format!("{signed} -extfile {extensions}"));
    }
    dir
}

fn spec(dir: &TempDir, [authority, certificate, private_key]: [&str; 3]) -> TlsSpec {
    let [authority, certificate, private_key] =
        [authority, certificate, private_key].map(|name| dir.path().join(name));
    TlsSpec { authority, certificate, private_key }
}

#[test]
fn certificates_are_refused_for_time_authority_or_purpose_with_the_reason() {
    let dir = files();
    let read = |files| Certificates::read(&spec(&dir, files)).unwrap();
    let sound = read(["fleet.pem", "a.pem", "a.key"]);
    assert_eq!(sound.refused(), None);
    let now = UnixTime::now().as_secs();
    let at = |seconds: u64| {
        sound.refused_at(UnixTime::since_unix_epoch(Duration::from_secs(seconds))).unwrap()
    };
    let late = at(now + 6 * 86_400);
    assert!(
        late.contains("a.pem expired ")
            && late.contains(" days ago")
            && late.contains("sign a new one"),
        "{late}"
    );
    // A computer whose clock has no battery begins in 1970.
    let early = at(0);
    assert!(early.contains("a.pem is valid only in ") && early.contains("clock right"), "{early}");
    let of_others = read(["stranger.pem", "a.pem", "a.key"]).refused().unwrap();
    assert!(
        of_others.contains("a.pem is not signed by the authority of ")
            && of_others.contains("stranger.pem"),
        "{of_others}"
    );
    let one_way = read(["fleet.pem", "b.pem", "b.key"]).refused().unwrap();
    assert!(
        one_way.contains("b.pem does not permit use by a client")
            && one_way.contains("serverAuth,clientAuth"),
        "{one_way}"
    );
}

#[test]
fn errors_of_unusable_files_name_the_file() {
    let dir = files();
    let broken = "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE \
         KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    std::fs::write(dir.path().join("broken"), broken).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    std::fs::write(
        dir.path().join("short"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    for (files, says) in [
        (
            ["fleet.pem", "a.pem", "b.key"],
            [
                "network.tls.private_key: ",
                "b.key is not the key of the certificate ",
                "name a certificate and its own key",
            ],
        ),
        (
            ["fleet.pem", "a.pem", "a.pem"],
            [
                "network.tls.private_key: ",
                "a.pem has no private key that can be read",
                "openssl pkey",
            ],
        ),
        (
            ["fleet.pem", "a.pem", "broken"],
            [
                "network.tls.private_key: ",
                "broken has no private key that can be read",
                "openssl pkey",
            ],
        ),
        (
            ["fleet.pem", "empty", "a.key"],
            [
                "network.tls.certificate: ",
                "empty has no certificate that can be read",
                "openssl x509",
            ],
        ),
        (
            ["fleet.pem", "short", "a.key"],
            [
                "network.tls.certificate: ",
                "short has no certificate that can be read",
                "openssl x509",
            ],
        ),
        (
            ["broken", "a.pem", "a.key"],
            [
                "network.tls.authority: ",
                "broken has no certificate that can be read",
                "openssl x509",
            ],
        ),
        (
            ["short", "a.pem", "a.key"],
            [
                "network.tls.authority: ",
                "short is not the certificate of an authority",
                "signed the certificates of all hosts",
            ],
        ),
    ] {
        let text = Certificates::read(&spec(&dir, files)).unwrap_err().to_string();
        assert!(says.iter().all(|words| text.contains(words)), "{says:?}: {text}");
    }
}
