// SPDX-License-Identifier: Apache-2.0
//! Stopping while a call waits in a publish.
use super::*;

/// Only the stopping executor calls the single reader of the reliable topic.
#[test]
fn readers_are_called_while_a_publisher_waits_for_them() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let r = Arc::new(rig(2));
        let qos = Qos {
            reliability: driveline_types::Reliability::Reliable,
            depth: 1,
            max_blocking_ms: PATIENCE.as_millis() as u32,
            ..Qos::default()
        };
        let options = PublisherOptions { reach, qos: qos.clone(), ..Default::default() };
        let mut publisher = r.node.bytes_publisher("topic", "raw", options).unwrap();
        let options = SubscriptionOptions { reach, qos, max_held: 3, ..Default::default() };
        let input = r.node.bytes_subscription("topic", "raw", options).unwrap();
        until(|| publisher.matched() == 1);

        let (read, reads) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel::<()>();
        let (read, go_on) = (Mutex::new(read), Mutex::new(go_on));
        let handle = r.callback(Trigger::any(), vec![("in".into(), input)], move |_| {
            read.lock().unwrap().send(()).unwrap();
            // The first call waits for the test; after the test has dropped its end, `recv` returns
            // at once.
            let _ = go_on.lock().unwrap().recv();
        });
        let publisher = Mutex::new(Some(publisher));
        let timer = Trigger::Timer { period: Duration::from_millis(1), max_age: None };
        r.callback(timer, vec![], move |_| {
            let first = publisher.lock().unwrap().take();
            if let Some(mut publisher) = first {
                (0..5).for_each(|n| send(&mut publisher, n, 1));
            }
        });
        r.executor.start().unwrap();
        reads.recv_timeout(PATIENCE).unwrap();
        until(driveline_shm::a_publisher_waits);
        let stops = {
            let r = r.clone();
            std::thread::spawn(move || r.executor.stop())
        };
        until(|| r.executor.shared.is_stopping());
        drop(goes_on);
        stops.join().unwrap();
        let stats = handle.inputs()[0].stats;
        assert_eq!((stats.missed, stats.received + stats.not_read), (0, 5), "{reach:?}: {stats:?}");
    }
}

fn until(mut is: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is() {
        assert!(std::time::Instant::now() < end, "nothing happens");
        std::thread::yield_now();
    }
}
