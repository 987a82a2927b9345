// SPDX-License-Identifier: Apache-2.0
//! Starts containers for the launcher. The engine's commands run on threads of their own: the
//! launcher never waits for one.

use crate::arguments::run_arguments;
use crate::engine::{Engine, EngineError};
use crate::plan::{LAUNCHER_SOCKET, Mode, Plan, PlannedModule, Shared};
use crate::{HOST_IN_IMAGE, ImageFacts, label, ulimits};
use driveline_graph::ResolvedModule;
use driveline_runtime::launch::{Started, StartedEnd, Starter};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval at which the engine is asked whether a container that has not connected still exists.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Deployment of one module, for the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeployedModule {
    /// Module.
    pub module: String,
    /// Image.
    pub image: String,
    /// Digest of the image's manifest, or the image's id if the engine has no such digest.
    pub digest: String,
    /// User id in the container.
    pub user: u32,
    /// Name of its newest container.
    pub container: Option<String>,
}

/// The containers of a run.
#[derive(Clone, Debug)]
pub struct Containers(Arc<Run>);

#[derive(Debug)]
struct Run {
    engine: Engine,
    plan: Plan,
    shared: Shared,
    /// Name and facts of each module's image.
    images: BTreeMap<String, (String, ImageFacts)>,
    names: Mutex<BTreeMap<String, String>>,
    starts: AtomicU32,
    /// The single container of all modules, once it runs.
    one: Mutex<Option<String>>,
    /// Socket to which the first process of the single container is connected. It closes when the
    /// launcher ends, whatever the cause.
    alive: Mutex<Option<UnixListener>>,
}

impl Containers {
    /// Returns the containers of a run whose images the engine has.
    #[must_use]
    pub fn new(
        engine: Engine,
        plan: Plan,
        shared: Shared,
        images: BTreeMap<String, (String, ImageFacts)>,
    ) -> Self {
        Self(Arc::new(Run {
            engine: engine.in_directory(&shared.directory),
            plan,
            shared,
            images,
            names: Mutex::default(),
            starts: AtomicU32::new(0),
            one: Mutex::default(),
            alive: Mutex::default(),
        }))
    }

    /// Returns the modules with their containers.
    #[must_use]
    pub fn deployed(&self) -> Vec<DeployedModule> {
        let names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        let one = |m: &PlannedModule| {
            let (image, facts) = self.0.images.get(&m.name).cloned()?;
            let digest = facts.digest.unwrap_or_else(|| format!("sha256:{}", facts.id));
            let container = names.get(&m.name).cloned();
            Some(DeployedModule { module: m.name.clone(), image, digest, user: m.user, container })
        };
        self.0.plan.modules.iter().filter_map(one).collect()
    }

    /// Removes all containers of the run. Blocks.
    ///
    /// # Errors
    /// [`EngineError`]; `driveline deploy clean` removes the rest.
    pub fn remove(&self) -> Result<(), EngineError> {
        let filter = format!("label={}={}", label::RUN, self.0.shared.id);
        let listed = self.0.engine.ask(&["ps", "--all", "--quiet", "--filter", &filter])?;
        for id in listed.split_whitespace() {
            // The engine itself removes a container that ends in the meantime.
            match self.0.engine.ask(&["rm", "--force", "--volumes", id]) {
                Err(EngineError::Refused { text, .. }) if is_gone(&text) => {}
                removed => drop(removed?),
            }
        }
        Ok(())
    }
}

fn is_gone(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("no such container")
        || text.contains("no container with")
        || text.contains("is already in progress")
}

impl Starter for Containers {
    fn start(&self, module: &ResolvedModule) -> io::Result<Box<dyn Started>> {
        let planned = self.0.plan.module(module.name.as_str()).cloned();
        let planned = planned.ok_or_else(|| io::Error::other("the module is not planned"))?;
        if self.0.plan.mode == Mode::One {
            self.0.listen()?;
        }
        let number = self.0.starts.fetch_add(1, Ordering::Relaxed) + 1;
        let (news, notifier) = UnixStream::pair()?;
        news.set_nonblocking(true)?;
        let state = Arc::new(State::default());
        let place = match self.0.plan.mode {
            Mode::One => {
                format!("starts in the container of this run, with {}", self.0.engine.kind().name())
            }
            Mode::Each => {
                format!("starts in a container of its own, with {}", self.0.engine.kind().name())
            }
        };
        let started = StartedContainer {
            run: self.0.clone(),
            module: planned.name.clone(),
            place,
            news,
            state: state.clone(),
        };
        let run = self.0.clone();
        std::thread::Builder::new().name("engine".into()).spawn(move || {
            let end = run.bring_up(&planned, number, &state);
            if let Some(end) = end {
                *state.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
            }
            let _ = (&notifier).write_all(&[1]);
        })?;
        Ok(Box::new(started))
    }

    fn user(&self, module: &ResolvedModule) -> u32 {
        let planned = self.0.plan.module(module.name.as_str());
        planned.map_or_else(|| rustix::process::geteuid().as_raw(), |m| m.user)
    }
}

#[derive(Debug, Default)]
struct State {
    end: Mutex<Option<StartedEnd>>,
    connected: AtomicBool,
    /// True once the launcher has requested the end of the container.
    unwanted: AtomicBool,
}

struct StartedContainer {
    run: Arc<Run>,
    module: String,
    place: String,
    news: UnixStream,
    state: Arc<State>,
}

impl Started for StartedContainer {
    fn place(&self) -> String {
        self.place.clone()
    }

    fn news(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }

    fn poll(&mut self) -> Option<StartedEnd> {
        let mut bytes = [0; 8];
        let _ = self.news.read(&mut bytes);
        self.state.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn connected(&mut self) {
        self.state.connected.store(true, Ordering::Release);
    }

    fn kill(&mut self) {
        self.state.unwanted.store(true, Ordering::Release);
        if self.run.plan.mode == Mode::One {
            // Other modules run in the same container. The launcher also sends `kill` to the first
            // process of the module, which then kills the module.
            return;
        }
        let names = self.run.names.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = names.get(&self.module).cloned() {
            let run = self.run.clone();
            let _ = std::thread::Builder::new()
                .name("engine".into())
                .spawn(move || run.engine.ask(&["kill", "--signal", "KILL", &name]).is_ok());
        }
    }
}

impl Run {
    /// Creates the socket by which the single container sees that the launcher lives. The launcher
    /// neither accepts its connections nor reads from it.
    fn listen(&self) -> io::Result<()> {
        let mut alive = self.alive.lock().unwrap_or_else(PoisonError::into_inner);
        if alive.is_some() {
            return Ok(());
        }
        let path = self.shared.accounts.join(LAUNCHER_SOCKET);
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let listener = UnixListener::bind(&path).map_err(named)?;
        let user = self.plan.modules.first().map(|m| m.user);
        if user.is_some_and(|user| user != rustix::process::geteuid().as_raw()) {
            chown(&path, user, None).map_err(named)?;
        }
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(named)?;
        *alive = Some(listener);
        Ok(())
    }

    /// Starts a module and waits until it has connected, has failed or is no longer wanted. Returns
    /// the reason of a failure.
    fn bring_up(&self, module: &PlannedModule, number: u32, state: &State) -> Option<StartedEnd> {
        let failed =
            |cause: String| Some(StartedEnd { status: ExitStatus::from_raw(125 << 8), cause });
        let Some((image, _)) = self.images.get(&module.name) else {
            return failed("it has no image".to_owned());
        };
        let name = match self.plan.mode {
            Mode::Each => {
                let container = self.plan.container(module, image, &self.shared, number);
                let arguments = run_arguments(self.engine.kind(), &container);
                self.engine.ask(&arguments).map(|_| container.name)
            }
            Mode::One => self.in_one(module, image, number),
        };
        let name = match name {
            Ok(name) => name,
            Err(e) => return failed(e.to_string()),
        };
        self.names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(module.name.clone(), name.clone());
        loop {
            if state.connected.load(Ordering::Acquire) {
                return None;
            }
            if state.unwanted.load(Ordering::Acquire) {
                // The single container also has the other modules.
                if self.plan.mode == Mode::Each {
                    let _ = self.engine.ask(&["rm", "--force", &name]);
                }
                return None;
            }
            if !self.exists(&name) && !state.connected.load(Ordering::Acquire) {
                return failed(self.diagnosis(image));
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }

    /// Starts a module in the single container, which is created for the first module.
    fn in_one(
        &self,
        module: &PlannedModule,
        image: &str,
        number: u32,
    ) -> Result<String, EngineError> {
        let mut one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let name = match &*one {
            Some(name) if self.exists(name) => name.clone(),
            _ => {
                let container = self.plan.one_container(image, &self.shared, number);
                self.engine.ask(&run_arguments(self.engine.kind(), &container))?;
                one.insert(container.name).clone()
            }
        };
        drop(one);
        self.engine.ask(&self.plan.exec_arguments(module, &name))?;
        Ok(name)
    }

    fn exists(&self, name: &str) -> bool {
        let state = ["container", "inspect", "--format", "{{.State.Status}}", name];
        !matches!(self.engine.ask(&state), Err(EngineError::Refused { .. }))
    }

    /// Returns the reason why a container ended before it connected. Its output was removed with
    /// the container, so this function starts the program once more.
    fn diagnosis(&self, image: &str) -> String {
        let begin = "its container ended before its module had connected";
        let entry = format!("--entrypoint={HOST_IN_IMAGE}");
        let limits = ulimits();
        let mut again = vec!["run", "--rm", "--pull", "never", "--network", "none"];
        again.extend(limits.iter().flat_map(|limit| ["--ulimit", limit.as_str()]));
        again.extend([entry.as_str(), image, "--help"]);
        match self.engine.ask(&again) {
            Err(EngineError::Refused { text, .. }) => {
                format!("{begin}; {HOST_IN_IMAGE} in image {image}: {text}")
            }
            _ => format!(
                "{begin}, and its program starts in image {image}: perhaps it was removed or \
                 killed, or its user may not read the graph's files"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_is_gone_already_is_no_fault() {
        assert!(is_gone("Error: no container with name or ID \"x\" found: no such container"));
        assert!(is_gone("removal of container x is already in progress"));
        assert!(!is_gone("permission denied"));
    }
}
