// SPDX-License-Identifier: Apache-2.0
//! ROS 2 interface definitions, their type hashes, and samples in CDR, without any generated code
//! and without ROS 2.
//!
//! - [`Catalog`] contains definitions from `.msg`, `.srv` and `.idl` files of any number of
//!   packages. It returns the [`TypeHash`] of each, its text for MCAP and Foxglove, and the
//!   [`Schema`](driveline_types::Schema) of a topic that carries it.
//! - [`Layout`] and [`cdr`] read samples of any type into a [`Value`] and write them.
//!
//! Everything here is pure: no network, no threads; files are read only by [`Catalog::add_file`]
//! and [`Catalog::add_package`]. Bytes and texts may come from untrusted sources: the work and the
//! memory for them are bounded by their length.
//!
//! Not here: actions (three-part `.action` files), `@optional` members, XCDR version 2.
//!
//! ```
//! use driveline_rosidl::{Catalog, cdr, cdr::ByteOrder, parse_msg};
//!
//! let mut catalog = Catalog::new();
//! for (name, text) in [
//!     ("std_msgs/msg/String", "string data"),
//!     ("demo/msg/Note", "std_msgs/String text\nuint8[3] colour\n"),
//! ] {
//!     let name = name.parse().unwrap();
//!     catalog.add_message(parse_msg(&name, "in the example", text).unwrap()).unwrap();
//! }
//! let string = "std_msgs/msg/String".parse().unwrap();
//! assert_eq!(
//!     catalog.type_hash(&string).unwrap().to_string(),
//!     "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
//! );
//! let layout = catalog.layout(&"demo/msg/Note".parse().unwrap()).unwrap();
//! let sample = [0, 1, 0, 0, 3, 0, 0, 0, b'h', b'i', 0, 255, 128, 0];
//! let value = cdr::read(&layout, &sample).unwrap();
//! assert_eq!(cdr::write(&layout, &value, ByteOrder::Little).unwrap(), sample);
//! let print = driveline_rosidl::Text::new(&layout, &value).to_string();
//! assert_eq!(print, "text:\n  data: hi\ncolour: [255, 128, 0]\n");
//! ```

mod bundle;
mod catalog;
pub mod cdr;
mod definition;
mod error;
mod hash;
mod idl;
mod layout;
mod literal;
mod msg;
mod name;
mod print;
mod value;

/// Maximum length of a definition, in bytes.
pub const MAX_TEXT_LEN: usize = 1 << 20;

pub use bundle::{CDR_ENCODING, Detail};
pub use catalog::{Catalog, MAX_NESTING, MAX_REFERENCES};
pub use definition::{
    Constant, EMPTY_MEMBER, Element, Field, FieldType, Literal, Message, Primitive, Service, Shape,
};
pub use error::{DefinitionError, Place};
pub use hash::{TypeHash, TypeHashError};
pub use idl::{Interface, parse_idl};
pub use layout::{Kind, Layout, Member, StructId, StructLayout};
pub use msg::{parse_msg, parse_srv};
pub use name::{Namespace, TypeName, TypeNameError};
pub use print::Text;
pub use value::Value;
