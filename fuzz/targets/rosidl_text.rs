// SPDX-License-Identifier: Apache-2.0
//! Definitions of ROS 2 types: any text parses or gives an error with a place. A parsed definition
//! can be written, and the written text means the same.
#![no_main]
#![allow(clippy::expect_used, clippy::panic, reason = "a panic is a finding")]

use driveline_rosidl::{Catalog, Detail, TypeName, parse_idl, parse_msg, parse_srv};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static MESSAGE: LazyLock<TypeName> = LazyLock::new(|| "p/msg/M".parse().expect("a name"));
static SERVICE: LazyLock<TypeName> = LazyLock::new(|| "p/srv/S".parse().expect("a name"));

fuzz_target!(|text: &str| {
    let _ = parse_msg(&MESSAGE, "M.msg", text);
    let _ = parse_srv(&SERVICE, "S.srv", text);
    let _ = parse_idl("M.idl", text);
    let catalog = match Catalog::from_text(&MESSAGE, text) {
        Ok(catalog) => catalog,
        Err(e) => {
            assert!(!e.place.file.is_empty() && !e.remedy.is_empty());
            return;
        }
    };
    for message in catalog.messages() {
        let Ok(hash) = catalog.type_hash(&message.name) else { continue };
        let _ = catalog.layout(&message.name);
        let idl = catalog.ros2idl(&message.name, Detail::Full).expect("its hash is known");
        let again =
            Catalog::from_text(&message.name, &idl).unwrap_or_else(|e| panic!("{e} in {idl}"));
        assert_eq!(again.type_hash(&message.name).ok(), Some(hash), "{idl}");
        if let Ok(Some(msg)) = catalog.ros2msg(&message.name, Detail::Full) {
            let again =
                Catalog::from_text(&message.name, &msg).unwrap_or_else(|e| panic!("{e} in {msg}"));
            assert_eq!(again.type_hash(&message.name).ok(), Some(hash), "{msg}");
        }
    }
});
