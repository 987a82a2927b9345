// SPDX-License-Identifier: Apache-2.0
//! Headless browser, controlled over its DevTools protocol: JSON between zero bytes, on file
//! descriptors 3 and 4.

use command_fds::{CommandFdExt, FdMapping};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time-out for a browser that hangs, or was asked for an impossible event. Even a very busy
/// machine is faster.
const PATIENCE: Duration = Duration::from_secs(600);

pub(crate) struct Browser {
    child: Child,
    /// `None` once the browser must end.
    orders: Option<File>,
    said: Receiver<Value>,
    /// Number of the last order.
    last: u64,
    /// Events, in order, until they are read.
    events: Vec<Value>,
    profile: tempfile::TempDir,
}

/// Session with a page.
pub(crate) struct Tab {
    session: String,
    target: String,
}

impl Browser {
    pub(crate) fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let (its_orders, orders) = std::io::pipe().unwrap();
        let (words, its_words) = std::io::pipe().unwrap();
        let fds = [(its_orders.into(), 3), (OwnedFd::from(its_words), 4)]
            .map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
        let mut command = Command::new(program);
        command
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args(["--remote-debugging-pipe", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(profile.path().join("log")).unwrap())
            .fd_mappings(fds.into())
            .unwrap();
        let child = command.spawn().unwrap();
        // After this, only the browser holds its ends of the pipes, so each side notices when the
        // other one has ended.
        drop(command);
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(words).split(0) {
                let Ok(message) = message else { return };
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            orders: Some(File::from(OwnedFd::from(orders))),
            said,
            last: 0,
            events: Vec::new(),
            profile,
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        self.said.recv_timeout(PATIENCE).unwrap_or_else(|e| {
            let what = match e {
                RecvTimeoutError::Timeout => format!("said nothing for {PATIENCE:?}"),
                RecvTimeoutError::Disconnected => "has ended".to_owned(),
            };
            let log = std::fs::read(self.profile.path().join("log")).unwrap_or_default();
            panic!(
                "the browser {what}; awaited was {waiting_for}. Its log:\n{}",
                String::from_utf8_lossy(&log)
            )
        })
    }

    /// Sends an order and returns its result.
    fn order(&mut self, mut order: Value) -> Value {
        self.last += 1;
        order["id"] = self.last.into();
        let mut bytes = serde_json::to_vec(&order).unwrap();
        bytes.push(0);
        let waiting_for = format!("the answer to {}", order["method"]);
        let sent = self.orders.as_mut().unwrap().write_all(&bytes);
        loop {
            let mut message = self.next(&waiting_for);
            if message["id"] == self.last {
                sent.unwrap();
                assert_eq!(message["error"], Value::Null, "{order}");
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    pub(crate) fn call(&mut self, tab: &Tab, method: &str, params: &Value) -> Value {
        self.order(json!({ "method": method, "params": params, "sessionId": tab.session }))
    }

    /// Waits for an event that occurs once on a page.
    pub(crate) fn event(&mut self, tab: &Tab, method: &str) {
        let is_it = |e: &Value| e["sessionId"] == tab.session && e["method"] == method;
        while !self.events.iter().any(is_it) {
            let message = self.next(method);
            self.events.push(message);
        }
    }

    /// Opens an empty page, which reports its console messages.
    pub(crate) fn tab(&mut self) -> Tab {
        let made = self
            .order(json!({ "method": "Target.createTarget", "params": { "url": "about:blank" } }));
        let target = made["targetId"].as_str().unwrap().to_owned();
        let attach = json!({ "targetId": target, "flatten": true });
        let attached = self.order(json!({ "method": "Target.attachToTarget", "params": attach }));
        let tab = Tab { session: attached["sessionId"].as_str().unwrap().to_owned(), target };
        for domain in ["Page", "Runtime", "Log"] {
            self.call(&tab, &format!("{domain}.enable"), &json!({}));
        }
        tab
    }

    pub(crate) fn close(&mut self, tab: &Tab) {
        self.order(json!({ "method": "Target.closeTarget", "params": { "targetId": tab.target } }));
        self.events.clear();
    }

    /// Returns the errors that the page threw or logged, and the browser's own messages about the
    /// page: the browser does not notify a page of an invalid drawing, or of a refusal by a policy.
    pub(crate) fn complaints(&self, tab: &Tab) -> Vec<String> {
        let of_tab = self.events.iter().filter(|e| e["sessionId"] == tab.session);
        of_tab
            .filter(|e| {
                ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"]
                    .iter()
                    .any(|m| e["method"] == *m)
            })
            .map(|e| e["params"].to_string())
            .collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser ends when its order pipe closes. Then its output ends, and so does the thread
        // that reads the output.
        self.orders = None;
        while !std::thread::panicking() && self.said.recv_timeout(PATIENCE).is_ok() {}
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
