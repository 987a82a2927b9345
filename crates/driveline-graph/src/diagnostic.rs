// SPDX-License-Identifier: Apache-2.0
//! Findings about a graph, with their places, and their display.

use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A stretch of one line. Lines and columns count from 1, columns in characters; line 0 means the
/// file as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Span {
    /// Line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Length in characters, at least 1 where `line` is not 0.
    pub len: u32,
}

impl Span {
    /// Creates a span; line and column count from 1.
    #[must_use]
    pub fn at(line: usize, column: usize, len: usize) -> Self {
        let cut = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Self { line: cut(line), column: cut(column), len: cut(len.max(1)) }
    }
}

/// A stretch of a line of one of the files that make up a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) file: usize,
    pub(super) span: Span,
}

/// Longest line that is shown with a finding, in bytes.
const LONGEST_SHOWN: usize = 10_000;

/// The texts of the files, to which findings refer.
#[derive(Clone, Debug, Default)]
pub(super) struct Sources {
    files: Vec<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    path: PathBuf,
    text: String,
    /// Beginning of each line.
    lines: Vec<usize>,
}

impl Source {
    fn line(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let from = *self.lines.get(number.checked_sub(1)?)?;
        let to = self.lines.get(number).copied().unwrap_or(self.text.len());
        self.text.get(from..to)?.lines().next()
    }
}

impl Sources {
    pub(super) fn add(&mut self, path: PathBuf, text: String) -> usize {
        let lines =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        self.files.push(Source { path, text, lines });
        self.files.len() - 1
    }

    /// The paths of all files.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|f| f.path.clone()).collect()
    }

    /// The path of a file.
    pub(super) fn path(&self, file: usize) -> Option<&Path> {
        self.files.get(file).map(|f| f.path.as_path())
    }

    /// Bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        self.files.iter().map(|f| f.text.len()).sum()
    }

    pub(super) fn place(&self, site: Site) -> Place {
        let Some(source) = self.files.get(site.file) else {
            return Place { file: PathBuf::new(), span: site.span, source: String::new() };
        };
        let line =
            source.line(site.span.line).filter(|l| l.len() <= LONGEST_SHOWN).unwrap_or_default();
        Place { file: source.path.clone(), span: site.span, source: line.to_owned() }
    }
}

/// A place as shown to people and tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Path of the file, as the caller gave it. For an included file: the path that `include:`
    /// names, joined to the directory of the including file.
    pub file: PathBuf,
    /// Line, column and length.
    #[serde(flatten)]
    pub span: Span,
    /// The whole line; empty if it is longer than 10 000 bytes, or if `line` is 0.
    pub source: String,
}

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// The graph cannot run like this.
    Error,
    /// It can run, but perhaps not as intended.
    Warning,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// Severity.
    pub severity: Severity,
    /// Description.
    pub message: String,
    /// Place; `None` for a finding outside of files, such as in a command-line argument.
    pub place: Option<Place>,
    /// Remedy.
    pub help: Option<String>,
    /// Other related places.
    pub related: Vec<Related>,
}

/// Another place related to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Description of the related place.
    pub message: String,
    /// Place.
    pub place: Place,
}

/// All findings about a graph, in the order of files and lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

/// Use of colours in output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// ANSI colours.
    Yes,
    /// Plain text.
    No,
}

impl Diagnostics {
    /// Maximum number of findings kept. A file with more is probably wrong as a whole, and further
    /// findings would not help.
    pub const MOST: usize = 200;

    /// Adds a finding. It is dropped if there is an equal one, or if [`Self::MOST`] are kept
    /// already.
    pub fn push(&mut self, d: Diagnostic) {
        if self.list.len() < Self::MOST && !self.list.contains(&d) {
            self.list.push(d);
        }
    }

    pub(super) fn sort(&mut self) {
        self.list.sort_by(|a, b| {
            let key = |d: &Diagnostic| {
                d.place.as_ref().map(|p| (p.file.clone(), p.span.line, p.span.column))
            };
            key(a).cmp(&key(b)).then(a.severity.cmp(&b.severity))
        });
    }

    /// Adds the findings of another check of the same files.
    pub fn merge(&mut self, other: Self) {
        other.list.into_iter().for_each(|d| self.push(d));
        self.sort();
    }

    /// Returns true if there is no finding.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Number of errors.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Error).count()
    }

    /// Number of warnings.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.list.len() - self.errors()
    }

    /// The findings with their source lines, as shown on a terminal. Ends with a newline unless
    /// there are none.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let mut out = String::new();
        for d in &self.list {
            d.render_into(colour, &mut out);
        }
        out
    }
}

impl Diagnostic {
    /// An error without place and help.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            place: None,
            help: None,
            related: Vec::new(),
        }
    }

    /// A warning without a place.
    #[must_use]
    pub fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Adds the place.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.place = Some(place);
        self
    }

    /// Adds the remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(super) fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    /// Adds another related place.
    #[must_use]
    pub fn related(mut self, message: impl Into<String>, place: Place) -> Self {
        self.related.push(Related { message: message.into(), place });
        self
    }

    fn render_into(&self, colour: Colour, out: &mut String) {
        let paint = |code: &str, text: &str| match colour {
            Colour::Yes => format!("\x1b[{code}m{text}\x1b[0m"),
            Colour::No => text.to_owned(),
        };
        let (word, code) = match self.severity {
            Severity::Error => ("error", "1;31"),
            Severity::Warning => ("warning", "1;33"),
        };
        let _ = writeln!(
            out,
            "{}{}",
            paint(code, word),
            paint("1", &format!(": {}", clean(&self.message)))
        );
        let width = self
            .place
            .iter()
            .chain(self.related.iter().map(|r| &r.place))
            .map(|p| p.span.line.to_string().len())
            .max()
            .unwrap_or(1);
        let pad = " ".repeat(width);
        let bar = paint("34", "|");
        let mut show = |place: &Place, arrow: &str, note: &str, code: &str| {
            let Span { line, column, len } = place.span;
            let (file, note) = (clean(&place.file.display().to_string()), clean(note));
            if line == 0 {
                let _ = writeln!(out, "{pad}{} {file}{note}", paint("34", arrow));
                return;
            }
            let _ = writeln!(out, "{pad}{} {file}:{line}:{column}{note}", paint("34", arrow));
            if place.source.is_empty() {
                return;
            }
            let (text, before, marked) = excerpt(&place.source, column as usize, len as usize);
            let _ = writeln!(out, "{pad} {bar}");
            let _ = writeln!(out, "{} {bar} {text}", paint("34", &format!("{line:>width$}")));
            let _ = writeln!(
                out,
                "{pad} {bar} {}{}",
                " ".repeat(before),
                paint(code, &"^".repeat(marked))
            );
        };
        if let Some(place) = &self.place {
            show(place, "-->", "", code);
        }
        for r in &self.related {
            show(&r.place, ":::", &format!(": {}", r.message), "1;34");
        }
        if let Some(help) = &self.help {
            let _ = writeln!(out, "{pad} {} {}", paint("1;36", "= help:"), clean(help));
        }
        out.push('\n');
    }
}

/// Replaces control characters, and other characters that could mislead a reader, by blanks: text
/// from files and names must not control the terminal. One character stays one column.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if driveline_types::text::misleads(c) { ' ' } else { c }).collect()
}

/// Returns the part of a line around a column that fits on a terminal: text, columns before the
/// mark, length of the mark.
fn excerpt(line: &str, column: usize, len: usize) -> (String, usize, usize) {
    const WIDTH: usize = 120;
    let clean: Vec<char> = clean(line).chars().collect();
    let at = column.saturating_sub(1).min(clean.len());
    let from = if clean.len() <= WIDTH || at < WIDTH / 2 { 0 } else { at - WIDTH / 2 };
    let text: String = clean.iter().skip(from).take(WIDTH).collect();
    let before = at - from;
    (text.trim_end().to_owned(), before, len.clamp(1, WIDTH - before.min(WIDTH - 1)))
}

/// Returns the candidate that the author of `given` probably meant.
#[must_use]
pub fn closest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance takes memory for the product of both lengths. Names and paths are shorter than
    // this.
    const LONGEST: usize = 300;
    if given.len() > LONGEST {
        return None;
    }
    let lower = given.to_lowercase();
    let most = (given.chars().count() / 2).clamp(1, 3);
    // A shortened name means its full form, not another short name: `rate` is `rate_hz`, not
    // `take`.
    let goes_on = |c: &str| lower.len() >= 3 && c.to_lowercase().starts_with(&lower);
    candidates
        .into_iter()
        .filter(|c| c.len() <= LONGEST)
        .map(|c| (!goes_on(c), strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c))
        .filter(|(other, distance, _)| !other || *distance <= most)
        .min()
        .map(|(_, _, c)| c)
}

/// Returns `did you mean …`, or else a list of the candidates, which begins with `what`: `known
/// keys: …`.
#[must_use]
pub fn suggest<'a>(
    given: &str,
    what: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    if let Some(near) = closest(given, candidates.clone()) {
        return format!("did you mean `{near}`?");
    }
    const MOST: usize = 12;
    let all: Vec<&str> = candidates.into_iter().collect();
    let mut list = all
        .iter()
        .take(MOST)
        .map(|c| format!("`{}`", super::yaml::shorten(c)))
        .collect::<Vec<_>>()
        .join(", ");
    if all.len() > MOST {
        let _ = write!(list, " and {} more", all.len() - MOST);
    }
    if all.is_empty() { format!("there are no {what}") } else { format!("{what}: {list}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: u32, column: u32, len: u32, source: &str) -> Place {
        Place { file: "g.yaml".into(), span: Span { line, column, len }, source: source.into() }
    }

    #[test]
    fn a_finding_shows_file_line_mark_and_help() {
        let d = Diagnostic::error("unknown key `clas`")
            .at(place(12, 5, 4, "    clas: Lane"))
            .related("declared here", place(3, 1, 2, "ab: 1"))
            .help("did you mean `class`?");
        let all = Diagnostics { list: vec![d] };
        let expected = "error: unknown key `clas`\n  --> g.yaml:12:5\n   |\n12 |     clas: \
             Lane\n   |     ^^^^\n  ::: g.yaml:3:1: declared here\n   |\n 3 | ab: 1\n   | ^^\n   = \
             help: did you mean `class`?\n\n";
        assert_eq!(all.render(Colour::No), expected);
        let coloured = all.render(Colour::Yes);
        assert!(coloured.contains("\x1b[1;31merror\x1b[0m"), "{coloured:?}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let evil = "a\u{1b}[31mb";
        let whole = || Place { file: evil.into(), ..place(0, 0, 0, "") };
        let named = Place { file: evil.into(), ..place(1, 3, 500, evil) };
        let d = Diagnostic::error(evil).at(named).related(evil, whole()).help(evil);
        assert!(!Diagnostics { list: vec![d] }.render(Colour::No).contains('\u{1b}'));
    }

    #[test]
    fn long_lines_are_cut_around_the_mark() {
        let line = format!("{}HERE{}", "x".repeat(400), "y".repeat(400));
        let (text, before, len) = excerpt(&line, 401, 4);
        assert_eq!(&text[before..before + len], "HERE");
        assert!(text.len() <= 120);
    }

    #[test]
    fn suggestions_are_near_misses_only() {
        let keys = ["class", "library", "parameters"];
        assert_eq!(closest("clas", keys), Some("class"));
        assert_eq!(closest("Library", keys), Some("library"));
        assert_eq!(closest("param", keys), Some("parameters"));
        assert_eq!(closest("colour", keys), None);
        assert_eq!(
            suggest("colour", "known keys", keys),
            "known keys: `class`, `library`, `parameters`"
        );
    }
}
