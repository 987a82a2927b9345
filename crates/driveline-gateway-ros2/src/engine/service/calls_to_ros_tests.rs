// SPDX-License-Identifier: Apache-2.0
use super::super::counts::Figures;
use super::*;
use driveline_types::Schema;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Server that accepts requests and does not respond by itself.
#[derive(Default)]
struct Asked(Mutex<Vec<i64>>);

impl Asking for Asked {
    fn ask(&self, call: i64, request: Parts<'_>, _: Duration) -> Result<(), String> {
        // Requests that begin with 9 cannot be sent.
        if request.cdr[1].first() == Some(&9) {
            return Err("no link".into());
        }
        lock(&self.0).push(call);
        Ok(())
    }
}

/// Answers that clients received, by the number of the request: a response's first byte, or
/// nothing.
type Outcomes = Arc<Mutex<BTreeMap<i64, Vec<Option<u8>>>>>;

struct Client {
    outcomes: Outcomes,
    number: i64,
}

impl Client {
    fn hear(&self, what: Option<u8>) {
        lock(&self.outcomes).entry(self.number).or_default().push(what);
    }
}

impl Reply for Client {
    fn answer(self: Box<Self>, response: Parts<'_>) -> Result<Handed, Ended> {
        self.hear(response.cdr[1].first().copied());
        Ok(Handed::Over)
    }

    fn refuse(self: Box<Self>, _: &str) {
        self.hear(None);
    }
}

// time: the time-out of calls; tests pass later times, and do not wait
const TIMEOUT: Duration = Duration::from_secs(5);

fn calls(pending: u32) -> CallsToRos {
    calls_in_report(pending, |_| ())
}

fn calls_in_report(pending: u32, log: impl Fn(String) + Send + Sync + 'static) -> CallsToRos {
    let schema = Schema::bytes("a/srv/B_Request", "cdr", "");
    let of = Interface {
        service: "a/b".parse().unwrap(),
        ros: "a/srv/B".parse().unwrap(),
        hash: None,
        request: schema.clone(),
        response: schema,
        max_request: 8,
        max_response: 8,
        pending,
    };
    CallsToRos::new(of, TIMEOUT, Counts::new(log, "a/b".into()))
}

fn request(calls: &CallsToRos, outcomes: &Outcomes, number: i64, content: &[u8]) {
    let from = RequestId { client: [1; 16], sequence: number };
    let reply = Box::new(Client { outcomes: outcomes.clone(), number });
    Requests::request(calls, from, Cdr([&[0, 1, 0, 0], content]), reply);
}

#[derive(Clone, Debug)]
enum Step {
    Server,
    Gone,
    Block(bool),
    Request(Vec<u8>),
    Again(prop::sample::Index),
    /// A response to the call of this number, in this many bytes.
    Answer(i64, usize),
    Fail(i64),
    Later,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => Just(Step::Server),
        1 => Just(Step::Gone),
        1 => any::<bool>().prop_map(Step::Block),
        6 => prop::collection::vec(0..10u8, 0..6).prop_map(Step::Request),
        2 => any::<prop::sample::Index>().prop_map(Step::Again),
        // Includes numbers of calls that never existed.
        6 => (0..30i64, 0..6usize).prop_map(|(call, len)| Step::Answer(call, len)),
        2 => (0..30i64).prop_map(Step::Fail),
        1 => Just(Step::Later),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    /// For all events in all orders: each request has exactly one outcome, the number of calls in
    /// flight stays within the limit, and the figures add up.
    #[test]
    fn every_request_ends_exactly_once(steps in steps(), pending in 1u32..4) {
        let (calls, outcomes) = (calls(pending), Outcomes::default());
        let (mut sent, mut again) = (0i64, 0u64);
        for step in steps {
            match step {
                Step::Server => calls.direct(Arc::new(Asked::default())),
                Step::Gone => calls.server_gone(WENT_AWAY, NO_SERVER),
                Step::Block(blocked) => calls.block(if blocked {
                    "two nodes offer it"
                } else {
                    ""
                }),
                Step::Request(content) => {
                    sent += 1;
                    request(&calls, &outcomes, sent, &content);
                }
                Step::Again(of) if sent > 0 => {
                    let number = of.index(sent as usize) as i64 + 1;
                    // After its outcome, a request with the same number would be a new one.
                    if !lock(&outcomes).contains_key(&number) {
                        again += 1;
                        request(&calls, &outcomes, number, &[1]);
                    }
                }
                Step::Again(_) => {}
                Step::Answer(call, len) => {
                    Answers::answered(&calls, call, Cdr([&[0, 1, 0, 0], &vec![7; len]]))
                }
                Step::Fail(call) => Answers::failed(&calls, call, "it let it go"),
                Step::Later => drop(calls.end_overdue(Instant::now() + TIMEOUT)),
            }
            prop_assert!(calls.under_way() <= pending as usize);
            prop_assert_eq!(
                lock(&outcomes).len() + calls.under_way(),
                sent as usize,
                "each has ended, or is in flight"
            );
        }
        calls.server_gone(WENT_AWAY, NO_SERVER);
        let outcomes = lock(&outcomes);
        prop_assert!(outcomes.values().all(|ends| ends.len() == 1), "{:?}", outcomes);
        let Figures { calls, answered, ended, .. } = calls.counts.figures();
        let answers = outcomes.values().filter(|ends| ends[0].is_some()).count() as u64;
        let others: u64 = ended.values().sum();
        prop_assert_eq!(calls, sent as u64 + again);
        prop_assert!(
            answered >= answers && answered + others == calls,
            "{} {} {:?}",
            calls,
            answered,
            ended
        );
    }
}

#[test]
fn time_runs_for_each_call_by_itself() {
    let (calls, outcomes) = (calls(2), Outcomes::default());
    calls.direct(Arc::new(Asked::default()));
    calls.block("");
    assert_eq!(calls.end_overdue(Instant::now()), None);
    let before = Instant::now();
    request(&calls, &outcomes, 1, &[1]);
    request(&calls, &outcomes, 2, &[2]);
    let next = calls.end_overdue(before).unwrap();
    assert!(next >= before + TIMEOUT && calls.under_way() == 2);
    Answers::answered(&calls, 1, Cdr([&[0, 1, 0, 0, 5], &[]]));
    assert_eq!(calls.end_overdue(Instant::now() + TIMEOUT), None);
    assert_eq!(*lock(&outcomes), BTreeMap::from([(1, vec![Some(5)]), (2, vec![None])]));
}

#[test]
fn a_call_after_a_broken_end_reports_that_and_not_a_missing_server() {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let to = lines.clone();
    let calls = calls_in_report(1, move |line| lock(&to).push(line));
    calls.direct(Arc::new(Asked::default()));
    calls.block("");
    let reason = "the server in ROS 2 cannot be reached any more: its thread has ended";
    calls.server_gone(reason, reason);
    request(&calls, &Outcomes::default(), 1, &[1]);
    let lines = lock(&lines).join("\n");
    assert!(
        lines.contains("no_server")
            && lines.contains("its thread has ended")
            && !lines.contains(NO_SERVER),
        "{lines}"
    );
}

/// Reply to a client that has left; the end has noticed that.
struct Gone;

impl Reply for Gone {
    fn answer(self: Box<Self>, _: Parts<'_>) -> Result<Handed, Ended> {
        Err(("client_gone", "no client reads the response".into()))
    }

    fn refuse(self: Box<Self>, _: &str) {}
}

#[test]
fn a_response_that_an_end_cannot_hand_over_counts_under_the_end_s_reason() {
    let calls = calls(1);
    calls.direct(Arc::new(Asked::default()));
    calls.block("");
    Requests::request(
        &calls,
        RequestId { client: [1; 16], sequence: 1 },
        Cdr([&[0, 1, 0, 0], &[1]]),
        Box::new(Gone),
    );
    Answers::answered(&calls, 1, Cdr([&[0, 1, 0, 0, 5], &[]]));
    assert_eq!(calls.counts.figures().ended, BTreeMap::from([("client_gone".to_owned(), 1)]));
}
