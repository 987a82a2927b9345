// SPDX-License-Identifier: Apache-2.0
//! Valid declarations. Invalid ones are in the unit tests, and in the documentation as examples
//! that do not compile.
#![forbid(unsafe_code)]

use driveline_types::{NoTail, Plain, TailElement, plain_type};
use std::any::TypeId;

/// The user's attributes stay, and existing derives are not repeated.
#[plain_type(name = "test/Wheel")]
#[derive(Debug, Clone, PartialEq, Default)]
#[repr(C, align(16))]
struct Wheel {
    speed_m_s: f32,
    r#type: u32,
    _reserved: [u8; 8],
}

mod inner {
    use driveline_types::{Plain, zerocopy};

    // The long form, with all attributes visible.
    #[derive(
        Clone,
        Copy,
        zerocopy::FromBytes,
        zerocopy::IntoBytes,
        zerocopy::Immutable,
        zerocopy::KnownLayout,
        Plain,
    )]
    #[zerocopy(crate = "driveline_types::zerocopy")]
    #[repr(C)]
    #[plain(name = "test/Car", tail(wheels: super::Wheel), crate = driveline_types)]
    pub(crate) struct Car {
        pub(crate) id: [u64; 2],
        pub(crate) spare: super::Wheel,
    }
}

// A user's type with the name of a prelude type does not confuse the macros.
mod shadow {
    #[expect(dead_code, reason = "it is only in the way")]
    struct Vec;
    #[expect(dead_code, reason = "it is only in the way")]
    struct Option;

    #[driveline_types::plain_type(name = "test/Shadow", tail(data: u16))]
    pub(crate) struct Shadow {
        pub(crate) id: u32,
    }
}

#[test]
fn declarations_describe_the_struct() {
    assert_eq!(
        Wheel::layout().to_string(),
        "driveline plain 1\ntype test/Wheel size 16 align 16\nfield speed_m_s f32 offset 0\nfield \
         type u32 offset 4\nfield _reserved u8[8] offset 8\n"
    );
    let car = inner::Car::layout();
    assert_eq!((car.size, car.align), (size_of::<inner::Car>(), align_of::<inner::Car>()));
    assert_eq!(
        car.fields.iter().map(|f| &*f.name).collect::<Vec<_>>()[1..4],
        ["spare.speed_m_s", "spare.type", "spare._reserved"]
    );
    assert_eq!(car.tail.map(|t| t.name.to_string()).as_deref(), Some("wheels"));
    assert_eq!(TypeId::of::<<Wheel as Plain>::Tail>(), TypeId::of::<NoTail>());
    assert!(Wheel::element().is_some());
    assert!(shadow::Shadow::layout().to_string().ends_with("tail data u16\n"));
}
