// SPDX-License-Identifier: Apache-2.0
//! Loads component libraries for the runtime.

use crate::component::{
    dl_class_builder, dl_component_io, dl_component_library, dl_component_vtable, dl_invocation,
    dl_port_event,
};
use crate::context::dl_node;
use crate::event::{kind_of, missed_of};
use crate::publisher::dl_publisher;
use crate::sized::read_known;
use crate::status::{c_text, take_last_error};
use crate::version::DL_COMPONENT_ABI;
use driveline::{Invocation, ParameterValue, PortEvent};
use driveline_graph::descriptor::ComponentClass;
use driveline_runtime::component::{
    Component, ComponentFailure, ComponentIo, ComponentLibrary, ComponentLoader, LoadError,
};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Loads libraries that were built with the C++ SDK.
pub struct Loader;

/// The symbol that a component library exports.
const ENTRY: &[u8] = b"driveline_component_entry\0";
const NO_COMPONENTS: &str =
    "holds no components: register each class with DRIVELINE_COMPONENT(Class)";
/// Maximum number of classes of one library; more mean a damaged table.
const MAX_CLASSES: usize = 4096;
/// Size of `dl_component_library` in the first release, in bytes. Never changes.
const FIRST_TABLE: usize = 32;

fn failed(library: &Path, reason: impl std::fmt::Display) -> LoadError {
    LoadError { text: format!("component library {}: {reason}", library.display()) }
}

impl ComponentLoader for Loader {
    fn set_log_level(&self, filter: &str) -> Result<(), String> {
        crate::log::set_filter(filter)
    }

    fn load(&self, path: &Path) -> Result<Box<dyn ComponentLibrary>, LoadError> {
        let library = open(path)?;
        let found = entry(&library, path);
        // Never unloaded: its published values, vtables and threads may still be in use.
        std::mem::forget(library);
        loaded(path, found?)
    }
}

/// Returns the classes of a table in this process.
///
/// # Safety
/// `table` is not NULL, static, and one that `driveline_component_entry` may return.
pub(crate) unsafe fn from_table(
    table: *const dl_component_library,
    path: &Path,
) -> Result<Box<dyn ComponentLibrary>, LoadError> {
    // SAFETY: this function's contract.
    loaded(path, unsafe { classes_of(table, path)? })
}

fn loaded(
    path: &Path,
    found: Vec<dl_component_vtable>,
) -> Result<Box<dyn ComponentLibrary>, LoadError> {
    let classes = found.into_iter().map(|vtable| describe(vtable).map_err(|e| failed(path, e)));
    let classes = classes.collect::<Result<Vec<_>, _>>()?;
    for (i, class) in classes.iter().enumerate() {
        if classes[..i].iter().any(|c| c.description.name == class.description.name) {
            return Err(failed(
                path,
                format_args!("registers the class {} twice", class.description.name),
            ));
        }
    }
    Ok(Box::new(LoadedLibrary { path: path.display().to_string(), classes }))
}

// Declared here, not by libloading, because exceptions of a library's initialisers pass through
// this call.
unsafe extern "C-unwind" {
    fn dlopen(filename: *const c_char, flags: c_int) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

/// Guard that ends the process if an exception drops it. At that time, the dynamic linker still
/// holds its locks, and its work is incomplete.
struct NoWayBack<'a>(&'a Path);

impl Drop for NoWayBack<'_> {
    fn drop(&mut self) {
        let reason = "an initialiser of it, or of a library that it links, threw an exception; \
             look for global objects, and for the code of one .proto file in two libraries";
        driveline_runtime::host::end_at_once(&failed(self.0, reason).text);
    }
}

fn open(path: &Path) -> Result<Library, LoadError> {
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failed(path, "its path contains a zero byte"))?;
    let barrier = NoWayBack(path);
    // SAFETY: this runs the library's initialisers: a graph that names a library asks to run its
    // code here. An exception of an initialiser unwinds into `barrier`, whose drop does not return.
    let handle = unsafe { dlopen(name.as_ptr(), RTLD_NOW | RTLD_LOCAL) };
    std::mem::forget(barrier);
    if handle.is_null() {
        // SAFETY: the text is this thread's and lives until its next call of the dynamic linker.
        let text = unsafe { dlerror() };
        let text = if text.is_null() {
            "no reason given".into()
        } else {
            // SAFETY: not NULL, so NUL-terminated.
            unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
        };
        return Err(failed(path, format_args!("cannot be loaded: {text}")));
    }
    // SAFETY: a handle of `dlopen` that nothing else has.
    Ok(unsafe { Library::from_raw(handle) })
}

fn entry(library: &Library, path: &Path) -> Result<Vec<dl_component_vtable>, LoadError> {
    type Entry = unsafe extern "C" fn() -> *const dl_component_library;
    // SAFETY: a library that exports this name exports a function of this type.
    let entry: Symbol<Entry> = unsafe { library.get(ENTRY) }.map_err(|_| {
        failed(path, format_args!("{NO_COMPONENTS} (it does not export driveline_component_entry)"))
    })?;
    // SAFETY: as above.
    let table = unsafe { entry() };
    if table.is_null() {
        return Err(failed(path, "driveline_component_entry returned NULL"));
    }
    // SAFETY: not NULL, and what the function returns is static and valid.
    unsafe { classes_of(table, path) }
}

/// # Safety
/// As [`from_table`].
unsafe fn classes_of(
    table: *const dl_component_library,
    path: &Path,
) -> Result<Vec<dl_component_vtable>, LoadError> {
    // SAFETY: not NULL; a table of any version begins with these two numbers.
    let (other, size) =
        unsafe { ((&raw const (*table).abi).read(), (&raw const (*table).size).read()) };
    if other != DL_COMPONENT_ABI {
        return Err(failed(
            path,
            format_args!(
                "was built for component ABI {other}, this Driveline has {DL_COMPONENT_ABI}: \
                 rebuild it with this release's SDK"
            ),
        ));
    }
    if (size as usize) < FIRST_TABLE {
        return Err(failed(path, format_args!("its table of {size} bytes is damaged")));
    }
    // If a later release adds fields, older libraries have shorter tables. Then the table must be
    // read with `read_known`, as the classes are.
    const { assert!(size_of::<dl_component_library>() == FIRST_TABLE) };
    // SAFETY: static, and at least as large as our type: the two checks above ensure this.
    let table = unsafe { &*table };
    if table.class_count == 0 {
        return Err(failed(path, NO_COMPONENTS));
    }
    if table.class_count > MAX_CLASSES || table.classes.is_null() {
        return Err(failed(
            path,
            format_args!("its table of {} classes is damaged", table.class_count),
        ));
    }
    // SAFETY: the ABI version says that `classes` points to `class_count` pointers to static
    // vtables.
    let pointers = unsafe { std::slice::from_raw_parts(table.classes, table.class_count) };
    let checked = pointers.iter().map(|p| {
        // SAFETY: as above; `read_known` checks for NULL.
        let vtable = unsafe { read_known("class", *p) }.map_err(|e| {
            failed(path, format_args!("its table of classes is damaged: {}", e.text))
        })?;
        if vtable.name.is_null() {
            Err(failed(path, "its table of classes is damaged: a class has no name"))
        } else {
            Ok(vtable)
        }
    });
    checked.collect()
}

fn describe(vtable: dl_component_vtable) -> Result<Class, String> {
    let text = |p: *const c_char| {
        if p.is_null() {
            String::new()
        } else {
            // SAFETY: a vtable's texts are NULL or NUL-terminated and static.
            unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
        }
    };
    let name = text(vtable.name);
    let component = Instance::create(vtable, &name, &name)?;
    let class = ComponentClass {
        name: name.clone(),
        doc: text(vtable.doc),
        inputs: Vec::new(),
        outputs: Vec::new(),
        parameters: Vec::new(),
    };
    let mut builder = dl_class_builder { class };
    let describe =
        vtable.describe.ok_or_else(|| format!("class {name} has no describe function"))?;
    // SAFETY: the component was made by this vtable, and the builder lives during the call.
    outcome(unsafe { describe(component.pointer, &raw mut builder) })
        .map_err(|e| format!("class {name} cannot be described: {e}"))?;
    Ok(Class { vtable, description: builder.class })
}

struct Class {
    vtable: dl_component_vtable,
    description: ComponentClass,
}

struct LoadedLibrary {
    path: String,
    classes: Vec<Class>,
}

impl ComponentLibrary for LoadedLibrary {
    fn classes(&self) -> Vec<ComponentClass> {
        self.classes.iter().map(|c| c.description.clone()).collect()
    }

    fn create(&self, class: &str, instance: &str) -> Result<Box<dyn Component>, LoadError> {
        let found = self.classes.iter().find(|c| c.description.name == class).ok_or_else(|| {
            let have: Vec<_> = self.classes.iter().map(|c| c.description.name.as_str()).collect();
            LoadError {
                text: format!(
                    "component library {} has no class {class}; it has {}",
                    self.path,
                    have.join(", ")
                ),
            }
        })?;
        let made = Instance::create(found.vtable, class, instance);
        let made = made.map_err(|text| LoadError {
            text: format!("component library {}: {text}", self.path),
        })?;
        Ok(Box::new(CppComponent { instance: Arc::new(made) }))
    }
}

/// One object of a component class. Destroyed with its last owner, which may be a timer's call.
pub(crate) struct Instance {
    vtable: dl_component_vtable,
    pointer: *mut c_void,
    class: String,
    name: String,
    io: OnceLock<Box<dl_component_io>>,
}

// SAFETY: the component ABI says that calls come from any thread of an executor, one at a time
// unless the graph puts the component into a reentrant group, which is the component's consent to
// several.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    fn create(vtable: dl_component_vtable, class: &str, name: &str) -> Result<Self, String> {
        let create =
            vtable.create.ok_or_else(|| format!("class {class} has no create function"))?;
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `create` of a valid vtable writes a pointer to the place that it is given.
        outcome(unsafe { create(&raw mut pointer) })
            .map_err(|e| format!("class {class} cannot be constructed: {e}"))?;
        if pointer.is_null() {
            return Err(format!(
                "class {class} cannot be constructed: its create function gave NULL"
            ));
        }
        Ok(Self {
            vtable,
            pointer,
            class: class.to_owned(),
            name: name.to_owned(),
            io: OnceLock::new(),
        })
    }

    fn failure(&self, text: &str) -> ComponentFailure {
        ComponentFailure { text: format!("{}: {text}", self.class) }
    }

    /// Converts the result of a component's function.
    pub(crate) fn outcome(&self, status: c_int) -> Result<(), ComponentFailure> {
        outcome(status).map_err(|e| self.failure(&e))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.vtable.destroy {
            // SAFETY: made by this vtable and destroyed once. `io`, which it may use, is dropped
            // after it.
            unsafe { destroy(self.pointer) };
        }
    }
}

const NO_REASON: &str = "it gave no reason";

fn outcome(status: c_int) -> Result<(), String> {
    if status == 0 {
        Ok(())
    } else {
        Err(take_last_error().unwrap_or_else(|| NO_REASON.to_owned()))
    }
}

struct CppComponent {
    instance: Arc<Instance>,
}

impl Component for CppComponent {
    fn init(&self, io: ComponentIo) -> Result<(), ComponentFailure> {
        let own = &self.instance;
        let kept = own.io.get_or_init(|| {
            Box::new(dl_component_io {
                instance: c_text(own.name.as_str()),
                node: dl_node { node: io.node },
                outputs: io.outputs.into_iter().map(dl_publisher::new).collect(),
                timers: io.timers,
                timer_handles: std::sync::Mutex::default(),
                facts: io.facts,
                stop: io.stop,
                modes: io.modes,
                owner: Arc::downgrade(own),
            })
        });
        let Some(init) = own.vtable.init else { return Ok(()) };
        // SAFETY: the component is alive, and `io` lives as long as it.
        own.outcome(unsafe { init(own.pointer, &raw const **kept) })
    }

    fn on_trigger(&self, invocation: &Invocation<'_>) -> Result<(), ComponentFailure> {
        let Some(on_trigger) = self.instance.vtable.on_trigger else { return Ok(()) };
        let borrowed = dl_invocation { invocation };
        // SAFETY: the component is alive, and the invocation during the call.
        self.instance.outcome(unsafe { on_trigger(self.instance.pointer, &raw const borrowed) })
    }

    fn on_event(&self, event: &PortEvent) -> Result<(), ComponentFailure> {
        let Some(on_event) = self.instance.vtable.on_event else { return Ok(()) };
        let (port, text) = (c_text(event.port.as_str()), c_text(event.event.to_string()));
        let (missed, total) = missed_of(&event.event);
        let borrowed = dl_port_event {
            size: size_of::<dl_port_event>(),
            port: port.as_ptr(),
            is_output: u32::from(event.is_output),
            kind: kind_of(&event.event) as u32,
            text: text.as_ptr(),
            missed,
            total,
        };
        // SAFETY: the component is alive, and the event with its texts during the call.
        self.instance.outcome(unsafe { on_event(self.instance.pointer, &raw const borrowed) })
    }

    fn on_parameter(&self, name: &str, _: &ParameterValue) -> Result<(), ComponentFailure> {
        let Some(on_parameter) = self.instance.vtable.on_parameter else { return Ok(()) };
        let name = c_text(name);
        // SAFETY: the component is alive, and the name during the call.
        self.instance.outcome(unsafe { on_parameter(self.instance.pointer, name.as_ptr()) })
    }

    fn on_activate(&self) -> Result<(), ComponentFailure> {
        let Some(on_activate) = self.instance.vtable.on_activate else { return Ok(()) };
        // SAFETY: the component is alive.
        self.instance.outcome(unsafe { on_activate(self.instance.pointer) })
    }

    fn on_deactivate(&self) -> Result<(), ComponentFailure> {
        let Some(on_deactivate) = self.instance.vtable.on_deactivate else { return Ok(()) };
        // SAFETY: the component is alive.
        self.instance.outcome(unsafe { on_deactivate(self.instance.pointer) })
    }

    fn shutdown(&self) {
        if let (Some(shutdown), Some(_)) = (self.instance.vtable.shutdown, self.instance.io.get()) {
            // SAFETY: the component is alive and `init` was called.
            unsafe { shutdown(self.instance.pointer) };
        }
    }
}
