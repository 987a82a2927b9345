// SPDX-License-Identifier: Apache-2.0
//! Interface of a workload.

use crate::job::{WorkloadJob, WorkloadPeer};
use anyhow::{Result, bail, ensure};
use driveline_bench::deployment::Deployment;
use driveline_bench::observations::Observations;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A workload, represented by its parameters.
pub(crate) trait Experiment: Default + Serialize + DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    const DESCRIPTION: &'static str;

    /// Checks conditions that the types cannot express.
    fn verify(&self) -> Result<()>;

    /// Checks whether the processes of the run can be deployed like this.
    fn verify_deployment(&self, deployment: Deployment) -> Result<()> {
        ensure!(deployment.is_bare(), "the workload {} does not run in containers", Self::NAME);
        Ok(())
    }

    /// Runs the workload, in a process of its own.
    fn run(&self, job: &WorkloadJob) -> Result<Observations>;

    /// Runs the workload with a peer's program.
    fn run_on(&self, peer: &WorkloadPeer, _: &WorkloadJob) -> Result<Observations> {
        bail!(
            "the workload {} is a graph of Driveline, which {} does not run",
            Self::NAME,
            peer.system
        )
    }
}
