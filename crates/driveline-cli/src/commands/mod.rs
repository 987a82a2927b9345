// SPDX-License-Identifier: Apache-2.0
//! Implementations of the commands.

mod absent;
pub(crate) mod bench;
pub(crate) mod complete;
pub(crate) mod control;
pub(crate) mod deploy;
mod deploy_build;
mod deploy_settings;
mod deployed;
mod describer;
pub(crate) mod doctor;
mod domains;
mod echo;
mod figures;
pub(crate) mod gateway;
pub(crate) mod graph;
mod health;
mod hung;
pub(crate) mod list;
mod live;
mod live_table;
mod manifests;
pub(crate) mod mode;
mod names;
mod other_runs;
pub(crate) mod parameters;
mod rights;
pub(crate) mod run;
pub(crate) mod services;
mod survey;
mod without_launcher;
