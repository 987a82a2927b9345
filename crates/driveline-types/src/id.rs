// SPDX-License-Identifier: Apache-2.0
//! Names and identities.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Longest topic or node name, in bytes.
pub const MAX_NAME_LEN: usize = 200;

/// Reason why a name was refused.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "the name {name:?} is not valid: {reason}; names are parts of letters, digits, '_' and '-' \
     separated by single '/', at most {MAX_NAME_LEN} bytes"
)]
pub struct NameError {
    /// The name as given, cut to the permitted length.
    pub name: String,
    /// The rule that it breaks.
    pub reason: &'static str,
}

fn check(name: &str) -> Result<(), NameError> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME_LEN {
        "it is too long"
    } else if name.starts_with('/') {
        "it starts with '/' (names are not rooted: write \"a/b\" for \"/a/b\")"
    } else if name.ends_with('/') || name.contains("//") {
        "a part between two '/' is empty"
    } else if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/')) {
        "it has a character outside letters, digits, '_', '-' and '/'"
    } else {
        return Ok(());
    };
    let mut end = name.len().min(MAX_NAME_LEN);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    Err(NameError { name: name[..end].to_owned(), reason })
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);
        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str { &self.0 }
        }
        impl FromStr for $name {
            type Err = NameError;
            fn from_str(s: &str) -> Result<Self, NameError> { check(s)?; Ok(Self(s.to_owned())) }
        }
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(s: String) -> Result<Self, NameError> { check(&s)?; Ok(Self(s)) }
        }
        impl From<$name> for String { fn from(n: $name) -> String { n.0 } }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(&self.0) }
        }
    };
}

name_type! {
    /// A topic's name, such as `camera/front/image`.
    TopicName
}
name_type! {
    /// A node's name, such as `lane_detector`.
    NodeName
}

impl TopicName {
    /// Returns the topic's id, which identifies it in sample headers.
    #[must_use]
    pub fn id(&self) -> TopicId {
        let digest = Sha256::digest(self.0.as_bytes());
        let mut first = [0u8; 8];
        first.copy_from_slice(&digest[..8]);
        TopicId(u64::from_le_bytes(first))
    }
}

/// First eight bytes (little endian) of the SHA-256 of a topic's name.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct TopicId(pub u64);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A random 128-bit identity of a participant, publisher or subscription; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EndpointId(pub u128);

impl EndpointId {
    /// A new identity from the kernel's random source.
    ///
    /// # Errors
    /// If the kernel has no random source. All supported systems have one.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0u8; 16];
        // Requests of at most 256 bytes are never cut short or interrupted.
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self(u128::from_le_bytes(bytes)))
    }
}

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_names_pass_and_bad_names_say_why() {
        for good in ["a", "camera/front/image", "a_b-c/9"] {
            assert!(good.parse::<TopicName>().is_ok(), "{good}");
        }
        for (bad, word) in [
            ("", "empty"),
            ("/a", "rooted"),
            ("a//b", "empty"),
            ("a/", "empty"),
            ("a b", "character"),
            ("../x", "character"),
        ] {
            let e = bad.parse::<TopicName>().unwrap_err();
            assert!(e.to_string().contains(word), "{bad:?}: {e}");
        }
        assert!("n".repeat(MAX_NAME_LEN).parse::<NodeName>().is_ok());
        let e = "n".repeat(MAX_NAME_LEN + 1).parse::<NodeName>().unwrap_err().to_string();
        assert!(e.contains("at most 200"), "{e}");
    }

    #[test]
    fn topic_ids_are_stable() {
        let id = "camera/image".parse::<TopicName>().unwrap().id();
        assert_eq!(id, "camera/image".parse::<TopicName>().unwrap().id());
        assert_ne!(id, "camera/image2".parse::<TopicName>().unwrap().id());
    }

    proptest! {
        #[test]
        fn any_text_is_accepted_or_refused_without_panic(s in ".{0,300}") {
            if let Ok(n) = s.parse::<NodeName>() { prop_assert_eq!(n.as_str(), s); }
        }
    }
}
