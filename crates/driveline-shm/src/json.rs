// SPDX-License-Identifier: Apache-2.0
//! Reads JSON from peers. Accepts only objects where the protocol requires an object; errors name
//! the key.

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::marker::PhantomData;

/// Maximum number of characters of a key in an error.
const MAX_KEY_LEN: usize = 64;

/// Reads one object. An error in a value names its key: `key 'qos.depth': …`.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(text).map(|Object(value)| value).map_err(|e| {
        let text = e.to_string();
        // If an error names a key, the position that `serde_json` adds is only the end of the
        // enclosing object, so it is left out.
        if text.starts_with(KEY) { without_place(&text).to_owned() } else { text }
    })
}

const KEY: &str = "key '";

/// An error's text without the " at line 1 column 7" that `serde_json` adds.
fn without_place(text: &str) -> &str {
    let Some((before, place)) = text.rsplit_once(" at line ") else { return text };
    let is_place = place.split(" column ").all(|n| n.parse::<usize>().is_ok());
    if is_place { before } else { text }
}

/// A value that is read from a JSON object only, as the protocol requires. Derived code would also
/// read an array of the values.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_map(ObjectVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(Keyed { map, key: String::new() })).map(Object)
    }
}

/// Puts the key before the error of its value.
struct Keyed<A> {
    map: A,
    key: String,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Keyed<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let Some(key) = self.map.next_key()? else { return Ok(None) };
        self.key = key;
        seed.deserialize(self.key.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed).map_err(|e| {
            let key: String = self.key.chars().take(MAX_KEY_LEN).collect();
            let text = e.to_string();
            let text = without_place(&text);
            A::Error::custom(match text.strip_prefix(KEY) {
                Some(inner) => format!("{KEY}{key}.{inner}"),
                None => format!("{KEY}{key}': {text}"),
            })
        })
    }
}

/// Reads a key's value from an object only.
pub(crate) fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<T, D::Error> {
    Object::deserialize(d).map(|Object(value)| value)
}

/// Reads a key's value from an object or `null` only.
pub(crate) fn object_or_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    d: D,
) -> Result<Option<T>, D::Error> {
    Ok(Option::deserialize(d)?.map(|Object(value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::{NodeName, Qos};

    #[derive(Debug, Deserialize)]
    struct Sheet {
        #[serde(deserialize_with = "object")]
        _qos: Qos,
        _node: NodeName,
    }

    #[test]
    fn an_error_names_the_key_of_the_value() {
        for (text, error) in [
            (
                r#"{"_qos": {"depth": "x"}, "_node": "n"}"#,
                "key '_qos.depth': invalid type: string \"x\", expected u32",
            ),
            (r#"{"_qos": {}, "_node": "/"}"#, "key '_node': the name \"/\" is not valid: "),
            (
                r#"{"_qos": [], "_node": "n"}"#,
                "key '_qos': invalid type: sequence, expected an object",
            ),
            (r#"{"_qos": {}}"#, "missing field `_node`"),
            (r#"{"_qos": {}, "_node": "n", "later": [tru]}"#, "key 'later': expected ident"),
            (r#"{"_qos": {}, "_node": "n""#, "EOF while parsing an object at line 1 column 25"),
            ("[]", "invalid type: sequence, expected an object at line 1 column 0"),
        ] {
            let e = read::<Sheet>(text.as_bytes()).unwrap_err();
            assert!(e.starts_with(error), "{text}: {e}");
        }
        let long = format!("{{\"{}\": tru}}", "k".repeat(10_000));
        assert!(read::<Sheet>(long.as_bytes()).unwrap_err().len() < 200);
    }

    #[test]
    fn only_a_place_is_cut_off() {
        assert_eq!(without_place("no at line 3 column 17"), "no");
        assert_eq!(without_place("no at line x"), "no at line x");
        assert_eq!(without_place("no"), "no");
    }
}
