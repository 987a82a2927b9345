// SPDX-License-Identifier: Apache-2.0
//! What comes from a publisher of another language, or of another type.

use super::*;
use crate::status::{dl_last_error, guard};
use driveline::{
    Context, ContextOptions, EncodeError, Language, LocalObject, PublisherOptions, RawPublisher, RawSubscription, SubscriptionOptions,
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
    let context = Context::new(ContextOptions { domain_dir: Some(dir.path().join("domain")), ..ContextOptions::named("test") }).unwrap();
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
    for (len, fails, words) in [(Some(5), true, "the field 'x' is missing"), (None, false, "an object cannot be read as bytes")] {
        let mut handle = sample(len, fails);
        let error = payload(handle).unwrap_err();
        assert!(error.contains("sample 1") && error.contains(words), "{error}");
        // SAFETY: owned handle, dropped once.
        unsafe { dl_sample_drop(&raw mut handle) };
    }
}

#[test]
fn a_pointer_passes_only_to_readers_of_its_type() {
    unsafe extern "C" fn drop_box(object: *mut c_void) {
        // SAFETY: made by `Box::into_raw` below.
        drop(unsafe { Box::from_raw(object.cast::<u64>()) });
    }
    static VTABLE: crate::object::dl_object_vtable = crate::object::dl_object_vtable {
        size: size_of::<crate::object::dl_object_vtable>(),
        type_id: c"Message".as_ptr(),
        drop: Some(drop_box),
        encoded_len: None,
        encode: None,
    };
    let (mut publisher, mut subscription) = link();
    let value = Box::into_raw(Box::new(3u64)).cast::<c_void>();
    // SAFETY: an owned value and its static vtable.
    publisher.publish_object(Arc::new(unsafe { CppObject::new(value, &VTABLE) }), None).unwrap();
    let mut handle = dl_sample::into_handle(subscription.take().unwrap().unwrap());
    let ask = |type_id: &CStr| {
        let mut object = std::ptr::null();
        // SAFETY: a live handle, a text and a place.
        assert_eq!(unsafe { dl_sample_object(handle, type_id.as_ptr(), &raw mut object) }, DL_OK);
        object
    };
    assert_eq!(ask(c"Message"), value.cast_const());
    assert!(ask(c"Message2").is_null());
    // SAFETY: owned handle, dropped once.
    unsafe { dl_sample_drop(&raw mut handle) };
}

#[test]
fn a_panic_stays_behind_the_border() {
    assert_eq!(guard(|| panic!("index 7 of 3")), DL_ERROR_INTERNAL);
    // SAFETY: never NULL, and NUL-terminated.
    let text = unsafe { CStr::from_ptr(dl_last_error()) }.to_string_lossy();
    assert!(text.contains("index 7 of 3") && text.contains("report"), "{text}");
}
