// SPDX-License-Identifier: Apache-2.0
//! Names of interfaces in the notation of ROS 2 and of DDS.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Maximum length of a part of a name, in bytes. ROS 2 has no limit; DDS implementations have one
/// near this.
const MAX_PART_LEN: usize = 255;

/// Kind of an interface; the middle part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// Parts of actions. Their definitions are not read here; the names occur on the wire.
    Action,
    /// Messages.
    Msg,
    /// Services and their requests and responses.
    Srv,
}

impl Namespace {
    /// Returns `msg`, `srv` or `action`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Msg => "msg",
            Self::Srv => "srv",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Action, Self::Msg, Self::Srv].into_iter().find(|n| n.as_str() == text)
    }
}

/// The full name of an interface, such as `sensor_msgs/msg/Image`. Ordered as its text is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TypeName {
    package: String,
    namespace: Namespace,
    name: String,
}

/// Error for a text that is not the name of an interface.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{text}' is no interface name: {reason}; write it as package/msg/Name, such as \
     sensor_msgs/msg/Image"
)]
pub struct TypeNameError {
    /// Given name.
    pub text: String,
    /// Mistake in it.
    pub reason: &'static str,
}

impl TypeName {
    /// # Errors
    /// [`TypeNameError`] if package or name violate the rules of ROS 2, or are longer than 255
    /// bytes.
    pub fn new(package: &str, namespace: Namespace, name: &str) -> Result<Self, TypeNameError> {
        let error = |reason| TypeNameError {
            text: format!("{package}/{}/{name}", namespace.as_str()),
            reason,
        };
        if !is_package_name(package) {
            return Err(error(
                "a package is lower-case letters, digits and single underscores, and begins with a \
                 letter",
            ));
        }
        if !is_message_name(name) {
            return Err(error(
                "a name begins with a capital letter and goes on in letters and digits",
            ));
        }
        Ok(Self { package: package.to_owned(), namespace, name: name.to_owned() })
    }

    /// Returns the package that defines it.
    #[must_use]
    pub fn package(&self) -> &str {
        &self.package
    }

    /// Returns the kind of the interface.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Returns the name within package and namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its name in DDS and rmw_zenoh: `sensor_msgs::msg::dds_::Image_`.
    #[must_use]
    pub fn dds(&self) -> String {
        format!("{}::{}::dds_::{}_", self.package, self.namespace.as_str(), self.name)
    }

    /// Parses a name in DDS; the inverse of [`TypeName::dds`].
    ///
    /// # Errors
    /// [`TypeNameError`] if ROS 2 does not create such type names.
    pub fn from_dds(text: &str) -> Result<Self, TypeNameError> {
        let error = |reason| TypeNameError { text: text.to_owned(), reason };
        let mut parts = text.split("::");
        let (Some(package), Some(namespace), Some("dds_"), Some(name), None) =
            (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(error("a DDS type of ROS 2 reads package::msg::dds_::Name_"));
        };
        let namespace = Namespace::parse(namespace)
            .ok_or_else(|| error("the middle must be msg, srv or action"))?;
        let name = name
            .strip_suffix('_')
            .ok_or_else(|| error("a DDS type of ROS 2 ends in an underscore"))?;
        Self::new(package, namespace, name)
    }

    /// Returns the name of a sibling in the package, for the types that ROS 2 derives from a
    /// service: `_Request`, `_Response`, `_Event`.
    pub(crate) fn with_suffix(&self, suffix: &str) -> Self {
        Self { name: format!("{}{suffix}", self.name), ..self.clone() }
    }
}

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.package, self.namespace.as_str(), self.name)
    }
}

impl FromStr for TypeName {
    type Err = TypeNameError;

    /// Parses `package/msg/Name`, and `package/Name` for a message.
    fn from_str(text: &str) -> Result<Self, TypeNameError> {
        let error = |reason| TypeNameError { text: text.to_owned(), reason };
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(package), Some(name), None, None) => Self::new(package, Namespace::Msg, name),
            (Some(package), Some(namespace), Some(name), None) => {
                let namespace = Namespace::parse(namespace)
                    .ok_or_else(|| error("the middle must be msg, srv or action"))?;
                Self::new(package, namespace, name)
            }
            _ => Err(error("it has two or three parts")),
        }
    }
}

/// Returns true for valid names of packages and fields: `[a-z][a-z0-9_]*` without `__` and without
/// `_` at the end.
pub(crate) fn is_package_name(text: &str) -> bool {
    text.len() <= MAX_PART_LEN
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !text.contains("__")
        && !text.ends_with('_')
}

/// Returns true for valid names of messages, and of the parts of services and actions.
pub(crate) fn is_message_name(text: &str) -> bool {
    let stem = text.strip_prefix("Sample_").unwrap_or(text);
    let parts = [
        "_Request",
        "_Response",
        "_Event",
        "_Goal",
        "_Result",
        "_Feedback",
        "_SendGoal",
        "_GetResult",
        "_FeedbackMessage",
    ];
    let mut stem = stem;
    while let Some(shorter) = parts.iter().find_map(|s| stem.strip_suffix(s)) {
        stem = shorter;
    }
    text.len() <= MAX_PART_LEN
        && stem.starts_with(|c: char| c.is_ascii_uppercase())
        && stem.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// Returns true for valid names of constants: capitals and digits in groups that single underscores
/// separate.
pub(crate) fn is_constant_name(text: &str) -> bool {
    text.len() <= MAX_PART_LEN
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
        && !text.contains("__")
        && !text.ends_with('_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_and_write_alike() {
        for (text, dds) in [
            ("sensor_msgs/msg/Image", "sensor_msgs::msg::dds_::Image_"),
            (
                "example_interfaces/srv/AddTwoInts_Request",
                "example_interfaces::srv::dds_::AddTwoInts_Request_",
            ),
            (
                "nav2_msgs/action/Wait_SendGoal_Request",
                "nav2_msgs::action::dds_::Wait_SendGoal_Request_",
            ),
        ] {
            let name: TypeName = text.parse().unwrap();
            assert_eq!((name.to_string().as_str(), name.dds().as_str()), (text, dds));
            assert_eq!(TypeName::from_dds(dds).unwrap(), name);
        }
        assert_eq!(
            "std_msgs/Header".parse::<TypeName>().unwrap().to_string(),
            "std_msgs/msg/Header"
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for bad in [
            "",
            "/",
            "Image",
            "a/b/c/D",
            "Pkg/msg/Image",
            "pkg_/Image",
            "p__q/Image",
            "pkg/msg/image",
            "pkg/topic/Image",
            "pkg/Im age",
        ] {
            assert!(bad.parse::<TypeName>().is_err(), "{bad}");
        }
        for bad in [
            "sensor_msgs::msg::Image",
            "sensor_msgs::msg::dds_::Image",
            "a::b::dds_::C_",
            "a::msg::dds_::C_::d",
        ] {
            assert!(TypeName::from_dds(bad).is_err(), "{bad}");
        }
        let told = "x/image".parse::<TypeName>().unwrap_err().to_string();
        assert!(told.contains("'x/msg/image'") && told.contains("package/msg/Name"), "{told}");
    }

    #[test]
    fn they_are_ordered_as_their_texts() {
        let mut names: Vec<TypeName> = [
            "ab/msg/A",
            "a/msg/B_Request",
            "a/msg/B",
            "a/srv/A",
            "a_b/msg/A",
            "a1/msg/A",
            "a/action/B",
        ]
        .iter()
        .map(|t| t.parse().unwrap())
        .collect();
        names.sort();
        let mut texts: Vec<String> = names.iter().map(TypeName::to_string).collect();
        let sorted = texts.clone();
        texts.sort();
        assert_eq!(sorted, texts);
    }
}
