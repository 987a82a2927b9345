// SPDX-License-Identifier: Apache-2.0
//! Components behind C function pointers: the exports of a component library, and the context that
//! its components get.

use crate::context::dl_node;
use crate::parameter::dl_parameter_value;
use crate::publisher::dl_publisher;
use crate::sample::dl_sample;
use crate::schema::dl_schema;
use crate::sized::{SizedStruct, check_result, write_result};
use crate::status::*;
use driveline::{CallbackHandle, Invocation, ParameterValue};
use driveline_graph::descriptor::{ComponentClass, ParameterDecl, Port, ValueRange};
use driveline_runtime::component::{Facts, ModeRequests, StopHandle, Timers};
use driveline_types::MonotonicNs;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

/// Class of components. Static, and read once, when the library is loaded. The functions must not
/// throw. Functions that return an `int` return 0 for success; for a failure they pass the reason
/// to `dl_set_last_error` and return another value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dl_component_vtable {
    /// `sizeof(dl_component_vtable)`.
    pub size: usize,
    /// Name, unique in the library. Never NULL.
    pub name: *const c_char,
    /// One line for people, or NULL.
    pub doc: *const c_char,
    /// Creates a component; cheap and without side effects, because it is also called to describe
    /// the class.
    pub create: Option<unsafe extern "C" fn(component: *mut *mut c_void) -> c_int>,
    /// Declares ports and parameters. Always the same ones.
    pub describe: Option<
        unsafe extern "C" fn(component: *mut c_void, builder: *mut dl_class_builder) -> c_int,
    >,
    /// Initialises the component. `io` is borrowed: valid until `destroy`.
    pub init:
        Option<unsafe extern "C" fn(component: *mut c_void, io: *const dl_component_io) -> c_int>,
    /// Called when the trigger fires. `invocation` is borrowed: valid during the call, on this
    /// thread.
    pub on_trigger: Option<
        unsafe extern "C" fn(component: *mut c_void, invocation: *const dl_invocation) -> c_int,
    >,
    /// Called after the last callback has returned. Not called if `init` was not.
    pub shutdown: Option<unsafe extern "C" fn(component: *mut c_void)>,
    /// Destroys the component.
    pub destroy: Option<unsafe extern "C" fn(component: *mut c_void)>,
    /// Called for an event of an input or output, other than a sample. As `on_trigger`, in the same
    /// group, on the same executor. `event` is borrowed: valid during the call. NULL: the component
    /// handles no events.
    pub on_event:
        Option<unsafe extern "C" fn(component: *mut c_void, event: *const dl_port_event) -> c_int>,
    /// Called when the component becomes active: its callback, timers and outputs work from here
    /// on. As `on_trigger`. For a component that no mode of the graph names, it is called once,
    /// after `init` of all components of the module, on the thread that called `init`. After a
    /// failure the component stays inactive; if no mode names it, the module ends. NULL: nothing
    /// to do.
    pub on_activate: Option<unsafe extern "C" fn(component: *mut c_void) -> c_int>,
    /// Called when the component becomes inactive: its outputs refuse to publish once this has
    /// returned. As `on_trigger`. NULL: nothing to do.
    pub on_deactivate: Option<unsafe extern "C" fn(component: *mut c_void) -> c_int>,
    /// Called when a parameter changes: one of `dl_class_add_live_parameter` by `driveline param
    /// set`, or any parameter by a mode of the graph. As `on_trigger`; for a mode, before
    /// `on_activate`. The component's node has the new value already. After a failure it gets the
    /// old value back, and the caller of the change gets the text of the failure; for a mode, it is
    /// logged. `name` is borrowed: valid during the call. NULL: every value is accepted.
    pub on_parameter:
        Option<unsafe extern "C" fn(component: *mut c_void, name: *const c_char) -> c_int>,
}

/// An event of an input or output of a component.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_port_event {
    /// `sizeof(dl_port_event)` of the library that made it; a later one may have more fields at its
    /// end.
    pub size: usize,
    /// Name of the port; empty if events were lost, of one or of several ports.
    pub port: *const c_char,
    /// 1 if the port is an output, 0 if it is an input or `port` is empty.
    pub is_output: u32,
    /// Kind of the event, a `dl_event_kind`; a later library may have more of them.
    pub kind: u32,
    /// A text for people.
    pub text: *const c_char,
    /// For a missed deadline: periods without a sample since the previous such event. For a
    /// reliable time-out: waits for a slow subscription since the previous such event. Else 0.
    pub missed: u64,
    /// The same since the endpoint was created; for a reliable time-out at host reach, number of
    /// publishes that timed out, however many subscriptions were slow. Else 0.
    pub total: u64,
}

// SAFETY: a vtable is never written, what it names is static, and its functions may be called from
// any thread.
unsafe impl Send for dl_component_vtable {}
// SAFETY: as above.
unsafe impl Sync for dl_component_vtable {}

// SAFETY: `repr(C)`, `size` is first, pointers may be NULL and functions absent.
unsafe impl SizedStruct for dl_component_vtable {
    const NAME: &'static str = "dl_component_vtable";
    const FIRST: usize = 72;
}

/// Result of `driveline_component_entry`. Static.
#[repr(C)]
pub struct dl_component_library {
    /// `DL_COMPONENT_ABI`. Always the first field, so that every release can read it.
    pub abi: u32,
    /// `sizeof(dl_component_library)`. Always the second field.
    pub size: u32,
    /// The classes.
    pub classes: *const *const dl_component_vtable,
    /// Number of `classes`.
    pub class_count: usize,
    /// Version of the SDK that the library was built with, or NULL.
    pub sdk_version: *const c_char,
}

/// Type of the one symbol that a component library exports, `driveline_component_entry`.
pub type dl_component_entry = Option<unsafe extern "C" fn() -> *const dl_component_library>;

/// Collects the declarations of a class.
pub struct dl_class_builder {
    pub(crate) class: ComponentClass,
}

/// Declares an input; the order is that of the indices in `dl_invocation_sample`. `schema` is
/// copied. `doc` may be NULL.
///
/// # Safety
/// Handles are NULL or live; strings are NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_class_add_input(
    builder: *mut dl_class_builder,
    name: *const c_char,
    schema: *const dl_schema,
    doc: *const c_char,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (builder, port) = unsafe { (builder_of(builder)?, port(name, schema, doc)?) };
        unique("input", &port.name, builder.class.inputs.iter().map(|p| &p.name))?;
        builder.class.inputs.push(port);
        Ok(())
    })
}

/// Declares an output; the order is that of the indices in `dl_component_io_output`. As
/// `dl_class_add_input`.
///
/// # Safety
/// Handles are NULL or live; strings are NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_class_add_output(
    builder: *mut dl_class_builder,
    name: *const c_char,
    schema: *const dl_schema,
    doc: *const c_char,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (builder, port) = unsafe { (builder_of(builder)?, port(name, schema, doc)?) };
        unique("output", &port.name, builder.class.outputs.iter().map(|p| &p.name))?;
        builder.class.outputs.push(port);
        Ok(())
    })
}

/// Declares a parameter with its default, which fixes the type. `doc` may be NULL.
///
/// # Safety
/// Handles are NULL or live; strings are NULL or NUL-terminated; `default_value` is NULL or a valid
/// value with its `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_class_add_parameter(
    builder: *mut dl_class_builder,
    name: *const c_char,
    default_value: *const dl_parameter_value,
    doc: *const c_char,
) -> dl_status {
    // SAFETY: this function's contract.
    guard(|| unsafe { add_parameter(builder, name, default_value, doc, None) })
}

/// Declares a parameter that can be changed while the component runs (`driveline param set`), as
/// `dl_class_add_parameter`. `dl_class_set_parameter_range` gives it a range.
///
/// # Safety
/// As `dl_class_add_parameter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_class_add_live_parameter(
    builder: *mut dl_class_builder,
    name: *const c_char,
    default_value: *const dl_parameter_value,
    doc: *const c_char,
) -> dl_status {
    let live = Some(ValueRange::default());
    // SAFETY: this function's contract.
    guard(|| unsafe { add_parameter(builder, name, default_value, doc, live) })
}

/// Declares the minimum and maximum of a number that `dl_class_add_parameter` or
/// `dl_class_add_live_parameter` has added, or of each item of a list. A graph with another value
/// fails `driveline validate`. -INFINITY and INFINITY mean no bound.
///
/// # Safety
/// `builder` is NULL or a live handle; `name` is NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_class_set_parameter_range(
    builder: *mut dl_class_builder,
    name: *const c_char,
    min: f64,
    max: f64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (builder, name) = unsafe { (builder_of(builder)?, text("name", name)?) };
        let Some(declared) = builder.class.parameters.iter_mut().find(|p| p.name == name) else {
            return Err(Failure::argument(format_args!(
                "there is no parameter '{name}': call dl_class_add_parameter before"
            )));
        };
        use ParameterValue::{Float, Integer, List};
        if !matches!(declared.default, Integer(_) | Float(_) | List(_)) {
            let what = declared.default.type_name();
            return Err(Failure::argument(format_args!(
                "parameter '{name}' is {what}, which has no range"
            )));
        }
        if min.is_nan() || max.is_nan() || min > max {
            return Err(Failure::argument(format_args!(
                "the range of parameter '{name}' is {min} to {max}; min <= max is needed"
            )));
        }
        let range = ValueRange::between(min, max);
        if let Some(mistake) = range.mistake(&declared.default) {
            return Err(Failure::argument(format_args!(
                "the default of parameter '{name}': {mistake}"
            )));
        }
        declared.range = Some(range);
        Ok(())
    })
}

/// # Safety
/// As [`dl_class_add_parameter`].
unsafe fn add_parameter(
    builder: *mut dl_class_builder,
    name: *const c_char,
    default_value: *const dl_parameter_value,
    doc: *const c_char,
    live: Option<ValueRange>,
) -> Outcome {
    // SAFETY: this function's contract.
    let builder = unsafe { builder_of(builder)? };
    // SAFETY: this function's contract.
    let (name, default, doc) = unsafe {
        (
            text("name", name)?,
            dl_parameter_value::read("default_value", default_value)?,
            optional_text("doc", doc)?,
        )
    };
    unique("parameter", name, builder.class.parameters.iter().map(|p| &p.name))?;
    builder.class.parameters.push(ParameterDecl {
        name: name.to_owned(),
        default,
        doc: doc.unwrap_or_default().to_owned(),
        range: None,
        live,
    });
    Ok(())
}

/// # Safety
/// `builder` is NULL, or live and not used elsewhere during `'a`.
unsafe fn builder_of<'a>(builder: *mut dl_class_builder) -> Outcome<&'a mut dl_class_builder> {
    // SAFETY: this function's contract; `as_mut` checks for NULL.
    unsafe { builder.as_mut() }.ok_or_else(|| Failure::argument("argument 'builder' is NULL"))
}

/// # Safety
/// As [`dl_class_add_input`].
unsafe fn port(name: *const c_char, schema: *const dl_schema, doc: *const c_char) -> Outcome<Port> {
    // SAFETY: this function's contract.
    let (name, schema, doc) =
        unsafe { (text("name", name)?, borrow("schema", schema)?, optional_text("doc", doc)?) };
    Ok(Port {
        name: name.to_owned(),
        schema: schema.schema.clone(),
        doc: doc.unwrap_or_default().to_owned(),
    })
}

fn unique<'a>(what: &str, name: &str, mut have: impl Iterator<Item = &'a String>) -> Outcome {
    if have.any(|h| h == name) {
        Err(Failure::argument(format_args!("{what} '{name}' is declared twice")))
    } else {
        Ok(())
    }
}

/// Context of a component, passed to its initialisation. Any thread, unless a function says
/// otherwise.
pub struct dl_component_io {
    pub(crate) instance: CString,
    pub(crate) node: dl_node,
    pub(crate) outputs: Vec<dl_publisher>,
    pub(crate) timers: Timers,
    /// Timers that were added, by the address of their context.
    pub(crate) timer_handles: Mutex<Vec<(usize, CallbackHandle)>>,
    pub(crate) facts: Facts,
    pub(crate) stop: StopHandle,
    pub(crate) modes: ModeRequests,
    /// The component, which must be alive when a timer ticks.
    pub(crate) owner: Weak<crate::loader::Instance>,
}

/// Name of the component in the graph; NULL for NULL. Borrowed from `io`.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_instance(io: *const dl_component_io) -> *const c_char {
    // SAFETY: this function's contract.
    unsafe { io.as_ref() }.map_or(std::ptr::null(), |io| io.instance.as_ptr())
}

/// The component's node, with its parameters declared and set; NULL for NULL. Borrowed from `io`.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_node(io: *const dl_component_io) -> *const dl_node {
    // SAFETY: this function's contract.
    unsafe { io.as_ref() }.map_or(std::ptr::null(), |io| &raw const io.node)
}

/// The publisher of an output; NULL if there is none with this index. Borrowed from `io`.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_output(
    io: *const dl_component_io,
    index: usize,
) -> *const dl_publisher {
    // SAFETY: this function's contract.
    unsafe { io.as_ref() }.and_then(|io| io.outputs.get(index)).map_or(std::ptr::null(), |p| p)
}

/// Reports that the component's work is done. Its timers stop. The run ends once all work in flight
/// has been processed.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_finish(io: *const dl_component_io) -> dl_status {
    // SAFETY: this function's contract.
    guard(|| unsafe { borrow("io", io) }.map(|io| io.stop.finish()))
}

/// Adds a note for readers of the run's figures, such as `detector`, "classical, no model was
/// given": shown with the run and kept in its report. Not for every sample: it allocates.
///
/// # Safety
/// `io` is NULL or live; strings are NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_add_run_note(
    io: *const dl_component_io,
    name: *const c_char,
    value: *const c_char,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (io, name, value) =
            unsafe { (borrow("io", io)?, text("name", name)?, text("value", value)?) };
        io.facts.add(name, value);
        Ok(())
    })
}

/// Requests a switch of the whole run to a mode of the graph, which the launcher grants or refuses.
/// Does not block; allocates. The outcome is an event of the run.
///
/// # Safety
/// `io` is NULL or live; `mode` is NULL or NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_request_mode(
    io: *const dl_component_io,
    mode: *const c_char,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (io, mode) = unsafe { (borrow("io", io)?, text("mode", mode)?) };
        io.modes.request(mode).map_err(|e| Failure::new(DL_ERROR_MODE, e))
    })
}

/// Returns 1 if the run is ending, for long callbacks and for the component's own threads. One
/// atomic load.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_is_stopping(io: *const dl_component_io) -> c_int {
    // SAFETY: this function's contract.
    unsafe { io.as_ref() }.map_or(1, |io| c_int::from(io.stop.is_stopping()))
}

/// One tick of a timer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_timer_tick {
    /// `sizeof(dl_timer_tick)` in the release of its maker: the caller of `dl_invocation_tick`, or
    /// the library for a timer's callback. A callback checks it before it reads fields that the
    /// first release did not have.
    pub size: usize,
    /// Scheduled time, in nanoseconds of `CLOCK_MONOTONIC`. Ticks are on a fixed grid.
    pub scheduled_ns: u64,
    /// Grid points that passed without a tick since the previous tick.
    pub overruns: u64,
}

// SAFETY: `repr(C)`, `size` is first, integers may be zero.
unsafe impl SizedStruct for dl_timer_tick {
    const NAME: &'static str = "dl_timer_tick";
    const FIRST: usize = 24;
}

impl dl_timer_tick {
    fn of(tick: &driveline::TimerTick) -> Self {
        Self { size: size_of::<Self>(), scheduled_ns: tick.scheduled.0, overruns: tick.overruns }
    }
}

/// Callback of a timer. As `on_trigger`, in the same group, on the same executor.
pub type dl_timer_callback =
    Option<unsafe extern "C" fn(context: *mut c_void, tick: *const dl_timer_tick) -> c_int>;

struct Context(*mut c_void);

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

// SAFETY: the pointer is only handed back to the component, which accepts calls from the executor's
// threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// Adds a timer of the component. Only during `init`. `context` is passed to every call; the
/// component keeps it alive until `destroy`.
///
/// # Safety
/// `io` is NULL or live; `callback` is NULL or may be called with `context` until the component is
/// destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_add_timer(
    io: *const dl_component_io,
    period_ns: u64,
    callback: dl_timer_callback,
    context: *mut c_void,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let io = unsafe { borrow("io", io)? };
        let callback = callback.ok_or_else(|| Failure::argument("argument 'callback' is NULL"))?;
        let context_address = context.addr();
        let (context, owner) = (Context(context), io.owner.clone());
        let added = io.timers.add(Duration::from_nanos(period_ns), move |tick| {
            // Holds the component for the duration of the call.
            let Some(owner) = owner.upgrade() else { return Ok(()) };
            let tick = dl_timer_tick::of(tick);
            // SAFETY: the component is alive, so by contract the callback may be called with its
            // context.
            owner.outcome(unsafe { callback(context.get(), &raw const tick) })
        });
        let handle = added.map_err(|e| Failure::new(DL_ERROR_COMPONENT, e))?;
        let mut handles = io.timer_handles.lock().unwrap_or_else(PoisonError::into_inner);
        handles.push((context_address, handle));
        Ok(())
    })
}

/// Moves the next tick of the timers that were added with `context` to `at_ns`, in nanoseconds of
/// `CLOCK_MONOTONIC`, at once if that is past; the later ticks follow on the grid of the period
/// from there. Only within a call of the component.
///
/// # Safety
/// `io` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_component_io_next_tick(
    io: *const dl_component_io,
    context: *mut c_void,
    at_ns: u64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let io = unsafe { borrow("io", io)? };
        let handles = io.timer_handles.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = false;
        for (_, timer) in handles.iter().filter(|(of, _)| *of == context.addr()) {
            timer.next_tick_at(MonotonicNs(at_ns));
            found = true;
        }
        if found {
            Ok(())
        } else {
            Err(Failure::argument("no timer was added with this context: add it in init first"))
        }
    })
}

/// Arguments of a callback. Valid during the call, on the calling thread.
pub struct dl_invocation<'a> {
    pub(crate) invocation: &'a Invocation<'a>,
}

/// Index of the input that triggered the call; -1 if none did.
///
/// # Safety
/// `invocation` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_invocation_trigger(invocation: *const dl_invocation) -> i64 {
    // SAFETY: this function's contract.
    let trigger = unsafe { invocation.as_ref() }.and_then(|i| i.invocation.trigger());
    trigger.and_then(|t| i64::try_from(t).ok()).unwrap_or(-1)
}

/// Start of the call, in nanoseconds of `CLOCK_MONOTONIC`; 0 for NULL.
///
/// # Safety
/// `invocation` is NULL or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_invocation_start_ns(invocation: *const dl_invocation) -> u64 {
    // SAFETY: this function's contract.
    unsafe { invocation.as_ref() }.map_or(0, |i| i.invocation.start().0)
}

/// Writes the tick if a timer made the call. `*is_tick`: 1 if one did, else 0.
///
/// # Safety
/// `invocation` is NULL or live; `tick` is NULL or points to a `dl_timer_tick` whose `size` is set;
/// `is_tick` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_invocation_tick(
    invocation: *const dl_invocation,
    tick: *mut dl_timer_tick,
    is_tick: *mut c_int,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let found = unsafe {
            check_result("tick", tick)?;
            borrow("invocation", invocation)?.invocation.tick()
        };
        // SAFETY: this function's contract.
        unsafe {
            put("is_tick", is_tick, c_int::from(found.is_some()))?;
            if let Some(found) = found {
                write_result("tick", tick, dl_timer_tick::of(&found))
            } else {
                Ok(())
            }
        }
    })
}

/// The sample that the trigger chose for an input. `*sample`: NULL if it chose none, else owned by
/// the caller.
///
/// # Safety
/// `invocation` is NULL or live; `sample` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_invocation_sample(
    invocation: *const dl_invocation,
    input: usize,
    sample: *mut *mut dl_sample,
) -> dl_status {
    guard(|| {
        place("sample", sample)?;
        // SAFETY: this function's contract.
        let chosen = unsafe { borrow("invocation", invocation)? }.invocation.sample(input).cloned();
        // SAFETY: this function's contract.
        unsafe {
            put("sample", sample, chosen.map_or(std::ptr::null_mut(), dl_sample::into_handle))
        }
    })
}

/// The sample that the trigger chose, or else the newest of the input, read now; an earlier call
/// may have seen it. Under the trigger `any`, a sample that started a call belongs to that call
/// alone. `*sample`: owned by the caller; NULL if there is no sample, if it is older than the
/// trigger's `max_age`, or if the component holds too many samples.
///
/// # Safety
/// `invocation` is NULL or live; `sample` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_invocation_read(
    invocation: *const dl_invocation,
    input: usize,
    sample: *mut *mut dl_sample,
) -> dl_status {
    guard(|| {
        place("sample", sample)?;
        // SAFETY: this function's contract.
        let newest = unsafe { borrow("invocation", invocation)? }.invocation.read(input);
        // SAFETY: this function's contract.
        unsafe {
            put("sample", sample, newest.map_or(std::ptr::null_mut(), dl_sample::into_handle))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_a_declared_number_whose_default_is_within() {
        let class = ComponentClass {
            name: "C".into(),
            doc: String::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
            parameters: Vec::new(),
        };
        let builder = &raw mut *Box::leak(Box::new(dl_class_builder { class }));
        let number = dl_parameter_value::integer(5);
        let truth = dl_parameter_value { kind: 0, ..number };
        let set = |name: &std::ffi::CStr, min, max| {
            // SAFETY: the builder is never dropped; the name is NUL-terminated.
            unsafe { dl_class_set_parameter_range(builder, name.as_ptr(), min, max) }
        };
        for (name, value) in [(c"n", &number), (c"on", &truth)] {
            // SAFETY: as above; the value lives.
            let done =
                unsafe { dl_class_add_parameter(builder, name.as_ptr(), value, std::ptr::null()) };
            assert_eq!(done, DL_OK);
        }
        for (name, min, max) in [
            (c"other", 0.0, 1.0),
            (c"on", 0.0, 1.0),
            (c"n", 6.0, 7.0),
            (c"n", 7.0, 0.0),
            (c"n", f64::NAN, 9.0),
        ] {
            assert_eq!(set(name, min, max), DL_ERROR_ARGUMENT, "{name:?} {min} {max}");
        }
        assert_eq!(set(c"n", 0.0, f64::INFINITY), DL_OK);
        // SAFETY: no other reference exists, and nothing drops it twice.
        let builder = unsafe { Box::from_raw(builder) };
        assert_eq!(
            builder.class.parameters[0].range,
            Some(ValueRange { min: Some(0.0), max: None })
        );
    }
}
