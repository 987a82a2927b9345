// SPDX-License-Identifier: Apache-2.0
//! Converts the tree of a file to a typed value, through serde, and keeps the place of a refused
//! value.

use super::diagnostic::Span;
use super::yaml::{Entry, Node, Value};
use indexmap::map;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Visitor, value::StrDeserializer,
};
use std::fmt;

/// A refused value and, where known, its place.
#[derive(Debug)]
pub struct Refused {
    pub(super) span: Option<Span>,
    pub(super) message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

impl de::Error for Refused {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self { span: None, message: message.to_string() }
    }
}

/// Reads a value of type `T`.
pub(super) fn typed<T: DeserializeOwned>(node: &Node) -> Result<T, Refused> {
    T::deserialize(Reader(node)).map_err(|e| placed(e, node.span))
}

fn placed(e: Refused, span: Span) -> Refused {
    Refused { span: e.span.or(Some(span)), ..e }
}

#[derive(Clone, Copy)]
struct Reader<'a>(&'a Node);

impl<'de> de::Deserializer<'de> for Reader<'_> {
    type Error = Refused;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match &self.0.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(v) => visitor.visit_bool(*v),
            Value::Integer(v) => visitor.visit_i64(*v),
            Value::Float(v) => visitor.visit_f64(*v),
            Value::Text(v) => visitor.visit_str(v),
            Value::List(items) => visitor.visit_seq(Items(items.iter())),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), value: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        match self.0.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        match &self.0.value {
            Value::Text(name) => visitor.visit_enum(name.as_str().into_deserializer()),
            Value::Map(entries) if entries.len() == 1 => {
                visitor.visit_enum(de::value::MapAccessDeserializer::new(Entries {
                    rest: entries.iter(),
                    value: None,
                }))
            }
            Value::Map(_) => {
                Err(de::Error::custom("a mapping with exactly one key is needed here"))
            }
            _ => Err(de::Error::custom(format!("{} does not name a choice", self.0.describe()))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a>(std::slice::Iter<'a, Node>);

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Refused;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Refused> {
        self.0
            .next()
            .map(|node| seed.deserialize(Reader(node)).map_err(|e| placed(e, node.span)))
            .transpose()
    }
}

struct Entries<'a> {
    rest: map::Iter<'a, String, Entry>,
    value: Option<&'a Node>,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Refused;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Refused> {
        let Some((key, entry)) = self.rest.next() else { return Ok(None) };
        self.value = Some(&entry.value);
        let key: StrDeserializer<'_, Refused> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some).map_err(|e| placed(e, entry.key_span))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        let Some(node) = self.value.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(Reader(node)).map_err(|e| placed(e, node.span))
    }
}
