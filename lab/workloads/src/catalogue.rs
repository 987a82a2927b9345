// SPDX-License-Identifier: Apache-2.0
//! List of the workloads, and the permitted values of their parameters.

use crate::chain::Chain;
use crate::experiment::Experiment;
use crate::faults::Faults;
use crate::fusion::Fusion;
use crate::job::WorkloadJob;
use crate::protection::Protection;
use crate::refsys::Refsys;
use crate::topology::Topology;
use anyhow::{Context, Result, anyhow, bail};
use driveline_bench::deployment::Deployment;
use driveline_bench::observations::Observations;
use schemars::Schema;
use serde::Serialize;
use serde_json::Value;

/// A workload in the list. The crate `driveline-lab` checks scenarios with its name and parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Name.
    pub name: &'static str,
    /// Description in one line.
    pub description: &'static str,
    /// All parameters with their defaults.
    pub defaults: Value,
    /// JSON Schema of the parameters.
    pub schema: Schema,
}

/// Entry of the list, without the types of its parameters.
struct Entry {
    name: &'static str,
    list: fn() -> Workload,
    check: fn(&Value, Deployment) -> Result<()>,
    run: fn(&WorkloadJob) -> Result<Observations>,
}

const ENTRIES: [Entry; 6] = [
    entry::<Refsys>(),
    entry::<Faults>(),
    entry::<Fusion>(),
    entry::<Chain>(),
    entry::<Topology>(),
    entry::<Protection>(),
];

const fn entry<E: Experiment>() -> Entry {
    Entry {
        name: E::NAME,
        list: || Workload {
            name: E::NAME,
            description: E::DESCRIPTION,
            defaults: serde_json::to_value(E::default()).unwrap_or_default(),
            schema: schemars::schema_for!(E),
        },
        check: |parameters, deployment| read::<E>(parameters)?.verify_deployment(deployment),
        run: |job| {
            let workload = read::<E>(&job.parameters)?;
            workload.verify_deployment(job.deployment)?;
            job.peer.as_ref().map_or_else(|| workload.run(job), |peer| workload.run_on(peer, job))
        },
    }
}

fn read<E: Experiment>(parameters: &Value) -> Result<E> {
    let given = if parameters.is_null() {
        Value::Object(serde_json::Map::new())
    } else {
        parameters.clone()
    };
    let read: E = serde_path_to_error::deserialize(given).map_err(|e| {
        let field = e.path().to_string();
        let place = if field == "." { String::new() } else { format!("'{field}': ") };
        anyhow!("workload '{}', parameter {place}{}", E::NAME, e.into_inner())
    })?;
    read.verify()
        .with_context(|| format!("workload '{}'", E::NAME))
        .map_err(|e| anyhow!("{e:#}"))?;
    Ok(read)
}

fn find(workload: &str) -> Result<&'static Entry> {
    let Some(entry) = ENTRIES.iter().find(|e| e.name == workload) else {
        bail!(
            "there is no workload '{workload}'; there are: {}",
            ENTRIES.map(|e| e.name).join(", ")
        );
    };
    Ok(entry)
}

/// Returns all workloads.
#[must_use]
pub fn workloads() -> Vec<Workload> {
    ENTRIES.iter().map(|e| (e.list)()).collect()
}

/// Checks the parameters of a run.
///
/// # Errors
/// An error that names the parameter and its permitted values.
pub fn check(workload: &str, parameters: &Value) -> Result<()> {
    check_deployment(workload, parameters, Deployment::Bare)
}

/// Checks the parameters of a run whose processes are deployed like this.
///
/// # Errors
/// As [`check`]; or the workload does not run in containers with these parameters.
pub fn check_deployment(workload: &str, parameters: &Value, deployment: Deployment) -> Result<()> {
    (find(workload)?.check)(parameters, deployment)
}

pub(crate) fn run(job: &WorkloadJob) -> Result<Observations> {
    (find(&job.workload)?.run)(job)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_page_for_people_has_every_parameter_with_its_default() {
        let page = include_str!("../../../docs/workloads.md");
        for w in workloads() {
            let section =
                page.split("\n## ").find(|s| s.starts_with(&format!("`{}`", w.name))).unwrap();
            for (name, default) in w.defaults.as_object().unwrap() {
                let row = section
                    .lines()
                    .find(|l| l.starts_with(&format!("| `{name}` |")))
                    .unwrap_or_else(|| panic!("{} {name}", w.name));
                let documented = row.split('|').nth(2).unwrap().trim().trim_matches('`');
                let number = |v: &Value| v.as_f64().map(|f| f.to_string());
                let list = |v: &Value| {
                    Some(format!(
                        "[{}]",
                        v.as_array()?.iter().filter_map(number).collect::<Vec<_>>().join(", ")
                    ))
                };
                let meant = default
                    .as_str()
                    .map(str::to_owned)
                    .or_else(|| number(default))
                    .or_else(|| list(default))
                    .or_else(|| default.as_bool().map(|b| b.to_string()))
                    .or_else(|| default.is_object().then(|| "{}".to_owned()))
                    .unwrap();
                assert_eq!(documented, meant, "{} {name}", w.name);
            }
            let rows = section.lines().filter(|l| l.starts_with("| `")).count();
            assert_eq!(rows, w.defaults.as_object().unwrap().len(), "{}", w.name);
        }
    }

    #[test]
    fn every_workload_accepts_its_defaults_and_nothing_and_names_what_it_does_not_know() {
        for w in workloads() {
            check(w.name, &w.defaults).unwrap();
            check(w.name, &Value::Null).unwrap();
            check(w.name, &json!({})).unwrap();
            let error = check(w.name, &json!({"no_such_thing": 1})).unwrap_err().to_string();
            let known = w.defaults.as_object().unwrap();
            assert!(error.contains("no_such_thing"), "{error}");
            for key in known.keys() {
                assert!(error.contains(key), "{error} does not name {key}");
                let wrong = check(w.name, &json!({key: {"a": "thing"}})).unwrap_err().to_string();
                assert!(wrong.contains(key), "{wrong}");
            }
            let properties = w.schema.get("properties").and_then(Value::as_object).unwrap();
            assert_eq!(
                properties.keys().collect::<Vec<_>>(),
                known.keys().collect::<Vec<_>>(),
                "{}",
                w.name
            );
            assert_eq!(w.schema.get("additionalProperties"), Some(&json!(false)));
        }
        assert!(check("refsis", &Value::Null).unwrap_err().to_string().contains("refsys"));
    }
}
