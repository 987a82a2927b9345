// SPDX-License-Identifier: Apache-2.0
//! Tokens of others on their way to the conductor.

use super::lock;
use crate::engine::endpoint::{Change, handle_of};
use crate::engine::waiting::Waiting;
use crate::rmw_zenoh::{Kind, Token, gid_of};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use zenoh::sample::{Sample, SampleKind};

/// Changes that wait for the conductor: more at once than any network has.
const MAX_WAITING: usize = 16_384;

#[derive(Default)]
struct News {
    found: VecDeque<(bool, Change)>,
    malformed: u64,
    troubles: Vec<String>,
    passed_over: bool,
}

pub(super) struct Discovery {
    /// The id of this session.
    session: String,
    news: Mutex<News>,
    waiting: Arc<Waiting>,
}

impl Discovery {
    pub(super) fn new(session: String, waiting: Arc<Waiting>) -> Self {
        Self { session, news: Mutex::default(), waiting }
    }

    /// A token was declared, or is gone. On Zenoh's thread.
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
                    news.troubles.push(format!("'{text}' is passed over, as all of its kind will be: {e}"));
                }
                return;
            }
        };
        let change = match here {
            true => Change::of_token(token, text),
            false => matches!(token.kind, Kind::Publisher | Kind::Subscription)
                .then(|| (token.kind == Kind::Publisher, Change::Gone(handle_of(&gid_of(text))))),
        };
        let Some(change) = change else { return };
        let mut news = lock(&self.news);
        if news.found.len() < MAX_WAITING {
            news.found.push_back(change);
        } else if !std::mem::replace(&mut news.passed_over, true) {
            let trouble = format!("more than {MAX_WAITING} endpoints came and went at once, and not all were noticed; restart the gateway");
            news.troubles.push(trouble);
        }
        drop(news);
        self.waiting.wake();
    }

    pub(super) fn take(&self) -> Vec<(bool, Change)> {
        lock(&self.news).found.drain(..).collect()
    }

    pub(super) fn troubles(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.news).troubles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::waiting::Signal;

    fn token(session: &str, kind: &str, topic: &str) -> String {
        format!("@ros2_lv/0/{session}/0/3/{kind}/%/%/talker/{topic}/std_msgs::msg::dds_::String_/RIHS01_0/::,:,:,:,,")
    }

    #[test]
    fn endpoints_of_others_are_told_and_nothing_else() {
        let discovery = Discovery::new("abc".into(), Arc::new(Waiting::Signal(Signal::default())));
        let talker = token("def", "MP", "%chatter");
        for (text, here) in [
            (token("abc", "MP", "%chatter").as_str(), true),
            (&talker, true),
            (&token("def", "SS", "%service"), true),
            ("@ros2_lv/0/def/0/0/NN/%/%/talker", true),
            (&token("def", "MP", "%not-a-ros-name"), true),
            (&talker, false),
        ] {
            discovery.heard(text, here);
        }
        let found = discovery.take();
        let [(true, Change::Here(here)), (true, Change::Gone(gone))] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((here.topic.as_str(), here.handle, here.gateway), ("chatter", *gone, false));
        assert!(discovery.troubles().is_empty() && discovery.take().is_empty());
    }

    #[test]
    fn what_is_no_token_is_told_once_and_too_many_are_bounded() {
        let discovery = Discovery::new("abc".into(), Arc::new(Waiting::Signal(Signal::default())));
        discovery.heard("@ros2_lv/0/nonsense", true);
        discovery.heard("@ros2_lv/0/more", true);
        let troubles = discovery.troubles();
        assert!(matches!(troubles.as_slice(), [one] if one.contains("nonsense")), "{troubles:?}");
        for n in 0..MAX_WAITING + 9 {
            discovery.heard(&token("def", "MS", &format!("%t{n}")), true);
        }
        assert_eq!((discovery.take().len(), discovery.troubles().len()), (MAX_WAITING, 1));
    }
}
