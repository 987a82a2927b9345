// SPDX-License-Identifier: Apache-2.0
//! Unit tests of components without processes: the base of the C++ header `driveline/testing.hpp`.

use crate::component::dl_component_library;
use crate::exclusive::{Exclusive, Inside};
use crate::loader::{Loader, from_table};
use crate::parameter::dl_parameter_value;
use crate::publisher::dl_publisher;
use crate::sample::dl_sample;
use crate::schema::dl_schema;
use crate::status::*;
use driveline_runtime::component::{ComponentLibrary, ComponentLoader};
use driveline_runtime::testing::{ComponentTest, TestError, TestSettings};
use driveline_types::time::Entered;
use driveline_types::{MonotonicNs, VirtualClock};
use std::cell::RefCell;
use std::ffi::{c_char, c_int};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of publishers to the inputs of one test.
const MAX_PUBLISHERS: usize = 1024;

/// A component under test. One thread at a time; a second one gets `DL_ERROR_BUSY`.
pub struct dl_test {
    test: Exclusive<ComponentTest>,
    clock: VirtualClock,
    /// Boxed, because callers keep their addresses.
    #[expect(clippy::vec_box, reason = "the addresses are handed out")]
    publishers: Mutex<Vec<Box<dl_publisher>>>,
}

impl dl_test {
    fn test(&self) -> Outcome<Inside<'_, ComponentTest>> {
        let busy = || Failure::new(DL_ERROR_BUSY, "another thread uses this test");
        self.test.enter().ok_or_else(busy)
    }
}

impl From<TestError> for Failure {
    fn from(e: TestError) -> Self {
        let status = match &e {
            TestError::Failed(_) | TestError::BringUp(_) | TestError::Endless => DL_ERROR_COMPONENT,
            TestError::Parameter(_) => DL_ERROR_PARAMETER,
            TestError::Type(_) => DL_ERROR_WRONG_KIND,
            TestError::Lost(_) => DL_ERROR_HELD_LIMIT,
            TestError::Os { .. } => DL_ERROR_OPEN,
            TestError::Settings(_) | TestError::Class(_) | TestError::Port { .. } => {
                DL_ERROR_ARGUMENT
            }
        };
        Self::new(status, e)
    }
}

thread_local! {
    /// Clocks of tests that this thread has entered, the last one on top.
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Returns the present time in nanoseconds: on the clock of the test whose component calls or that
/// the thread has entered, else on `CLOCK_MONOTONIC`. Does not block or allocate; any thread.
#[unsafe(no_mangle)]
pub extern "C" fn dl_now_ns() -> u64 {
    MonotonicNs::now().0
}

/// Brings a component up for a test: it is constructed, and its `init` and
/// `on_activate` have returned. `library`: the
/// classes of this program, as `driveline_component_entry` returns them; or NULL, and `path` is
/// that of a component library. `class_name`: NULL if there is one class only. `settings`: the
/// component's settings as in a graph, in YAML, such as `{parameters: {low: 40}, trigger: {kind:
/// timer, period_ms: 100}, inputs: {image: {qos: {depth: 4}}}, max_payload: 8 MiB}`; NULL for
/// nothing. `*test`: owned by the caller, to be given to `dl_test_drop`.
///
/// # Safety
/// `library` is NULL or static and valid; strings are NULL or NUL-terminated; `test` is NULL or
/// valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_new(
    library: *const dl_component_library,
    path: *const c_char,
    class_name: *const c_char,
    settings: *const c_char,
    test: *mut *mut dl_test,
) -> dl_status {
    guard(|| {
        place("test", test)?;
        // SAFETY: this function's contract.
        let (path, class_name, settings) = unsafe {
            (
                optional_text("path", path)?,
                optional_text("class_name", class_name)?,
                optional_text("settings", settings)?,
            )
        };
        let loaded = match (library.is_null(), path) {
            // SAFETY: this function's contract.
            (false, _) => unsafe { from_table(library, Path::new("this program")) },
            (true, Some(path)) => Loader.load(Path::new(path)),
            (true, None) => return Err(Failure::argument("one of 'library' and 'path' is needed")),
        };
        let loaded = loaded.map_err(|e| Failure::new(DL_ERROR_LIBRARY, e))?;
        let class = match class_name {
            Some(name) => name.to_owned(),
            None => only_class(&*loaded)?,
        };
        let settings = TestSettings::from_yaml(settings.unwrap_or_default())?;
        let made = ComponentTest::new(&*loaded, &class, &settings)?;
        let clock = made.clock().clone();
        let made = dl_test { test: Exclusive::new(made), clock, publishers: Mutex::default() };
        // SAFETY: this function's contract.
        unsafe { put("test", test, Box::into_raw(Box::new(made))) }
    })
}

fn only_class(library: &dyn ComponentLibrary) -> Outcome<String> {
    let mut names: Vec<String> = library.classes().into_iter().map(|c| c.name).collect();
    match names.pop() {
        Some(only) if names.is_empty() => Ok(only),
        last => {
            names.extend(last);
            let text = format!("which class? there are: {}", names.join(", "));
            Err(Failure::argument(text))
        }
    }
}

/// Ends a test: the component is shut down and destroyed. Samples that were taken stay; publishers
/// of its inputs end. `*test` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `test` is NULL or points to NULL or to an owned handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_drop(test: *mut *mut dl_test) {
    // SAFETY: this function's contract.
    unsafe { release(test) }
}

/// Time of the test's clock, in nanoseconds; 0 for NULL.
///
/// # Safety
/// `test` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_now_ns(test: *const dl_test) -> u64 {
    // SAFETY: this function's contract.
    guard_value(0, || unsafe { test.as_ref() }.map_or(0, |t| t.clock.now().0))
}

/// Makes the test's clock that of the calling thread, for publishing to inputs, until
/// `dl_test_leave`. Calls nest.
///
/// # Safety
/// `test` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_enter(test: *const dl_test) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let clock = &unsafe { borrow("test", test)? }.clock;
        ENTERED.with_borrow_mut(|entered| entered.push(clock.enter()));
        Ok(())
    })
}

/// Ends the effect of the thread's last `dl_test_enter`; nothing without one.
#[unsafe(no_mangle)]
pub extern "C" fn dl_test_leave() {
    guard_value((), || drop(ENTERED.with_borrow_mut(Vec::pop)));
}

/// A publisher to an input of the component, for values of the type `schema`. `*publisher`:
/// borrowed, valid until `dl_test_drop`.
///
/// # Safety
/// Handles are NULL or live; `port` is NULL or NUL-terminated; `publisher` is NULL or valid for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_input(
    test: *const dl_test,
    port: *const c_char,
    schema: *const dl_schema,
    publisher: *mut *const dl_publisher,
) -> dl_status {
    guard(|| {
        place("publisher", publisher)?;
        // SAFETY: this function's contract.
        let (handle, port, schema) =
            unsafe { (borrow("test", test)?, text("port", port)?, borrow("schema", schema)?) };
        let test = handle.test()?;
        test.check_input(port, &schema.schema)?;
        let mut all = handle.publishers.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_PUBLISHERS {
            let text = format!("the test has {MAX_PUBLISHERS} publishers, and may have no more");
            return Err(Failure::new(DL_ERROR_ENDPOINT, text));
        }
        let made = Box::new(dl_publisher::new(test.input(port)?));
        let address: *const dl_publisher = &raw const *made;
        all.push(made);
        // SAFETY: this function's contract.
        unsafe { put("publisher", publisher, address) }
    })
}

/// Moves the time forward by `by_ns`, and makes each call of the component when it falls due.
/// `*calls`: calls of the callback and of timers; may be NULL. `DL_ERROR_COMPONENT` if calls
/// failed: each is a line of the text. Does not wait for anything but the component.
///
/// # Safety
/// `test` is NULL or a live handle; `calls` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_advance(
    test: *const dl_test,
    by_ns: u64,
    calls: *mut u64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let mut test = unsafe { borrow("test", test)? }.test()?;
        let made = test.advance(Duration::from_nanos(by_ns))?;
        // SAFETY: this function's contract.
        if calls.is_null() { Ok(()) } else { unsafe { put("calls", calls, made) } }
    })
}

/// Changes a parameter, as `driveline param set` does while a graph runs: `on_parameter` of the
/// component is called on this thread. `DL_ERROR_PARAMETER` with the reason if the parameter is not
/// declared as changeable, the value has another type or is out of range, or the component refuses.
///
/// # Safety
/// `test` is NULL or a live handle; `name` is NULL or NUL-terminated; `value` is NULL or a valid
/// value with its `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_set_parameter(
    test: *const dl_test,
    name: *const c_char,
    value: *const dl_parameter_value,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, name, value) = unsafe {
            (borrow("test", test)?, text("name", name)?, dl_parameter_value::read("value", value)?)
        };
        Ok(handle.test()?.set_parameter(name, value)?)
    })
}

/// The oldest sample of an output, of values of the type `schema`, that was not taken yet.
/// `*sample`: NULL if there is none, else owned by the caller, to be given to `dl_sample_drop`; a
/// copy, which may outlive the test.
///
/// # Safety
/// Handles are NULL or live; `port` is NULL or NUL-terminated; `sample` is NULL or valid for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_take(
    test: *const dl_test,
    port: *const c_char,
    schema: *const dl_schema,
    sample: *mut *mut dl_sample,
) -> dl_status {
    guard(|| {
        place("sample", sample)?;
        // SAFETY: this function's contract.
        unsafe { put("sample", sample, std::ptr::null_mut())? };
        // SAFETY: this function's contract.
        let (handle, port, schema) =
            unsafe { (borrow("test", test)?, text("port", port)?, borrow("schema", schema)?) };
        let mut test = handle.test()?;
        test.check_output(port, &schema.schema)?;
        if let Some(taken) = test.take(port)? {
            // SAFETY: this function's contract.
            unsafe { put("sample", sample, dl_sample::into_handle(taken))? };
        }
        Ok(())
    })
}

/// Samples of an input that newer ones replaced before the component read them.
///
/// # Safety
/// `test` is NULL or a live handle; `port` is NULL or NUL-terminated; `missed` is NULL or valid for
/// writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_missed(
    test: *const dl_test,
    port: *const c_char,
    missed: *mut u64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (handle, port) = unsafe { (borrow("test", test)?, text("port", port)?) };
        let stats = handle.test()?.input_stats(port)?;
        // SAFETY: this function's contract.
        unsafe { put("missed", missed, stats.missed + stats.superseded) }
    })
}

/// Returns 1 if the component has reported that its work is done, else 0.
///
/// # Safety
/// `test` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_is_finished(test: *const dl_test) -> c_int {
    guard_value(0, || {
        // SAFETY: this function's contract.
        let test = unsafe { test.as_ref() };
        test.and_then(|t| t.test().ok()).map_or(0, |mut t| c_int::from(t.is_finished()))
    })
}

/// Shuts the component down, as at the end of a run. A second call does nothing.
///
/// # Safety
/// `test` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_test_shut_down(test: *const dl_test) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        unsafe { borrow("test", test)? }.test()?.shut_down();
        Ok(())
    })
}
