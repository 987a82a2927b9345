// SPDX-License-Identifier: Apache-2.0
//! Requests of a scenario that its links cannot satisfy, such as a preference for a missing
//! subscriber, a figure that a case cannot have, or a question about something constant.

use super::unused_keys::{Part, UnusedKey};
use super::{AnswerSpec, CaseSpec, FavourSpec, Figure, PayloadSpec, Scenario, Vary};

/// The links of one case, with the settings of `run`, `quick` or `paper`.
struct Links<'a> {
    scenario: &'a Scenario,
    vary: &'a Vary,
    name: &'a str,
    case: &'a CaseSpec,
}

impl Links<'_> {
    /// Returns the values of a key in each link, cell by cell. A varied value applies to all links,
    /// but a link may set its own value.
    fn each<T: Copy>(&self, of: fn(&CaseSpec) -> Option<T>, varied: &[T], usual: T) -> Vec<Vec<T>> {
        let common = match varied {
            [] => vec![of(self.case).or_else(|| of(&self.scenario.link)).unwrap_or(usual)],
            some => some.to_vec(),
        };
        let of_links = |common| match self.case.links.is_empty() {
            true => vec![common],
            false => self.case.links.values().map(|l| of(l).unwrap_or(common)).collect(),
        };
        common.into_iter().map(of_links).collect()
    }

    /// Returns for each link true if it has a rate, false for a ping-pong.
    fn have_rates(&self) -> Vec<bool> {
        let varies: &[bool] = if self.vary.rate_hz.is_empty() { &[] } else { &[true] };
        self.each(|c| c.rate_hz.map(|_| true), varies, false).concat()
    }

    fn subscribers(&self) -> Vec<Vec<usize>> {
        self.each(|c| c.subscribers, &self.vary.subscribers, 1)
    }

    /// Returns the number of links that run at the same time, cell by cell.
    fn at_once(&self) -> Vec<usize> {
        if self.case.links.is_empty() {
            return self.each(|c| c.copies, &self.vary.copies, 1).concat();
        }
        vec![self.case.links.values().map(|l| l.copies.unwrap_or(1)).fold(0, usize::saturating_add)]
    }

    /// Returns the place of a key of the case: in the case, or in the part for all cases.
    fn place<'p>(&'p self, key: &'p str, says_itself: bool) -> Vec<&'p str> {
        if says_itself { vec!["cases", self.name, key] } else { vec!["link", key] }
    }

    fn favour(&self) -> Option<&FavourSpec> {
        self.case.favour.as_ref().or(self.scenario.link.favour.as_ref())
    }

    /// Returns a preference without an effect.
    fn idle_favour(&self) -> Option<UnusedKey> {
        let favour = self.favour()?;
        let mut path = self.place("favour", self.case.favour.is_some());
        let fewest = self
            .subscribers()
            .into_iter()
            .filter_map(|links| links.into_iter().max())
            .min()
            .unwrap_or(1);
        if let Some(subscriber) = favour.subscriber.filter(|s| *s >= fewest) {
            path.push("subscriber");
            let message = format!(
                "there is no subscriber {subscriber} to be preferred: they count from 0, and some \
                 cell has {fewest}"
            );
            return Some(UnusedKey::at(
                &path,
                message,
                "name one that there is; without `subscriber` it is the last one".into(),
            ));
        }
        let greatest = self
            .each(|c| c.priority, &self.vary.priority, 0)
            .concat()
            .into_iter()
            .max()
            .unwrap_or(0);
        (!favour.exclusive_cpu && favour.priority <= greatest).then(|| {
            let message = format!(
                "`favour` has no effect: its `priority` is {}, and an end has {greatest}",
                favour.priority
            );
            UnusedKey::at(
                &path,
                message,
                "give it a greater `priority`, or `exclusive_cpu: true`".into(),
            )
        })
    }

    fn figure(&self) -> Option<Figure> {
        self.case.figure.or(self.scenario.link.figure).or(self.scenario.figure)
    }

    /// Returns a figure that some cell cannot have.
    fn missing_figure(&self) -> Option<UnusedKey> {
        let (own, common) = (self.case.figure, self.scenario.link.figure);
        let figure = self.figure()?;
        let ping_pong = self.have_rates().contains(&false);
        let (message, help) = match figure {
            Figure::FillAndTransport => {
                let payloads = self.each(|c| c.payload, &self.vary.payload, PayloadSpec::Untouched);
                if payloads.iter().all(|links| links.contains(&PayloadSpec::Filled)) {
                    return None;
                }
                (
                    "untouched payloads are not filled",
                    "write `payload: filled`, or leave `figure` out: where payloads are filled, \
                     the filling is in it",
                )
            }
            Figure::LastSubscriber
                if ping_pong
                    || self.subscribers().iter().any(|links| links.iter().all(|n| *n < 2)) =>
            {
                (
                    "it takes a rate and several subscribers to have a last one",
                    "leave `figure` out: where there are several, it is that of the last one",
                )
            }
            Figure::ScheduleRelative | Figure::BetweenArrivals if ping_pong => {
                ("a ping-pong has no times at which samples are due", "add a `rate_hz`")
            }
            _ => return None,
        };
        let path = if own.is_none() && common.is_none() {
            vec!["figure"]
        } else {
            self.place("figure", own.is_some())
        };
        Some(UnusedKey::at(
            &path,
            format!("the case '{}' cannot have this figure: {message}", self.name),
            help.into(),
        ))
    }
}

/// Finds a figure of links in a scenario without links. A figure that a case names is refused with
/// the other unused keys of a workload, a chain or a case with `measure`.
fn figure_without_system(s: &Scenario, all: &[Links<'_>]) -> Option<UnusedKey> {
    let path: &[&str] = match (s.figure, s.link.figure) {
        _ if !all.is_empty() || s.cases.is_empty() => return None,
        (Some(_), _) => &["figure"],
        (None, Some(_)) => &["link", "figure"],
        (None, None) => return None,
    };
    let what = if s.chain.is_some() {
        "chains are compared by the latency of the whole"
    } else if s.cases.values().all(|case| case.measure.is_some()) {
        "cases with `measure` have their own figures"
    } else {
        "workloads are compared by the latency of the whole"
    };
    let message =
        format!("`figure` names what links are compared by, and there is no link: {what}");
    Some(UnusedKey::at(path, message, "leave it out".into()))
}

/// Finds requests without an effect.
pub(super) fn without_effect(s: &Scenario) -> Option<UnusedKey> {
    let parts = Part::of(s);
    let is_links =
        |case: &CaseSpec| s.chain.is_none() && case.workload.is_none() && case.measure.is_none();
    let all: Vec<Links<'_>> = parts
        .iter()
        .flat_map(|part| {
            part.cases(s).filter(|(_, case)| is_links(case)).map(|(name, case)| Links {
                scenario: s,
                vary: &part.vary,
                name,
                case,
            })
        })
        .collect();
    if let Some(found) = figure_without_system(s, &all) {
        return Some(found);
    }
    if let Some(found) =
        all.iter().find_map(|links| links.idle_favour().or_else(|| links.missing_figure()))
    {
        return Some(found);
    }
    if s.own_tools
        && !all
            .iter()
            .any(|links| links.at_once().iter().all(|n| *n == 1) && links.have_rates() == [false])
    {
        let message = "`own_tools` measure ping-pongs, and no case is one".to_owned();
        return Some(UnusedKey::at(
            &["own_tools"],
            message,
            "leave it out, or add a case of one link without a `rate_hz`".into(),
        ));
    }
    let is_stream = |links: &Links<'_>| links.figure() == Some(Figure::BetweenArrivals);
    let (message, help) = match s.answer? {
        AnswerSpec::CarriedLinks
            if all.iter().all(|links| links.at_once().iter().all(|n| *n < 2)) =>
        {
            (
                "`carried_links` asks how many links at the same time are carried, and there is \
                 but one",
                "let `copies` vary, or give a case several `links`",
            )
        }
        AnswerSpec::Fairness
            if all.iter().all(|links| links.subscribers().concat().iter().all(|n| *n < 2)) =>
        {
            (
                "`fairness` is about several subscribers of a link, and there is but one",
                "give `subscribers`, and a `rate_hz`",
            )
        }
        AnswerSpec::Preferred if all.iter().all(|links| links.favour().is_none()) => (
            "`preferred` asks for the effect of a preference, and no case has `favour`",
            "give a case a `favour`, and leave another one as it is",
        ),
        AnswerSpec::Throughput
            if all.iter().all(|links| links.at_once().iter().all(|n| *n > 1)) =>
        {
            (
                "`throughput` divides the size of a payload by the latency of its link, and there \
                 is no case of one link alone",
                "leave it out, or add a case of one link",
            )
        }
        AnswerSpec::Throughput
            if all.iter().filter(|links| links.at_once().contains(&1)).all(is_stream) =>
        {
            (
                "`throughput` asks how latencies grow with the size, and all cases of one link are \
                 streams, which are compared by goodput",
                "leave it out",
            )
        }
        _ => return None,
    };
    Some(UnusedKey::at(&["answer"], message.into(), help.into()))
}

#[cfg(test)]
mod tests {
    use crate::scenario::check::check;
    use crate::scenario::{LoadError, builtin, load};
    use driveline_graph::parse_document;
    use std::path::Path;

    fn parse(rest: &str) -> Result<(), String> {
        let text = format!("scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n{rest}\n");
        let document = parse_document(Path::new("mine.yaml"), text).map_err(LoadError::from);
        document.and_then(|d| check(d, None)).map(drop).map_err(|e| e.to_string())
    }

    #[test]
    fn what_has_no_effect_is_refused_with_place_and_remedy() {
        let open = "link: {size: 64, rate_hz: 10}\n";
        for (rest, line, says) in [
            (
                "cases:\n  a: {favour: {}}",
                8,
                "give it a greater `priority`, or `exclusive_cpu: true`",
            ),
            (
                "cases:\n  a: {priority: 50, favour: {priority: 50}}",
                8,
                "its `priority` is 50, and an end has 50",
            ),
            (
                "cases: {a: {favour: {priority: 50}}}\nvary: {priority: [0, 80]}",
                7,
                "and an end has 80",
            ),
            (
                "cases:\n  a: {subscribers: 3, favour: {subscriber: 3, priority: 5}}",
                8,
                "there is no subscriber 3",
            ),
            (
                "cases:\n  a: {favour: {subscriber: 1, priority: 5}}\nvary: {subscribers: [1, 2]}",
                8,
                "without `subscriber` it is the last",
            ),
            (
                "cases:\n  a: {links: {x: {subscribers: 2}, y: {}}, favour: {subscriber: 2, \
                 priority: 5}}",
                8,
                "and some cell has 2",
            ),
            ("cases:\n  a: {links: {}}", 8, "`links` is empty"),
            ("own_tools: true\ncases: {a: {}}", 7, "add a case of one link without a `rate_hz`"),
            ("cases:\n  a: {}\nfigure: fill_and_transport", 9, "untouched payloads are not filled"),
            (
                "cases:\n  a: {figure: fill_and_transport}",
                8,
                "write `payload: filled`, or leave `figure` out",
            ),
            (
                "vary: {payload: [filled, untouched]}\ncases: {a: {figure: fill_and_transport}}",
                8,
                "untouched payloads are not filled",
            ),
            ("cases: {a: {}}\nfigure: last_subscriber", 8, "leave `figure` out"),
            ("cases: {a: {}}\nanswer: carried_links", 8, "let `copies` vary"),
            ("cases: {a: {links: {x: {}}}}\nanswer: carried_links", 8, "there is but one"),
            ("cases: {a: {}}\nanswer: fairness", 8, "give `subscribers`"),
            ("cases: {a: {subscribers: 2}}\nanswer: preferred", 8, "give a case a `favour`"),
            (
                "cases: {a: {figure: between_arrivals}}\nanswer: throughput",
                8,
                "all cases of one link are streams",
            ),
            (
                "cases: {a: {figure: between_arrivals}, b: {copies: 4}}\nanswer: throughput",
                8,
                "all cases of one link are streams",
            ),
            (
                "cases: {a: {links: {x: {}, y: {}}}}\nanswer: throughput",
                8,
                "there is no case of one link alone",
            ),
            (
                "cases: {a: {copies: 4, figure: between_arrivals}}\nanswer: throughput",
                8,
                "there is no case of one link alone",
            ),
            (
                "cases: {a: {}}\nvary: {copies: [2, 4]}\nanswer: throughput",
                9,
                "add a case of one link",
            ),
            (
                "cases: {a: {workload: {name: refsys}}}\nanswer: throughput",
                8,
                "there is no case of one link alone",
            ),
            (
                "cases: {a: {workload: {name: refsys}}}\nfigure: between_arrivals",
                8,
                "workloads are compared by the latency of the whole",
            ),
        ] {
            let text = parse(&format!("{open}{rest}")).unwrap_err();
            assert!(
                text.contains(says) && text.contains(&format!("mine.yaml:{line}:")),
                "{rest}: {text}"
            );
        }
        let text =
            parse("cases: {a: {workload: {name: refsys}}}\nlink: {figure: between_arrivals}")
                .unwrap_err();
        assert!(text.contains("there is no link") && text.contains("mine.yaml:7:"), "{text}");
        let chain = "chain: {stages: {a: {output: x, work: bytes}, b: {inputs: [x], work: copy}}, \
             edges: {x: 1 MiB}}\ncases: {a: {}}";
        let text = parse(&format!("{chain}\nfigure: between_arrivals")).unwrap_err();
        assert!(
            text.contains("chains are compared by the latency of the whole")
                && text.contains("mine.yaml:8:"),
            "{text}"
        );
        let text = parse("link: {size: 64}\ncases:\n  a: {figure: between_arrivals}").unwrap_err();
        assert!(
            text.contains("a ping-pong has no times") && text.contains("mine.yaml:8:"),
            "{text}"
        );
        let text = parse("link: {size: 64, favour: {}}\ncases: {a: {rate_hz: 10}}").unwrap_err();
        assert!(text.contains("has no effect") && text.contains("mine.yaml:6:"), "{text}");
    }

    #[test]
    fn what_has_an_effect_is_not() {
        for rest in [
            "cases: {a: {rate_hz: 10, favour: {exclusive_cpu: true}}, b: {rate_hz: 10, \
             subscribers: 3, favour: {subscriber: 2, priority: 5}}}",
            "cases: {a: {rate_hz: 10}, b: {}}\nown_tools: true",
            "cases: {a: {links: {x: {payload: filled}, y: {}}}}\nfigure: fill_and_transport",
            "cases: {a: {}, b: {workload: {name: refsys}}}\nvary: {payload: [filled]}\nfigure: \
             fill_and_transport",
            "cases: {a: {links: {x: {copies: 4}}}}\nanswer: carried_links",
            "cases: {a: {rate_hz: 10}}\nquick: {vary: {copies: [1, 2]}}\nanswer: carried_links",
            "cases: {a: {rate_hz: 10, figure: between_arrivals}, b: {}}\nanswer: throughput",
            "cases: {a: {}}\nvary: {copies: [1, 4]}\nanswer: throughput",
            "cases: {a: {workload: {name: refsys}}, b: {rate_hz: 10}}\nfigure: between_arrivals",
        ] {
            parse(&format!("link: {{size: 64}}\n{rest}")).unwrap_or_else(|e| panic!("{rest}: {e}"));
        }
        builtin().iter().for_each(|b| drop(load(b.id).unwrap()));
    }
}
