// SPDX-License-Identifier: Apache-2.0
//! A loaded work of `lab/peers/work/work.h`. The unsafe code here calls a foreign library.
//! No check can prove that the library behaves as that header requires.

use anyhow::{Context, Result, bail, ensure};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

/// `WORK_ABI` of the header.
const ABI: u32 = 1;
const NOTHING: c_int = 0;
const DONE: c_int = 1;
const ERROR: usize = 1024;
const REPORT: usize = 64 * 1024;

/// `work_input` of the header.
#[repr(C)]
struct RawInput {
    data: *const u8,
    size: usize,
    origin: u64,
    source_time_ns: u64,
}

/// `work_call` of the header.
#[repr(C)]
struct RawCall {
    origin: u64,
    inputs: *const RawInput,
    input_count: usize,
    output: *mut u8,
    capacity: usize,
    written: usize,
}

type AbiFn = unsafe extern "C" fn() -> u32;
type CreateFn = unsafe extern "C" fn(*const c_char, *mut c_char, usize) -> *mut c_void;
type ProcessFn = unsafe extern "C" fn(*mut c_void, *mut RawCall, *mut c_char, usize) -> c_int;
type ReportFn = unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> usize;
type DestroyFn = unsafe extern "C" fn(*mut c_void);

/// Message without its head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input<'a> {
    pub(crate) content: &'a [u8],
    pub(crate) origin: u64,
    pub(crate) source_time_ns: u64,
}

pub(crate) struct Work {
    name: String,
    object: NonNull<c_void>,
    process: ProcessFn,
    report: ReportFn,
    destroy: DestroyFn,
    /// Never unloaded: its libraries may have left threads and destructors behind.
    _library: ManuallyDrop<Library>,
}

/// # Safety
/// `T` must be the type of the function that has this name in the header.
unsafe fn function<T: Copy>(library: &Library, work: &str, name: &CStr) -> Result<T> {
    // SAFETY: the caller's promise.
    let symbol = unsafe { library.get::<T>(name.to_bytes_with_nul()) };
    Ok(*symbol.with_context(|| {
        format!(
            "the work {work} has no function {name:?}: it must be built against \
             lab/peers/work/work.h"
        )
    })?)
}

impl Work {
    /// Loads the library and makes the work; `parameters` is a JSON object.
    pub(crate) fn load(path: &Path, parameters: &str) -> Result<Self> {
        let name = path.display().to_string();
        // SAFETY: a library that the user names as a work is trusted like a program that the user
        // starts.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = ManuallyDrop::new(library.context("the work cannot be loaded")?);
        // SAFETY: the types are those of the header, of the version that is checked first;
        // work_abi() is the same in all of them.
        let (abi, create, process, report, destroy) = unsafe {
            (
                function::<AbiFn>(&library, &name, c"work_abi")?(),
                function::<CreateFn>(&library, &name, c"work_create")?,
                function::<ProcessFn>(&library, &name, c"work_process")?,
                function::<ReportFn>(&library, &name, c"work_report")?,
                function::<DestroyFn>(&library, &name, c"work_destroy")?,
            )
        };
        ensure!(
            abi == ABI,
            "the work {name} has version {abi} of lab/peers/work/work.h, this program version \
             {ABI}: build both from the same source"
        );
        let parameters = CString::new(parameters).context("the parameters contain a zero byte")?;
        let mut error = Sentence::default();
        // SAFETY: `parameters` ends with a zero byte, and the buffer has the stated length.
        let object = unsafe { create(parameters.as_ptr(), error.place(), ERROR) };
        let Some(object) = NonNull::new(object) else {
            bail!("the work {name} cannot be made: {}", error.text())
        };
        Ok(Self { name, object, process, report, destroy, _library: library })
    }

    /// Works. Returns the number of written bytes, or nothing if there is nothing to publish.
    pub(crate) fn process(
        &mut self,
        origin: u64,
        inputs: &[Input<'_>],
        output: Option<&mut [u8]>,
    ) -> Result<Option<usize>> {
        let raw = |i: &Input<'_>| RawInput {
            data: i.content.as_ptr(),
            size: i.content.len(),
            origin: i.origin,
            source_time_ns: i.source_time_ns,
        };
        let raw: Vec<RawInput> = inputs.iter().map(raw).collect();
        let (place, capacity) = output.map_or((null_mut(), 0), |o| (o.as_mut_ptr(), o.len()));
        let mut call = RawCall {
            origin,
            inputs: raw.as_ptr(),
            input_count: raw.len(),
            output: place,
            capacity,
            written: 0,
        };
        let mut error = Sentence::default();
        // SAFETY: the object is alive until `self` is dropped, and calls come one after the other
        // (`&mut self`). All pointers are to memory that is borrowed for this call and has the
        // stated length; the inputs are only read.
        let result =
            unsafe { (self.process)(self.object.as_ptr(), &raw mut call, error.place(), ERROR) };
        match result {
            NOTHING => Ok(None),
            DONE if call.written <= capacity => Ok(Some(call.written)),
            DONE => bail!(
                "the work {} wrote {} bytes where there was room for {capacity}",
                self.name,
                call.written
            ),
            _ => bail!("the work {} failed at sample {origin}: {}", self.name, error.text()),
        }
    }

    /// Returns the results of the work as a JSON object.
    pub(crate) fn report(&mut self) -> Result<String> {
        let mut text = vec![0u8; REPORT];
        // SAFETY: as in `process`; the buffer has the stated length.
        let length =
            unsafe { (self.report)(self.object.as_ptr(), text.as_mut_ptr().cast(), REPORT) };
        ensure!(
            length < REPORT,
            "the report of the work {} is longer than {REPORT} bytes",
            self.name
        );
        text.truncate(length);
        let text = String::from_utf8(text)
            .with_context(|| format!("the report of the work {} is no UTF-8 text", self.name))?;
        Ok(if text.is_empty() { "{}".into() } else { text })
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: it was made by this library, and is not used after this.
        unsafe { (self.destroy)(self.object.as_ptr()) }
    }
}

/// Error text of a library.
struct Sentence([u8; ERROR]);

impl Default for Sentence {
    fn default() -> Self {
        Self([0; ERROR])
    }
}

impl Sentence {
    fn place(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.0.split(|b| *b == 0).next().unwrap_or_default()).into_owned()
    }
}
