//! What a message is charged to is dropped when the message is gone, however it goes.

use std::sync::Arc;

use semaforo_server::kernel::{Charge, Kind::Queue, Verb};

use crate::support::{BORROW, Caller, Request, TAKE, World, connection, put, queue, transfer};

const NAME: &str = "q";

struct Charged {
    world: World,
    receipt: Arc<()>,
}

impl Charged {
    fn new(capacity: u64) -> Self {
        let mut world = World::default();
        world.done(connection(9), Queue, NAME, queue(capacity));
        world.open(1, 60_000);
        Self { world, receipt: Arc::new(()) }
    }

    fn ask(&mut self, caller: Caller, verb: Verb<'_>) -> Request {
        self.world.charge = Charge::new(Arc::clone(&self.receipt));
        let request = self.world.ask(caller, Queue, NAME, verb);
        self.world.charge = Charge::default();
        request
    }

    /// How many messages are charged. Answers that were given are forgotten: a message in them
    /// counts until it was sent.
    fn count(&mut self) -> usize {
        self.world.answers.clear();
        Arc::strong_count(&self.receipt) - 1
    }

    /// Gives back or settles a message that is out.
    fn settle(&mut self, caller: Caller, verb: Verb<'_>) {
        self.world.done(caller, Queue, NAME, verb);
    }
}

const fn ack(message: u64) -> Verb<'static> {
    Verb::Ack { message, deliveries: None }
}

const fn give_back(message: u64, delay: u64) -> Verb<'static> {
    Verb::Return { message, deliveries: None, delay }
}

#[test]
fn until_it_is_taken_for_good() {
    let mut charged = Charged::new(0);
    charged.ask(connection(1), put(b"a"));
    charged.ask(connection(1), Verb::Put { payload: b"b", priority: 3, delay: 10 });
    assert_eq!(charged.count(), 2);
    charged.world.ask(connection(2), Queue, NAME, TAKE);
    assert_eq!(charged.count(), 1);
    charged.world.ask(connection(2), Queue, NAME, TAKE);
    charged.world.pass(10);
    assert_eq!(charged.count(), 0);
}

#[test]
fn while_it_is_out_and_after_it_came_back() {
    for caller in [connection(2), connection(2).of(1)] {
        let mut charged = Charged::new(0);
        charged.ask(connection(1), put(b"a"));
        charged.world.done(caller, Queue, NAME, BORROW);
        assert_eq!(charged.count(), 1);
        charged.settle(caller, give_back(1, 0));
        charged.world.done(caller, Queue, NAME, BORROW);
        charged.settle(caller, give_back(1, 5));
        assert_eq!(charged.count(), 1);
        charged.world.pass(5);
        charged.world.done(caller, Queue, NAME, BORROW);
        charged.settle(caller, ack(1));
        assert_eq!(charged.count(), 0);
    }
}

#[test]
fn while_it_waits_for_space() {
    let mut charged = Charged::new(1);
    charged.ask(connection(1), put(b"a"));
    charged.ask(connection(1).now(), put(b"refused"));
    assert_eq!(charged.count(), 1);
    let withdrawn = charged.ask(connection(2), put(b"b"));
    charged.ask(connection(3), put(b"c"));
    assert_eq!(charged.count(), 3);
    assert!(charged.world.cancel(withdrawn));
    assert_eq!(charged.count(), 2);
    charged.world.ask(connection(4), Queue, NAME, TAKE);
    assert_eq!(charged.count(), 1, "it is in the queue now");
    charged.world.ask(connection(4), Queue, NAME, TAKE);
    assert_eq!(charged.count(), 0);
}

#[test]
fn while_its_sender_waits() {
    let mut charged = Charged::new(0);
    charged.ask(connection(1), transfer(b"a"));
    charged.ask(connection(2), transfer(b"b"));
    charged.ask(connection(3), transfer(b"c"));
    assert_eq!(charged.count(), 3);
    charged.world.disconnect(1);
    assert_eq!(charged.count(), 2);
    charged.world.done(connection(4), Queue, NAME, BORROW);
    assert_eq!(charged.count(), 2);
    charged.settle(connection(4), ack(2));
    assert_eq!(charged.count(), 1);
    charged.world.ask(connection(4), Queue, NAME, TAKE);
    assert_eq!(charged.count(), 0);
}

#[test]
fn when_it_could_not_be_sent() {
    let mut charged = Charged::new(0);
    charged.ask(connection(1), put(b"a"));
    let taker = charged.world.ask(connection(2), Queue, NAME, TAKE);
    let parcel = charged.world.parcel(taker);
    assert_eq!(charged.count(), 1, "it is on its way");
    charged.world.undelivered(&parcel);
    drop(parcel);
    assert_eq!(charged.count(), 1);
    charged.world.ask(connection(2), Queue, NAME, TAKE);
    assert_eq!(charged.count(), 0);
}

#[test]
fn until_its_queue_is_deleted() {
    let mut charged = Charged::new(3);
    for message in [b"a", b"b", b"c", b"d"] {
        charged.ask(connection(1), put(message));
    }
    charged.world.done(connection(2).of(1), Queue, NAME, BORROW);
    assert_eq!(charged.count(), 4);
    charged.world.done(connection(2), Queue, NAME, Verb::Delete);
    assert_eq!(charged.count(), 0);
}

#[test]
fn a_request_that_came_before_is_not_charged_again() {
    let mut charged = Charged::new(0);
    let session = connection(1).of(1).seq(1);
    charged.ask(session, put(b"a"));
    charged.ask(session, put(b"a"));
    assert_eq!(charged.count(), 1);
}

#[test]
fn not_after_a_restart() {
    let mut charged = Charged::new(0);
    charged.ask(connection(1), put(b"a"));
    charged.world.restart();
    assert_eq!(charged.count(), 0);
}
