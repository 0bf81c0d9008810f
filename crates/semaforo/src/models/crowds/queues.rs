//! Items put, taken, transferred and handed over in every way, cancelled, timed out, dropped, left
//! unclaimed and given back.
//!
//! Nobody waits for ever, because whoever takes without having put puts back what it has, and the other
//! way round; and there is one item more than that to begin with.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use super::{crowd, draw, finish};
use crate::models::checker::explore_crowd;
use crate::models::race::{HOUR, time_passes};
use crate::models::task::Task;
use crate::queue::blocking::Take;
use crate::queue::{Builder, Receive, Transfer};
use crate::request::Limited;
use crate::{
    BlockingQueue, CancelSource, CancelToken, Closed, Rejected, Request, SynchronousQueue,
    TransferQueue, TryPutError, TryTakeError, WaitError,
};

/// Which items there are.
#[derive(Default)]
struct Ledger {
    made: u32,
    living: BTreeSet<u32>,
}

/// An item that is made once and dropped once.
struct Item {
    number: u32,
    ledger: Arc<Mutex<Ledger>>,
}

impl Drop for Item {
    fn drop(&mut self) {
        assert!(self.ledger.lock().unwrap().living.remove(&self.number), "an item was doubled");
    }
}

/// What the threads share besides the queue.
#[derive(Default)]
struct Office {
    ledger: Arc<Mutex<Ledger>>,
    /// The one that requests are made with, until it fires.
    source: Mutex<CancelSource>,
}

impl Office {
    fn item(&self) -> Item {
        let mut ledger = self.ledger.lock().unwrap();
        let number = ledger.made;
        ledger.made += 1;
        ledger.living.insert(number);
        Item { number, ledger: Arc::clone(&self.ledger) }
    }

    fn token(&self) -> CancelToken {
        self.source.lock().unwrap().token()
    }

    fn cancel(&self) {
        let source = std::mem::take(&mut *self.source.lock().unwrap());
        source.cancel();
    }

    /// Everything that was made is among what is left, or gone.
    fn assert_complete(&self, left: Vec<Item>) {
        let numbers: BTreeSet<_> = left.iter().map(|item| item.number).collect();
        assert_eq!(self.ledger.lock().unwrap().living, numbers, "items were lost");
        drop(left);
        assert!(self.ledger.lock().unwrap().living.is_empty());
    }
}

/// Why a bounded request may have ended.
fn assert_ended<R>(why: &WaitError<R>, is_closed: impl FnOnce() -> bool) {
    if let WaitError::Refused(_) = why {
        assert!(is_closed());
    }
}

struct Buffer {
    queue: Arc<BlockingQueue<Item>>,
    office: Office,
}

/// A request that its thread has queued, and has no time to poll.
type TakePocket = Option<Task<Request<Take<Arc<BlockingQueue<Item>>>, Limited>>>;

impl Buffer {
    fn new(queue: Builder<Item>) -> Self {
        let (queue, office) = (queue.build(), Office::default());
        queue.try_put(office.item()).unwrap();
        Self { queue: Arc::new(queue), office }
    }

    fn take_bounded(&self) -> Request<Take<Arc<BlockingQueue<Item>>>, Limited> {
        self.queue.take_owned().timeout(HOUR).cancel_on(&self.office.token())
    }

    /// Puts back what was taken.
    fn balance<E>(&self, taken: Result<Item, E>) {
        let Ok(item) = taken else { return };
        let put = finish(self.queue.put(item));
        if let Err(Rejected { why: Closed, .. }) = put {
            assert!(self.queue.is_closed());
        }
    }

    /// Takes something for what was put.
    fn take(&self) {
        let taken = finish(self.queue.take());
        if let Err(Closed) = taken {
            assert!(self.queue.is_closed());
        }
    }

    fn taken(&self, taken: Result<Item, WaitError<Closed>>) {
        if let Err(why) = &taken {
            assert_ended(why, || self.queue.is_closed());
        }
        self.balance(taken);
    }

    fn operate(self: &Arc<Self>, pocket: &mut TakePocket) {
        match draw(12) {
            0 | 1 => {
                if finish(self.queue.put(self.office.item())).is_ok() {
                    self.take();
                }
            }
            2 => {
                let put = self.queue.put(self.office.item()).timeout(HOUR);
                match Task::new(put.cancel_on(&self.office.token())).run() {
                    Ok(()) => self.take(),
                    Err(Rejected { why, .. }) => assert_ended(&why, || self.queue.is_closed()),
                }
            }
            3 => match self.queue.try_put(self.office.item()) {
                Ok(()) => self.take(),
                Err(Rejected { why: TryPutError::Full, .. }) => {}
                Err(Rejected { why: TryPutError::Closed, .. }) => assert!(self.queue.is_closed()),
            },
            4 | 5 => self.taken(finish(self.take_bounded())),
            6 => {
                let taken = self.queue.try_take();
                if let Err(TryTakeError::Closed) = taken {
                    assert!(self.queue.is_closed());
                }
                self.balance(taken);
            }
            7 => self.office.cancel(),
            // Polled once or twice, and dropped.
            8 => {
                let mut task = Task::new(self.take_bounded());
                if let Poll::Ready(taken) = task.poll() {
                    self.taken(taken);
                } else if draw(2) == 0 {
                    if let Poll::Ready(taken) = task.poll() {
                        self.taken(taken);
                    }
                }
            }
            // Several at a time; waited for, or given back.
            9 => {
                let batch = self.queue.take_batch(2, HOUR).timeout(HOUR);
                let batch = batch.cancel_on(&self.office.token());
                let mut task = Task::new(batch.into_future());
                let items = if draw(2) == 0 { Poll::Ready(task.run()) } else { task.poll() };
                if let Poll::Ready(Ok(items)) = items {
                    items.into_iter().for_each(|item| self.balance(Ok::<_, Closed>(item)));
                }
            }
            // Put into the pocket; what was there is dropped.
            10 => {
                let mut task = Task::new(self.take_bounded());
                match task.poll() {
                    Poll::Ready(taken) => self.taken(taken),
                    Poll::Pending => drop(pocket.replace(task)),
                }
            }
            _ => {
                if let Some(task) = pocket.take() {
                    self.taken(task.run());
                }
            }
        }
    }

    fn assert_settled(self) {
        while time_passes() {}
        assert_eq!(self.queue.waiters(), 0);
        self.office.assert_complete(self.queue.drain());
    }
}

/// A ring of two: no item is lost or doubled, and nobody waits for ever.
#[test]
fn a_ring() {
    explore_crowd(|| {
        crowd(Buffer::new(BlockingQueue::builder().capacity(2)), Buffer::operate).assert_settled();
    });
}

/// The same, and sooner or later somebody closes it.
#[test]
fn a_ring_until_closed() {
    explore_crowd(|| {
        let buffer = Buffer::new(BlockingQueue::builder().capacity(2));
        let operate = |buffer: &Arc<Buffer>, pocket: &mut TakePocket| {
            if draw(10) == 0 {
                buffer.queue.close();
            }
            buffer.operate(pocket);
        };
        crowd(buffer, operate).assert_settled();
    });
}

/// The same by priority, with as many as there are.
#[test]
fn ranks() {
    explore_crowd(|| {
        let queue = BlockingQueue::builder().by_priority(|item: &Item| -i64::from(item.number % 3));
        crowd(Buffer::new(queue.capacity(2)), Buffer::operate).assert_settled();
    });
}

struct Messages {
    queue: Arc<TransferQueue<Item>>,
    office: Office,
}

type BoundedTransfer = Request<Transfer<Arc<TransferQueue<Item>>>, Limited>;
type BoundedReceive = Request<Receive<Arc<TransferQueue<Item>>>, Limited>;

/// Requests that a thread has queued, and has no time to poll.
#[derive(Default)]
struct MessagePockets {
    transfer: Option<Task<BoundedTransfer>>,
    receive: Option<Task<BoundedReceive>>,
}

impl Messages {
    fn new() -> Self {
        let (queue, office) = (TransferQueue::new(), Office::default());
        queue.put(office.item()).unwrap();
        Self { queue: Arc::new(queue), office }
    }

    fn transfer(&self) -> BoundedTransfer {
        let request = self.queue.transfer_owned(self.office.item());
        request.timeout(HOUR).cancel_on(&self.office.token())
    }

    fn receive(&self) -> BoundedReceive {
        self.queue.take_owned().timeout(HOUR).cancel_on(&self.office.token())
    }

    fn transferred(&self, outcome: Result<(), Rejected<Item, WaitError<Closed>>>) {
        if let Err(Rejected { why, .. }) = outcome {
            assert_ended(&why, || self.queue.is_closed());
        }
    }

    /// Puts back what was taken.
    fn received(&self, outcome: Result<Item, WaitError<Closed>>) {
        match outcome {
            Ok(item) => drop(self.queue.put(item)),
            Err(why) => assert_ended(&why, || self.queue.is_closed()),
        }
    }

    fn operate(self: &Arc<Self>, pockets: &mut MessagePockets) {
        match draw(12) {
            0 | 1 => {
                if self.queue.put(self.office.item()).is_ok() {
                    drop(finish(self.queue.take()));
                }
            }
            2 | 3 => self.transferred(finish(self.transfer())),
            4 | 5 => self.received(finish(self.receive())),
            6 => drop(self.queue.try_transfer(self.office.item())),
            7 => drop(self.queue.try_take().map(|item| self.queue.put(item))),
            8 => self.office.cancel(),
            9 => {
                for item in self.queue.drain_at_most(2) {
                    drop(self.queue.put(item));
                }
            }
            // Polled once or put into the pocket; what was there is run or dropped.
            10 => {
                let mut task = Task::new(self.transfer());
                match task.poll() {
                    Poll::Ready(outcome) => self.transferred(outcome),
                    Poll::Pending => {
                        if let Some(task) = pockets.transfer.replace(task).filter(|_| draw(2) == 0)
                        {
                            self.transferred(task.run());
                        }
                    }
                }
            }
            _ => {
                let mut task = Task::new(self.receive());
                match task.poll() {
                    Poll::Ready(outcome) => self.received(outcome),
                    Poll::Pending => {
                        if let Some(task) = pockets.receive.replace(task).filter(|_| draw(2) == 0) {
                            self.received(task.run());
                        }
                    }
                }
            }
        }
    }

    fn assert_settled(self) {
        while time_passes() {}
        assert_eq!(self.queue.waiters(), 0);
        self.office.assert_complete(self.queue.drain());
    }
}

/// Messages that are left, and transferred, and withdrawn.
#[test]
fn messages() {
    explore_crowd(|| crowd(Messages::new(), Messages::operate).assert_settled());
}

/// The same, and sooner or later somebody closes the queue.
#[test]
fn messages_until_closed() {
    explore_crowd(|| {
        let operate = |messages: &Arc<Messages>, pockets: &mut MessagePockets| {
            if draw(10) == 0 {
                messages.queue.close();
            }
            messages.operate(pockets);
        };
        crowd(Messages::new(), operate).assert_settled();
    });
}

struct Meetings {
    queue: Arc<SynchronousQueue<Item>>,
    office: Office,
}

type MeetingPocket = Option<Task<Request<Receive<Arc<SynchronousQueue<Item>>>, Limited>>>;

impl Meetings {
    fn operate(self: &Arc<Self>, pocket: &mut MeetingPocket) {
        let token = self.office.token();
        let put = || self.queue.put(self.office.item()).timeout(HOUR).cancel_on(&token);
        let take = || self.queue.take_owned().timeout(HOUR).cancel_on(&token);
        match draw(9) {
            0 => drop(put().wait()),
            1 | 2 => drop(Task::new(put()).run()),
            3 | 4 => drop(finish(take())),
            5 => drop(self.queue.try_put(self.office.item())),
            6 => drop(self.queue.try_take()),
            7 => self.office.cancel(),
            _ => {
                let mut task = Task::new(take());
                if task.poll().is_pending() {
                    if let Some(task) = pocket.replace(task).filter(|_| draw(2) == 0) {
                        drop(task.run());
                    }
                }
            }
        }
    }
}

/// Items that go from hand to hand.
#[test]
fn meetings() {
    explore_crowd(|| {
        let meetings = Meetings { queue: Arc::default(), office: Office::default() };
        let Meetings { queue, office } = crowd(meetings, Meetings::operate);
        while time_passes() {}
        assert_eq!(queue.waiters(), 0);
        office.assert_complete(queue.drain());
    });
}
