// SPDX-License-Identifier: Apache-2.0
//! Modes of a graph: named sets of active components and parameters (`docs/modes.md`).

use super::diagnostic::{Diagnostic, Place, suggest};
use super::files::{Files, Part};
use super::model::ModeSpec;
use super::model::OnExhausted;
use super::resolved::{ModeSource, ResolvedComponent, ResolvedMode, ResolvedModes, ResolvedModule};
use super::units::Milliseconds;
use driveline::ParameterValue;
use driveline_types::{NodeName, TopicName};
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of modes of a graph.
pub const MAX_MODES: usize = 64;
/// Default time to enter a mode.
const ENTER_WITHIN: Duration = Duration::from_secs(1);
/// Sources in `switched_by` that are not components.
const COMMAND: &str = "command";
pub(super) const REACTION: &str = "reaction";

/// Checks and resolves the modes. `components` has the names of all components, also of those in
/// modules that were not checked. `looked_at` names the modules whose classes are known. `None`
/// means all modules; then all topics are known, too.
pub(super) fn check(
    files: &mut Files,
    components: &[String],
    modules: &[ResolvedModule],
    looked_at: Option<&[String]>,
) -> Option<ResolvedModes> {
    reactions(files, modules);
    let names: Vec<String> = files.modes.keys().cloned().collect();
    let initial = initial(files, &names);
    if names.is_empty() {
        return None;
    }
    if names.len() > MAX_MODES {
        let place = files.place(files.modes[0].document, &["modes"], Part::Key);
        let text = format!("the graph has {} modes; at most {MAX_MODES} are possible", names.len());
        files.error(Diagnostic::error(text).at(place).help("remove modes that are not used"));
        return None;
    }
    let specs: Vec<_> =
        files.modes.iter().map(|(n, m)| (n.clone(), m.document, m.spec.clone())).collect();
    let mut modes = Vec::new();
    for (name, document, spec) in &specs {
        let mut check = Check { files, document: *document, mode: name };
        modes.push(check.mode(spec, &names, components, modules, looked_at));
    }
    Some(ResolvedModes { initial, modes })
}

/// Returns the index of the initial mode; reports a name that no mode has.
fn initial(files: &mut Files, names: &[String]) -> usize {
    let Some((document, wanted)) =
        files.initial_mode.as_ref().map(|m| (m.document, m.spec.clone()))
    else {
        return 0;
    };
    let found = names.iter().position(|n| *n == wanted);
    if found.is_none() {
        let place = files.place(document, &["initial_mode"], Part::Value);
        unknown_mode(files, &wanted, names, place);
    }
    found.unwrap_or(0)
}

fn unknown_mode(files: &mut Files, wanted: &str, names: &[String], place: Place) {
    let help = if names.is_empty() {
        "declare it under `modes:`".to_owned()
    } else {
        suggest(wanted, "modes", names.iter().map(String::as_str))
    };
    files.error(Diagnostic::error(format!("there is no mode `{wanted}`")).at(place).help(help));
}

/// Checks `on_exhausted` of each module: reports a mode that does not exist, that does not accept
/// reactions, or that cannot be entered while the module is down.
fn reactions(files: &mut Files, modules: &[ResolvedModule]) {
    let names: Vec<String> = files.modes.keys().cloned().collect();
    let wanted: Vec<_> = files
        .modules
        .iter()
        .filter_map(|(module, m)| match &m.spec.restart.as_ref()?.on_exhausted {
            Some(OnExhausted::Mode(mode)) => Some((module.clone(), m.document, mode.clone())),
            _ => None,
        })
        .collect();
    for (module, document, mode) in wanted {
        let path = ["modules", &module, "restart", "on_exhausted", "mode"];
        let place = files.place(document, &path, Part::Value);
        if !names.contains(&mode) {
            unknown_mode(files, &mode, &names, place);
        } else if let Some((message, help)) =
            refuses_reactions(files, &mode).or_else(|| without(files, &module, modules, &mode))
        {
            files.error(Diagnostic::error(message).at(place).help(help));
        }
    }
}

/// Describes why neither a mode nor one of its `fallback` can be entered while a module is down,
/// with the remedy.
fn without(
    files: &Files,
    module: &str,
    modules: &[ResolvedModule],
    mode: &str,
) -> Option<(String, String)> {
    let down = modules.iter().find(|m| m.name.as_str() == module)?;
    let outside = |topic: &str| files.topics.get(topic).is_some_and(|t| t.spec.external);
    let need = |mode: &str| need(&files.modes.get(mode)?.spec, down, modules, &outside);
    let why = need(mode)?;
    let fallback = &files.modes.get(mode)?.spec.fallback;
    fallback.iter().all(|other| need(other).is_some()).then(|| {
        (
            format!("mode `{mode}` cannot be entered while `{module}` is down: {why}"),
            "name a mode that does not need this module".to_owned(),
        )
    })
}

/// Describes why a mode can be entered only while a module is ready; `None` if it does not need it.
/// `outside` returns true for a topic that may have publishers outside the graph.
fn need(
    spec: &ModeSpec,
    down: &ResolvedModule,
    modules: &[ResolvedModule],
    outside: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let active = |c: &ResolvedComponent| spec.active.iter().any(|a| a == c.name.as_str());
    if let Some(component) = down.components.iter().find(|c| active(c)) {
        return Some(format!("`{}` is active in it", component.name));
    }
    if spec.entry.ready.iter().any(|m| m == down.name.as_str()) {
        return Some("its `entry` needs this module".to_owned());
    }
    let publishes = |m: &ResolvedModule, topic: &str| {
        m.components.iter().flat_map(|c| &c.outputs).any(|o| o.topic.as_str() == topic)
    };
    let mut topics = spec.entry.rates.keys().chain(spec.entry.ages.keys());
    let topic = topics.find(|topic| {
        publishes(down, topic)
            && !outside(topic)
            && !modules.iter().any(|m| m.name != down.name && publishes(m, topic))
    })?;
    Some(format!("its `entry` needs `{topic}`, which only this module publishes"))
}

/// Describes a mode to which no reaction may switch, with the remedy.
pub(super) fn refuses_reactions(files: &Files, mode: &str) -> Option<(String, String)> {
    let sources = files.modes.get(mode)?.spec.switched_by.as_ref()?;
    (!sources.iter().any(|source| source == REACTION)).then(|| {
        let text = format!("this reaction may not switch to mode `{mode}`: see its `switched_by`");
        (text, format!("add `{REACTION}` to `switched_by` of mode `{mode}`"))
    })
}

struct Check<'a> {
    files: &'a mut Files,
    document: usize,
    mode: &'a str,
}

impl Check<'_> {
    fn error(&mut self, path: &[&str], part: Part, message: String, help: String) {
        let path: Vec<&str> =
            ["modes", self.mode].into_iter().chain(path.iter().copied()).collect();
        let place = self.files.place(self.document, &path, part);
        self.files.error(Diagnostic::error(message).at(place).help(help));
    }

    fn mode(
        &mut self,
        spec: &ModeSpec,
        names: &[String],
        components: &[String],
        modules: &[ResolvedModule],
        looked_at: Option<&[String]>,
    ) -> ResolvedMode {
        let whole = looked_at.is_none();
        if let Err(e) = self.mode.parse::<NodeName>() {
            self.error(&[], Part::Key, format!("mode {e}"), "give it another name".into());
        }
        for (i, component) in spec.active.iter().enumerate() {
            let at = i.to_string();
            if !components.contains(component) {
                let help = suggest(component, "components", components.iter().map(String::as_str));
                let text = format!("there is no component `{component}`");
                self.error(&["active", &at], Part::Value, text, help);
            } else if spec.active[..i].contains(component) {
                let text = format!("`{component}` is named twice");
                self.error(&["active", &at], Part::Value, text, "remove one of them".into());
            }
        }
        let module_names: Vec<&str> = modules.iter().map(|m| m.name.as_str()).collect();
        for (i, module) in spec.entry.ready.iter().enumerate() {
            if !module_names.contains(&module.as_str()) {
                let help = suggest(module, "modules", module_names.iter().copied());
                let text = format!("there is no module `{module}`");
                self.error(&["entry", "ready", &i.to_string()], Part::Value, text, help);
            }
        }
        let mut fallback = Vec::new();
        for (i, other) in spec.fallback.iter().enumerate() {
            let at = i.to_string();
            match names.iter().position(|n| n == other) {
                Some(_) if other == self.mode => {
                    let text = format!("the mode `{other}` names itself");
                    self.error(&["fallback", &at], Part::Value, text, "remove it".into());
                }
                Some(index) => fallback.push(index),
                None => {
                    let path = ["modes", self.mode, "fallback", &at];
                    let place = self.files.place(self.document, &path, Part::Value);
                    unknown_mode(self.files, other, names, place);
                }
            }
        }
        let switched_by = spec.switched_by.as_ref().map(|list| self.sources(list, components));
        if switched_by.as_ref().is_some_and(Vec::is_empty) && !self.is_entered_without_request() {
            self.error(
                &["switched_by"],
                Part::Value,
                "the run can never enter this mode: no source may request it".into(),
                "name a source, such as `command`, or name the mode in a `fallback`".into(),
            );
        }
        let ms = |time: Option<Milliseconds>| time.and_then(Milliseconds::duration);
        ResolvedMode {
            name: self.mode.to_owned(),
            active: spec.active.clone(),
            parameters: self.parameters(spec, components, modules, looked_at),
            ready: spec.entry.ready.clone(),
            rates: self.rates(spec, modules, whole),
            ages: self.ages(spec, modules, whole),
            enter_within: ms(spec.enter_within_ms).unwrap_or(ENTER_WITHIN),
            fallback,
            latch: spec.latch,
            min_dwell: ms(spec.min_dwell_ms).unwrap_or_default(),
            switched_by,
            order: spec.order,
        }
    }

    /// Returns true if the mode is the initial one, or a fallback of another.
    fn is_entered_without_request(&self) -> bool {
        let first = self.files.modes.keys().next();
        let initial = self.files.initial_mode.as_ref().map(|m| &m.spec).or(first);
        initial.is_some_and(|name| name == self.mode)
            || self.files.modes.values().any(|m| m.spec.fallback.iter().any(|f| f == self.mode))
    }

    fn sources(&mut self, list: &[String], components: &[String]) -> Vec<ModeSource> {
        let mut sources = Vec::new();
        for (i, source) in list.iter().enumerate() {
            sources.push(match source.as_str() {
                COMMAND => ModeSource::Command,
                REACTION => ModeSource::Reaction,
                name => ModeSource::Component(name.to_owned()),
            });
            let known = [COMMAND, REACTION].contains(&source.as_str());
            if !known && !components.contains(source) {
                let names = components.iter().map(String::as_str).chain([COMMAND, REACTION]);
                let help = suggest(source, "sources", names);
                let text = format!("`{source}` is neither `command`, `reaction` nor a component");
                self.error(&["switched_by", &i.to_string()], Part::Value, text, help);
            }
        }
        sources
    }

    fn topic(
        &mut self,
        key: &str,
        topic: &str,
        modules: &[ResolvedModule],
        whole: bool,
    ) -> Option<TopicName> {
        let published: Vec<&str> = modules
            .iter()
            .flat_map(|m| &m.components)
            .flat_map(|c| &c.outputs)
            .map(|o| o.topic.as_str())
            .collect();
        if whole && !published.contains(&topic) {
            let help = suggest(topic, "published topics", published);
            let text = format!("no component of this graph publishes `{topic}`");
            self.error(&["entry", key, topic], Part::Key, text, help);
            return None;
        }
        // A condition on an age is not refused: shortly after the mode was left, the topic's last
        // sample is still young enough.
        if whole && key == "rates" && self.is_silent_before(topic, modules) {
            let text = format!(
                "`{topic}` has no samples before the mode is entered: all components that publish \
                 it are active only in this mode"
            );
            let help = "remove it, or name a topic that is published in other modes, too".into();
            self.error(&["entry", key, topic], Part::Key, text, help);
        }
        topic.parse().ok()
    }

    /// Returns true if all publishers of a topic are components that only this mode has active.
    fn is_silent_before(&self, topic: &str, modules: &[ResolvedModule]) -> bool {
        let external = self.files.topics.get(topic).is_some_and(|t| t.spec.external);
        let only_here = |component: &str| {
            let active = |spec: &ModeSpec| spec.active.iter().any(|name| name == component);
            let mut modes = self.files.modes.iter().filter(|(_, m)| active(&m.spec));
            modes.next().is_some_and(|(name, _)| name == self.mode) && modes.next().is_none()
        };
        let components = modules.iter().flat_map(|m| &m.components);
        let mut publishers =
            components.filter(|c| c.outputs.iter().any(|o| o.topic.as_str() == topic));
        !external && publishers.all(|c| only_here(c.name.as_str()))
    }

    fn rates(
        &mut self,
        spec: &ModeSpec,
        modules: &[ResolvedModule],
        whole: bool,
    ) -> Vec<(TopicName, f64)> {
        let mut rates = Vec::new();
        for (topic, hz) in &spec.entry.rates {
            if !(hz.is_finite() && *hz > 0.0 && *hz <= 1e6) {
                let help = "write samples per second, such as 20".to_owned();
                let text = format!("{hz} is no rate");
                self.error(&["entry", "rates", topic], Part::Value, text, help);
            }
            rates.extend(self.topic("rates", topic, modules, whole).map(|t| (t, *hz)));
        }
        rates
    }

    fn ages(
        &mut self,
        spec: &ModeSpec,
        modules: &[ResolvedModule],
        whole: bool,
    ) -> Vec<(TopicName, Duration)> {
        let mut ages = Vec::new();
        for (topic, age) in &spec.entry.ages {
            let age = age.duration().unwrap_or_default();
            ages.extend(self.topic("ages", topic, modules, whole).map(|t| (t, age)));
        }
        ages
    }

    fn parameters(
        &mut self,
        spec: &ModeSpec,
        components: &[String],
        modules: &[ResolvedModule],
        looked_at: Option<&[String]>,
    ) -> BTreeMap<String, BTreeMap<String, ParameterValue>> {
        let mut all = BTreeMap::new();
        for (component, values) in &spec.parameters {
            if !components.contains(component) {
                let help = suggest(component, "components", components.iter().map(String::as_str));
                let text = format!("there is no component `{component}`");
                self.error(&["parameters", component], Part::Key, text, help);
                continue;
            }
            // Only for modules in `looked_at` are the parameters of the classes known. For other
            // modules, only the parameters that the graph sets are known, so nothing is checked.
            let known = |m: &&ResolvedModule| {
                looked_at.is_none_or(|names| names.iter().any(|name| name == m.name.as_str()))
            };
            let declared = modules
                .iter()
                .filter(known)
                .flat_map(|m| &m.components)
                .find(|c| c.name.as_str() == component)
                .filter(|c| !c.parameters.is_empty());
            let own: &mut BTreeMap<_, _> = all.entry(component.clone()).or_default();
            for (name, value) in values {
                own.insert(name.clone(), self.value(component, name, value, declared));
            }
        }
        all
    }

    /// Converts the value to the type of the parameter, if that is known.
    fn value(
        &mut self,
        component: &str,
        name: &str,
        value: &ParameterValue,
        declared: Option<&ResolvedComponent>,
    ) -> ParameterValue {
        let path = ["parameters", component, name];
        let Some(declared) = declared else { return value.clone() };
        let Some(have) = declared.parameters.get(name) else {
            let names = declared.parameters.keys().map(String::as_str);
            let help = suggest(name, "parameters", names);
            let text = format!("`{component}` has no parameter `{name}`");
            self.error(&path, Part::Key, text, help);
            return value.clone();
        };
        let Some(value) = value.clone().coerce(have) else {
            let (wanted, given) = (have.type_name(), value.type_name());
            let text = format!("the parameter `{name}` is {wanted}, and this is {given}");
            self.error(&path, Part::Value, text, format!("write a value like `{have}`"));
            return value.clone();
        };
        if let Some(mistake) = declared.ranges.get(name).and_then(|range| range.mistake(&value)) {
            let text = format!("the parameter `{name}` of `{}`: {mistake}", declared.class);
            self.error(&path, Part::Value, text, format!("write a value like `{have}`"));
        }
        value
    }
}
