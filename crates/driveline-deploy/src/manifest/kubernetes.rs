// SPDX-License-Identifier: Apache-2.0
//! Objects for Kubernetes and `podman kube play`.

use super::{GRAPH_IN_CONTAINER, GraphFile, Manifest, Role, Service, seconds};
use crate::CLI_IN_IMAGE;
use crate::image::hex;
use driveline_graph::Cpus;
use driveline_graph::RestartPolicy;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The kind of object that runs each container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// For graphs that run until they are stopped: started again after every end.
    Deployment,
    /// For graphs with a source that ends: started again after a failure only.
    Job,
    /// Like a job, for `podman kube play` before Podman 5.3, which does not support jobs.
    Pod,
}

/// Returns the objects as one file.
#[must_use]
pub fn kubernetes(manifest: &Manifest, workload: Workload) -> String {
    let mut objects = vec![config_map(manifest), network_policy(manifest)];
    let prepare = manifest.services.iter().find(|s| s.role == Role::Prepare);
    for service in manifest.services.iter().filter(|s| s.role != Role::Prepare) {
        let prepare = prepare.filter(|_| service.role == Role::Collector);
        objects.push(object(manifest, service, prepare, workload));
    }
    let mut text = format!(
        "# Graph '{}', by `driveline deploy kubernetes`: kubectl apply -f, or podman kube play \
         --network none.\n\
         # Parameters are changed in the graph's files, in the ConfigMap, which all pods read.\n",
        manifest.graph
    );
    for (i, object) in objects.iter().enumerate() {
        if i > 0 {
            text += "---\n";
        }
        text += &yaml(object);
    }
    text
}

/// Returns a note, for people, for each device below `/dev` and each list of CPUs: Kubernetes has
/// no field for them. There are no notes on other keys without a field, such as `backoff_ms`.
#[must_use]
pub fn kubernetes_notes(manifest: &Manifest) -> Vec<String> {
    let mut notes = Vec::new();
    for s in &manifest.services {
        for device in s.devices.iter().filter(|d| d.starts_with("/dev/")) {
            notes.push(format!(
                "module '{}': Kubernetes gives {device} to a container only by a device plugin; \
                 install one for it, and add its resource to `limits`",
                s.name
            ));
        }
        if let Some(Cpus::Set(set)) = &s.cpus {
            notes.push(format!(
                "module '{}': Kubernetes cannot name CPUs; it gets {} whole ones if the kubelet \
                 has `cpuManagerPolicy: static`",
                s.name,
                set.len()
            ));
        }
    }
    notes
}

/// Returns a value as YAML.
pub(super) fn yaml(value: &Value) -> String {
    // Writing to memory cannot fail, and YAML has a form for every value of JSON.
    let mut text = serde_saphyr::to_string(value).unwrap_or_default();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn labels(manifest: &Manifest) -> Value {
    json!({ "app.kubernetes.io/name": manifest.name, "app.kubernetes.io/managed-by": "driveline" })
}

fn labels_of(manifest: &Manifest, s: &Service) -> Value {
    let mut labels = labels(manifest);
    labels["app.kubernetes.io/component"] = json!(s.name);
    labels
}

fn graph_name(manifest: &Manifest) -> String {
    format!("{}-graph", manifest.name)
}

/// Returns the key of a file in the ConfigMap, which must not contain slashes.
fn key(file: &GraphFile) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    file.name.chars().map(allowed).collect()
}

fn config_map(manifest: &Manifest) -> Value {
    let data: Map<String, Value> = manifest.files.iter().map(|f| (key(f), json!(f.text))).collect();
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": graph_name(manifest), "labels": labels(manifest) },
        "data": data,
    })
}

/// Returns the object that forbids the use of the network: modules exchange samples through memory,
/// and need no network. A collector with gateways uses its node's network, which is not restricted.
fn network_policy(manifest: &Manifest) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": { "name": format!("{}-no-network", manifest.name), "labels": labels(manifest) },
        "spec": {
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": manifest.name } },
            "policyTypes": ["Ingress", "Egress"],
        },
    })
}

fn object(manifest: &Manifest, s: &Service, prepare: Option<&Service>, kind: Workload) -> Value {
    let labels = labels_of(manifest, s);
    let name = json!({ "name": format!("{}-{}", manifest.name, s.name), "labels": labels });
    let pod = pod(manifest, s, prepare, kind);
    // A changed graph restarts its pods.
    let files: String =
        manifest.files.iter().map(|f| format!("{}\0{}\0", f.name, f.text)).collect();
    // Half of the digest, because Podman accepts at most 63 characters.
    let digest = hex(&Sha256::digest(files.as_bytes())).split_off(32);
    let annotations = json!({ "driveline.org/graph-digest": digest });
    let template =
        json!({ "metadata": { "labels": labels, "annotations": annotations }, "spec": pod });
    match kind {
        Workload::Deployment => json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": name,
            "spec": {
                "replicas": 1,
                // Two pods of one module must not run in one domain.
                "strategy": { "type": "Recreate" },
                "selector": { "matchLabels": labels },
                "template": template,
            },
        }),
        Workload::Job => json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": name,
            "spec": { "backoffLimit": backoff_limit(s), "template": template },
        }),
        Workload::Pod => json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name["name"], "labels": labels, "annotations": annotations,
            },
            "spec": pod,
        }),
    }
}

/// Returns the number of new starts of a job. Kubernetes replaces failed pods up to this number,
/// even with the `restartPolicy` `Never`.
fn backoff_limit(s: &Service) -> u32 {
    match s.restart.policy {
        RestartPolicy::Never => 0,
        RestartPolicy::OnFailure | RestartPolicy::Always => s.restart.max.unwrap_or(6),
    }
}

fn pod(manifest: &Manifest, s: &Service, prepare: Option<&Service>, kind: Workload) -> Value {
    let mut mounts = Mounts::default();
    let container = container(manifest, s, &mut mounts);
    let prepare = prepare.map(|p| self::container(manifest, p, &mut mounts));
    let seccomp = match &manifest.seccomp {
        Some(profile) => json!({ "type": "Localhost", "localhostProfile": profile }),
        None => json!({ "type": "RuntimeDefault" }),
    };
    let mut security = json!({ "seccompProfile": seccomp });
    if !s.groups.is_empty() {
        security["supplementalGroups"] = json!(s.groups);
    }
    let restart = match (kind, s.restart.policy) {
        (Workload::Deployment, _) => "Always",
        (_, RestartPolicy::Never) => "Never",
        _ => "OnFailure",
    };
    let mut pod = json!({
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "hostname": s.name,
        "restartPolicy": restart,
        "securityContext": security,
        "terminationGracePeriodSeconds": seconds(s.stops_within),
        "containers": [container],
        "volumes": mounts.volumes,
    });
    if let Some(prepare) = prepare {
        pod["initContainers"] = json!([prepare]);
    }
    if s.network {
        pod["hostNetwork"] = json!(true);
    }
    if s.role == Role::Module {
        // The shared directory exists on one node only.
        let with = json!({
            "labelSelector": { "matchLabels": {
                "app.kubernetes.io/name": manifest.name, "app.kubernetes.io/component": "collector",
            } },
            "topologyKey": "kubernetes.io/hostname",
        });
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        pod["affinity"] = json!({ "podAffinity": { required: [with] } });
    }
    pod
}

/// Volumes of a pod, without duplicates.
#[derive(Default)]
struct Mounts {
    volumes: Vec<Value>,
    sources: Vec<String>,
}

impl Mounts {
    /// Returns the name of the volume of a path of the host.
    fn host(&mut self, path: &std::path::Path, is_shared: bool) -> String {
        let path = path.display().to_string();
        let known = self.sources.iter().position(|s| *s == path);
        let at = known.unwrap_or_else(|| {
            let mut source = json!({ "path": path });
            if is_shared {
                source["type"] = json!("DirectoryOrCreate");
            }
            let name = format!("host-{}", self.sources.len());
            self.volumes.push(json!({ "name": name, "hostPath": source }));
            self.sources.push(path);
            self.sources.len() - 1
        });
        format!("host-{at}")
    }

    /// Adds a volume that is not a path of the host.
    fn once(&mut self, volume: Value) {
        if !self.volumes.contains(&volume) {
            self.volumes.push(volume);
        }
    }
}

fn container(manifest: &Manifest, s: &Service, mounts: &mut Mounts) -> Value {
    let mut capabilities = json!({ "drop": ["ALL"] });
    if !s.capabilities.is_empty() {
        capabilities["add"] = json!(s.capabilities);
    }
    let mut own = vec![json!({ "name": "tmp", "mountPath": "/tmp" })];
    mounts.once(json!({ "name": "tmp", "emptyDir": { "sizeLimit": "64Mi" } }));
    for mount in &s.mounts {
        // The first pod that starts creates writable directories, and directories below the shared
        // directory.
        let shared = mount.writable || mount.source.starts_with(&manifest.directory);
        let volume = mounts.host(&mount.source, shared);
        own.push(json!({
            "name": volume, "mountPath": mount.target, "readOnly": !mount.writable,
        }));
    }
    if s.reads_graph {
        let items: Vec<_> =
            manifest.files.iter().map(|f| json!({ "key": key(f), "path": f.name })).collect();
        let map = json!({ "name": graph_name(manifest), "items": items });
        mounts.once(json!({ "name": "graph", "configMap": map }));
        own.push(json!({ "name": "graph", "mountPath": GRAPH_IN_CONTAINER, "readOnly": true }));
    }
    let mut container = json!({
        "name": s.name,
        "image": s.image,
        "imagePullPolicy": "IfNotPresent",
        "command": s.command.first().into_iter().collect::<Vec<_>>(),
        "args": s.command.iter().skip(1).map(|a| without_variables(a)).collect::<Vec<_>>(),
        "securityContext": {
            "runAsUser": s.user,
            "runAsGroup": s.user,
            "runAsNonRoot": s.user != 0,
            "readOnlyRootFilesystem": true,
            "allowPrivilegeEscalation": false,
            "capabilities": capabilities,
        },
        "volumeMounts": own,
    });
    if !s.environment.is_empty() {
        let one = |(name, value): (&String, &String)| {
            json!(
                { "name": name, "value": without_variables(value) }
            )
        };
        container["env"] = s.environment.iter().map(one).collect();
    }
    if let Some(resources) = resources(s) {
        container["resources"] = resources;
    }
    if s.role == Role::Collector {
        let health = json!({ "command": [CLI_IN_IMAGE, "health"] });
        container["readinessProbe"] =
            json!({ "exec": health, "periodSeconds": 5, "timeoutSeconds": 5 });
        // The collector answers on its socket while it runs. Its first answer may take as long as
        // the start of the modules.
        let status = json!({ "command": [CLI_IN_IMAGE, "status"] });
        container["livenessProbe"] = json!({
            "exec": status, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6,
        });
    }
    container
}

/// Escapes `$`: Kubernetes would replace `$(NAME)` by a variable of the container, and `$$` by `$`.
pub(super) fn without_variables(text: &str) -> String {
    let dollars = |i: usize| text.as_bytes().get(i) == Some(&b'$');
    let escaped = |i: usize| {
        let after = text.as_bytes().get(i + 1);
        after == Some(&b'$') || after == Some(&b'(') || i > 0 && dollars(i - 1)
    };
    let mut out = String::with_capacity(text.len());
    for (i, c) in text.char_indices() {
        out.push(c);
        if c == '$' && escaped(i) {
            out.push('$');
        }
    }
    out
}

fn resources(s: &Service) -> Option<Value> {
    let mut limits = Map::new();
    match &s.cpus {
        Some(Cpus::Quota(quota)) => drop(limits.insert("cpu".to_owned(), json!(milli(*quota)))),
        Some(Cpus::Set(set)) => {
            drop(limits.insert("cpu".to_owned(), json!(set.len().to_string())));
        }
        None => {}
    }
    if let Some(memory) = s.memory {
        limits.insert("memory".to_owned(), json!(memory.to_string()));
    }
    // Only containers that also request CPUs and memory get exclusive CPUs and guaranteed memory.
    let requests = limits.clone();
    for device in s.devices.iter().filter(|d| !d.starts_with("/dev/")) {
        let kind = device.split('=').next().unwrap_or(device);
        let count = limits.get(kind).and_then(Value::as_str).and_then(|n| n.parse().ok());
        let count: u32 = count.unwrap_or(0);
        limits.insert(kind.to_owned(), json!((count + 1).to_string()));
    }
    (!limits.is_empty()).then(|| json!({ "limits": limits, "requests": requests }))
}

/// Formats a share of CPU time in thousandths of a CPU.
fn milli(quota: f64) -> String {
    format!("{}m", (quota * 1000.0).round())
}
