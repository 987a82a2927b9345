// SPDX-License-Identifier: Apache-2.0
//! Samples of a publisher of another language, or of another type.

use super::*;
use crate::object::dl_object_vtable;
use crate::status::{dl_last_error, guard};
use driveline::{
    Context, ContextOptions, EncodeError, Language, LocalObject, PublisherOptions, RawPublisher,
    RawSubscription, SubscriptionOptions,
};
use driveline_types::Schema;
use std::any::Any;
use std::sync::Arc;

struct RustMessage {
    len: Option<usize>,
    fails: bool,
}

impl LocalObject for RustMessage {
    fn language(&self) -> Language {
        Language::Rust
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn encoded_len(&self) -> Option<usize> {
        self.len
    }
    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError> {
        if self.fails {
            return Err(EncodeError { reason: "the field 'x' is missing".into() });
        }
        into.fill(7);
        Ok(())
    }
}

fn link() -> (RawPublisher, RawSubscription) {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(ContextOptions {
        domain_dir: Some(dir.path().join("domain")),
        ..ContextOptions::named("test")
    })
    .unwrap();
    let node = context.node("test").unwrap();
    let schema = Schema::protobuf("test.Message", "driveline protobuf 1\nmessage test.Message\n");
    let publisher = node.raw_publisher("t", schema.clone(), PublisherOptions::default()).unwrap();
    (publisher, node.raw_subscription("t", schema, SubscriptionOptions::default()).unwrap())
}

fn sample(len: Option<usize>, fails: bool) -> *mut dl_sample {
    let (mut publisher, mut subscription) = link();
    publisher.publish_object(Arc::new(RustMessage { len, fails }), None).unwrap();
    dl_sample::into_handle(subscription.take().unwrap().unwrap())
}

fn payload(sample: *const dl_sample) -> Result<Vec<u8>, String> {
    let (mut data, mut len) = (std::ptr::null(), 0);
    // SAFETY: a live handle and two places.
    match unsafe { dl_sample_payload(sample, &raw mut data, &raw mut len) } {
        // SAFETY: the payload lives as long as the handle.
        DL_OK => Ok(unsafe { std::slice::from_raw_parts(data, len) }.to_vec()),
        // SAFETY: never NULL, and NUL-terminated.
        _ => Err(unsafe { CStr::from_ptr(dl_last_error()) }.to_string_lossy().into_owned()),
    }
}

#[test]
fn a_value_of_another_language_has_no_pointer_but_bytes() {
    let mut handle = sample(Some(5), false);
    let mut object = std::ptr::dangling();
    // SAFETY: a live handle, a static text and a place.
    assert_eq!(unsafe { dl_sample_object(handle, c"Message".as_ptr(), &raw mut object) }, DL_OK);
    assert!(object.is_null());
    assert_eq!(payload(handle), Ok(vec![7; 5]));
    assert_eq!(payload(handle), Ok(vec![7; 5]), "and again");
    // SAFETY: owned handle, dropped once; then NULL.
    unsafe { dl_sample_drop(&raw mut handle) };
    assert!(handle.is_null());
}

#[test]
fn what_cannot_be_serialised_says_why() {
    for (len, fails, words) in [
        (Some(5), true, "the field 'x' is missing"),
        (None, false, "an object cannot be read as bytes"),
    ] {
        let mut handle = sample(len, fails);
        let error = payload(handle).unwrap_err();
        assert!(error.contains("sample 1") && error.contains(words), "{error}");
        // SAFETY: owned handle, dropped once.
        unsafe { dl_sample_drop(&raw mut handle) };
    }
}

/// A value that counts its owners. Each owner is an object that contains only a pointer to the
/// value.
mod counted {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    pub(super) struct Value {
        pub(super) owners: AtomicU32,
    }

    unsafe extern "C" fn value(object: *const c_void) -> *const c_void {
        // SAFETY: made by `object`.
        unsafe { object.cast::<*const c_void>().read() }
    }
    unsafe extern "C" fn clone(other: *const c_void) -> *mut c_void {
        // SAFETY: made by `object`, whose value lives longer.
        object(unsafe { &*value(other).cast::<Value>() })
    }
    unsafe extern "C" fn drop(object: *mut c_void) {
        // SAFETY: made by `object`, dropped once.
        unsafe {
            (*value(object).cast::<Value>()).owners.fetch_sub(1, SeqCst);
            std::mem::drop(Box::from_raw(object.cast::<*const c_void>()));
        }
    }

    pub(super) fn object(value: &Value) -> *mut c_void {
        value.owners.fetch_add(1, SeqCst);
        Box::into_raw(Box::new((&raw const *value).cast::<c_void>())).cast()
    }

    pub(super) const VTABLE: dl_object_vtable = dl_object_vtable {
        size: size_of::<dl_object_vtable>(),
        type_id: c"Message size 4".as_ptr(),
        value: Some(value),
        clone: Some(clone),
        drop: Some(drop),
        encoded_len: None,
        encode: None,
    };
}

#[test]
fn a_pointer_passes_only_to_readers_of_its_type() {
    let value = counted::Value { owners: 0.into() };
    let owners = || value.owners.load(std::sync::atomic::Ordering::SeqCst);
    let (mut publisher, mut subscription) = link();
    // SAFETY: an owned object and its vtable.
    publisher
        .publish_object(
            Arc::new(unsafe { CppObject::new(counted::object(&value), counted::VTABLE) }),
            None,
        )
        .unwrap();
    let mut handle = dl_sample::into_handle(subscription.take().unwrap().unwrap());
    let ask = |type_id: &CStr| {
        let mut found = std::ptr::null();
        // SAFETY: a live handle, a text and a place.
        assert_eq!(unsafe { dl_sample_object(handle, type_id.as_ptr(), &raw mut found) }, DL_OK);
        found
    };
    let share = |type_id: &CStr| {
        let mut shared = dl_shared_object {
            size: size_of::<dl_shared_object>(),
            value: std::ptr::null(),
            owner: std::ptr::null_mut(),
            drop: None,
        };
        // SAFETY: a live handle, a text and a struct with its size.
        assert_eq!(unsafe { dl_sample_share(handle, type_id.as_ptr(), &raw mut shared) }, DL_OK);
        shared
    };
    let address = (&raw const value).cast::<c_void>();
    assert_eq!(ask(c"Message size 4"), address);
    assert!(ask(c"Message size 8").is_null(), "another size is another type");
    assert!(share(c"Message size 8").value.is_null());
    assert_eq!(owners(), 1);
    let shared = share(c"Message size 4");
    assert_eq!((shared.value, owners()), (address, 2));
    // SAFETY: a live handle.
    let name = unsafe { dl_sample_object_type(handle) };
    assert_eq!(
        // SAFETY: borrowed from the sample, which lives.
        unsafe { std::slice::from_raw_parts(name.data.cast::<u8>(), name.len) },
        b"Message size 4"
    );
    // SAFETY: owned handle, dropped once.
    unsafe { dl_sample_drop(&raw mut handle) };
    drop((publisher, subscription));
    assert_eq!(owners(), 1, "what was shared outlives the sample");
    // SAFETY: owned, dropped once.
    unsafe { shared.drop.unwrap()(shared.owner) };
    assert_eq!(owners(), 0);
}

#[test]
fn a_panic_stays_behind_the_border() {
    assert_eq!(guard(|| panic!("index 7 of 3")), DL_ERROR_INTERNAL);
    // SAFETY: never NULL, and NUL-terminated.
    let text = unsafe { CStr::from_ptr(dl_last_error()) }.to_string_lossy();
    assert!(text.contains("index 7 of 3") && text.contains("report"), "{text}");
}
