// SPDX-License-Identifier: Apache-2.0
//! Server and client of a service of map tiles, for the tests.

use driveline::types::MonotonicNs;
use driveline::{
    CallError, CallbackGroup, Caller, Client, ClientOptions, Context, ContextOptions, Executor,
    ExecutorOptions, GroupKind, Node, Reach, Refusal, Responder, Service, ServiceCallback,
    ServiceOptions,
};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Only a failure takes that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

#[driveline::plain_type(name = "test/TileRequest", crate = driveline::types)]
#[derive(Debug, PartialEq)]
pub(crate) struct TileRequest {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

#[driveline::plain_type(name = "test/Tile", tail(cells: f32), crate = driveline::types)]
#[derive(Debug, PartialEq)]
pub(crate) struct Tile {
    pub(crate) x: i32,
    pub(crate) y: i32,
}

pub(crate) struct Rig {
    /// At host reach, two contexts represent two processes. At process reach there is one context.
    pub(crate) server: Node,
    pub(crate) client: Node,
    pub(crate) reach: Reach,
    dir: tempfile::TempDir,
}

pub(crate) fn rig(reach: Reach) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let context = |name: &str| {
        Context::new(ContextOptions {
            name: name.into(),
            domain_dir: Some(dir.path().join("domain")),
        })
        .unwrap()
    };
    let first = context("server");
    let second = if reach == Reach::Host { context("client") } else { first.clone() };
    Rig {
        server: first.node("server").unwrap(),
        client: second.node("client").unwrap(),
        reach,
        dir,
    }
}

pub(crate) type TileClient = Client<TileRequest, Tile>;
pub(crate) type TileService = Service<TileRequest, Tile>;
pub(crate) type TileCaller = Caller<TileRequest, Tile>;

impl Rig {
    pub(crate) fn domain(&self) -> PathBuf {
        self.dir.path().join("domain")
    }
    pub(crate) fn service_with(&self, change: impl FnOnce(&mut ServiceOptions)) -> TileService {
        let mut o = ServiceOptions { reach: self.reach, ..Default::default() };
        change(&mut o);
        self.server.service("map/tile", o).unwrap()
    }
    pub(crate) fn service(&self) -> TileService {
        self.service_with(|_| {})
    }
    pub(crate) fn client_with(&self, pending: u32) -> TileClient {
        self.client
            .client("map/tile", ClientOptions { reach: self.reach, pending, ..Default::default() })
            .unwrap()
    }
    pub(crate) fn client(&self) -> TileClient {
        self.client_with(1)
    }
    /// Returns a server and a client that are matched.
    pub(crate) fn pair(&self) -> (TileService, TileClient) {
        let (mut service, mut client) = (self.service(), self.client());
        assert!(client.wait_for_server(PATIENCE));
        // The client's end is matched a moment before the server's, which then takes requests.
        until("matched", || service.raw().clients() == 1);
        (service, client)
    }
    /// Runs a server on its own thread. It answers each request with `y` cells, and refuses
    /// requests with a negative `y`.
    pub(crate) fn map_server(&self) -> Executor {
        serve(self.service(), |request, responder| {
            let TileRequest { x, y } = *request.view().unwrap().head();
            let Ok(cells) = usize::try_from(y) else {
                return responder.refuse("there is no tile with negative y");
            };
            let mut tile = responder.loan(cells).unwrap();
            let mut view = tile.view_mut().unwrap();
            *view.head_mut() = Tile { x, y };
            view.tail_mut().fill(x as f32);
            tile.send().unwrap();
        })
    }
}

pub(crate) fn serve(
    service: TileService,
    answer: impl Fn(driveline::Sample<TileRequest>, Responder<Tile>) + Send + Sync + 'static,
) -> Executor {
    let executor = executor();
    executor.add_service_with(service, callback(&executor), answer).unwrap();
    executor.start().unwrap();
    executor
}

pub(crate) fn executor() -> Executor {
    Executor::new(ExecutorOptions::default()).unwrap()
}

pub(crate) fn callback(executor: &Executor) -> ServiceCallback {
    ServiceCallback { name: "map".into(), group: group(executor) }
}

fn group(executor: &Executor) -> CallbackGroup {
    executor.group(GroupKind::MutuallyExclusive)
}

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = MonotonicNs::now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::now() < deadline, "not {what} within {PATIENCE:?}");
        // time: a pause between polls; the test fails only after 60 s
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn at(x: i32, y: i32) -> TileRequest {
    TileRequest { x, y }
}

pub(crate) fn refusal(text: &str) -> Refusal {
    Refusal::new(text)
}

/// Outcomes of calls in short form, in the order of their arrival.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<Mutex<Vec<Result<i32, String>>>>);

impl Outcomes {
    pub(crate) fn take(
        &self,
    ) -> impl FnOnce(Result<driveline::Sample<Tile>, CallError>) + Send + use<> {
        let seen = self.0.clone();
        move |outcome| {
            seen.lock()
                .unwrap()
                .push(outcome.map(|tile| tile.view().unwrap().x).map_err(|e| e.to_string()))
        }
    }
    pub(crate) fn seen(&self) -> Vec<Result<i32, String>> {
        self.0.lock().unwrap().clone()
    }
}

/// A caller on an executor that the test runs by hand.
pub(crate) fn caller(client: TileClient) -> (Executor, TileCaller) {
    let executor = executor();
    let caller = executor.add_client(client, callback(&executor)).unwrap();
    (executor, caller)
}

macro_rules! conformance {
    ($($(#[$doc:meta])* fn $name:ident($rig:ident: &Rig) $body:block)*) => {
        $($(#[$doc])* fn $name($rig: &Rig) $body)*
        mod process_reach {
            $(
                #[test] fn $name() {
                    super::$name(&crate::support::rig(driveline::Reach::Process));
                }
            )*
        }
        mod host_reach {
            $(#[test] fn $name() { super::$name(&crate::support::rig(driveline::Reach::Host)); })*
        }
    };
}
pub(crate) use conformance;
