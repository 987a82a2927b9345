// SPDX-License-Identifier: Apache-2.0
//! Both ends of a closed loop over links with planned losses.

use super::*;
use crate::account::{Account, LostRounds, account};
use crate::harness::{Pace, Role, read_rows, sample_job};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Outcome of the answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Comes,
    Lost,
    /// The answer comes together with the answer to the next question.
    Late,
    /// The answer comes, and a second time together with the answer to the next question.
    Twice,
    /// There is no memory for the question.
    Unsent,
}
use Fate::{Comes, Late, Lost, Twice, Unsent};

#[derive(Default)]
struct Wire {
    /// Messages in flight: the number of each, and true for the end mark.
    on_its_way: VecDeque<(u64, bool)>,
    held: VecDeque<u64>,
    fates: VecDeque<Fate>,
    sent: Vec<u64>,
    ended: bool,
}

type Shared = Rc<RefCell<Wire>>;

struct Out(Shared);
struct In(Shared);
struct Got {
    number: u64,
    missed: u64,
    end: bool,
}

impl Sender for Out {
    type Loan = Vec<u8>;
    fn wait_matched(&mut self, _: usize, _: Duration) -> Result<()> {
        Ok(())
    }
    fn loan(&mut self, len: usize) -> Result<Vec<u8>, String> {
        let mut wire = self.0.borrow_mut();
        if wire.fates.front() == Some(&Unsent) {
            wire.fates.pop_front();
            return Err("no memory".into());
        }
        Ok(vec![0; len])
    }
    fn payload(loan: &mut Vec<u8>) -> &mut [u8] {
        loan
    }
    fn publish(&mut self, _: Vec<u8>) -> Result<u64, String> {
        let mut wire = self.0.borrow_mut();
        let question = wire.sent.len() as u64 + 1;
        wire.sent.push(question);
        let held = std::mem::take(&mut wire.held);
        wire.on_its_way.extend(held.into_iter().map(|n| (n, false)));
        let fate = wire.fates.pop_front().unwrap_or(Comes);
        if matches!(fate, Comes | Twice) {
            wire.on_its_way.push_back((question + 1, false));
        }
        if matches!(fate, Late | Twice) {
            wire.held.push_back(question + 1);
        }
        Ok(question)
    }
    fn answer(&mut self, _: Vec<u8>, question: u64) -> Result<u64, String> {
        self.0.borrow_mut().sent.push(question + 1);
        Ok(question + 1)
    }
    fn publish_end(&mut self) -> Result<u64, String> {
        self.0.borrow_mut().ended = true;
        Ok(0)
    }
    fn wake_calls(&self) -> Option<u64> {
        None
    }
}

impl Receiver for In {
    type Sample = Got;
    fn wait_matched(&mut self, _: Duration) -> Result<()> {
        Ok(())
    }
    fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
        // No other process sends: a missing sample does not come.
        if self.0.borrow().on_its_way.is_empty() {
            // time: the limit that the code under test has given; nothing races it
            std::thread::sleep(limit.unwrap());
        }
        Ok(())
    }
    fn take(&mut self) -> Result<Option<Got>> {
        Ok(self.0.borrow_mut().on_its_way.pop_front().map(|(number, end)| Got {
            number,
            missed: 0,
            end,
        }))
    }
}

impl Received for Got {
    fn sequence(&self) -> u64 {
        self.number
    }
    fn missed(&self) -> u64 {
        self.missed
    }
    fn payload(&self) -> &[u8] {
        &[]
    }
    fn is_end(&self) -> bool {
        self.end
    }
}

fn job(role: Role, rounds: u64, raw: &std::path::Path) -> Job {
    Job {
        role,
        size: 64,
        take: Take::Borrow,
        payload: Payload::Untouched,
        pace: Pace::PingPong,
        warm_up: 0,
        messages: rounds,
        answer_timeout_ms: 2,
        lose_every: 0,
        raw_dir: raw.to_owned(),
        ..sample_job()
    }
}

/// Returns the asking end's account, the questions that it asked and the questions that were
/// answered in time; both come from its rows.
fn asked(fates: &[Fate], lose_every: u64) -> (End, Vec<u64>, Vec<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { lose_every, ..job(Role::Ping, fates.len() as u64, dir.path()) };
    // The greeting comes twice.
    let wire = Wire {
        on_its_way: [(1, false), (1, false)].into(),
        fates: fates.iter().copied().collect(),
        ..Wire::default()
    };
    let wire = Rc::new(RefCell::new(wire));
    let end = ping(&job, &mut Out(wire.clone()), &mut In(wire.clone()), 1).unwrap();
    assert!(wire.borrow().ended);
    let sent = read_rows::<SentRow>(end.sent_file.as_ref().unwrap(), 1000).unwrap();
    let received = read_rows::<ReceivedRow>(end.received_file.as_ref().unwrap(), 1000).unwrap();
    (
        end,
        sent.iter().map(|r| r.sequence).collect(),
        received.iter().map(|r| r.sequence - 1).collect(),
    )
}

#[test]
fn a_lost_answer_is_counted_and_the_next_round_begins() {
    let (end, asked, answered) = asked(&[Comes, Lost, Comes, Lost, Lost, Comes], 0);
    assert_eq!((asked, answered), (vec![1, 2, 3, 4, 5, 6], vec![1, 3, 6]));
    assert_eq!(
        (end.unanswered, end.late, end.published, end.received, end.missed),
        (Some(3), 0, 7, 4, 0)
    );
}

#[test]
fn a_late_answer_is_counted_and_not_taken_for_the_present_one() {
    let (end, _, answered) = asked(&[Comes, Late, Comes, Late, Lost, Comes], 0);
    assert_eq!(answered, [1, 3, 6]);
    assert_eq!((end.unanswered, end.late, end.received), (Some(3), 2, 6));
}

#[test]
fn what_is_not_sent_takes_no_number() {
    let (end, asked, answered) = asked(&[Comes, Unsent, Comes], 0);
    assert_eq!((asked, answered), (vec![1, 2], vec![1, 2]));
    assert_eq!((end.not_sent["no memory"], end.unanswered, end.published), (1, Some(0), 3));
}

#[test]
fn what_is_lost_on_purpose_looks_like_any_loss() {
    let (end, _, answered) = asked(&[Comes; 7], 3);
    assert_eq!(answered, [1, 2, 4, 5, 7]);
    assert_eq!((end.unanswered, end.received), (Some(2), 6));
}

#[test]
fn who_waits_in_vain_for_too_long_asks_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let wire =
        Wire { on_its_way: [(1, false)].into(), fates: [Lost; 50].into(), ..Wire::default() };
    let wire = Rc::new(RefCell::new(wire));
    let patience = Duration::from_millis(5);
    let end = ask_all(
        &job(Role::Ping, 50, dir.path()),
        &mut Out(wire.clone()),
        &mut In(wire),
        1,
        patience,
    )
    .unwrap();
    // The patience ends after three time-outs of 2 ms.
    assert_eq!((end.unanswered, end.not_sent["too many answers did not come"]), (Some(3), 47));
}

#[test]
fn an_answer_to_what_was_never_asked_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let wire = Rc::new(RefCell::new(Wire {
        on_its_way: [(1, false), (9, false)].into(),
        ..Wire::default()
    }));
    let text = format!(
        "{:#}",
        ping(&job(Role::Ping, 3, dir.path()), &mut Out(wire.clone()), &mut In(wire), 1)
            .unwrap_err()
    );
    assert!(text.contains("question 8, and only 1 were asked"), "{text}");
}

/// Returns the account of a run whose answering end gets `questions`, and whose asking end gets
/// `fates`.
fn accounted(fates: &[Fate], questions: &[u64], unsent: &[u64]) -> Account {
    let dir = tempfile::tempdir().unwrap();
    let rounds = fates.len() as u64;
    let end_number = rounds + 1;
    let mut on_its_way: VecDeque<_> = questions.iter().map(|n| (*n, false)).collect();
    on_its_way.push_back((end_number, true));
    // The greeting comes first.
    let fates_of_answers = std::iter::once(Comes)
        .chain(questions.iter().map(|q| if unsent.contains(q) { Unsent } else { Comes }));
    let back =
        Rc::new(RefCell::new(Wire { on_its_way, fates: VecDeque::new(), ..Wire::default() }));
    struct Answers(Shared, VecDeque<Fate>);
    impl Sender for Answers {
        type Loan = Vec<u8>;
        fn wait_matched(&mut self, _: usize, _: Duration) -> Result<()> {
            Ok(())
        }
        fn loan(&mut self, len: usize) -> Result<Vec<u8>, String> {
            if self.1.pop_front() == Some(Unsent) {
                Err("no memory".into())
            } else {
                Ok(vec![0; len])
            }
        }
        fn payload(loan: &mut Vec<u8>) -> &mut [u8] {
            loan
        }
        fn publish(&mut self, _: Vec<u8>) -> Result<u64, String> {
            Err("an answering end only answers".into())
        }
        fn answer(&mut self, _: Vec<u8>, question: u64) -> Result<u64, String> {
            self.0.borrow_mut().sent.push(question + 1);
            Ok(question + 1)
        }
        fn publish_end(&mut self) -> Result<u64, String> {
            Err("an answering end only answers".into())
        }
        fn wake_calls(&self) -> Option<u64> {
            None
        }
    }
    /// Detects gaps, as every reader does.
    struct Gaps(In, u64);
    impl Receiver for Gaps {
        type Sample = Got;
        fn wait_matched(&mut self, _: Duration) -> Result<()> {
            Ok(())
        }
        fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
            self.0.wait(limit)
        }
        fn take(&mut self) -> Result<Option<Got>> {
            let Some(got) = self.0.take()? else { return Ok(None) };
            let missed = got.number - self.1 - 1;
            self.1 = got.number;
            Ok(Some(Got { missed, ..got }))
        }
    }
    let job = job(Role::Ping, rounds, dir.path());
    let answering = Job { role: Role::Echo, ..job.clone() };
    let echo = echo(
        &answering,
        &mut Answers(back.clone(), fates_of_answers.collect()),
        &mut Gaps(In(back), 0),
        1,
    )
    .unwrap();
    let wire = Wire {
        on_its_way: [(1, false)].into(),
        fates: fates.iter().copied().collect(),
        ..Wire::default()
    };
    let wire = Rc::new(RefCell::new(wire));
    let ping = ping(&job, &mut Out(wire.clone()), &mut In(wire), 1).unwrap();
    account(&job, &[echo, ping], 0).unwrap()
}

#[test]
fn a_run_that_lost_samples_is_valid_if_its_account_closes_and_shows_them() {
    // The second question is lost. The answer to the third is lost, the answer to the fifth is
    // late, and the answer to the seventh is not sent.
    let a = accounted(&[Comes, Lost, Lost, Comes, Late, Comes, Lost], &[1, 3, 4, 5, 6, 7], &[7]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!(
        (a.scheduled, a.sent, a.received.clone(), a.missed.clone()),
        (7, 7, vec![3], vec![4])
    );
    let unsent_answers = [("no memory".to_owned(), 1)].into();
    assert_eq!(
        a.lost_rounds,
        Some(LostRounds { questions: 1, answers: 1, unsent_answers, late: 1 })
    );
    assert_eq!(a.samples[&crate::metric::Metric::Transport].len(), 3);
    assert_eq!(a.stamps.iter().filter(|s| s.received.is_none()).count(), 4);
    assert_eq!(accounted(&[Comes; 4], &[1, 2, 3, 4], &[]).lost_rounds, None);
}

#[test]
fn an_account_that_does_not_close_is_invalid() {
    let invalid =
        |fates: &[Fate], questions: &[u64]| accounted(fates, questions, &[]).invalid.join("; ");
    // First, a question is answered that was not received. Then, a question is answered twice.
    assert!(invalid(&[Comes, Comes, Comes], &[1, 3]).contains("do not belong together"));
    assert!(invalid(&[Twice, Comes, Comes], &[1, 2, 3]).contains("some came twice"));
}
