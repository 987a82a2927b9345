// SPDX-License-Identifier: Apache-2.0
//! Time that callbacks spend on converting between messages and bytes.

use crate::status::guard_value;
use driveline::conversion;
use driveline_types::MonotonicNs;

/// Begins a conversion between a message and its bytes; pass the result to `dl_conversion_end`. 0
/// outside of a callback. Any thread. One clock reading.
#[unsafe(no_mangle)]
pub extern "C" fn dl_conversion_begin() -> u64 {
    guard_value(0, || conversion::begin().map_or(0, |t| t.0))
}

/// Counts the time since `began`, the result of `dl_conversion_begin`, as communication of the
/// callback that runs on this thread, and not as its computation. No time counts twice, and no time
/// before the callback counts. 0 does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn dl_conversion_end(began: u64) {
    guard_value((), || {
        if began != 0 {
            conversion::end(MonotonicNs(began));
        }
    });
}
