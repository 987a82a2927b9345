// SPDX-License-Identifier: Apache-2.0
//! Domain of a command, and other domains in use: a user who is in the wrong domain sees no topics
//! and gets the reason.

use crate::text::{count, cut};
use driveline_shm::domain::{self, DEFAULT, DIRECTORY_VARIABLE, NAME_VARIABLE};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// Time for all processes of another domain to answer.
const ASK: Duration = Duration::from_millis(300);
/// Number of columns to which names are cut.
const NAME: usize = 80;

/// Name or directory of a domain.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DomainPlace {
    Named(String),
    /// Directory that `DRIVELINE_DOMAIN_DIR` names, or must name for tools to find the domain. The
    /// variable has precedence over all names.
    Directory(String),
}

/// Another domain in use.
pub(super) struct Other {
    name: String,
    processes: usize,
    pub(super) topics: BTreeSet<String>,
}

impl DomainPlace {
    /// Resolves `--domain` and the environment.
    pub(super) fn of(domain: Option<&str>) -> Result<Self, String> {
        let directory = domain::directory(domain).map_err(|e| e.to_string())?;
        if std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|v| !v.is_empty()) {
            return Ok(Self::Directory(directory.display().to_string()));
        }
        Ok(Self::Named(domain.map_or_else(domain::default_name, str::to_owned)))
    }

    /// Returns the domain's name, or its directory.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Named(name) | Self::Directory(name) => name,
        }
    }

    /// Returns the command that lists the domain, in this environment.
    pub(super) fn look_on(&self) -> String {
        self.look_on_where(std::env::var_os(NAME_VARIABLE).is_some_and(|v| !v.is_empty()))
    }

    /// `named`: true if the environment names a domain. Tools then inspect that domain, whatever
    /// domain a graph names.
    fn look_on_where(&self, named: bool) -> String {
        match self {
            Self::Named(name) if name == DEFAULT && !named => "driveline topic list".to_owned(),
            Self::Named(name) => format!("driveline topic list --domain {name}"),
            Self::Directory(path) => format!("{DIRECTORY_VARIABLE}={path} driveline topic list"),
        }
    }

    /// As [`Self::closing`], with a hint at other users' domains if nothing was found.
    pub(super) fn closing_here(
        &self,
        what: &str,
        shown: usize,
        processes: usize,
        others: &[Other],
    ) -> String {
        let users = if shown == 0 { domain::other_users() } else { Vec::new() };
        self.closing(what, shown, processes, others) + &hint_at_users(&users)
    }

    /// Returns the last lines of a list: the domain that was listed, and other domains in use.
    pub(super) fn closing(
        &self,
        what: &str,
        shown: usize,
        processes: usize,
        others: &[Other],
    ) -> String {
        let found = match (shown, processes) {
            (0, 0) => format!("no {what}s in {self}: the domain is empty now"),
            (0, n) => format!("no {what}s in {self}: {} there without any", processes_of(n)),
            (n, _) => format!("{} in {self}", count(n as u64, what)),
        };
        found + "\n" + &others.iter().map(|o| o.line()).collect::<String>()
    }
}

impl fmt::Display for DomainPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(f, "domain '{}'", cut(name, NAME)),
            Self::Directory(path) => {
                write!(f, "the domain in {} ({DIRECTORY_VARIABLE})", cut(path, 2 * NAME))
            }
        }
    }
}

impl Other {
    fn line(&self) -> String {
        let processes = processes_of(self.processes);
        format!(
            "in domain '{0}': {processes}, {1}; add `--domain {0}`\n",
            self.name,
            count(self.topics.len() as u64, "host topic")
        )
    }

    pub(super) fn hint(&self) -> String {
        format!("; it is in domain '{0}': add `--domain {0}`", self.name)
    }
}

/// Returns a line on domains of other users, whose processes this user cannot see, with the remedy;
/// empty if there are none.
pub(super) fn hint_at_users(users: &[u32]) -> String {
    const MOST: usize = 4;
    let how = |user: &str| {
        format!("root reaches them with {DIRECTORY_VARIABLE}=/dev/shm/driveline-{user}/NAME")
    };
    let named: Vec<String> = users.iter().take(MOST).map(u32::to_string).collect();
    let more = if users.len() > MOST { " and others" } else { "" };
    match named.as_slice() {
        [] => String::new(),
        [one] => format!("user {one} has domains of its own here; {}\n", how(one)),
        all => format!(
            "users {}{more} have domains of their own here; {}\n",
            all.join(", "),
            how("USER")
        ),
    }
}

fn processes_of(n: usize) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{n} processes") }
}

/// Returns the other domains of this user that are in use, if they are `wanted` and `--domain` can
/// select them.
pub(super) fn elsewhere(place: &DomainPlace, wanted: bool) -> Vec<Other> {
    let DomainPlace::Named(own) = place else { return Vec::new() };
    if !wanted {
        return Vec::new();
    }
    let mut others = Vec::new();
    for (name, directory) in domain::all().into_iter().filter(|(name, _)| name != own) {
        let Ok(survey) = driveline_shm::survey(&directory, ASK) else { continue };
        let processes =
            survey.participants.len() + survey.silent.len() + survey.silent_others.len();
        let ends = |p: &driveline_shm::ParticipantInfo| -> Vec<String> {
            p.publishers
                .iter()
                .map(|p| p.topic.clone())
                .chain(p.subscriptions.iter().map(|s| s.topic.clone()))
                .collect()
        };
        if processes > 0 {
            others.push(Other {
                name,
                processes,
                topics: survey.participants.iter().flat_map(ends).collect(),
            });
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_copy_looks_at_this_domain_whatever_the_environment_names() {
        let look_on = |name: &str, named| DomainPlace::Named(name.into()).look_on_where(named);
        assert_eq!(look_on(DEFAULT, false), "driveline topic list");
        assert_eq!(look_on(DEFAULT, true), "driveline topic list --domain default");
        assert_eq!(look_on("pilot", true), "driveline topic list --domain pilot");
    }

    #[test]
    fn domains_of_other_users_are_hinted_at() {
        assert_eq!(hint_at_users(&[]), "");
        assert!(hint_at_users(&[1001]).starts_with("user 1001 has domains"));
        assert!(hint_at_users(&[1, 2, 3, 4, 5]).starts_with("users 1, 2, 3, 4 and others have"));
    }

    #[test]
    fn the_last_line_says_where_and_where_else() {
        let place = DomainPlace::Named("default".into());
        assert_eq!(place.closing("host topic", 2, 2, &[]), "2 host topics in domain 'default'\n");
        let other = |name: &str, processes, topics: &[&str]| Other {
            name: name.into(),
            processes,
            topics: topics.iter().map(|t| (*t).to_owned()).collect(),
        };
        assert_eq!(
            place.closing(
                "node",
                0,
                0,
                &[other("comp", 1, &["a", "b"]), other("pilot", 2, &["a"])]
            ),
            "no nodes in domain 'default': the domain is empty now\n\
             in domain 'comp': 1 process, 2 host topics; add `--domain comp`\n\
             in domain 'pilot': 2 processes, 1 host topic; add `--domain pilot`\n"
        );
        let place = DomainPlace::Directory("/run/car".into());
        assert_eq!(
            place.closing("host topic", 0, 3, &[]),
            "no host topics in the domain in /run/car (DRIVELINE_DOMAIN_DIR): 3 processes there \
             without any\n"
        );
    }
}
