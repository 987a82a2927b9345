// SPDX-License-Identifier: Apache-2.0
//! Definitions of ROS 2 types in the packages under `ros2: types:`: the usable ones, and the
//! reasons why others are not usable.
//!
//! Both the check of a graph and the gateway that runs it use this module, so the check reports
//! what the gateway will do.

use super::{Direction, Form, Rule};
use driveline_graph::closest;
use driveline_rosidl::{
    Catalog, DefinitionError, Namespace, Place, TypeHash, TypeName, TypeNameError,
};
use driveline_types::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Messages that need no definition file, because the gateway converts them.
pub const CONVERTED: [&str; 6] = [
    "sensor_msgs/msg/Image",
    "sensor_msgs/msg/CompressedImage",
    "sensor_msgs/msg/PointCloud2",
    "sensor_msgs/msg/Imu",
    "radar_msgs/msg/RadarScan",
    "vision_msgs/msg/Detection2DArray",
];
/// Maximum number of packages that are read: several times the number that ROS 2 has.
const MAX_PACKAGES: usize = 4096;
/// Maximum number of directories named in a text.
const MOST_NAMED: usize = 4;
/// Maximum number of characters that an error repeats of a type name that may be invalid.
const LONGEST_NAME: usize = 80;

/// Definitions of packages. A definition with a mistake is skipped, with all that refer to it.
#[derive(Debug)]
pub struct Definitions {
    catalog: Catalog,
    /// Directories as given.
    directories: Vec<PathBuf>,
    /// Packages in them, with the index of the directory.
    packages: Vec<(usize, PathBuf)>,
    /// Base of relative paths in remedies.
    base: PathBuf,
    unusable: Vec<(usize, DefinitionError)>,
    broken: BTreeMap<TypeName, (usize, DefinitionError)>,
}

/// Messages that cannot come from ROS 2: one message, or all messages of one entry under `types`
/// that lack definitions of the same package.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Index of their entry under `types`, from 0.
    pub directory: usize,
    /// The message types; at least one.
    pub types: Vec<TypeName>,
    /// First mistake.
    pub error: DefinitionError,
}

impl LeftOut {
    /// Describes the skipped definitions, without the reason.
    #[must_use]
    pub fn what(&self) -> String {
        match self.types.as_slice() {
            [only] => format!("the message type {only} is left out"),
            [first, others @ ..] => {
                let one_package = others.iter().all(|t| t.package() == first.package());
                let of =
                    if one_package { format!(" of {}", first.package()) } else { String::new() };
                format!("{} message types{of}, such as {first}, are left out", self.types.len())
            }
            [] => String::new(),
        }
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what(), self.error)
    }
}

impl Definitions {
    /// Reads the definitions of packages. Each entry of `directories` is a package, a directory of
    /// packages, or an installed ROS 2, which has packages under `share`; or several of these, with
    /// `:` between them. If several packages have the same name, a package that is itself an entry
    /// takes precedence, otherwise the first one, as in ROS 2. Remedies name paths below `base`
    /// relative to it. Blocks on files.
    #[must_use]
    pub fn read(directories: &[PathBuf], base: &Path) -> Self {
        let (directories, base) = (directories.to_vec(), base.to_owned());
        let mut this = Self {
            catalog: Catalog::new(),
            directories,
            packages: Vec::new(),
            base,
            unusable: Vec::new(),
            broken: BTreeMap::new(),
        };
        let found: Vec<_> = this.directories.iter().map(|entry| packages_of(entry)).collect();
        let given: BTreeSet<_> = found
            .iter()
            .flatten()
            .filter(|p| p.is_given)
            .filter_map(|p| p.directory.file_name())
            .collect();
        let (mut seen, mut read) = (BTreeSet::new(), Vec::new());
        for (number, packages) in found.iter().enumerate() {
            if packages.is_empty() {
                this.unusable.push((number, this.no_package(&this.directories[number])));
            }
            for package in packages {
                let name = package.directory.file_name().unwrap_or_default();
                if package.is_given || (!given.contains(name) && seen.insert(name)) {
                    read.push((number, package.clone()));
                }
            }
        }
        if read.len() > MAX_PACKAGES {
            let place = Place { file: "types".into(), line: 0 };
            let problem = format!("has {} packages, of which {MAX_PACKAGES} are read", read.len());
            let remedy = "name the packages that are needed".to_owned();
            this.unusable.push((
                read[MAX_PACKAGES].0,
                DefinitionError { place, problem, remedy, missing: None },
            ));
            read.truncate(MAX_PACKAGES);
        }
        for (number, package) in read {
            this.packages.push((number, package.directory.clone()));
            this.read_package(number, &package);
        }
        this
    }

    fn read_package(&mut self, number: usize, Package { directory, is_given }: &Package) {
        let files = match Catalog::files_of(directory) {
            Ok(files) => files,
            Err(e) => return self.unusable.push((number, e)),
        };
        let nameless: Vec<&PathBuf> = files.iter().filter(|file| !self.add(number, file)).collect();
        // In a directory of many packages, a package without usable files is no mistake: not all
        // packages are needed.
        if let Some(first) = nameless.first().filter(|_| *is_given && nameless.len() == files.len())
        {
            self.unusable.push((number, no_names(directory, first)));
        }
    }

    /// Adds a file. Returns true if its name can be that of a type.
    fn add(&mut self, number: usize, file: &Path) -> bool {
        let Err(error) = self.catalog.add_file(file) else { return true };
        match name_of(file) {
            // Nothing can refer to this file: it is an editor's lock, or a copy.
            None => return false,
            Some(name) if !self.defines(&name) => drop(self.broken.insert(name, (number, error))),
            // A second definition of the same name: which one is intended is unknown.
            Some(_) => self.unusable.push((number, error)),
        }
        true
    }

    /// Returns the mistakes that concern a whole directory, with its index from 0: it has no
    /// definitions, or none with a valid name; it cannot be listed; it has packages beyond the
    /// maximum; or a second definition of a name differs or has a mistake.
    pub fn unusable(&self) -> impl Iterator<Item = (usize, &DefinitionError)> {
        self.unusable.iter().map(|(number, error)| (*number, error))
    }

    fn defines(&self, name: &TypeName) -> bool {
        self.catalog.message(name).is_some() || self.catalog.service(name).is_some()
    }

    /// Returns true if there is a definition of this name, with or without mistakes.
    #[must_use]
    pub fn has(&self, name: &TypeName) -> bool {
        self.defines(name) || self.broken.contains_key(name)
    }

    /// Returns the schema of a message, with all definitions that it refers to.
    ///
    /// # Errors
    /// Missing or wrong part, its place, and the remedy.
    pub fn message(&self, name: &TypeName) -> Result<Schema, DefinitionError> {
        self.sound(name)?;
        self.catalog.schema(name).map_err(|e| self.explained(e, name))
    }

    /// Returns a service by its type, such as `nav_msgs/srv/GetMap`, with the schemas of its
    /// requests and responses and all definitions that they refer to.
    ///
    /// # Errors
    /// As [`Definitions::message`], and if `ros_type` is not a valid type name.
    pub fn service(&self, ros_type: &str) -> Result<(TypeName, Schema, Schema), DefinitionError> {
        let place =
            Place { file: ros_type.chars().take(LONGEST_NAME).collect::<String>().into(), line: 0 };
        let name: TypeName = match ros_type.parse() {
            Ok(name) => name,
            Err(TypeNameError { reason, .. }) => {
                let remedy = "write it as package/srv/Name, such as nav_msgs/srv/GetMap".to_owned();
                return Err(DefinitionError {
                    place,
                    problem: format!("is no type of ROS 2: {reason}"),
                    remedy,
                    missing: None,
                });
            }
        };
        self.sound(&name)?;
        let Some(service) = self.catalog.service(&name) else {
            let (problem, remedy) = ("is not defined".to_owned(), self.remedy(&name, true));
            return Err(DefinitionError { place, problem, remedy, missing: Some(Box::new(name)) });
        };
        let of = |half: &TypeName| self.catalog.schema(half).map_err(|e| self.explained(e, &name));
        let (request, response) = (of(&service.request.name)?, of(&service.response.name)?);
        Ok((name, request, response))
    }

    /// Returns the hash of a message or service; `None` if its definition is not complete.
    #[must_use]
    pub fn type_hash(&self, name: &TypeName) -> Option<TypeHash> {
        self.catalog.type_hash(name).ok()
    }

    /// Returns the messages that rules could carry from ROS 2 but that have mistakes or lack
    /// definitions, in the order of the entries under `types`.
    #[must_use]
    pub fn left_out(&self, rules: &[Rule]) -> Vec<LeftOut> {
        let from_ros: Vec<&Rule> =
            rules.iter().filter(|r| r.direction != Direction::ToRos).collect();
        if from_ros.is_empty() {
            return Vec::new();
        }
        let converts = from_ros.iter().any(|r| r.form == Form::Converted);
        let is_converted =
            |name: &TypeName| converts && CONVERTED.contains(&name.to_string().as_str());
        let is_message =
            |name: &&TypeName| name.namespace() == Namespace::Msg && !is_converted(name);
        let broken = self.broken.keys().filter(is_message);
        let mut out: Vec<LeftOut> = Vec::new();
        for name in self.catalog.messages().map(|m| &m.name).filter(is_message).chain(broken) {
            let Err(error) = self.sound(name).and_then(|()| self.catalog.schema(name)) else {
                continue;
            };
            let directory = self.directory_of(name);
            let package = |e: &DefinitionError| e.missing.as_ref().map(|m| m.package().to_owned());
            let same = |l: &&mut LeftOut| {
                l.directory == directory
                    && l.error.missing.is_some()
                    && package(&l.error) == package(&error)
            };
            match out.iter_mut().find(same) {
                Some(left) => left.types.push(name.clone()),
                // An explanation needs all definitions, so it is made once for all messages
                // reported together.
                None => out.push(LeftOut {
                    directory,
                    types: vec![name.clone()],
                    error: self.explained(error, name),
                }),
            }
        }
        out.sort_by(|a, b| (a.directory, &a.types).cmp(&(b.directory, &b.types)));
        out
    }

    fn directory_of(&self, name: &TypeName) -> usize {
        let file = self.catalog.message(name).map(|m| m.file.clone());
        let of_file = |file: &str| {
            self.packages
                .iter()
                .find(|(_, d)| Path::new(file).starts_with(d))
                .map(|(number, _)| *number)
        };
        self.broken
            .get(name)
            .map(|(number, _)| *number)
            .or_else(|| of_file(&file?))
            .unwrap_or_default()
    }

    /// Returns an error if the definition of this name has a mistake.
    fn sound(&self, name: &TypeName) -> Result<(), DefinitionError> {
        self.broken.get(name).map_or(Ok(()), |(_, error)| Err(error.clone()))
    }

    /// Adds the remedy to an error. `asked`: the requested type.
    fn explained(&self, error: DefinitionError, asked: &TypeName) -> DefinitionError {
        let remedy = error.missing.as_deref().map(|missing| self.remedy(missing, missing == asked));
        DefinitionError { remedy: remedy.unwrap_or(error.remedy), ..error }
    }

    /// Returns the remedy for an undefined type. `by_name`: a person wrote the name, and may mean
    /// another package.
    fn remedy(&self, missing: &TypeName, by_name: bool) -> String {
        if let Some((_, error)) = self.broken.get(missing) {
            return format!("its own definition has a mistake: {error}");
        }
        let package = missing.package();
        let mut packages = self.packages.iter().map(|(_, d)| d);
        let own = packages.clone().find(|d| d.file_name().is_some_and(|n| n == package));
        let mut beside =
            || packages.find_map(|d| Some(d.parent()?.join(package)).filter(|d| is_package(d)));
        if let (None, Some(directory)) = (own, beside()) {
            return format!("add {} to `types`", self.shown(&directory));
        }
        let (near, looked) = (self.near(missing, by_name), self.looked());
        match (near, own) {
            (Some(near), _) => format!("did you mean `{near}`? ({looked})"),
            (None, Some(directory)) => {
                let kind = missing.namespace().as_str();
                format!(
                    "{} has no {kind}/{}.{kind}: is it of another release?",
                    self.shown(directory),
                    missing.name()
                )
            }
            (None, None) => {
                format!(
                    "add the directory of the package {package}, such as \
                     /opt/ros/jazzy/share/{package}, to `types` ({looked})"
                )
            }
        }
    }

    /// Suggests the intended name. `by_name`: a person wrote the name, so its package may be wrong,
    /// too.
    fn near(&self, missing: &TypeName, by_name: bool) -> Option<String> {
        let messages = self.catalog.messages().map(|m| &m.name);
        let all = messages.chain(self.catalog.services().map(|s| &s.name));
        // Requests and responses are not written by hand.
        let halves = |name: &&TypeName| {
            name.namespace() == Namespace::Srv && self.catalog.service(name).is_none()
        };
        let misspelt = |n: &TypeName| {
            n.name() == missing.name()
                && strsim::damerau_levenshtein(n.package(), missing.package()) == 1
        };
        let possible = |n: &&TypeName| by_name || n.package() == missing.package() || misspelt(n);
        let all: Vec<&TypeName> = all
            .filter(|n| n.namespace() == missing.namespace() && !halves(n) && possible(n))
            .collect();
        let named = || all.iter().find(|n| n.name() == missing.name()).map(ToString::to_string);
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        named().or_else(|| {
            closest(&missing.to_string(), texts.iter().map(String::as_str)).map(str::to_owned)
        })
    }

    fn looked(&self) -> String {
        let named: Vec<_> =
            self.directories.iter().take(MOST_NAMED).map(|d| self.shown(d)).collect();
        match self.directories.len() {
            0 => "`types` is empty".to_owned(),
            n if n > MOST_NAMED => {
                format!("looked for in {} and {} more", named.join(", "), n - MOST_NAMED)
            }
            _ => format!("looked for in {}", named.join(", ")),
        }
    }

    fn no_package(&self, directory: &Path) -> DefinitionError {
        let place = Place { file: directory.display().to_string().into(), line: 0 };
        let remedy = if directory.as_os_str().to_string_lossy().starts_with('$') {
            "set the variable before the run, such as by `source /opt/ros/jazzy/setup.bash`; \
             AMENT_PREFIX_PATH alone can stand here"
        } else {
            "name a directory that has msg/ or srv/, such as /opt/ros/jazzy/share/tf2_msgs, or one \
             of such packages, such as /opt/ros/jazzy/share"
        };
        DefinitionError {
            place,
            problem: "is no directory of a package with definitions".into(),
            remedy: remedy.into(),
            missing: None,
        }
    }

    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).display().to_string()
    }
}

/// Directory with definitions.
#[derive(Clone, Debug)]
struct Package {
    directory: PathBuf,
    /// True if the package itself was given, not a directory that contains it.
    is_given: bool,
}

/// Returns the packages of an entry under `types`, in order of precedence.
fn packages_of(entry: &Path) -> Vec<Package> {
    // A package is named after its directory, so `.` and `..` are resolved.
    let named = |d: PathBuf| {
        d.file_name().map_or_else(|| d.canonicalize().unwrap_or_else(|_| d.clone()), |_| d.clone())
    };
    let within = |directory: &Path| {
        let mut within: Vec<_> = std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .filter(|d| is_package(d))
            .collect();
        within.sort_unstable();
        within
    };
    let mut packages = Vec::new();
    for path in std::env::split_paths(entry).map(named) {
        // A package whose definitions cannot be listed still counts as one, and is reported.
        if Catalog::files_of(&path).map_or(true, |files| !files.is_empty()) {
            packages.push(Package { directory: path, is_given: true });
            continue;
        }
        let shared =
            [path.join("share"), path].into_iter().map(|d| within(&d)).find(|all| !all.is_empty());
        packages.extend(
            shared.into_iter().flatten().map(|directory| Package { directory, is_given: false }),
        );
    }
    packages
}

fn is_package(directory: &Path) -> bool {
    ["msg", "srv"].iter().any(|kind| directory.join(kind).is_dir())
}

fn no_names(directory: &Path, file: &Path) -> DefinitionError {
    let place = Place { file: directory.display().to_string().into(), line: 0 };
    let file = file.strip_prefix(directory.parent().unwrap_or(directory)).unwrap_or(file).display();
    let problem =
        format!("has no definition that a type of ROS 2 can be called after: {file} cannot be one");
    let remedy = "a package's directory is called like tf2_msgs, and a file in it like \
         msg/TFMessage.msg: rename it";
    DefinitionError { place, problem, remedy: remedy.into(), missing: None }
}

/// Returns the type that a file of a package defines, by its path.
fn name_of(file: &Path) -> Option<TypeName> {
    let text = |part: Option<&std::ffi::OsStr>| part.and_then(|p| p.to_str()).map(str::to_owned);
    let kind = file.parent()?;
    let namespace = if kind.ends_with("srv") { Namespace::Srv } else { Namespace::Msg };
    TypeName::new(&text(kind.parent()?.file_name())?, namespace, &text(file.file_stem())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn share(files: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    fn read(dir: &TempDir, packages: &[&str]) -> Definitions {
        Definitions::read(
            &packages.iter().map(|p| dir.path().join(p)).collect::<Vec<_>>(),
            dir.path(),
        )
    }

    fn name(text: &str) -> TypeName {
        text.parse().unwrap()
    }

    const NAV: [(&str, &str); 5] = [
        ("nav_msgs/srv/GetPlan.srv", "# a plan\ngeometry_msgs/PoseStamped start\n---\nPath plan\n"),
        ("nav_msgs/msg/Path.msg", "geometry_msgs/PoseStamped[] poses\n"),
        ("nav_msgs/msg/Goals.msg", "int8 x\ngeometry_msgs/PoseStamped[] goals\n"),
        ("nav_msgs/msg/Cells.msg", "int8[] cells\n"),
        ("geometry_msgs/msg/PoseStamped.msg", "float64 x\n"),
    ];

    #[test]
    fn complete_definitions_have_schemas_and_a_hash() {
        let dir = share(&NAV);
        let all = read(&dir, &["nav_msgs", "geometry_msgs"]);
        let (_, request, response) = all.service("nav_msgs/srv/GetPlan").unwrap();
        assert_eq!(
            (&*request.name, &*response.name),
            ("nav_msgs/srv/GetPlan_Request", "nav_msgs/srv/GetPlan_Response")
        );
        assert!(
            all.message(&name("nav_msgs/msg/Path")).is_ok()
                && all.type_hash(&name("nav_msgs/srv/GetPlan")).is_some()
        );
        assert_eq!(
            (all.left_out(&[Rule::new("/a", Direction::Both)]), all.unusable().count()),
            (Vec::new(), 0)
        );
    }

    #[test]
    fn a_missing_package_is_named_with_its_directory() {
        let dir = share(&NAV);
        let alone = read(&dir, &["nav_msgs"]);
        let e = alone.service("nav_msgs/srv/GetPlan").unwrap_err();
        assert_eq!(
            (e.place.line, e.remedy.as_str()),
            (2, "add geometry_msgs to `types`"),
            "it is in a sibling directory, and paths are relative"
        );
        assert!(
            e.place.file.ends_with("nav_msgs/srv/GetPlan.srv")
                && e.problem.contains("geometry_msgs/msg/PoseStamped of 'start'"),
            "{e}"
        );
        std::fs::remove_dir_all(dir.path().join("geometry_msgs")).unwrap();
        let e = alone.service("nav_msgs/srv/GetPlan").unwrap_err();
        let remedy = "add the directory of the package geometry_msgs, such as \
             /opt/ros/jazzy/share/geometry_msgs, to `types` (looked for in nav_msgs)";
        assert_eq!(e.remedy, remedy);
        let none = read(&dir, &[]).service("nav_msgs/srv/GetPlan").unwrap_err().to_string();
        assert!(
            none.starts_with(
                "nav_msgs/srv/GetPlan: is not defined; add the directory of the package nav_msgs"
            ),
            "{none}"
        );
    }

    #[test]
    fn messages_of_a_package_are_left_out_together_if_rules_could_carry_them() {
        let dir = share(&NAV);
        let alone = read(&dir, &["nav_msgs"]);
        assert_eq!(alone.left_out(&[Rule::new("/a", Direction::ToRos)]), []);
        let left = alone.left_out(&[Rule::new("/a", Direction::FromRos)]);
        let [left] = left.as_slice() else { panic!("{left:?}") };
        assert_eq!(
            left.what(),
            "2 message types of nav_msgs, such as nav_msgs/msg/Goals, are left out"
        );
        let mut mixed = left.clone();
        mixed.types[1] = "map_msgs/msg/Area".parse().unwrap();
        assert_eq!(
            mixed.what(),
            "2 message types, such as nav_msgs/msg/Goals, are left out",
            "they are of two packages"
        );
        assert_eq!(
            (left.directory, left.error.place.line),
            (0, 2),
            "Cells is not among them, nor are parts of services"
        );
    }

    #[test]
    fn converted_types_need_no_definition() {
        let dir = share(&[("sensor_msgs/msg/Image.msg", "std_msgs/Header header\n")]);
        let all = read(&dir, &["sensor_msgs"]);
        let mut rule = Rule::new("/a", Direction::FromRos);
        assert_eq!(all.left_out(std::slice::from_ref(&rule)), []);
        rule.form = Form::Cdr;
        assert_eq!(all.left_out(&[rule]).len(), 1);
    }

    #[test]
    fn a_mistake_leaves_out_one_type_and_what_refers_to_it() {
        let mut files = NAV.to_vec();
        files[4].1 = "float64 x\nfloat65 y\n";
        let dir = share(&files);
        let all = read(&dir, &["geometry_msgs", "nav_msgs"]);
        let own = all.message(&name("geometry_msgs/msg/PoseStamped")).unwrap_err();
        assert!(own.place.file.ends_with("PoseStamped.msg") && own.place.line == 2, "{own}");
        let e = all.service("nav_msgs/srv/GetPlan").unwrap_err();
        assert!(
            e.remedy.starts_with("its own definition has a mistake: ")
                && e.remedy.contains("PoseStamped.msg:2: "),
            "{e}"
        );
        let left: Vec<_> = all
            .left_out(&[Rule::new("/a", Direction::Both)])
            .iter()
            .map(|l| (l.directory, l.types.len()))
            .collect();
        assert_eq!(left, [(0, 1), (1, 2)]);
        assert!(all.message(&name("nav_msgs/msg/Cells")).is_ok());
        for (file, text) in
            [("nav_msgs/srv/Bad.srv", "int8 x\n"), ("nav_msgs/srv/Odd.idl", "module nav_msgs {")]
        {
            std::fs::write(dir.path().join(file), text).unwrap();
        }
        let again = read(&dir, &["nav_msgs"]);
        for broken in ["nav_msgs/srv/Bad", "nav_msgs/srv/Odd"] {
            let e = again.service(broken).unwrap_err().to_string();
            assert!(e.contains(&format!("{broken}.")) && again.has(&name(broken)), "{e}");
        }
    }

    #[test]
    fn a_misspelt_type_is_reported_with_the_right_one() {
        let mut files = NAV.to_vec();
        files.push(("map_msgs/srv/GetTile.srv", "---\n"));
        let dir = share(&files);
        let all = read(&dir, &["nav_msgs", "geometry_msgs", "map_msgs"]);
        for (written, meant) in [
            ("nav_msgs/srv/GetPlans", "nav_msgs/srv/GetPlan"),
            ("nav_msg/srv/GetPlan", "nav_msgs/srv/GetPlan"),
            ("nav_msgs/srv/GetTile", "map_msgs/srv/GetTile"),
            ("other_msgs/srv/GetTile", "map_msgs/srv/GetTile"),
        ] {
            let remedy = all.service(written).unwrap_err().remedy;
            assert!(
                remedy.starts_with(&format!("did you mean `{meant}`? (looked for in nav_msgs, ")),
                "{written}: {remedy}"
            );
        }
        let remedy = all.service("map_msgs/srv/SaveEverything").unwrap_err().remedy;
        assert_eq!(remedy, "map_msgs has no srv/SaveEverything.srv: is it of another release?");
        let reported = all.service("Map_msgs/srv/GetTile").unwrap_err().to_string();
        assert!(
            reported.starts_with(
                "Map_msgs/srv/GetTile: is no type of ROS 2: a package is lower-case letters"
            ),
            "{reported}"
        );
        // For a type that a field names, a type of the same name in an unrelated package is not
        // suggested.
        for (field, says) in [
            ("far_msgs/Path", "add the directory of the package far_msgs"),
            ("nav_msg/Path", "did you mean `nav_msgs/msg/Path`?"),
            ("Cell", "did you mean `nav_msgs/msg/Cells`?"),
        ] {
            std::fs::write(dir.path().join("nav_msgs/msg/Odd.msg"), format!("{field} field\n"))
                .unwrap();
            let remedy =
                read(&dir, &["nav_msgs"]).message(&name("nav_msgs/msg/Odd")).unwrap_err().remedy;
            assert!(remedy.starts_with(says), "{field}: {remedy}");
        }
    }

    #[test]
    fn a_file_whose_name_is_no_type_is_ignored() {
        let dir = share(&[
            ("b_msgs/msg/X.msg", "int8 x\n"),
            ("b_msgs/msg/.#X.msg", "locked\n"),
            ("b_msgs/msg/copy of X.msg", "int8 x\n"),
        ]);
        let all = read(&dir, &["b_msgs"]);
        assert_eq!(all.unusable().count(), 0);
        assert_eq!(all.left_out(&[Rule::new("/a", Direction::Both)]), Vec::new());
        assert!(all.message(&name("b_msgs/msg/X")).is_ok());
    }

    #[test]
    fn a_package_path_may_end_in_dots_but_needs_a_valid_name() {
        let dir = share(&[
            ("p_msgs/srv/S.srv", "---\n"),
            ("p_msgs/msg/X.msg", "int8 x\n"),
            ("My-Pkg/msg/X.msg", "int8 x\n"),
        ]);
        for dots in ["p_msgs/.", "p_msgs/msg/.."] {
            let all = read(&dir, &[dots]);
            assert!(all.unusable().count() == 0 && all.service("p_msgs/srv/S").is_ok(), "{dots}");
        }
        let reported: Vec<_> = read(&dir, &["p_msgs", "My-Pkg"])
            .unusable()
            .map(|(number, e)| (number, e.to_string()))
            .collect();
        let [(1, reported)] = reported.as_slice() else { panic!("{reported:?}") };
        assert!(
            reported.contains("/My-Pkg: has no definition that a type")
                && reported.contains(": My-Pkg/msg/X.msg cannot be one; "),
            "{reported}"
        );
    }

    #[test]
    fn a_directory_of_packages_or_of_an_installed_ros_2_is_read_as_a_whole() {
        let dir = share(&[
            ("jazzy/share/a_msgs/msg/X.msg", "b_msgs/Y y\n"),
            ("jazzy/share/b_msgs/msg/Y.msg", "int8 y\n"),
            ("jazzy/share/no_msgs/package.xml", ""),
            ("jazzy/share/Odd-Name/msg/X.msg", "int8 x\n"),
            ("ws/share/b_msgs/msg/Y.msg", "int16 y\n"),
        ]);
        let y = |definitions: &Definitions| {
            definitions.message(&name("b_msgs/msg/Y")).unwrap().definition
        };
        for whole in ["jazzy", "jazzy/share", "jazzy/share/."] {
            let all = read(&dir, &[whole]);
            assert_eq!(all.unusable().count(), 0, "{whole}");
            assert!(
                all.message(&name("a_msgs/msg/X")).is_ok() && y(&all).contains("int8 y"),
                "{whole}"
            );
        }
        // If two directories have the same package, the first takes precedence, as in ROS 2. A
        // package that is itself an entry precedes both.
        let both = |first: &str, second: &str| {
            let joined =
                std::env::join_paths([dir.path().join(first), dir.path().join(second)]).unwrap();
            Definitions::read(&[joined.into()], dir.path())
        };
        assert!(
            y(&both("ws", "jazzy")).contains("int16 y")
                && y(&both("jazzy", "ws")).contains("int8 y")
        );
        let named = read(&dir, &["jazzy", "ws/share/b_msgs"]);
        assert!(named.unusable().count() == 0 && y(&named).contains("int16 y"));
        let reported: Vec<_> = read(&dir, &["jazzy", "jazzy/share/no_msgs"])
            .unusable()
            .map(|(number, e)| (number, e.remedy.clone()))
            .collect();
        assert!(
            matches!(reported.as_slice(), [(1, remedy)]
                if remedy.contains("such as /opt/ros/jazzy/share")),
            "{reported:?}"
        );
        let unset: Vec<_> = Definitions::read(&["$AMENT_PREFIX_PATH".into()], dir.path())
            .unusable()
            .map(|(_, e)| e.remedy.clone())
            .collect();
        assert!(matches!(unset.as_slice(), [remedy] if remedy.contains("setup.bash")), "{unset:?}");
    }

    #[test]
    fn unusable_directories_are_reported_by_their_number() {
        let dir = share(&[
            ("a/b_msgs/msg/X.msg", "int8 x\n"),
            ("c/b_msgs/msg/X.msg", "int16 x\n"),
            ("c/b_msgs/msg/Y.msg", "X x\n"),
        ]);
        let all = read(&dir, &["a/b_msgs", "nowhere", "c/b_msgs"]);
        let reported: Vec<_> = all.unusable().map(|(number, e)| (number, e.to_string())).collect();
        let [(1, none), (2, twice)] = reported.as_slice() else { panic!("{reported:?}") };
        assert!(
            none.contains("nowhere: is no directory of a package")
                && none.contains("has msg/ or srv/"),
            "{none}"
        );
        assert!(twice.contains("b_msgs/msg/X is defined differently in"), "{twice}");
    }
}
