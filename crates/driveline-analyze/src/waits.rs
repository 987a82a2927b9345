// SPDX-License-Identifier: Apache-2.0
//! Finds the input at which the oldest data waited and the trigger for which it waited. This wait
//! explains an age far above the time for computation and transport.

use crate::collector::Collector;
use crate::quantiles::round_us;
use crate::records::Carrier;
use crate::summary::{EndToEnd, Split};
use driveline_terminal::figures::digits;
use driveline_types::TopicId;
use serde::Serialize;

/// Maximum number of stages through which the search follows the data back from the sink.
const MAX_STEPS: usize = 64;

/// The longest wait of the oldest data on its way to the sink.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wait {
    /// The component that read the data after the wait.
    pub stage: String,
    /// The input on which it waited.
    pub input: String,
    /// Mean wait over the calls in which this input brought the oldest data. It is not the mean
    /// over all calls, so it may exceed the mean age.
    pub mean_us: f64,
    /// Number of these calls.
    pub calls: u64,
    /// Number of all calls with data of this origin.
    pub of_calls: u64,
    /// The topics whose samples trigger the component; empty if only timers trigger it.
    pub triggered_by: Vec<String>,
    /// The wait as one sentence for people.
    pub text: String,
}

/// Returns the longest wait that an age contains, if most of the age is waiting.
pub(crate) fn longest(
    run: &Collector,
    sink: &str,
    origin: TopicId,
    figures: &EndToEnd,
) -> Option<Wait> {
    let Split { idle_us, .. } = figures.mean;
    // A negative age has no largest part.
    if figures.mean.total_us() <= 0.0 || idle_us * 2.0 <= figures.mean.total_us() {
        return None;
    }
    let mut stage = sink;
    // The longest wait so far: its mean over all calls of the stage, and its place.
    let mut longest: Option<(f64, Wait)> = None;
    for _ in 0..MAX_STEPS {
        let Some(seen) = run.stages.get(stage) else { break };
        let carriers: Vec<(&str, &Carrier)> = seen
            .carriers
            .iter()
            .filter(|((o, _), _)| *o == origin)
            .map(|((_, input), c)| (input.as_str(), c))
            .collect();
        let Some((input, most)) = carriers.iter().max_by_key(|(_, c)| c.here_ns) else { break };
        let of_calls = carriers.iter().fold(0u64, |sum, (_, c)| sum.saturating_add(c.calls));
        let mean = |ns: f64| ns / of_calls.max(1) as f64;
        let here = mean(most.here_ns as f64);
        if most.here_ns > 0 && longest.as_ref().is_none_or(|(most, _)| here > *most) {
            let wait = Wait::at(run, stage, input, (most, of_calls), origin, figures);
            longest = Some((here, wait));
        }
        // `before` is the sum of all earlier waits, so no single one of them is longer.
        let before = mean(carriers.iter().map(|(_, c)| c.before_ns as f64).sum());
        let upstream = carriers
            .iter()
            .max_by_key(|(_, c)| c.before_ns)
            .and_then(|(_, c)| run.publisher_of(c.topic));
        match upstream {
            Some(publisher)
                if publisher != stage
                    && longest.as_ref().is_none_or(|(most, _)| before > *most) =>
            {
                stage = publisher;
            }
            _ => break,
        }
    }
    longest.map(|(_, wait)| wait)
}

impl Wait {
    /// Describes the wait. All figures of its sentence are means: if only some of the data waited,
    /// the median age may not contain the wait at all.
    fn at(
        run: &Collector,
        stage: &str,
        input: &str,
        (carrier, of_calls): (&Carrier, u64),
        origin: TopicId,
        figures: &EndToEnd,
    ) -> Self {
        let mean_us = round_us(carrier.here_ns as f64 / 1e3 / carrier.calls.max(1) as f64);
        let triggered_by: Vec<String> = run.triggers_of(stage).map(|t| t.to_string()).collect();
        let until = match triggered_by.as_slice() {
            [] => format!("for the next tick of {stage}"),
            topics => format!("for {stage} to be triggered by the next {}", topics.join(" or ")),
        };
        let (idle, age) = (figures.mean.idle_us, figures.mean.total_us());
        let share = (idle / age * 100.0).round();
        let calls = match carrier.calls {
            all if all == of_calls => "in every call".to_owned(),
            some => format!("in {some} of {of_calls} calls"),
        };
        let text = format!(
            "On average, {} of the {} that {} is old at {} are waiting, not work ({share} %): \
             {calls} of {stage} the oldest data came by {stage}.{input}, where it had waited {} on \
             average {until}; the newest data is {} old on average.",
            ms(idle),
            ms(age),
            run.topic_name(origin),
            figures.stage,
            ms(mean_us),
            ms(figures.newest_age_us.mean),
        );
        Self {
            stage: stage.to_owned(),
            input: input.to_owned(),
            mean_us,
            calls: carrier.calls,
            of_calls,
            triggered_by,
            text,
        }
    }
}

/// Formats microseconds as milliseconds for people.
fn ms(us: f64) -> String {
    format!("{} ms", digits(us / 1e3))
}
