// SPDX-License-Identifier: Apache-2.0
//! Zenoh session with its runtime.

use zenoh::internal::runtime::{Runtime, RuntimeBuilder, ZRuntime};
use zenoh::key_expr::OwnedKeyExpr;
use zenoh::{Config, Session, Wait};

/// Session with its runtime, which [`zenoh::open`] does not return.
pub struct Opened {
    /// The session.
    pub session: Session,
    /// Runtime of the session.
    pub runtime: OwnRuntime,
}

/// Runtime of a session. The runtime ends when this value is dropped, not when the session ends. So
/// drop this value after the session.
pub struct OwnRuntime(pub(crate) Runtime);

impl OwnRuntime {
    /// Returns the addresses at which the session listens; for all interfaces, the addresses of
    /// each.
    #[must_use]
    pub fn listens(&self) -> Vec<String> {
        self.0.get_locators().iter().map(|locator| locator.as_str().to_owned()).collect()
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Closes its listeners and connections. Without effect if they are closed already.
        let _ = self.0.close().wait();
    }
}

impl Opened {
    /// Opens a session, as [`zenoh::open`] does. Blocks until the session listens.
    ///
    /// # Errors
    /// Error text of Zenoh. Nothing is left open.
    pub fn new(config: Config) -> zenoh::Result<Self> {
        let (subscribers, publishers) = (
            aggregated(&config, "aggregation/subscribers"),
            aggregated(&config, "aggregation/publishers"),
        );
        let mut runtime =
            OwnRuntime(ZRuntime::Application.block_in_place(RuntimeBuilder::new(config).build())?);
        let session = zenoh::session::init(runtime.0.clone().into());
        let session =
            session.aggregated_subscribers(subscribers).aggregated_publishers(publishers).wait()?;
        ZRuntime::Application.block_in_place(runtime.0.start())?;
        Ok(Self { session, runtime })
    }
}

/// Returns the keys in a list of the configuration; invalid ones are skipped.
fn aggregated(config: &Config, key: &str) -> Vec<OwnedKeyExpr> {
    let keys: Vec<String> = config
        .get_json(key)
        .ok()
        .and_then(|keys| serde_json::from_str(&keys).ok())
        .unwrap_or_default();
    keys.into_iter().filter_map(|key| key.try_into().ok()).collect()
}
