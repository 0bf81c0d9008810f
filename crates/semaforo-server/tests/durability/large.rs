//! Much at once: what happens in one turn of the loop is not written as one batch, however large.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semaforo_server::kernel::State;
use semaforo_server::server::{Options, Server as Real};

use crate::support::{Server, frame, until};
use crate::watched::Watched;

/// Each acknowledgement lets a large message in, and all of them arrive together.
#[test]
fn a_turn_that_lets_in_much_is_written_in_portions() {
    const SIZE: usize = 500_000;
    const COUNT: usize = 50;
    const LARGEST: usize = 10 << 20;
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    let submitted = Box::new(move |size| {
        seen.fetch_max(size, Ordering::Relaxed);
    });
    let journal = Watched { submitted, ..Watched::default() };
    let (options, state) = (Options::default(), State::default());
    let server = Server::run(Real::with_journal(options, state, Box::new(journal), 0).unwrap());

    let mut worker = server.connect();
    worker.done(&format!("CREATE q capacity={COUNT}"));
    for _ in 0..COUNT {
        worker.done("PUT q | 1");
        worker.done("TAKE q ack=manual");
    }
    let payload = "x".repeat(SIZE);
    let mut producer = server.connect();
    for id in 0..COUNT {
        producer.send(&format!("PUT q id={id} | \"{payload}\""));
    }
    until("all of them wait", || {
        server.connect().done("SHOW q").value()["waiting"] == COUNT as u64
    });
    let all: Vec<u8> = (1..=COUNT)
        .flat_map(|number| frame(&format!("ACK q message={number} id={number}")))
        .collect();
    worker.send_bytes(&all);
    for _ in 0..COUNT {
        assert_eq!(worker.answer().status, 200);
        assert_eq!(producer.answer().status, 200);
    }
    let shown = worker.done("SHOW q").value();
    assert_eq!((&shown["ready"], &shown["waiting"]), (&COUNT.into(), &0.into()));
    let largest = largest.load(Ordering::Relaxed);
    assert!(largest <= LARGEST, "{largest} bytes at once");
}
