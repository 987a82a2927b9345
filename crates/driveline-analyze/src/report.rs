// SPDX-License-Identifier: Apache-2.0
//! Report of a run: one HTML file that contains its plots, needs no network and runs no script.
//!
//! Plots are SVG drawn here. A script library would make each report 5 MB large, and a still
//! picture of a finished run would depend on the browser's script engine. Pointing at a bar shows
//! its numbers without a script.

mod chart;
mod figures;
mod lead;
mod scale;

use crate::backpressure::BlockedOutput;
use crate::collector::Collector;
use crate::deadlines::{DeadlineSummary, PortEnd};
use crate::escape::{escape, sentence};
use crate::faults::Fault;
use crate::modes::{ComponentTransition, ModeSwitch};
use crate::modules::ModuleFacts;
use crate::quantiles::{Quantiles, Rank};
use crate::summary::{EndToEnd, Ratio, StageSummary, Summary};
use driveline_runtime::account::{CallEnd, SettingAccount};
use scale::{grouped, significant};
use std::fmt::Write;

const STYLE: &str = include_str!("report/style.css");

/// Returns the page for a run. `summary` is `run.summary()`, passed in because it is expensive to
/// compute.
#[must_use]
pub fn render(run: &Collector, summary: &Summary) -> String {
    let mut page = String::with_capacity(256 * 1024);
    let title = if summary.graph.is_empty() {
        "Driveline run".to_owned()
    } else {
        format!("Driveline run: {}", summary.graph)
    };
    let title = escape(&title);
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport \
         content='width=device-width, initial-scale=1'><meta name=color-scheme content='light \
         dark'><link rel=icon \
         href='data:,'><title>{title}</title><style>{STYLE}</style></head><body><main>\
         <h1>{title}</h1>{}{}{}{}",
        subtitle(summary),
        lead::banner(summary),
        lead::answer(summary),
        lead::cards(summary)
    );
    section(
        &mut page,
        "Where the time goes",
        "Age of the sensor data when each component was done with it, from the moment the sensor's \
         data was valid. <b>Communication</b> is the time from a publish to the start of the \
         callback it triggered, <b>computation</b> the time inside callbacks, <b>idle</b> the time \
         data waited at an input until another event triggered the component. The parts add up to \
         the age, exactly; the p50 and p99 rows show the sample that holds that rank, or, above \
         100 000 samples, the mean of samples near it.",
        figures::age_split(summary),
        "No component has finished with data that descends from a sensor.",
    );
    if let Some(remarks) = lead::remarks(summary) {
        section(&mut page, "Remarks", "", Some(remarks), "");
    }
    section(
        &mut page,
        "Components",
        STAGES_TEXT,
        stage_table(&summary.stages),
        "No callback has run.",
    );
    if let Some(list) = failure_list(summary) {
        section(
            &mut page,
            "Failures",
            "What components reported, the first ones; the table above counts all.",
            Some(list),
            "",
        );
    }
    if let Some(table) = fault_table(summary) {
        section(&mut page, "Modules that ended", FAULTS_TEXT, Some(table), "");
    }
    if let Some(table) = mode_table(summary) {
        section(&mut page, "Modes", MODES_TEXT, Some(table), "");
    }
    if let Some(table) = counter_table(&summary.stages) {
        section(&mut page, "Calls not made, samples not used", COUNTERS_TEXT, Some(table), "");
    }
    section(
        &mut page,
        "Transmission and processing",
        "How often a duration occurred; the axis is logarithmic and the same for all components. \
         The further apart the two hills, the less the hand-over matters. A second hill or a long \
         foot on the right is worth a look at the timeline.",
        figures::histograms(run),
        "No callback has run.",
    );
    section(
        &mut page,
        "Transmission: how many were how fast",
        "Read upwards: where a curve crosses 50 % is the median, 99 % is p99. Steep and far left \
         is good; a bend near the top is the tail that hurts.",
        figures::transmission_ecdf(run),
        "No callback was triggered by a sample.",
    );
    section(
        &mut page,
        "Age at the end over time",
        "Age of the oldest sensor data when the last component was done, from least to greatest in \
         each stretch of time. A slope means that something falls behind; a single spike is a \
         hiccup of the machine.",
        figures::age_timeline(run),
        "No sink has run.",
    );
    section(
        &mut page,
        "Missed samples over time",
        "Samples that were published and that a component did not see because newer ones had taken \
         their place. On an input that triggers, that is work that was not done: a component \
         slower than its source misses steadily, since the newest data wins. On an input that is \
         only read when something else triggers, they were <b>superseded</b> by newer \
         ones.",
        figures::missed_timeline(run),
        "No component missed a sample.",
    );
    section(
        &mut page,
        "Subscriptions",
        "Every input, with what arrived and what did not. Inputs that trigger <b>miss</b> samples, \
         which is work not done; on inputs that are only read, newer samples <b>supersede</b> \
         older ones. <b>Inactive</b>: samples that arrived while no mode had the component \
         active. <b>Standby</b>: samples of a publisher that stood by for a stronger one.",
        subscription_table(summary),
        "There are none.",
    );
    if let Some(table) = deadline_table(summary) {
        section(
            &mut page,
            "Missed deadlines",
            "Periods of a topic's <code>deadline_ms</code> that ended without a sample, from the \
             first sample on. Those of an output are its own lateness; those of an input what it \
             was to expect of its publishers.",
            Some(table),
            "",
        );
    }
    if let Some(table) = blocked_table(summary) {
        section(
            &mut page,
            "Blocked in publish",
            "Reliable outputs that waited for their readers, at most <code>max_blocking_ms</code> \
             each time. The time is part of the publisher's processing and of its readers' \
             communication. After a wait that <b>timed out</b>, the readers that had not read miss \
             samples.",
            Some(table),
            "",
        );
    }
    if !summary.services.is_empty() {
        section(
            &mut page,
            "Services",
            "Every service that a component calls or serves, with the outcomes of the calls; a \
             call in no other column had not ended yet. Only clients know which calls timed out, \
             and which could not be sent.",
            Some(service_table(summary)),
            "",
        );
    }
    section(
        &mut page,
        "End-to-end figures",
        "The numbers behind the first plot, at the sinks. Age is that of the oldest of the \
         joined samples; the age of the newest one is shown as well. If they differ by a frame, \
         a waiting input came from the frame before. Ratio: communication ÷ computation, of the \
         medians.",
        age_table(&summary.end_to_end),
        "There are none.",
    );
    if let Some(table) = module_table(summary) {
        section(
            &mut page,
            "Containers",
            "Where each module ran, and what its container used. Memory includes the shared memory \
             of the module's outputs. <b>Throttled</b>: time for which threads waited because the \
             CPU share was used up. <b>Waits</b>: how threads wait for samples.",
            Some(table),
            "",
        );
    }
    if let Some(table) = setting_table(summary) {
        section(
            &mut page,
            "Real time",
            "What modules ask of the kernel: cores, scheduling, memory. <b>In force</b> is read \
             back from the kernel when the executors have started.",
            Some(table),
            "",
        );
    }
    section(
        &mut page,
        "Machine",
        "Figures hold for this machine, in this state.",
        Some(machine_table(summary)),
        "",
    );
    page.push_str("</main></body></html>\n");
    page
}

const STAGES_TEXT: &str = "<b>Transmission</b>: from the triggering sample's publish to the start \
                           of the callback, and conversions between messages and bytes. \
                           <b>Processing</b>: the rest of the callback. Microseconds; percentiles \
                           are exact (nearest rank) unless a note says that they are from \
                           histograms. The ratio compares the medians: below 1 the component \
                           spends more time working than waiting for its data to be handed over.";

const COUNTERS_TEXT: &str = "Each with its reason; components without any are left out. \
                             <b>Missing</b>: an input had no sample yet. <b>Stale</b>: an input's \
                             sample was older than allowed; a call was not made, or a read \
                             returned nothing. <b>Unmatched</b>: no partners of the same time. \
                             <b>Held</b>: an input waited because the component holds as many \
                             samples as it may. <b>Unreadable</b>: a sample could not be read. \
                             <b>Overruns</b>: ticks of a timer that passed while the call before \
                             was running, or while its thread got no processor.";

const FAULTS_TEXT: &str = "Processes that ended without being asked to. <b>Ready</b>: time from \
                           the end until the new process had initialised. <b>First sample</b>: \
                           until another component got its first new sample. <b>Not received</b>: \
                           samples that its inputs did not get in between; a dash where that is \
                           not known (no sample since, several publishers, or a publisher that was \
                           restarted too).";

const MODES_TEXT: &str = "Switches between the modes of the graph. <b>Took</b>: time from the \
                          request until the components of the mode were active. <b>Changes</b>: \
                          modes that were not entered, with the reason, or entered without some \
                          components; then components with the \
                          duration of their <code>on_activate</code> or \
                          <code>on_deactivate</code>.";

fn mode_table(s: &Summary) -> Option<String> {
    let change = |t: &ComponentTransition| {
        let state = if t.active { "active" } else { "inactive" };
        let name = escape(&t.stage);
        match &t.error {
            None => format!("{name} {state} ({} ms)", significant(t.took_ms)),
            Some(e) => format!("{name} failed to become {state}: {}", escape(e)),
        }
    };
    let row = |m: &ModeSwitch| {
        let name = |mode: &Option<String>| mode.as_deref().map_or("–".into(), escape);
        let took = m.took_ms.map_or_else(|| "–".to_owned(), |ms| format!("{} ms", significant(ms)));
        let incomplete = m.entered.as_ref().map(|mode| format!("'{mode}': without "));
        let failed = m.failed.iter().map(|f| {
            let entered = incomplete.as_ref().is_some_and(|start| f.starts_with(start));
            format!("{}entered: {}", if entered { "" } else { "not " }, escape(f))
        });
        let changes: Vec<_> = failed.chain(m.transitions.iter().map(change)).collect();
        format!(
            "<tr><td>{} s<th>{}<th>{}<th>{}<td>{took}<td class=text>{}<td class=text>{}</tr>",
            significant(m.at_s),
            name(&m.from),
            escape(&m.requested),
            name(&m.entered),
            escape(&m.cause),
            changes.join("<br>")
        )
    };
    let rows: String = s.modes.iter().map(row).collect();
    let head = "<th>at<th>from<th>requested<th>entered<th>took<th class=l>cause\
                <th class=l>changes";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

/// Maximum number of inputs that a row of the table of faults names.
const MAX_INPUTS_OF_FAULT: usize = 8;

fn fault_table(s: &Summary) -> Option<String> {
    let row = |f: &Fault| {
        let ms = |ms: Option<f64>| {
            ms.map_or_else(|| "–".to_owned(), |ms| format!("{} ms", significant(ms)))
        };
        // If there are many inputs, name the worst ones.
        let mut inputs: Vec<_> = f.missed.iter().collect();
        inputs.sort_by_key(|m| std::cmp::Reverse(m.samples));
        let more = inputs.len().saturating_sub(MAX_INPUTS_OF_FAULT);
        let missed = inputs.into_iter().take(MAX_INPUTS_OF_FAULT).map(|m| {
            let samples = m.samples.map_or_else(|| "–".to_owned(), |n| grouped(n as f64));
            format!("{samples} of {} by {}", escape(&m.topic), escape(&m.stage))
        });
        let more = (more > 0).then(|| format!("and {more} more inputs"));
        let missed = missed.chain(more).collect::<Vec<_>>().join("<br>");
        let ready = if f.down { "stays down".to_owned() } else { ms(f.ready_after_ms) };
        format!(
            "<tr><th>{}<td>{} s<td class=text>{}<td>{ready}<td>{}<td class=text>{missed}</tr>",
            escape(&f.module),
            significant(f.at_s),
            escape(&f.cause),
            ms(f.first_sample_after_ms)
        )
    };
    let rows: String = s.faults.iter().map(row).collect();
    let head = "<th>module<th>at<th class=l>cause<th>ready<th>first sample<th class=l>not received";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

/// Returns the table of modules; `None` for a run without containers.
fn module_table(s: &Summary) -> Option<String> {
    const NONE: &str = "–";
    let text = |t: &Option<String>| t.as_deref().map_or_else(|| NONE.to_owned(), escape);
    let mib = |bytes: Option<u64>| {
        bytes.map_or_else(|| NONE.to_owned(), |b| format!("{:.1} MiB", b as f64 / (1 << 20) as f64))
    };
    let row = |m: &ModuleFacts| {
        let digest =
            m.digest.as_deref().map_or(String::new(), |d| escape(d.get(..19).unwrap_or(d)));
        format!(
            "<tr><th>{}<td class=l>{}<td class=l>{digest}<td>{}<td>{}<td>{}<td>{}<td>{}<td \
             class=l>{}</tr>",
            escape(&m.module),
            text(&m.image),
            m.user.map_or_else(|| NONE.to_owned(), |u| u.to_string()),
            text(&m.cpus),
            mib(m.memory_peak),
            mib(m.memory_limit),
            m.throttled_us.map_or_else(|| NONE.to_owned(), |us| format!("{} ms", us / 1000)),
            text(&m.waits),
        )
    };
    let in_container = s.modules.iter().any(|m| m.image.is_some() || m.memory_peak.is_some());
    let rows: String = s.modules.iter().filter(|_| in_container).map(row).collect();
    let head = "<th>module<th class=l>image<th class=l>digest<th>user<th>CPUs<th>memory \
                peak<th>limit<th>throttled<th class=l>waits";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

/// Returns the table of kernel settings; `None` if no module requests any.
fn setting_table(s: &Summary) -> Option<String> {
    let row = |module: &str, setting: &SettingAccount| {
        format!(
            "<tr><th>{}<th>{}<td class=text>{}<td class=text>{}</tr>",
            escape(module),
            escape(&setting.setting),
            escape(&setting.in_force),
            escape(setting.refused.as_deref().unwrap_or("–"))
        )
    };
    let of = |m: &ModuleFacts| m.settings.iter().map(|s| row(&m.module, s)).collect::<String>();
    let rows: String = s.modules.iter().map(of).collect();
    let head = "<th>module<th>setting<th class=l>in force<th class=l>refused";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

fn failure_list(s: &Summary) -> Option<String> {
    let items: String = s.failures.iter().map(|f| format!("<li>{}</li>", sentence(f))).collect();
    (!items.is_empty()).then(|| format!("<ul>{items}</ul>"))
}

fn counter_table(stages: &[StageSummary]) -> Option<String> {
    let rows: String = stages
        .iter()
        .filter_map(|s| {
            let c = s.counters?;
            let counts = [
                c.skipped_missing,
                c.skipped_stale,
                c.unsynchronised,
                c.held_limit,
                c.take_errors,
                c.overruns,
            ];
            let cells: String =
                counts.iter().map(|&n| format!("<td>{}</td>", grouped(n as f64))).collect();
            counts
                .iter()
                .any(|&n| n > 0)
                .then(|| format!("<tr><th>{}</th>{cells}</tr>", escape(&s.stage)))
        })
        .collect();
    let head = "<th>component<th>missing<th>stale<th>unmatched<th>held<th>unreadable<th>overruns";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

/// Writes a section: its content with the explanation `text` below it. Without content, the section
/// has the sentence `otherwise` instead of both.
fn section(page: &mut String, heading: &str, text: &str, content: Option<String>, otherwise: &str) {
    let content = match content {
        Some(content) if text.is_empty() => content,
        Some(content) => format!("{content}<p class=reading>{text}</p>"),
        None => format!("<p class=empty>{otherwise}</p>"),
    };
    let _ = write!(page, "<section><h2>{heading}</h2>{content}</section>");
}

fn subtitle(s: &Summary) -> String {
    let mut parts = vec![format!("{} s", significant(s.duration_s))];
    parts.extend(s.started.iter().map(|t| format!("started {}", escape(t))));
    parts.push(escape(&s.machine.cpu));
    format!("<p class=subtitle>{}</p>", parts.join(" · "))
}

/// Returns n, p50, p95, p99 and max as table cells.
fn cells(q: &Quantiles) -> String {
    if q.n == 0 {
        return "<td class=none colspan=5>not triggered by a sample</td>".to_owned();
    }
    let p99 = if q.p99_n_too_small {
        format!(
            "<td class=weak title='fewer than {} samples: rests on the {} largest'>{}*</td>",
            Rank::P99.needs,
            q.n as u64 - Rank::P99.index(q.n as u64).unwrap_or(0),
            micro(q.p99)
        )
    } else {
        format!("<td>{}</td>", micro(q.p99))
    };
    format!(
        "<td>{}</td><td>{}</td><td>{}</td>{p99}<td>{}</td>",
        grouped(q.n as f64),
        micro(q.p50),
        micro(q.p95),
        micro(q.max)
    )
}

fn micro(us: f64) -> String {
    if us.abs() < 99.95 { significant(us) } else { grouped(us) }
}

fn ratio(r: Option<Ratio>) -> String {
    r.map_or_else(
        || "–".to_owned(),
        |r| {
            if (0.0..0.001).contains(&r.of_p50) {
                "&lt; 0.001".to_owned()
            } else {
                format!("{:.3}", r.of_p50)
            }
        },
    )
}

fn star(mut all: impl Iterator<Item = Quantiles>) -> &'static str {
    if all.any(|q| q.p99_n_too_small && q.n > 0) {
        "<p class=note>* Fewer than 300 samples: this p99 rests on three or fewer of them.</p>"
    } else {
        ""
    }
}

fn stage_table(stages: &[StageSummary]) -> Option<String> {
    if stages.is_empty() {
        return None;
    }
    let five = "<th>n<th>p50<th>p95<th>p99<th>max";
    let with_events = stages.iter().any(|s| s.failed_events > 0);
    let events = if with_events { "<th rowspan=2>failed events" } else { "" };
    let mut t = format!(
        "<div class=wide><table><thead><tr><th rowspan=2>component<th rowspan=2>runs<th \
         rowspan=2>failed{events}<th colspan=5>transmission, µs<th colspan=5>processing, µs<th \
         rowspan=2>ratio</tr><tr>{five}{five}</tr></thead><tbody>"
    );
    for s in stages {
        let failed = |n: u64| {
            let class = if n > 0 { " class=bad" } else { "" };
            format!("<td{class}>{}</td>", grouped(n as f64))
        };
        let events = if with_events { failed(s.failed_events) } else { String::new() };
        let _ = write!(
            t,
            "<tr><th>{}</th><td>{}</td>{}{events}{}{}<td>{}</td></tr>",
            escape(&s.stage),
            grouped(s.runs as f64),
            failed(s.failed),
            cells(&s.transmission_us),
            cells(&s.processing_us),
            ratio(s.transmission_to_processing)
        );
    }
    t.push_str("</tbody></table></div>");
    Some(t + star(stages.iter().flat_map(|s| [s.transmission_us, s.processing_us])))
}

fn age_table(ends: &[EndToEnd]) -> Option<String> {
    if ends.is_empty() {
        return None;
    }
    let mut t = String::from(
        "<div class=wide><table><thead><tr><th rowspan=2>sink<th class=l rowspan=2>source<th \
         colspan=5>age, µs<th rowspan=2>newest,<br>p50, µs<th colspan=3>mean split, µs<th \
         rowspan=2>ratio</tr><tr>\
         <th>n<th>p50<th>p95<th>p99<th>max<th>communication<th>computation<th>idle</tr></thead>\
         <tbody>",
    );
    for e in ends {
        let _ = write!(
            t,
            "<tr><th>{}</th><th>{}</th>{}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
             </tr>",
            escape(&e.stage),
            escape(&e.origin),
            cells(&e.age_us),
            micro(e.newest_age_us.p50),
            micro(e.mean.communication_us),
            micro(e.mean.computation_us),
            micro(e.mean.idle_us),
            ratio(e.communication_to_computation)
        );
    }
    t.push_str("</tbody></table></div>");
    Some(t + star(ends.iter().map(|e| e.age_us)))
}

fn subscription_table(s: &Summary) -> Option<String> {
    if s.subscriptions.is_empty() {
        return None;
    }
    let mut t = String::from(
        "<div class=wide><table><thead><tr><th>component<th class=l>input<th class=l>topic<th \
         class=l>its samples<th>published<th>received<th>missed<th>superseded<th>expired\
         <th>corrupt<th>refused<th>lost on the way<th>not read<th>inactive\
         <th>standby<th>not connected<th class=l>count unknown</tr></thead><tbody>",
    );
    for x in &s.subscriptions {
        let published =
            s.published.get(&x.topic).map_or_else(|| "–".to_owned(), |&n| grouped(n as f64));
        let (name, input, topic) = (escape(&x.stage), escape(&x.input), escape(&x.topic));
        let (received, missed) = (grouped(x.received as f64), grouped(x.missed as f64));
        let role = if x.triggers { "trigger" } else { "are read" };
        let lost = if x.triggers {
            format!("<td>{missed}</td><td></td>")
        } else {
            format!("<td></td><td>{missed}</td>")
        };
        let mut others: String = [x.expired, x.corrupt, x.refused, x.lost_on_the_way]
            .map(|n| {
                if n == 0 {
                    "<td></td>".to_owned()
                } else {
                    format!("<td>{}</td>", grouped(n as f64))
                }
            })
            .concat();
        others += &match (&x.unknown, x.not_read) {
            (Some(why), n) => {
                format!("<td title='{}'>{} + unknown</td>", escape(why), grouped(n as f64))
            }
            (None, 0) => "<td></td>".to_owned(),
            (None, n) => format!("<td>{}</td>", grouped(n as f64)),
        };
        for n in [x.inactive, x.standby, x.not_connected] {
            others += &match n {
                0 => "<td></td>".to_owned(),
                n => format!("<td>{}</td>", grouped(n as f64)),
            };
        }
        let unknown = x
            .uncounted_reason
            .map_or_else(String::new, |why| format!("{}: {why}", grouped(x.uncounted as f64)));
        let _ = write!(
            t,
            "<tr><th>{name}</th><th>{input}</th><th>{topic}</th><th>{role}</th><td>{published}</td>\
             <td>{received}</td>{lost}{others}<td class=l>{unknown}</td></tr>"
        );
    }
    t.push_str("</tbody></table></div>");
    let (all, checked) =
        (s.subscriptions.len(), s.subscriptions.iter().filter(|x| x.checked).count());
    let _ = write!(
        t,
        "<p class=note>For {checked} of {all} inputs, the publishers and the input counted \
         independently, and their counts agree. For the others, <i>not connected</i> is the \
         difference.</p>"
    );
    Some(t)
}

fn deadline_table(s: &Summary) -> Option<String> {
    let row = |d: &DeadlineSummary| {
        let end = if d.end == PortEnd::Output { "output" } else { "input" };
        let (stage, port, topic) = (escape(&d.stage), escape(&d.port), escape(&d.topic));
        format!(
            "<tr><th>{stage}</th><th>{port}</th><th>{end}</th><th>{topic}</th><td>{}</td></tr>",
            grouped(d.missed as f64)
        )
    };
    let rows: String = s.deadlines.iter().map(row).collect();
    let head = "<th>component<th class=l>port<th class=l>end<th class=l>topic<th>missed";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

fn blocked_table(s: &Summary) -> Option<String> {
    let row = |b: &BlockedOutput| {
        let (stage, output, topic) = (escape(&b.stage), escape(&b.output), escape(&b.topic));
        format!(
            "<tr><th>{stage}</th><th>{output}</th><th>{topic}</th><td>{}</td><td>{}</td><td>{}</td>\
             <td class=l>{}</td></tr>",
            grouped(b.waits as f64),
            grouped(b.timeouts as f64),
            grouped(b.blocked_ms),
            escape(&b.readers.join(", "))
        )
    };
    let rows: String = s.backpressure.iter().map(row).collect();
    let head = "<th>component<th class=l>output<th class=l>topic<th>waits<th>timed out<th>blocked \
                (ms)<th class=l>reliable readers";
    (!rows.is_empty()).then(|| {
        format!(
            "<div class=wide><table><thead><tr>{head}</tr></thead>\
             <tbody>{rows}</tbody></table></div>"
        )
    })
}

fn service_table(s: &Summary) -> String {
    let mut t = String::from(
        "<div class=wide><table><thead><tr><th>component<th class=l>service<th \
         class=l>end<th>calls<th>answered<th>refused<th>timed out<th>other end gone<th>not \
         sent</tr></thead><tbody>",
    );
    for x in &s.services {
        let (name, service, c) = (escape(&x.stage), escape(&x.service), x.calls);
        let (end, of_clients) = match x.end {
            CallEnd::Client => ("client", [c.timed_out, c.not_sent].map(|n| grouped(n as f64))),
            CallEnd::Server => ("server", [String::new(), String::new()]),
        };
        let [timed_out, not_sent] = of_clients;
        let [calls, answered, refused, gone] =
            [c.calls, c.answered, c.refused, c.peer_gone].map(|n| grouped(n as f64));
        let _ = write!(
            t,
            "<tr><th>{name}</th><th>{service}</th><th>{end}</th><td>{calls}</td><td>{answered}</td>\
             <td>{refused}</td><td>{timed_out}</td><td>{gone}</td><td>{not_sent}</td></tr>"
        );
    }
    t.push_str("</tbody></table></div>");
    t
}

fn machine_table(s: &Summary) -> String {
    let m = &s.machine;
    let rows = [
        ("processor", m.cpu.clone()),
        ("logical processors", m.cpus.to_string()),
        ("memory", format!("{} MiB", grouped(m.memory_mib as f64))),
        ("platform", m.platform.clone()),
        ("kernel", m.kernel.clone()),
        ("frequency governor", m.governor.clone()),
        ("clock source", m.clock_source.clone()),
    ];
    let rows: String = rows
        .iter()
        .map(|(k, v)| format!("<tr><th>{k}</th><td class=text>{}</td></tr>", escape(v)))
        .collect();
    format!("<table><tbody>{rows}</tbody></table>")
}

#[cfg(test)]
#[path = "report/report_tests.rs"]
mod tests;
