// SPDX-License-Identifier: Apache-2.0
//! Structs that grow from release to release (`docs/adr/0005-c-abi.md`).
//!
//! Such a struct begins with its size in the release of its maker. It always has the fields of its
//! first release; later releases only append fields. The reader uses the fields that both releases
//! know.

use crate::status::*;

/// A struct whose first field is its size in bytes, in the release of its maker.
///
/// # Safety
/// Implementors are `repr(C)`, start with `size: usize`, and all-zero bytes are a valid value.
pub(crate) unsafe trait SizedStruct: Copy {
    /// Name in the header.
    const NAME: &'static str;
    /// Size in the first release, in bytes. Never changes.
    const FIRST: usize;
}

/// Maximum size of such a struct in any release.
const MOST: usize = 4096;

/// The size that the maker of a struct has written into it.
///
/// # Safety
/// `given` is NULL or points to at least one readable `usize`.
unsafe fn size_of_given<T: SizedStruct>(name: &str, given: *const T) -> Outcome<usize> {
    place(name, given.cast_mut())?;
    // SAFETY: not NULL; the struct starts with its size by the trait's contract.
    let size = unsafe { given.cast::<usize>().read() };
    if (T::FIRST..=MOST).contains(&size) {
        return Ok(size);
    }
    Err(Failure::argument(format_args!(
        "{name}->size = {size}: set it to sizeof({0}), which is at least {1}",
        T::NAME,
        T::FIRST
    )))
}

/// Reads the part of a struct that this release knows; the rest is zero. For tables of functions:
/// additional functions of a newer maker are not called.
///
/// # Safety
/// `given` is NULL or points to `given->size` readable bytes.
pub(crate) unsafe fn read_known<T: SizedStruct>(name: &str, given: *const T) -> Outcome<T> {
    // SAFETY: this function's contract.
    let size = unsafe { size_of_given(name, given)? };
    // SAFETY: zero is a valid value by the trait's contract.
    let mut own: T = unsafe { std::mem::zeroed() };
    // SAFETY: as many bytes are readable by this function's contract and fit into `own`.
    unsafe {
        std::ptr::copy_nonoverlapping(
            given.cast::<u8>(),
            (&raw mut own).cast::<u8>(),
            size.min(size_of::<T>()),
        )
    };
    Ok(own)
}

/// Reads an argument: as [`read_known`], but the further fields of a newer caller must be zero,
/// because they would have no effect.
///
/// # Safety
/// As [`read_known`].
pub(crate) unsafe fn read_argument<T: SizedStruct>(name: &str, given: *const T) -> Outcome<T> {
    // SAFETY: this function's contract.
    let (own, size) = unsafe { (read_known(name, given)?, size_of_given(name, given)?) };
    for i in size_of::<T>()..size {
        // SAFETY: below `size`, readable by contract.
        if unsafe { given.cast::<u8>().add(i).read() } != 0 {
            return Err(Failure::argument(format_args!(
                "{name}: this libdriveline does not know all fields of the {} that it was given: \
                 update the library, or leave them zero",
                T::NAME
            )));
        }
    }
    Ok(own)
}

/// Refuses an invalid place for a result, before any work is done.
///
/// # Safety
/// `out` is NULL or points to at least one readable `usize`.
pub(crate) unsafe fn check_result<T: SizedStruct>(name: &str, out: *const T) -> Outcome {
    // SAFETY: this function's contract.
    unsafe { size_of_given(name, out) }.map(drop)
}

/// Writes the part of `value` that the caller knows. Neither the size nor anything behind that part
/// is changed.
///
/// # Safety
/// `out` is NULL or points to `out->size` writable bytes that are not used elsewhere during the
/// call.
pub(crate) unsafe fn write_result<T: SizedStruct>(name: &str, out: *mut T, value: T) -> Outcome {
    // SAFETY: this function's contract.
    let size = unsafe { size_of_given(name, out.cast_const())? };
    let (start, end) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: both have at least `end` bytes, which is more than `start`, and `value` is a local.
    unsafe {
        std::ptr::copy_nonoverlapping(
            (&raw const value).cast::<u8>().add(start),
            out.cast::<u8>().add(start),
            end - start,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{component, event, object, options, parameter, publisher, sample, subscription};

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Second {
        size: usize,
        first_release: u64,
        second_release: u64,
    }

    // SAFETY: `repr(C)`, `size` is first, integers may be zero.
    unsafe impl SizedStruct for Second {
        const NAME: &'static str = "second";
        const FIRST: usize = 16;
    }

    /// The struct as a later release has it.
    #[repr(C)]
    struct Third {
        known: Second,
        third_release: u64,
    }

    fn third(size: usize, third_release: u64) -> Third {
        Third { known: Second { size, first_release: 1, second_release: 2 }, third_release }
    }

    fn text(failure: Outcome<Second>) -> String {
        failure.map_err(|f| f.text).unwrap_err()
    }

    #[test]
    fn older_structs_are_read_as_far_as_they_go() {
        let older = third(16, 3);
        // SAFETY: at least `size` bytes are there.
        let read =
            unsafe { read_argument("it", &raw const older.known).map_err(|f| f.text).unwrap() };
        assert_eq!(read, Second { size: 16, first_release: 1, second_release: 0 });
    }

    #[test]
    fn newer_arguments_must_not_ask_for_what_is_not_known_and_newer_tables_may_offer_it() {
        let (plain, asks) = (third(24 + 8, 0), third(24 + 8, 3));
        // SAFETY: at least `size` bytes are there.
        unsafe {
            assert!(read_argument("it", &raw const plain.known).is_ok());
            assert!(
                text(read_argument("it", &raw const asks.known)).contains("update the library")
            );
            assert_eq!(
                read_known("it", &raw const asks.known).map_err(|f| f.text).unwrap().second_release,
                2
            );
        }
    }

    #[test]
    fn sizes_of_no_release_are_refused() {
        for size in [0, 8, 15, 4097, usize::MAX] {
            let wrong = third(size, 0);
            // SAFETY: the size is there, and refused before anything else is read.
            let text = text(unsafe { read_known("it", &raw const wrong.known) });
            assert!(
                text.contains(&format!(
                    "it->size = {size}: set it to sizeof(second), which is at least 16"
                )),
                "{text}"
            );
            let mut wrong = wrong;
            let value = Second { size: 0, first_release: 8, second_release: 9 };
            // SAFETY: as above; nothing is written.
            assert!(unsafe { write_result("it", &raw mut wrong.known, value) }.is_err());
            assert_eq!(wrong.known.first_release, 1);
        }
        // SAFETY: NULL is permitted.
        let refused = text(unsafe { read_known("it", std::ptr::null::<Second>()) });
        assert!(refused.contains("'it' is NULL"));
    }

    #[test]
    fn results_fill_what_the_caller_knows_and_no_more() {
        let value = Second { size: 0, first_release: 8, second_release: 9 };
        for (size, expected) in [(16, (8, 2, 3)), (24, (8, 9, 3)), (32, (8, 9, 3))] {
            let mut out = third(size, 3);
            // SAFETY: a struct with more than `size` bytes.
            assert!(unsafe { write_result("it", &raw mut out.known, value) }.is_ok());
            assert_eq!(
                (out.known.first_release, out.known.second_release, out.third_release),
                expected
            );
            assert_eq!(out.known.size, size, "the caller's size is not changed");
        }
    }

    #[test]
    fn structs_of_this_release_hold_those_of_the_first_one() {
        fn check<T: SizedStruct>() {
            assert!(T::FIRST <= size_of::<T>(), "{} has become smaller", T::NAME);
        }
        check::<component::dl_component_vtable>();
        check::<component::dl_timer_tick>();
        check::<event::dl_event>();
        check::<object::dl_object_vtable>();
        check::<object::dl_shared_object>();
        check::<options::dl_client_options>();
        check::<options::dl_publisher_options>();
        check::<options::dl_service_options>();
        check::<options::dl_subscription_options>();
        check::<parameter::dl_parameter_value>();
        check::<publisher::dl_publisher_stats>();
        check::<sample::dl_origin>();
        check::<sample::dl_sample_header>();
        check::<subscription::dl_subscription_stats>();
    }
}
