// SPDX-License-Identifier: Apache-2.0
//! Time namespaces: in its own namespace, a process has another `CLOCK_MONOTONIC` than the machine,
//! and the ages of its samples are wrong for other processes.

/// File in which the kernel reports the clock offsets of this process.
const OFFSETS: &str = "/proc/self/timens_offsets";

/// Offset of this process's `CLOCK_MONOTONIC` to that of the machine, in nanoseconds; 0 outside of
/// time namespaces, and where the kernel has none. Reads a file.
pub(crate) fn clock_offset_ns() -> i64 {
    std::fs::read_to_string(OFFSETS).ok().and_then(|text| parsed(&text)).unwrap_or(0)
}

/// Parses lines of a clock's name, seconds and nanoseconds.
fn parsed(text: &str) -> Option<i64> {
    let mut words = text.lines().find(|l| l.starts_with("monotonic"))?.split_whitespace().skip(1);
    let seconds: i64 = words.next()?.parse().ok()?;
    let nanoseconds: i64 = words.next()?.parse().ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

/// Returns the reason why a module whose clock is off by `module` cannot be part of this launcher's
/// run; `None` if their clocks are the same. Reads a file.
pub(crate) fn refused(module: i64) -> Option<String> {
    apart(module, clock_offset_ns())
}

fn apart(module: i64, launcher: i64) -> Option<String> {
    let apart = module.abs_diff(launcher);
    (apart > 0).then(|| {
        format!(
            "its CLOCK_MONOTONIC is {:.3} s off that of the launcher, because it runs in another \
             time namespace, and ages of samples would be wrong; start its container without a \
             time namespace",
            apart as f64 / 1e9
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_as_the_kernel_writes_them() {
        let text = "monotonic         100        25\nboottime            7         0\n";
        assert_eq!(parsed(text), Some(100_000_000_025));
        assert_eq!(parsed("monotonic          -1        0\n"), Some(-1_000_000_000));
        for unreadable in ["", "boottime 1 0\n", "monotonic x 0\n", "monotonic 1\n"] {
            assert_eq!(parsed(unreadable), None, "{unreadable:?}");
        }
    }

    #[test]
    fn only_clocks_that_are_apart_are_refused() {
        assert_eq!(apart(5, 5), None);
        let text = apart(-1_500_000_000, 0).unwrap();
        assert!(
            text.contains("1.500 s off") && text.contains("without a time namespace"),
            "{text}"
        );
    }
}
