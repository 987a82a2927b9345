// SPDX-License-Identifier: Apache-2.0
//! Compares the files printed for a graph with the files in `golden/`. After an intended change:
//! `DRIVELINE_UPDATE_GOLDEN=1 cargo test -p driveline-deploy manifest`, and read the difference.

use super::*;
use driveline_graph::descriptor::{ComponentClass, Port};
use driveline_graph::{Colour, LoadOptions, load};
use driveline_types::Schema;

const GRAPH: &str = "\
driveline: 1
name: Pilot, two
params_files: [tuning/lane.yaml]
topics:
  a: { reach: host, max_payload: 8 }
modules:
  camera:
    user: 1001
    memory: 256 MiB
    cpus: [2, 3]
    devices: [nvidia.com/gpu=all]
    restart: { policy: always }
    components:
      camera: { library: libcamera.so, class: Source, outputs: { out: a } }
  lane_keeper:
    cpus: 1.5
    mounts: [maps:/maps]
    environment: { GREETING: 'no', PERCENT: 50% of it, COST: $5 $(x) }
    restart: { policy: on_failure, max: 3, window_s: 30 }
    components:
      lane: { library: liblane.so, class: Sink, inputs: { in: a } }
";

fn port(name: &str) -> Vec<Port> {
    vec![Port { name: name.into(), schema: Schema::bytes("t", "raw", ""), doc: String::new() }]
}

fn manifest_of(text: &str, carried: bool, options: &ManifestOptions) -> (Manifest, String) {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    std::fs::create_dir(dir.path().join("tuning")).unwrap();
    put("libcamera.so", "");
    put("liblane.so", "");
    put("tuning/lane.yaml", "# canny_low: 70\n{}\n");
    put("pilot.yaml", text);
    let describe = |_: &Path| {
        let class = |name: &str, inputs, outputs| ComponentClass {
            name: name.into(),
            doc: String::new(),
            parameters: vec![],
            inputs,
            outputs,
        };
        Ok(vec![class("Source", vec![], port("out")), class("Sink", port("in"), vec![])])
    };
    let loaded = load(&dir.path().join("pilot.yaml"), &LoadOptions::new(&describe));
    let graph = loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
    let set = ["lane.x=1".to_owned()];
    let manifest = Manifest::new(&graph, &set, Duration::from_secs(6), carried, options).unwrap();
    (manifest, dir.path().display().to_string())
}

/// Compares a printed text with a golden file. In that file, the graph is in the directory
/// `/pilot`.
fn golden(name: &str, printed: &str, directory: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/manifest/golden").join(name);
    let printed = printed.replace(directory, "/pilot");
    if std::env::var_os("DRIVELINE_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(printed, expected, "{name}");
}

#[test]
fn compose_services_are_as_they_were() {
    let (m, directory) = manifest_of(GRAPH, false, &ManifestOptions::default());
    golden("compose.txt", &compose(&m), &directory);
}

#[test]
fn kubernetes_objects_are_as_they_were() {
    let options = ManifestOptions {
        registry: Some("registry.example/pilot/".into()),
        tag: Some("1.2".into()),
        seccomp: Some("driveline.json".into()),
        ..ManifestOptions::default()
    };
    let (m, directory) = manifest_of(GRAPH, true, &options);
    golden("deployments.txt", &kubernetes(&m, Workload::Deployment), &directory);
    golden("jobs.txt", &kubernetes(&m, Workload::Job), &directory);
    assert!(kubernetes_notes(&m)[0].contains("cpuManagerPolicy"), "{:?}", kubernetes_notes(&m));
}

#[test]
fn a_job_without_restarts_replaces_no_pod() {
    let graph = GRAPH.replace("restart: { policy: always }", "restart: { policy: never }");
    let (m, _) = manifest_of(&graph, true, &ManifestOptions::default());
    let jobs = kubernetes(&m, Workload::Job);
    let camera =
        jobs.split("\n---\n").find(|o| o.contains("kind: Job\n") && o.contains("-camera\n"));
    let camera = camera.unwrap_or_else(|| panic!("no job of the camera in {jobs}"));
    assert!(camera.contains("  backoffLimit: 0\n"), "{camera}");
    assert!(camera.contains("restartPolicy: Never\n"), "{camera}");
}

#[test]
fn kubernetes_does_not_change_dollars() {
    for (text, escaped) in
        [("$5", "$5"), ("$(x)", "$$(x)"), ("a$$", "a$$$$"), ("$$(x)", "$$$$(x)"), ("$", "$")]
    {
        assert_eq!(super::kubernetes::without_variables(text), escaped);
    }
}

#[test]
fn quadlet_units_are_as_they_were() {
    let (m, directory) = manifest_of(GRAPH, false, &ManifestOptions::default());
    let units = quadlet(&m).unwrap();
    let text: String = units.iter().map(|u| format!("# {}\n{}\n", u.name, u.text)).collect();
    golden("quadlet.txt", &text, &directory);
}

#[test]
fn no_service_has_more_rights_than_it_needs() {
    let (m, _) = manifest_of(GRAPH, false, &ManifestOptions::default());
    for s in &m.services {
        let prepares = s.role == Role::Prepare;
        assert_eq!(s.user == 0, prepares, "{}", s.name);
        assert_eq!(s.capabilities.is_empty(), !prepares, "{}", s.name);
        assert!(!s.network, "{}", s.name);
    }
    // The collector reaches the sockets of modules with other users by their groups.
    assert_eq!(m.services[1].groups, [1001]);
    let (carried, _) = manifest_of(GRAPH, true, &ManifestOptions::default());
    let with_network: Vec<_> = carried.services.iter().filter(|s| s.network).collect();
    assert_eq!(with_network.len(), 1);
    assert_eq!(with_network[0].role, Role::Collector);
}

#[test]
fn names_that_orchestrators_do_not_take_are_refused() {
    let refused = |text: &str| {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.so"), "").unwrap();
        std::fs::write(dir.path().join("g.yaml"), text).unwrap();
        let describe = |_: &Path| Ok(vec![]);
        let options = LoadOptions { modules: Some(vec![]), ..LoadOptions::new(&describe) };
        let loaded = load(&dir.path().join("g.yaml"), &options);
        let graph =
            loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
        let options = ManifestOptions::default();
        let made = Manifest::new(&graph, &[], Duration::from_secs(6), false, &options);
        made.unwrap_err().to_string()
    };
    let module = |name: &str| {
        format!("  {name}:\n    components:\n      c{name}: {{library: x.so, class: X}}\n")
    };
    let two = format!("driveline: 1\nmodules:\n{}{}", module("a_b"), module("a__b"));
    assert!(refused(&two).contains("'a_b' and 'a__b' would both be called 'a-b'"));
    let reserved = format!("driveline: 1\nmodules:\n{}", module("collector"));
    assert!(refused(&reserved).contains("'collector'"));
    let long = format!("driveline: 1\nname: {}\nmodules:\n{}", "x".repeat(62), module("a"));
    assert!(refused(&long).contains("64 characters"));
}
