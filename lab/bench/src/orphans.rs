// SPDX-License-Identifier: Apache-2.0
//! Processes of a run whose parent has ended, for example the supervisors of containers. This
//! process becomes their parent, so their processor time counts as that of the measurement.

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid};
use std::io::Result;
use std::time::{Duration, Instant};

/// Makes this process the parent of all its descendants whose parent ends.
///
/// # Errors
/// If the kernel refuses it.
pub fn adopt_orphans() -> Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Waits until this process has no children, at most for `limit`. Blocks. Call it between runs,
/// because it takes the exit status of every child: code that waits for one of them gets none.
pub fn wait_for_orphans(limit: Duration) {
    let until = Instant::now() + limit;
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    /// Set in the process of the first test.
    const ALONE: &str = "DRIVELINE_TEST_ORPHANS";

    /// A test program has children of other tests, so the functions run in a process of their own,
    /// which the next test starts.
    #[test]
    fn in_a_process_of_its_own() {
        if std::env::var_os(ALONE).is_none() {
            return;
        }
        adopt_orphans().unwrap();
        // The first shell ends at once; the second one has lost its parent and reads a pipe.
        let script = "exec 3<&0; sh -c 'read x <&3; exit 0' & exit 0";
        let mut shell =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let pipe = shell.stdin.take();
        assert!(shell.wait().unwrap().success());
        wait_for_orphans(Duration::ZERO);
        let adopted = || waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        assert!(matches!(adopted(), Ok(None)), "it still runs");
        drop(pipe);
        wait_for_orphans(Duration::from_secs(60));
        assert_eq!(adopted().unwrap_err(), Errno::CHILD);
    }

    #[test]
    fn orphans_are_adopted_and_waited_for() {
        let name = "orphans::tests::in_a_process_of_its_own";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .env(ALONE, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success() && text.contains("1 passed"), "{text}");
    }
}
