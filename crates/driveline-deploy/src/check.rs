// SPDX-License-Identifier: Apache-2.0
//! Checks for conditions that prevent the deployment of a graph on this machine, each with place
//! and remedy.

use crate::engine::{Engine, ImageFacts};
use crate::image::needed;
use crate::plan::{Mode, Plan};
use driveline::Reach;
use driveline_graph::model::{Access, OnLauncherLost};
use driveline_graph::{Cpus, Diagnostic, ResolvedGraph, ResolvedModule};
use driveline_shm::reserved_bytes;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// Memory of a module in addition to its outputs: program, libraries, stacks.
const BESIDES: u64 = 8 << 20;
/// Part of a memory limit that topics leave free, one sixteenth, and its bounds, as in
/// `driveline_shm` (`admission.rs`).
const FREE_SHARE: u64 = 16;
const FREE: RangeInclusive<u64> = 4 << 20..=64 << 20;

/// Checks a graph against this machine and its engine. Asks the engine for images, and `ldd` for
/// libraries; blocks.
#[must_use]
pub fn check(graph: &ResolvedGraph, plan: &Plan, engine: &Engine) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut images: BTreeMap<&str, Option<ImageFacts>> = BTreeMap::new();
    for module in &graph.modules {
        let d = &module.deployment;
        match &d.image {
            Some(image) => {
                let facts = images
                    .entry(image)
                    .or_insert_with(|| engine.image(image).ok().flatten())
                    .clone();
                found.extend(image_mistake(module, image, facts, engine));
            }
            None => found.extend(library_mistakes(module)),
        }
        found.extend(memory_mistake(graph, module));
        found.extend(cpu_mistake(module, online_cpus()));
        found.extend(missing_files(module));
        found.extend(own_domain(module));
        found.extend(excluded(graph, module, plan));
    }
    if plan.mode == Mode::One {
        found.extend(several_images(graph));
    }
    found.extend(ends_with_the_launcher(graph));
    found
}

fn at(module: &ResolvedModule, key: &str, message: String) -> Diagnostic {
    let diagnostic = Diagnostic::error(message);
    match module.deployment.place(key) {
        Some(place) => diagnostic.at(place.clone()),
        None => diagnostic,
    }
}

fn image_mistake(
    module: &ResolvedModule,
    image: &str,
    facts: Option<ImageFacts>,
    engine: &Engine,
) -> Option<Diagnostic> {
    let name = engine.kind().name();
    let Some(facts) = facts else {
        // An image with this prefix exists on this machine only, and in no registry.
        let get = if image.starts_with("localhost/") {
            format!(
                "build it (`{name} build --tag {image} …`; `driveline deploy init` writes a \
                 Containerfile)"
            )
        } else {
            format!("get it by `{name} pull {image}`")
        };
        return Some(at(module, "image", format!("{name} has no image `{image}`")).help(format!(
            "{get}, or remove `image:`: then Driveline builds an image from the module's libraries"
        )));
    };
    let here = crate::image::architecture();
    (!facts.architecture.is_empty() && facts.architecture != here).then(|| {
        at(
            module,
            "image",
            format!(
                "the image `{image}` is for {}, and this machine is {here}",
                facts.architecture
            ),
        )
        .help(format!("build it for {here}, or `{name} pull --platform linux/{here} {image}`"))
    })
}

fn library_mistakes(module: &ResolvedModule) -> Vec<Diagnostic> {
    let mistake = |library: &Path| needed(library).err();
    let mistakes = module.components.iter().filter_map(|c| mistake(&c.library));
    mistakes
        .map(|e| {
            at(module, "module", format!("no image of module `{}` can be made: {e}", module.name))
                .help("or give the module an `image:` that has its libraries")
        })
        .collect()
}

/// Returns the size that the outputs of a module reserve at host reach, in bytes.
fn reserved(graph: &ResolvedGraph, module: &ResolvedModule) -> u64 {
    let outputs = module.components.iter().flat_map(|c| &c.outputs);
    let bytes = outputs.filter_map(|o| {
        let topic = graph.topics.get(&o.topic).filter(|t| t.reach >= Reach::Host)?;
        Some(reserved_bytes(o.qos.depth, topic.loans, topic.pins, topic.max_payload))
    });
    bytes.sum()
}

/// Returns the smallest memory limit that leaves `used` bytes for use.
fn limit_for(used: u64) -> u64 {
    let free = used.div_ceil(FREE_SHARE - 1).clamp(*FREE.start(), *FREE.end());
    used.saturating_add(free)
}

fn memory_mistake(graph: &ResolvedGraph, module: &ResolvedModule) -> Option<Diagnostic> {
    let limit = module.deployment.memory?;
    let reserved = reserved(graph, module);
    let needed = limit_for(reserved.saturating_add(BESIDES));
    (limit < needed).then(|| {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        at(
            module,
            "memory",
            format!(
                "module `{}` needs at least {} MiB: its outputs reserve {} MiB of shared memory, \
                 the rest is for its process, or stays free",
                module.name,
                mib(needed),
                mib(reserved)
            ),
        )
        .help(format!(
            "raise `memory:` to {} MiB or more, or lower `max_payload`, `depth` or `pins` of its \
             topics",
            mib(needed)
        ))
    })
}

/// Refuses a domain directory that the container would not use.
fn own_domain(module: &ResolvedModule) -> Option<Diagnostic> {
    module.environment.get("DRIVELINE_DOMAIN_DIR").map(|_| {
        let message =
            format!("module `{}` sets DRIVELINE_DOMAIN_DIR in its `environment`", module.name);
        at(module, "module", message)
            .help("remove it: all containers of a run share the directory of its domain")
    })
}

/// Finds a topic whose `access` excludes the user of this module, although another module with
/// another user publishes what this module reads, or reads what it publishes.
fn excluded(graph: &ResolvedGraph, module: &ResolvedModule, plan: &Plan) -> Option<Diagnostic> {
    let users = plan.users();
    let user = *users.get(module.name.as_str())?;
    let (name, _) = graph.topics.iter().find(|(name, topic)| {
        let admits = match &topic.access {
            Access::Anyone => true,
            Access::OwnUser => false,
            Access::Users(users) => users.contains(&user),
        };
        let reads = |m: &ResolvedModule| {
            m.components.iter().flat_map(|c| &c.inputs).any(|i| i.topic == **name)
        };
        let writes = |m: &ResolvedModule| {
            m.components.iter().flat_map(|c| &c.outputs).any(|o| o.topic == **name)
        };
        let opposite =
            |m: &&ResolvedModule| reads(module) && writes(m) || writes(module) && reads(m);
        let mut others = graph.modules.iter().filter(opposite);
        topic.access_stated
            && topic.reach >= Reach::Host
            && !admits
            && others.any(|m| users.get(m.name.as_str()).is_some_and(|other| *other != user))
    })?;
    let message = format!(
        "module `{}` runs as user {user}, which the `access` of topic `{name}` does not admit",
        module.name
    );
    Some(at(module, "user", message).help(format!(
        "add the user to the `access` of `{name}`; without `access`, a topic admits the users of \
         the modules at its ends"
    )))
}

fn online_cpus() -> Option<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    text.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// Checks the CPUs of a module. `last` is the highest CPU number of this machine.
fn cpu_mistake(module: &ResolvedModule, last: Option<u32>) -> Option<Diagnostic> {
    let Some(Cpus::Set(set)) = &module.deployment.cpus else { return None };
    let last = last?;
    let missing = set.iter().find(|c| **c > last)?;
    let message = format!("this machine has no CPU {missing}: its last one is {last}");
    Some(at(module, "cpus", message).help("`lscpu -e` lists them"))
}

fn missing_files(module: &ResolvedModule) -> Vec<Diagnostic> {
    let d = &module.deployment;
    let mounts = d.mounts.iter().enumerate().filter(|(_, m)| !m.source.exists()).map(|(i, m)| {
        at(
            module,
            &format!("mounts/{i}"),
            format!("{} does not exist on this machine", m.source.display()),
        )
        .help("create it, or correct the path; relative paths start at the graph file")
    });
    let device = |(i, device): (usize, &String)| {
        let path = device.split(':').next().unwrap_or_default();
        (path.starts_with("/dev/") && !Path::new(path).exists()).then(|| {
            at(
                module,
                &format!("devices/{i}"),
                format!("there is no device {path} on this machine"),
            )
            .help("connect it, load its driver, or correct the path")
        })
    };
    mounts.chain(d.devices.iter().enumerate().filter_map(device)).collect()
}

/// Warns about a mode for the loss of the launcher, which modules in containers do not enter.
fn ends_with_the_launcher(graph: &ResolvedGraph) -> Option<Diagnostic> {
    let OnLauncherLost::Mode(mode) = &graph.on_launcher_lost else { return None };
    let message = format!(
        "`on_launcher_lost: {{ mode: {mode} }}` has no effect in containers: modules in containers \
         end when their launcher is gone"
    );
    Some(
        Diagnostic::warning(message)
            .help("run the graph without `--deploy` where it must continue without its launcher"),
    )
}

fn several_images(graph: &ResolvedGraph) -> Option<Diagnostic> {
    let first = graph.modules.first()?;
    let other = graph.modules.iter().find(|m| m.deployment.image != first.deployment.image)?;
    let message = format!(
        "modules `{}` and `{}` have different images, and all modules are to share one container",
        first.name, other.name
    );
    Some(
        at(other, "image", message)
            .help("use `--deploy containers`, or name the same `image:` for all modules"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EngineKind;
    use driveline_graph::descriptor::{ComponentClass, Port};
    use driveline_graph::{LoadOptions, Severity, load};
    use driveline_types::Schema;
    use std::time::Duration;

    fn graph(keys: &str) -> (ResolvedGraph, tempfile::TempDir) {
        graph_of("", keys)
    }

    /// Returns a graph with a module `m` that publishes topic `a`. `topic` and `keys` are further
    /// keys of the topic and of the module. Class `Y` can read the topic.
    fn graph_of(topic: &str, keys: &str) -> (ResolvedGraph, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.so"), "").unwrap();
        std::fs::write(
            dir.path().join("g.yaml"),
            format!(
                "driveline: 1\ntopics: {{a: {{reach: host, external: true, max_payload: 8 \
                 MiB{topic}}}}}\nmodules:\n  m:\n    components:\n      x: {{library: x.so, class: \
                 X, outputs: {{out: a}}}}\n{keys}"
            ),
        )
        .unwrap();
        let describe = |_: &Path| {
            let port = |name: &str| Port {
                name: name.into(),
                schema: Schema::bytes("t", "raw", ""),
                doc: String::new(),
            };
            let class = |name: &str, inputs, outputs| ComponentClass {
                name: name.into(),
                doc: String::new(),
                parameters: vec![],
                inputs,
                outputs,
            };
            Ok(vec![class("X", vec![], vec![port("out")]), class("Y", vec![port("in")], vec![])])
        };
        (load(&dir.path().join("g.yaml"), &LoadOptions::new(&describe)).graph.unwrap(), dir)
    }

    fn text(d: &Diagnostic) -> String {
        let mut all = driveline_graph::Diagnostics::default();
        all.push(d.clone());
        all.render(driveline_graph::Colour::No)
    }

    #[test]
    fn a_limit_below_what_outputs_reserve_is_explained_with_its_line() {
        let (g, _dir) = graph("    memory: 64 MiB\n");
        // 15 slots of 8 MiB, like the camera of the demonstration.
        assert!(reserved(&g, &g.modules[0]) > 100 << 20, "{}", reserved(&g, &g.modules[0]));
        let text = text(&memory_mistake(&g, &g.modules[0]).unwrap());
        assert!(text.contains("g.yaml:7:") && text.contains("raise `memory:`"), "{text}");
        let (g, _dir) = graph("    memory: 1 GiB\n");
        assert!(memory_mistake(&g, &g.modules[0]).is_none());
        // As the transport counts: it keeps a sixteenth of the limit free, 4 to 64 MiB.
        let mib = |n: u64| n << 20;
        assert_eq!(limit_for(mib(24)), mib(28));
        assert_eq!(limit_for(mib(150)), mib(160));
        assert_eq!(limit_for(mib(2000)), mib(2064));
    }

    #[test]
    fn an_access_that_excludes_the_user_of_a_module_is_named() {
        let of = |access: &str, users: (u32, u32)| {
            let keys = format!(
                "    user: {}\n  n:\n    user: {}\n    components:\n      y: {{library: x.so, \
                 class: Y, inputs: {{in: a}}}}\n",
                users.0, users.1
            );
            let (g, _dir) = graph_of(access, &keys);
            let plan = Plan::for_user(&g, Mode::Each, &[], Duration::ZERO, 65_532);
            g.modules.iter().filter_map(|m| excluded(&g, m, &plan)).map(|d| text(&d)).collect()
        };
        let none: Vec<String> = Vec::new();
        assert_eq!(of("", (1001, 1002)), none, "without the key, both are admitted");
        assert_eq!(of(", access: anyone", (1001, 1002)), none);
        assert_eq!(of(", access: own_user", (1001, 1001)), none);
        assert_eq!(of(", access: {users: [1001, 1002]}", (1001, 1002)), none);
        let found: Vec<String> = of(", access: own_user", (1001, 1002));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].contains("module `n` runs as user 1002, which"), "{found:?}");
        assert!(found[1].contains("g.yaml:9:"), "{found:?}");
        let one: Vec<String> = of(", access: {users: [1001]}", (1001, 1002));
        assert_eq!(one.len(), 1, "{one:?}");
    }

    #[test]
    fn a_domain_directory_of_its_own_is_refused() {
        let (g, _dir) = graph("    environment: {DRIVELINE_DOMAIN_DIR: /tmp/x}\n");
        let found = text(&own_domain(&g.modules[0]).unwrap());
        assert!(found.contains("`m` sets DRIVELINE_DOMAIN_DIR") && found.contains("remove it"));
        assert!(own_domain(&graph("").0.modules[0]).is_none());
    }

    #[test]
    fn a_mode_for_the_loss_of_the_launcher_is_named_as_without_effect() {
        let (mut g, _dir) = graph("");
        assert!(ends_with_the_launcher(&g).is_none());
        g.on_launcher_lost = OnLauncherLost::Mode("safe_stop".into());
        let found = ends_with_the_launcher(&g).unwrap();
        assert_eq!(found.severity, Severity::Warning);
        assert!(text(&found).contains("`on_launcher_lost: { mode: safe_stop }` has no effect"));
    }

    #[test]
    fn cpus_files_and_devices_that_are_not_here_are_named() {
        let (g, _dir) =
            graph("    cpus: [1000]\n    mounts: [maps]\n    devices: [/dev/video99]\n");
        let cpu = text(&cpu_mistake(&g.modules[0], Some(3)).unwrap());
        assert!(cpu.contains("no CPU 1000") && cpu.contains("g.yaml:7:"), "{cpu}");
        let files: Vec<_> = missing_files(&g.modules[0]).iter().map(text).collect();
        assert!(
            files[0].contains("maps does not exist") && files[0].contains("g.yaml:8:"),
            "{files:?}"
        );
        assert!(files[1].contains("/dev/video99") && files[1].contains("g.yaml:9:"), "{files:?}");
    }

    #[test]
    fn a_missing_image_and_one_for_another_machine_are_distinguished() {
        let (g, _dir) = graph("    image: localhost/x:1\n");
        let engine = Engine::of_kind(EngineKind::Podman);
        let missing = text(&image_mistake(&g.modules[0], "localhost/x:1", None, &engine).unwrap());
        assert!(
            missing.contains("podman has no image") && missing.contains("podman build --tag"),
            "{missing}"
        );
        let missing = text(&image_mistake(&g.modules[0], "r.example/x", None, &engine).unwrap());
        assert!(missing.contains("podman pull r.example/x"), "{missing}");
        let facts = |architecture: &str| ImageFacts {
            id: "a".into(),
            digest: None,
            architecture: architecture.into(),
            labels: BTreeMap::new(),
        };
        let wrong = image_mistake(&g.modules[0], "x", Some(facts("s390x")), &engine).unwrap();
        assert!(text(&wrong).contains("s390x"));
        assert!(
            image_mistake(&g.modules[0], "x", Some(facts(crate::image::architecture())), &engine)
                .is_none()
        );
    }
}
