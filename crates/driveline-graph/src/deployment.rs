// SPDX-License-Identifier: Apache-2.0
//! Keys of a module for its container. A run without containers ignores them.

use super::diagnostic::{Diagnostic, Place};
use super::files::{Files, Part};
use super::model::{Cpus, ModuleSpec};
use super::resolved::{Mount, ResolvedDeployment};
use std::collections::BTreeMap;

/// The number of a CPU is below this; a share of CPU time is at most this many CPUs.
const MOST_CPUS: u32 = 1024;

/// Checks the keys of a module and resolves them. The existence of images, devices and mounted
/// files is checked when the containers are created, perhaps on another machine.
pub(super) fn deployment(
    files: &mut Files,
    document: usize,
    module: &str,
    spec: &ModuleSpec,
) -> ResolvedDeployment {
    let directory = files.directory_of(document);
    let mut found = Found { files, document, module };
    match &spec.cpus {
        Some(Cpus::Quota(quota)) if !(0.01..=f64::from(MOST_CPUS)).contains(quota) => found
            .mistake(
                &["cpus"],
                format!("a share of {quota} CPUs is not possible"),
                "write a share such as `1.5`, or a list of CPUs such as `[2, 3]`",
            ),
        Some(Cpus::Set(set)) if set.is_empty() || set.iter().any(|c| *c >= MOST_CPUS) => found
            .mistake(
                &["cpus"],
                "these are no numbers of CPUs".into(),
                "write a list such as `[2, 3]`; `lscpu -e` lists the CPUs of a machine",
            ),
        _ => {}
    }
    let no_name =
        |i: &String| i.is_empty() || i.starts_with('-') || i.contains(|c: char| c.is_whitespace());
    if spec.image.as_ref().is_some_and(no_name) {
        found.mistake(
            &["image"],
            "this is no name of an image".into(),
            "write it as the engine does, such as `localhost/lane:1`",
        );
    }
    for (i, device) in spec.devices.iter().enumerate() {
        let cdi = device.split_once('=');
        let cdi = cdi.is_some_and(|(kind, name)| kind.contains('/') && !name.is_empty());
        if !(device.starts_with("/dev/") || cdi) || device.contains(|c: char| c.is_whitespace()) {
            found.mistake(
                &["devices", &i.to_string()],
                format!("`{device}` is no device"),
                "write `/dev/video0`, or a CDI name such as `nvidia.com/gpu=all`",
            );
        }
    }
    let mut mounts = Vec::new();
    for (i, text) in spec.mounts.iter().enumerate() {
        match Mount::parse(text, &directory) {
            Ok(mount) if mounts.iter().any(|m: &Mount| m.target == mount.target) => found.mistake(
                &["mounts", &i.to_string()],
                format!("an earlier mount has the target {} too", mount.target.display()),
                "remove one of them, or mount it to another place",
            ),
            Ok(mount) => mounts.push(mount),
            Err(help) => {
                found.mistake(&["mounts", &i.to_string()], format!("`{text}` is no mount"), help)
            }
        }
    }
    ResolvedDeployment {
        image: spec.image.clone(),
        user: spec.user,
        cpus: spec.cpus.clone(),
        memory: spec.memory.map(|m| m.0),
        devices: spec.devices.clone(),
        mounts,
        places: found.places(spec),
    }
}

struct Found<'a> {
    files: &'a mut Files,
    document: usize,
    module: &'a str,
}

impl Found<'_> {
    fn place(&self, rest: &[&str], part: Part) -> Place {
        let path = ["modules", self.module].into_iter().chain(rest.iter().copied());
        self.files.place(self.document, &path.collect::<Vec<_>>(), part)
    }

    fn mistake(&mut self, at: &[&str], message: String, help: &str) {
        let place = self.place(at, Part::Value);
        self.files.error(Diagnostic::error(message).at(place).help(help));
    }

    fn places(&self, spec: &ModuleSpec) -> BTreeMap<String, Place> {
        let mut places = BTreeMap::from([("module".to_owned(), self.place(&[], Part::Key))]);
        let given = [
            ("image", spec.image.is_some()),
            ("user", spec.user.is_some()),
            ("cpus", spec.cpus.is_some()),
            ("memory", spec.memory.is_some()),
        ];
        for (key, _) in given.into_iter().filter(|(_, given)| *given) {
            places.insert(key.to_owned(), self.place(&[key], Part::Value));
        }
        for (key, n) in [("devices", spec.devices.len()), ("mounts", spec.mounts.len())] {
            for i in (0..n).map(|i| i.to_string()) {
                places.insert(format!("{key}/{i}"), self.place(&[key, &i], Part::Value));
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Access;
    use crate::{Colour, DescribeError, LoadOptions, Loaded, load};
    use std::path::Path;

    fn mount(text: &str) -> Result<(String, String, bool), &'static str> {
        Mount::parse(text, Path::new("/graphs"))
            .map(|m| (m.source.display().to_string(), m.target.display().to_string(), m.writable))
    }

    #[test]
    fn mounts_are_read_only_and_where_they_are_on_the_host_unless_they_say_otherwise() {
        let of =
            |source: &str, target: &str, writable| Ok((source.into(), target.into(), writable));
        assert_eq!(mount("/data"), of("/data", "/data", false));
        assert_eq!(mount("maps"), of("/graphs/maps", "/graphs/maps", false));
        assert_eq!(mount("maps:/maps"), of("/graphs/maps", "/maps", false));
        assert_eq!(mount("/out:/out:rw"), of("/out", "/out", true));
        assert_eq!(mount("/out:rw"), of("/out", "/out", true));
        assert_eq!(mount("/out:ro"), of("/out", "/out", false));
        for bad in ["", ":/x", "/a:b", "/a:/", "/a:/b:/c", "/a,b:/c"] {
            assert!(mount(bad).is_err(), "{bad}");
        }
    }

    fn loaded(keys: &str) -> (Loaded, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        std::fs::write(
            &path,
            format!("driveline: 1\nmodules:\n  m:\n    components: {{}}\n{keys}"),
        )
        .unwrap();
        let nothing = |_: &Path| Err(DescribeError { reason: "none".into(), help: None });
        (load(&path, &LoadOptions::new(&nothing)), dir)
    }

    #[test]
    fn keys_of_a_container_are_resolved_with_their_places() {
        let (loaded, dir) = loaded(
            "    image: localhost/m:1\n    user: 1001\n    cpus: [0, 1]\n    memory: 64 MiB\n    \
             devices: [/dev/video0, nvidia.com/gpu=all]\n    mounts: [maps]\n",
        );
        let graph = loaded.graph.unwrap();
        let d = &graph.modules[0].deployment;
        assert_eq!((d.image.as_deref(), d.user), (Some("localhost/m:1"), Some(1001)));
        assert_eq!((d.cpus.clone(), d.memory), (Some(Cpus::Set(vec![0, 1])), Some(64 << 20)));
        assert_eq!(d.mounts[0].source, dir.path().join("maps"));
        assert_eq!(d.place("memory").unwrap().span.line, 8);
        assert_eq!(d.place("devices/1").unwrap().span.line, 9);
        assert_eq!(graph.files, [dir.path().join("g.yaml")]);
    }

    #[test]
    fn a_share_of_cpus_is_a_number() {
        let graph = loaded("    cpus: 1.5\n").0.graph.unwrap();
        assert_eq!(graph.modules[0].deployment.cpus, Some(Cpus::Quota(1.5)));
        assert_eq!(graph.modules[0].deployment.place("image").unwrap().span.line, 3);
    }

    #[test]
    fn topics_admit_the_users_of_the_modules_at_their_ends_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        let module = |name: &str, user: &str, ports: &str| {
            format!(
                "  {name}:\n{user}    components:\n      {name}: {{library: x, class: X, \
                 {ports}}}\n"
            )
        };
        let text = [
            "driveline: 1\ntopics:\n".to_owned(),
            "  a: {reach: host, max_payload: 8}\n  b: {reach: host, max_payload: 8, access: \
             anyone}\n  c: {reach: host, max_payload: 8}\n  e: {reach: host, max_payload: 8, \
             access: own_user}\n"
                .to_owned(),
            "modules:\n".to_owned(),
            module("one", "    user: 1001\n", "outputs: {x: a, y: b, z: c, v: e}"),
            module("two", "", "inputs: {x: a, y: b, v: e}"),
            module("three", "    user: 1001\n", "inputs: {z: c}"),
            module("four", "    user: 1004\n", "outputs: {x: d}"),
        ];
        std::fs::write(&path, text.concat()).unwrap();
        let nothing = |_: &Path| Ok(Vec::new());
        let options = LoadOptions { modules: Some(Vec::new()), ..LoadOptions::new(&nothing) };
        let loaded = load(&path, &options);
        let mut graph =
            loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
        let pins = |g: &crate::ResolvedGraph| g.topics[&"a".parse().unwrap()].pins;
        let before = pins(&graph);
        graph.admit_users(65_532);
        let access = |topic: &str| graph.topics[&topic.parse().unwrap()].access.clone();
        assert_eq!(access("a"), Access::Users(vec![1001, 65_532]));
        assert_eq!(pins(&graph), 2 * before);
        assert_eq!(access("b"), Access::Anyone);
        assert_eq!(access("c"), Access::OwnUser, "both its ends have one user");
        assert_eq!(access("d"), Access::OwnUser);
        assert_eq!(access("e"), Access::OwnUser, "the graph states it");
    }

    #[test]
    fn what_no_engine_takes_is_explained_with_its_line() {
        for (key, says) in [
            ("cpus: 0", "share"),
            ("cpus: []", "lscpu"),
            ("image: -x", "name of an image"),
            ("user: 0", "user"),
            ("devices: [video0]", "/dev/video0"),
            ("mounts: ['a:b']", "absolute path"),
            ("mounts: ['/a:/run/driveline/domain:rw']", "the domain of the run"),
            ("mounts: ['/a:/opt/driveline']", "its own files"),
            ("mounts: ['/a:/b/../proc']", "without `..`"),
            ("mounts: ['/a:/x', '/b:/x']", "an earlier mount"),
            ("memory: lots", "size"),
        ] {
            let loaded = loaded(&format!("    {key}\n")).0;
            let text = loaded.diagnostics.render(Colour::No);
            assert!(loaded.graph.is_none() && text.contains(says), "{key}: {text}");
            assert!(text.contains("g.yaml:5:"), "{key}: {text}");
        }
    }
}
