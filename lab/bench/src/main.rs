// SPDX-License-Identifier: Apache-2.0
//! Links alone, for the tests of the engine.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    name = "driveline-bench-link",
    version,
    about = "Measures Driveline against the machine's own limits"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the latency of one link, and compare it with the machine's floor
    Link(Box<driveline_bench::LinkArgs>),
    /// List other middleware: configuration of installed peers, and instructions for the others
    Peers {
        #[command(flatten)]
        args: driveline_bench::PeersArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    #[command(hide = true, name = driveline_bench::PEER_COMMAND)]
    Peer,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Peer => return driveline_bench::peer_main(),
        Command::Peers { args, json } => {
            driveline_bench::list_peers(&driveline_bench::PeersArgs { json, ..args }).map(|text| {
                println!("{}", text.trim_end());
                ExitCode::SUCCESS
            })
        }
        Command::Link(args) => {
            driveline_bench::run_link(&args).map(driveline_bench::Ending::exit_code)
        }
    };
    outcome.unwrap_or_else(|e| {
        eprintln!("error: {}", driveline::types::text::plain(&format!("{e:#}")));
        driveline_bench::exit_code_of(&e)
    })
}
