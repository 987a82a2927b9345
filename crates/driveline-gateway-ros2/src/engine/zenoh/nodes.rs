// SPDX-License-Identifier: Apache-2.0
//! Nodes of the gateway that others see, one for each name.

use crate::engine::lock;
use crate::names::RosNode;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

/// Node with endpoints of the gateway. Others see it while it has an owner.
pub(super) struct OwnNode<T> {
    pub(super) id: u64,
    /// `None` if it was not declared yet, or the declaration failed.
    token: Mutex<Option<T>>,
}

/// See the module. `T`: token that shows a node while it exists.
pub(super) struct OwnNodes<T>(Mutex<HashMap<RosNode, Weak<OwnNode<T>>>>);

impl<T> Default for OwnNodes<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> OwnNodes<T> {
    /// Returns the node of this name. A new one gets the number `id`, and `declare` announces it.
    /// Meanwhile only callers for the same node wait.
    pub(super) fn get<E>(
        &self,
        name: &RosNode,
        id: impl FnOnce() -> u64,
        declare: impl FnOnce(u64) -> Result<T, E>,
    ) -> Result<Arc<OwnNode<T>>, E> {
        let node = self.entry(name, id);
        let mut token = lock(&node.token);
        if token.is_none() {
            *token = Some(declare(node.id)?);
        }
        drop(token);
        Ok(node)
    }

    fn entry(&self, name: &RosNode, id: impl FnOnce() -> u64) -> Arc<OwnNode<T>> {
        let mut nodes = lock(&self.0);
        if let Some(node) = nodes.get(name).and_then(Weak::upgrade) {
            return node;
        }
        nodes.retain(|_, node| node.strong_count() > 0);
        let node = Arc::new(OwnNode { id: id(), token: Mutex::new(None) });
        nodes.insert(name.clone(), Arc::downgrade(&node));
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::rig::LONG;
    use std::sync::mpsc::channel;

    fn name(name: &str) -> RosNode {
        RosNode::new("/", name)
    }

    #[test]
    fn a_node_that_takes_long_to_be_declared_holds_up_no_other() {
        let nodes = OwnNodes::default();
        let (declaring, declares) = channel();
        let (go_on, goes_on) = channel::<()>();
        let (sender, results) = channel();
        std::thread::scope(|s| {
            let nodes = &nodes;
            let slow = s.spawn(move || {
                nodes.get(
                    &name("slow"),
                    || 1,
                    |id| {
                        declaring.send(()).unwrap();
                        goes_on.recv().map(|()| id)
                    },
                )
            });
            declares.recv().unwrap();
            s.spawn(move || {
                sender
                    .send(nodes.get(&name("other"), || 2, Ok::<_, ()>).map(|node| node.id))
                    .unwrap()
            });
            let other = results.recv_timeout(LONG);
            go_on.send(()).unwrap();
            assert_eq!(other, Ok(Ok(2)));
            assert_eq!(slow.join().unwrap().map(|node| node.id), Ok(1));
        });
    }

    #[test]
    fn endpoints_of_one_name_share_a_node_and_one_that_could_not_be_declared_is_tried_again() {
        let nodes = OwnNodes::default();
        let get = |declare: Result<u8, ()>| nodes.get(&name("camera"), || 7, |_| declare);
        assert!(get(Err(())).is_err());
        let first = get(Ok(1)).unwrap();
        let second = get(Err(())).unwrap();
        assert!(Arc::ptr_eq(&first, &second) && *lock(&first.token) == Some(1), "declared once");
        drop((first, second));
        assert!(get(Err(())).is_err(), "it had no owner any more");
    }
}
