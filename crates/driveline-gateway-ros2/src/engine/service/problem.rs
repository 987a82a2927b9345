// SPDX-License-Identifier: Apache-2.0
//! Reason why a service is not carried, for reports and the log.

use super::retry::Missing;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) text: String,
    /// True if it is temporary, or not a fault: not logged, only reported on request.
    is_quiet: bool,
}

impl From<String> for Problem {
    fn from(text: String) -> Self {
        Self { text, is_quiet: false }
    }
}

impl Problem {
    /// Returns a problem that needs no action.
    pub(super) fn quiet(text: &str) -> Self {
        Self { text: text.to_owned(), is_quiet: true }
    }

    /// Returns true if it needs no action, because it is temporary, or not a fault.
    pub(super) fn ends_by_itself(&self) -> bool {
        self.is_quiet
    }

    /// Returns the problem that `what` does not exist.
    pub(super) fn missing(what: &str, why: Missing) -> Self {
        match why {
            Missing::Going => {
                Self { text: format!("{what}: the previous one is still ending"), is_quiet: true }
            }
            Missing::Failed(reason) => Self { text: format!("{what}: {reason}"), is_quiet: false },
        }
    }

    /// Logs problems that are new.
    pub(super) fn log_new(now: &[Self], before: &[Self], log: impl Fn(&str)) {
        now.iter().filter(|p| !p.is_quiet && !before.contains(p)).for_each(|p| log(&p.text));
    }

    /// Returns the texts for a report.
    pub(super) fn texts(problems: &[Self]) -> Vec<String> {
        problems.iter().map(|p| p.text.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_logged_once_and_temporary_ones_never() {
        let (nobody, several) =
            (Problem::quiet("no node offers it"), Problem::from("2 nodes offer it".to_owned()));
        let going = Problem::missing("by DDS", Missing::Going);
        let failed = Problem::missing("by DDS", Missing::Failed("no room".into()));
        assert!(
            nobody.ends_by_itself()
                && going.ends_by_itself()
                && !several.ends_by_itself()
                && !failed.ends_by_itself()
        );
        assert_eq!(
            (going.text.as_str(), failed.text.as_str()),
            ("by DDS: the previous one is still ending", "by DDS: no room")
        );
        let logged = std::cell::RefCell::new(Vec::new());
        let log = |text: &str| logged.borrow_mut().push(text.to_owned());
        let first = [nobody.clone(), several.clone(), going];
        Problem::log_new(&first, &[], log);
        Problem::log_new(&[several, failed], &first, log);
        assert_eq!(*logged.borrow(), ["2 nodes offer it", "by DDS: no room"]);
    }
}
