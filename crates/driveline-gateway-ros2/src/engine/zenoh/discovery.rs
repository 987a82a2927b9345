// SPDX-License-Identifier: Apache-2.0
//! Queue of changes that the liveliness tokens of other sessions report, for the control thread.

use super::lock;
use crate::discovery_info::Gid;
use crate::engine::endpoint::{Change, Changes, handle_of};
use crate::engine::service::ServiceChange;
use crate::engine::waiting::Waiting;
use crate::rmw_zenoh::{GATEWAY_ENCLAVE, Kind, Token, gid_of};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use zenoh::sample::{Sample, SampleKind};

/// Maximum number of queued changes: more than any network has at a time.
const MAX_WAITING: usize = 16_384;

#[derive(Default)]
struct News {
    found: VecDeque<(bool, Change)>,
    services: VecDeque<ServiceChange>,
    malformed: u64,
    troubles: Vec<String>,
    /// Sessions of present gateways, by the ids of their tokens.
    gateways: HashMap<Gid, String>,
    passed_over: bool,
}

pub(super) struct Discovery {
    /// Id of this session.
    session: String,
    news: Mutex<News>,
    waiting: Arc<Waiting>,
}

impl Discovery {
    pub(super) fn new(session: String, waiting: Arc<Waiting>) -> Self {
        Self { session, news: Mutex::default(), waiting }
    }

    /// Handles a declared or departed token. Called on Zenoh's thread.
    pub(super) fn token(&self, sample: &Sample) {
        self.heard(sample.key_expr().as_str(), sample.kind() == SampleKind::Put);
    }

    fn heard(&self, text: &str, here: bool) {
        let token = match text.parse::<Token>() {
            Ok(token) if token.session == self.session => return,
            Ok(token) => token,
            Err(e) => {
                let mut news = lock(&self.news);
                news.malformed += 1;
                if news.malformed == 1 {
                    let text: String = text.chars().take(200).collect();
                    news.troubles.push(format!(
                        "'{text}' is ignored; further unreadable announcements are only counted: \
                         {e}"
                    ));
                }
                return;
            }
        };
        if token.enclave == GATEWAY_ENCLAVE {
            self.of_gateway(&token, text, here);
        }
        let handle = handle_of(&gid_of(text));
        let (mut endpoint, mut service) = (None, None);
        match (token.kind, here) {
            (Kind::Node, _) => {}
            (Kind::Publisher | Kind::Subscription, true) => {
                endpoint = Change::of_token(token, text)
            }
            (Kind::Publisher | Kind::Subscription, false) => {
                endpoint = Some((token.kind == Kind::Publisher, Change::Gone(handle)))
            }
            (Kind::Service | Kind::Client, true) => service = ServiceChange::of_token(token, text),
            (Kind::Service | Kind::Client, false) => service = Some(ServiceChange::Gone(handle)),
        }
        if endpoint.is_none() && service.is_none() {
            return;
        }
        let mut news = lock(&self.news);
        let waiting = if endpoint.is_some() { news.found.len() } else { news.services.len() };
        if waiting < MAX_WAITING {
            news.found.extend(endpoint);
            news.services.extend(service);
        } else if !std::mem::replace(&mut news.passed_over, true) {
            let trouble = format!(
                "more than {MAX_WAITING} endpoints came and went at once, and not all were \
                 noticed; restart the gateway"
            );
            news.troubles.push(trouble);
        }
        drop(news);
        self.waiting.wake();
    }

    fn of_gateway(&self, token: &Token, text: &str, here: bool) {
        let mut news = lock(&self.news);
        if !here {
            news.gateways.remove(&gid_of(text));
        } else if news.gateways.len() < MAX_WAITING {
            news.gateways.insert(gid_of(text), token.session.clone());
        }
        drop(news);
        self.waiting.wake();
    }

    /// Sessions of other gateways with tokens here.
    pub(super) fn gateways(&self) -> BTreeSet<String> {
        lock(&self.news).gateways.values().cloned().collect()
    }

    /// Number of invalid tokens.
    pub(super) fn malformed(&self) -> u64 {
        lock(&self.news).malformed
    }

    pub(super) fn take(&self) -> Changes {
        let mut news = lock(&self.news);
        (news.found.drain(..).collect(), news.services.drain(..).collect())
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.news).troubles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::service::Role;
    use crate::engine::waiting::Signal;

    fn token(session: &str, kind: &str, topic: &str) -> String {
        format!(
            "@ros2_lv/0/{session}/0/3/{kind}/%/%/talker/{topic}/\
             std_msgs::msg::dds_::String_/RIHS01_0/::,:,:,:,,"
        )
    }

    #[test]
    fn only_endpoints_of_others_are_reported() {
        let discovery = Discovery::new("abc".into(), Arc::new(Waiting::Signal(Signal::default())));
        let (talker, server) = (token("def", "MP", "%chatter"), token("def", "SS", "%service"));
        for (text, here) in [
            (token("abc", "MP", "%chatter").as_str(), true),
            (&talker, true),
            (&server, true),
            (&token("abc", "SS", "%own"), true),
            (&token("def", "SC", "%not-a-ros-name"), true),
            ("@ros2_lv/0/def/0/0/NN/%/%/talker", true),
            (&token("def", "MP", "%not-a-ros-name"), true),
            (&talker, false),
            (&server, false),
        ] {
            discovery.heard(text, here);
        }
        let (found, services) = discovery.take();
        let [
            (true, Change::Here(here)),
            (true, Change::Misnamed(misnamed)),
            (true, Change::Gone(gone)),
        ] = found.as_slice()
        else {
            panic!("{found:?}")
        };
        assert_eq!(misnamed, "not-a-ros-name");
        assert_eq!((here.topic.as_str(), here.handle, here.gateway), ("chatter", *gone, false));
        let [ServiceChange::Here(here), ServiceChange::Gone(gone)] = services.as_slice() else {
            panic!("{services:?}")
        };
        assert_eq!(
            (here.service.as_str(), here.role, here.handle),
            ("service", Role::Server, *gone)
        );
        assert!(discovery.troubles().is_empty() && discovery.take().0.is_empty());
    }

    #[test]
    fn invalid_tokens_are_logged_once_and_bounded() {
        let discovery = Discovery::new("abc".into(), Arc::new(Waiting::Signal(Signal::default())));
        discovery.heard("@ros2_lv/0/nonsense", true);
        discovery.heard("@ros2_lv/0/more", true);
        let troubles = discovery.troubles();
        assert!(matches!(troubles.as_slice(), [one] if one.contains("nonsense")), "{troubles:?}");
        assert_eq!(discovery.malformed(), 2);
        for n in 0..MAX_WAITING + 9 {
            discovery.heard(&token("def", "MS", &format!("%t{n}")), true);
        }
        assert_eq!((discovery.take().0.len(), discovery.troubles().len()), (MAX_WAITING, 1));
    }
}
