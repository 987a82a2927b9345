// SPDX-License-Identifier: Apache-2.0
//! Gateways that carry nothing, because they were killed, are suspended, or hang.

use super::format::{NAME, REASON};
use crate::commands::domains::DomainPlace;
use crate::process;
use crate::text::cut;
use driveline_gateway::Answer;
use driveline_terminal::screen::Screen;

/// Shows gateways that are down, on standard error. Returns true if there are none.
pub(super) fn report(answers: &[Answer], place: &DomainPlace, screen: &Screen) -> bool {
    let down: Vec<_> = answers.iter().filter_map(|answer| text_of(answer, place)).collect();
    down.iter().for_each(|text| screen.error(text));
    down.is_empty()
}

fn text_of(answer: &Answer, place: &DomainPlace) -> Option<String> {
    let (kind, process, what) = match answer {
        Answer::Report(_) => return None,
        Answer::Dead { kind } => (kind, String::new(), DEAD.to_owned()),
        Answer::Silent { kind, pid: Some(pid), .. } if process::is_stopped(*pid) => (
            kind,
            format!(" (process {pid})"),
            format!("is suspended, and carries nothing: `kill -CONT {pid}` lets it go on"),
        ),
        Answer::Silent { kind, pid: Some(pid), reason } => (
            kind,
            format!(" (process {pid})"),
            format!(
                "is there and does not answer: {}; `top -p {pid}` shows whether it is busy; end it \
                 with `kill {pid}`, or `kill -KILL {pid}` if that \
                 does not help, and its run starts it again",
                cut(reason, REASON)
            ),
        ),
        Answer::Silent { kind, pid: None, reason } => (
            kind,
            String::new(),
            format!(
                "is there and does not answer: {}; look for its process in its container or among \
                 other users': `kill -CONT PID` lets it go on if it was \
                 suspended; else end it with `kill PID`, and its run starts it again",
                cut(reason, REASON)
            ),
        ),
    };
    Some(format!("the gateway '{}'{process} of {place} {what}", cut(kind, NAME)))
}

const DEAD: &str = "was killed: it carries nothing; its `driveline run` starts it again after 1 s \
     (up to 30 s if it ends again and again): \
     ask again, and start the run again if that has ended, too";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_is_down_is_reported_with_the_remedy() {
        let place = DomainPlace::Named("pilot".into());
        assert_eq!(text_of(&Answer::Report(Box::default()), &place), None);
        let dead = text_of(&Answer::Dead { kind: "zenoh".into() }, &place).unwrap();
        assert!(
            dead.starts_with(
                "the gateway 'zenoh' of domain 'pilot' was killed: it carries \
                 nothing; its `driveline run` starts it again"
            ),
            "{dead}"
        );
        assert!(dead.ends_with("start the run again if that has ended, too"), "{dead}");
        let silent = |pid| {
            text_of(
                &Answer::Silent { kind: "zenoh".into(), pid, reason: "no answer within 3s".into() },
                &place,
            )
            .unwrap()
        };
        let (own, busy) = (std::process::id(), silent(Some(std::process::id())));
        assert!(
            busy.contains(&format!(
                "'zenoh' (process {own}) of domain 'pilot' is there and does \
                 not answer: no answer within 3s; "
            )),
            "{busy}"
        );
        assert!(
            busy.contains(&format!("end it with `kill {own}`")) && !busy.contains("CONT"),
            "{busy}"
        );
        let unknown = silent(None);
        assert!(
            unknown.contains("'zenoh' of domain") && unknown.contains("`kill -CONT PID`"),
            "{unknown}"
        );
        assert!(!silent(None).contains(&own.to_string()), "{unknown}");
    }
}
