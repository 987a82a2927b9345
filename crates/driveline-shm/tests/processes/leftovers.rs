// SPDX-License-Identifier: Apache-2.0
//! Leftovers of dead processes and other users in the directory, unsafe directories, and reports of
//! shortages.

use crate::support::{Domain, eventually};
use driveline_shm::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

/// Killed processes leave socket files of every kind.
#[test]
fn the_next_participant_cleans_up_after_the_dead() {
    let d = Domain::new();
    let mut dead = d.peer("dead");
    for i in 0..5 {
        dead.ask(&format!("publisher p{i} topic=t{i}"));
    }
    dead.ask("subscription s");
    dead.kill();
    let mut half = d.doomed_peer("half", "socket.before_rename", 2);
    half.send("publisher p");
    half.died();
    let left = d.names();
    assert!(left.len() == 5 + 2 + 2 && d.count('t') == 1, "{left:?}");
    let mut next = d.peer("next");
    next.ask("publisher p topic=elsewhere");
    eventually("it is clean", || {
        d.names().len() == 3 && !d.names().iter().any(|n| left.contains(n))
    });
    next.quit();
    assert_eq!(d.names(), [""; 0]);
}

/// A killed process that is not restarted: each process that was matched with it removes all of its
/// names, also those of topics without another reader. A matched publisher suffices, and so does a
/// matched subscription.
#[test]
fn those_that_were_matched_clean_up_after_the_dead() {
    for end in ["publisher q", "subscription s"] {
        let d = Domain::new();
        let mut alive = d.peer("alive");
        alive.ask(end);
        let own = d.names();
        let mut dead = d.peer("dead");
        dead.ask("publisher p topic=unread");
        dead.ask(if end.starts_with('p') { "subscription s" } else { "publisher q" });
        alive.ask(if end.starts_with('p') { "await q 1" } else { "await s 1" });
        assert!(d.names().len() > own.len());
        dead.kill();
        eventually("the names of the dead process are gone", || d.names() == own);
        alive.quit();
    }
}

/// Processes that start and clean up at the same time do not remove each other's names.
#[test]
fn cleaning_up_never_hits_the_living() {
    for round in 0..5 {
        let d = Domain::new();
        for i in 0..3 {
            let mut dead = d.peer("dead");
            dead.ask(&format!("publisher p topic=t{i}"));
            dead.kill();
        }
        let mut peers: Vec<_> = (0..6).map(|i| d.peer(&format!("peer {i}"))).collect();
        for p in &mut peers {
            p.send("publisher p pins=16");
            p.send("subscription s held=1");
        }
        for p in &mut peers {
            p.answer("publisher").unwrap();
            p.answer("subscription").unwrap();
        }
        for p in &mut peers {
            p.ask("await p 6");
            p.ask("await s 6");
        }
        assert_eq!(
            (d.count('p'), d.count('r'), d.count('i')),
            (6, 6, 6),
            "round {round}: {:?}",
            d.names()
        );
        for p in peers {
            p.quit();
        }
        eventually("nothing stays", || d.names().is_empty());
    }
}

/// Entries whose names have Driveline's form, but which are not sockets of participants.
#[test]
fn foreign_entries_in_the_directory_disturb_no_process() {
    let d = Domain::new();
    let topic = "t".parse::<driveline_types::TopicName>().unwrap().id().0;
    let victim = d.path().join("precious");
    std::fs::write(&victim, "precious").unwrap();
    let name = |kind: &str, n: u32| {
        d.path().join(if kind == "p" {
            format!("p-{topic:016x}-{n:032x}")
        } else {
            format!("{kind}-{n:032x}")
        })
    };
    for kind in ["p", "r", "i", "t"] {
        std::fs::write(name(kind, 1), "a file").unwrap();
        std::fs::create_dir(name(kind, 2)).unwrap();
        symlink(&victim, name(kind, 3)).unwrap();
        symlink("/nowhere", name(kind, 4)).unwrap();
        let status = std::process::Command::new("mkfifo").arg(name(kind, 5)).status().unwrap();
        assert!(status.success());
        symlink(name(kind, 6), name(kind, 6)).unwrap();
    }
    // A live socket of another service, which would get requests from a process that trusts the
    // name.
    let service = crate::support::hostile::Listener::new(d.path(), "elsewhere", 9);
    symlink(service.path(), name("p", 7)).unwrap();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    w.ask("publisher p");
    r.ask("subscription s");
    w.ask("await p 1");
    r.ask("await s 1");
    w.ask("say p 2 1000");
    assert_eq!(r.ask("take s"), "2 1");
    // A hint does not make a participant follow the link either.
    let hint = name("p", 7).file_name().unwrap().to_owned().into_encoded_bytes();
    for n in d.names().iter().filter(|n| n.starts_with("r-")) {
        crate::support::hostile::send_datagram(&d.path().join(n), &hint, &[]);
    }
    r.until("events s", |t| t.contains("is no socket"));
    assert!(!service.is_wanted(), "a link was followed out of the directory");
    assert_eq!(r.ask("list").matches("\"topic\":\"t\"").count(), 2);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    // Such entries do not cause repeated scans of the directory.
    crate::idle::is_idle(&[&r]);
    w.quit();
    r.quit();
}

#[test]
fn a_directory_that_is_removed_under_a_live_domain_ends_no_match() {
    let d = Domain::new();
    let inner = d.path().join("inner");
    let mut w = peer_in(&d, &inner);
    let mut r = peer_in(&d, &inner);
    w.ask("publisher p");
    r.ask("subscription s");
    w.ask("await p 1");
    r.ask("await s 1");
    // The participants create the directory again soon, unless a file is in its place.
    eventually("gone", || {
        let _ = std::fs::remove_dir_all(&inner);
        std::fs::File::create_new(&inner).is_ok()
    });
    w.ask("say p 1 100");
    assert_eq!(r.ask("take s"), "1 0");
    let e = w.try_ask("publisher q").unwrap_err();
    assert!(e.contains("cannot make a socket in the domain directory"), "{e}");
    std::fs::remove_file(&inner).unwrap();
    eventually("the directory is made anew", || inner.is_dir());
    w.ask("say p 1 100");
    assert_eq!(r.ask("take s"), "2 0");
    w.quit();
    r.quit();
}

fn peer_in(d: &Domain, path: &Path) -> crate::support::Peer {
    d.peer_at(path, "peer in a directory of its own")
}

fn open(path: &Path) -> Result<Participant, OpenError> {
    Participant::open(ParticipantConfig { domain_dir: Some(path.into()), name: "test".into() })
}

#[test]
fn unsafe_directories_are_refused_with_a_remedy() {
    let d = Domain::new();
    let dir = d.path().join("d");
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let e = open(&dir).unwrap_err().to_string();
    assert!(
        e.contains(dir.to_str().unwrap()) && e.contains("0777") && e.contains("chmod it"),
        "{e}"
    );
    let link = d.path().join("link");
    symlink(&dir, &link).unwrap();
    let e = open(&link).unwrap_err().to_string();
    assert!(e.contains("link") && e.contains("DRIVELINE_DOMAIN_DIR"), "{e}");
    let file = d.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(open(&file).unwrap_err().to_string().contains("file"));
    assert!(open(&file.join("below")).is_err());
    let long = d.path().join("x".repeat(200)).join("y".repeat(200));
    open(&long).expect("a path longer than a socket's address");
}

/// The default directory of a user must be that user's. Needs root, to make it another's.
#[test]
#[ignore = "needs root, to prepare it: make test runs it as root"]
fn a_default_directory_of_another_user_is_refused() {
    // Not a user of the machine, nor of another run of this test.
    let user = 1_000_000 + std::process::id();
    let parent = Removed(format!("/dev/shm/driveline-{user}").into());
    std::fs::create_dir(&parent.0).unwrap();
    let mut answers = Vec::new();
    let d = Domain::new();
    for (owner, mode) in [(0, 0o755), (user, 0o755), (user, 0o700)] {
        chown(&parent.0, Some(owner), Some(owner)).unwrap();
        std::fs::set_permissions(&parent.0, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut p = d.peer_at(Path::new(""), "user");
        p.ask(&format!("become {user}"));
        answers.push(p.try_ask("join"));
    }
    let [Err(foreign), Err(open), Ok(_)] = answers.as_slice() else { panic!("{answers:?}") };
    assert!(
        foreign.contains("belongs to user 0 instead of")
            && foreign.contains("DRIVELINE_DOMAIN_DIR"),
        "{foreign}"
    );
    assert!(open.contains("mode is 0755") && open.contains("chmod it to 0700"), "{open}");
}

/// Processes of a graph with `domain: NAME` get the directory's path; other programs use the name.
/// Both lead to the same directory, with the same checks.
#[test]
#[ignore = "needs root, to be a user without a directory: make test runs it as root"]
fn a_named_domain_is_joined_by_name_and_by_path() {
    let user = 2_000_000 + std::process::id();
    let parent = Removed(format!("/dev/shm/driveline-{user}").into());
    let d = Domain::new();
    let mut by_name =
        d.peer_in(Path::new(""), "by name", |c| _ = c.env("DRIVELINE_DOMAIN", "pilot"));
    by_name.ask(&format!("become {user}"));
    by_name.ask("publisher p");
    let mut by_path = d.peer_at(&parent.0.join("pilot"), "by path");
    by_path.ask(&format!("become {user}"));
    by_path.ask("subscription s");
    by_path.ask("await s 1");
    let mut elsewhere =
        d.peer_in(Path::new(""), "bad name", |c| _ = c.env("DRIVELINE_DOMAIN", "../pilot"));
    elsewhere.ask(&format!("become {user}"));
    assert!(elsewhere.try_ask("join").unwrap_err().contains("letters, digits"));
    std::fs::set_permissions(&parent.0, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut late = d.peer_at(&parent.0.join("pilot"), "late");
    late.ask(&format!("become {user}"));
    assert!(late.try_ask("join").unwrap_err().contains("0755"));
}

/// Graphs with `domain_group` share such a directory.
#[test]
#[ignore = "needs root, to be several users: make test runs it as root"]
fn members_of_a_group_share_its_directory_and_others_are_refused() {
    let group = 3_000_000 + std::process::id();
    let [first, second, stranger] = [61_011, 61_012, 61_013];
    let path = Removed(driveline_shm::domain::prepare_for("drive", Some(group)).unwrap());
    let d = Domain::new();
    let user = |user: u32, of: &str| {
        let mut p = d.peer_at(&path.0, &format!("user {user}"));
        p.ask(&format!("become {user}{of}"));
        p
    };
    let of = format!(" of {group}");
    let mut w = user(first, &of);
    w.ask(&format!("publisher p access={second}"));
    let mut r = user(second, &of);
    r.ask(&format!("subscription s access={first}"));
    r.ask("await s 1");
    let refused = user(stranger, "").try_ask("join").unwrap_err();
    assert!(refused.contains("ermission denied"), "{refused}");
}

/// A directory that is removed after the test in any case.
struct Removed(std::path::PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn shortages_are_errors_that_name_the_limit() {
    let d = Domain::new();
    let mut p = d.peer("short");
    let e = p.try_ask("publisher p max=40000000000 depth=100").unwrap_err();
    assert!(e.contains("MiB are available") && e.contains("the limit is"), "{e}");
    let e = p.try_ask("publisher p max=99999999999999").unwrap_err();
    assert!(e.contains("lower max_payload"), "{e}");
    p.ask("publisher first");
    // Beyond this limit, the kernel would end the process by a signal.
    p.ask("limit file-size 1000000");
    let e = p.try_ask("publisher p max=1000000").unwrap_err();
    assert!(e.contains("file size") && e.contains("ulimit -f"), "{e}");
    p.ask("limit file-size 18446744073709551615");
    p.ask("publisher p max=1000000");
    p.ask("limit spare-descriptors 0");
    let e = p.try_ask("publisher q").unwrap_err();
    assert!(e.contains("descriptors") || e.contains("open files"), "{e}");
    p.ask("limit descriptors 1000");
    p.ask("publisher q");
    p.ask("limit address-space 200000000");
    let e = p.try_ask("publisher r max=20000000").unwrap_err();
    assert!(e.contains("reserve its shared memory"), "{e}");
    p.ask("limit address-space 18446744073709551615");
    assert_eq!(p.mappings(), 3, "what failed has left no memory behind");
    let mut r = d.peer("reader");
    r.ask("subscription s");
    r.ask("await s 3");
    p.quit();
}

/// A shortage in the subscription's process is not the publisher's fault, and is retried.
#[test]
fn a_subscription_without_address_space_says_so_and_matches_later() {
    let d = Domain::new();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    r.ask("subscription s");
    r.ask("limit address-space 200000000");
    w.ask("publisher p max=20000000");
    let text = r.until("events s", |t| t.contains("Refused"));
    assert!(
        text.contains("code: System") && text.contains("cannot map the publisher's memory"),
        "{text}"
    );
    r.ask("limit address-space 18446744073709551615");
    r.ask("await s 1");
}

/// Repeats the removal: participants may be creating their names again at the same time.
fn remove(path: &Path) {
    eventually("the directory is removed", || {
        std::fs::remove_dir_all(path).is_ok() || !path.exists()
    });
}

/// A clean-up of /dev/shm under running processes: existing matches continue, and new processes are
/// found.
#[test]
fn a_removed_directory_is_joined_anew() {
    let d = Domain::new();
    let path = d.path().join("domain");
    let (mut w, mut r) = (d.peer_at(&path, "writer"), d.peer_at(&path, "reader"));
    w.ask("publisher p");
    r.ask("subscription s");
    r.ask("await s 1");
    for round in 1..=2 {
        remove(&path);
        for (peer, end) in [(&mut w, "p"), (&mut r, "s")] {
            let text = peer.until(&format!("events {end}"), |t| t.contains("was removed"));
            assert!(text.contains("announced again") && text.contains("RemoveIPC"), "{text}");
        }
        let mut late = d.peer_at(&path, "late");
        late.ask("subscription s");
        late.ask("await s 1");
        // A participant reports the removal before it has made its names again.
        late.until("list", |t| t.matches("\"topic\":\"t\"").count() == 3);
        // The old match was left alone, and is the only one.
        assert_eq!((r.ask("matched s").as_str(), w.ask("matched p").as_str()), ("1", "2"));
        w.ask("say p 1 100");
        assert_eq!(r.ask("take s"), format!("{round} 0"));
        assert_eq!(r.ask("take s"), "none");
        late.quit();
        w.ask("await p 1");
    }
    w.quit();
    r.quit();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
}

#[test]
fn removed_names_come_back_as_they_were() {
    let d = Domain::new();
    let (mut w, mut r) = (d.peer("writer"), d.peer("reader"));
    w.ask("publisher p");
    r.ask("subscription s");
    r.ask("await s 1");
    let names = d.names();
    for name in &names {
        std::fs::remove_file(d.path().join(name)).unwrap();
    }
    eventually("the names are there again", || d.names() == names);
    let (mut late, mut second) = (d.peer("late"), d.peer("second writer"));
    late.ask("subscription s");
    second.ask("publisher p");
    late.ask("await s 2");
    r.ask("await s 2");
    // A publisher counts a match only after its answer.
    w.ask("await p 2");
}

/// A directory made for several users: only its owner knows the right mode.
#[test]
fn a_removed_directory_of_several_users_is_awaited() {
    let d = Domain::new();
    let path = d.path().join("domain");
    let make = || {
        std::fs::create_dir(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1777)).unwrap();
    };
    make();
    let mut w = d.peer_at(&path, "writer");
    w.ask("publisher p");
    remove(&path);
    let text = w.until("events p", |t| t.contains("was removed"));
    assert!(text.contains("made for several users, so make it again with its mode"), "{text}");
    make();
    w.until("events p", |t| t.contains("announced again"));
    let mut r = d.peer_at(&path, "reader");
    r.ask("subscription s");
    r.ask("await s 1");
}
