// SPDX-License-Identifier: Apache-2.0
//! The process of a run.

use crate::catalogue;
use crate::chain::Builtin;
use crate::command_line::{HOST, PART, WORKLOAD_COMMAND};
use crate::job::{PROTOCOL, WorkloadEvent, WorkloadJob};
use crate::part::part_main;
use anyhow::{Context, Result, ensure};
use driveline::Schedule;
use driveline_bench::child::end_with_starter;
use driveline_bench::observations::ObservationFiles;
use driveline_deploy::HOST_IN_IMAGE;
use driveline_runtime::host;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// Time beyond the requested time after which a run gives up.
const BEYOND: Duration = Duration::from_secs(60);

/// Entry of the process of a run, for a program called with [`WORKLOAD_COMMAND`]. A further word
/// makes it the entry of a part or of a module of a run. Without such a word, it reads a
/// [`WorkloadJob`] from standard input, runs it, and answers with a [`WorkloadEvent`] on standard
/// output. Blocks until then, at most the requested time and a minute. Ends with its parent
/// process, together with all processes that it has started.
#[must_use]
pub fn workload_main() -> ExitCode {
    let mut arguments = std::env::args_os().skip_while(|a| a != WORKLOAD_COMMAND).skip(1);
    match arguments.next() {
        Some(a) if a == PART => return part_main(),
        Some(a) if a == HOST => return ExitCode::from(host::main(arguments, &Builtin)),
        _ => {}
    }
    // A measured process must not outlive the measuring process.
    match end_with_starter().map_err(Into::into).and_then(|()| serve()) {
        Ok(observations) => answer(&WorkloadEvent::Done { observations }, ExitCode::SUCCESS),
        Err(e) => answer(&WorkloadEvent::Failed { error: format!("{e:#}") }, ExitCode::FAILURE),
    }
}

/// Entry of the process of a module in a container: images have this program under the name of
/// `driveline-host`. Returns `None` if it has another name.
#[must_use]
pub fn host_main() -> Option<ExitCode> {
    let own = std::env::current_exe().ok()?;
    let is_host = own.file_name() == Path::new(HOST_IN_IMAGE).file_name();
    is_host.then(|| ExitCode::from(host::main(std::env::args_os().skip(1), &Builtin)))
}

fn serve() -> Result<ObservationFiles> {
    let line = first_line()?;
    let job: WorkloadJob = serde_json::from_str(&line).context(
        "this command is only for the benchmark itself, which gives it a job on standard input",
    )?;
    ensure!(
        job.protocol == PROTOCOL,
        "the job speaks version {} of this protocol, this program version {PROTOCOL}",
        job.protocol
    );
    ensure!(
        job.raw_dir.is_dir(),
        "{} is no directory; files of observations go there",
        job.raw_dir.display()
    );
    ensure!(job.duration_ms > 0, "a run of 0 ms observes nothing: duration_ms must be at least 1");
    let longest = job.warm_up() + job.duration() + BEYOND;
    give_up_after(longest)?;
    let unset = Schedule { cpus: job.cpus.clone(), ..Schedule::default() }
        .apply_to_this_thread("workload")
        .refused;
    let mut observations = catalogue::run(&job)?;
    observations.unset.extend(unset);
    observations.write(&job.raw_dir)
}

fn first_line() -> Result<String> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("no job came on standard input")?;
    Ok(line)
}

/// Starts a thread that ends this process after this time, even if other threads hang.
fn give_up_after(longest: Duration) -> Result<()> {
    let body = move || {
        std::thread::sleep(longest);
        let _ = answer(
            &WorkloadEvent::Failed { error: format!("the run did not end within {longest:?}") },
            ExitCode::FAILURE,
        );
        std::process::exit(1);
    };
    std::thread::Builder::new()
        .name("give-up".into())
        .spawn(body)
        .map(drop)
        .context("cannot start a thread")
}

fn answer(event: &WorkloadEvent, code: ExitCode) -> ExitCode {
    let said = serde_json::to_string(event).map_err(std::io::Error::other).and_then(|line| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush())
    });
    if said.is_ok() { code } else { ExitCode::FAILURE }
}
