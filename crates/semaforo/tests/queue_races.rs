//! Races around the queues, with an exact account of every message: what went in came out, was given
//! back, or is left. `SEMAFORO_STRESS_SECONDS` says how long all of them together may take on two
//! cores, 8 if it is not set.
//!
//! Threads block and tasks await. Three quarters of the puts, transfers and takes can be cancelled or
//! time out, and a quarter is dropped if it has to wait: pending, granted, or left unpolled until its
//! item was taken back.

mod support;

use std::future::{Future, IntoFuture};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use semaforo::request::{Limited, Operation, Output};
use semaforo::{
    BlockingQueue, Closed, Rejected, Request, SynchronousQueue, TransferQueue, WaitError,
};
use support::{Cancellers, Random, Waiter, abandon, block_on, leaked, on_tokio, stress_seconds};

const PATIENCE: Duration = Duration::from_millis(2);

/// How long one of the eight tests runs; two of them run at a time.
fn duration() -> Duration {
    stress_seconds(8.0) / 4
}

/// What has become of a message, by its number. Each changes once.
mod fate {
    pub(super) const UNKNOWN: u8 = 0;
    pub(super) const TAKEN: u8 = 1;
    /// Its sender has it back, or it went with a request that was dropped.
    pub(super) const RETURNED: u8 = 2;
}

/// Makes messages and knows the fate of each.
struct Accounts {
    fates: Vec<AtomicU8>,
    made: AtomicUsize,
    /// How many senders were told that theirs was accepted.
    accepted: AtomicUsize,
}

struct Message {
    number: usize,
    accounts: &'static Accounts,
    fate: u8,
}

impl Accounts {
    fn new() -> &'static Self {
        leaked(Self {
            fates: (0..1_000_000).map(|_| AtomicU8::new(fate::UNKNOWN)).collect(),
            made: AtomicUsize::new(0),
            accepted: AtomicUsize::new(0),
        })
    }

    fn make(&'static self) -> Message {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        Message { number, accounts: self, fate: fate::RETURNED }
    }

    fn is_exhausted(&self) -> bool {
        self.made.load(Ordering::Relaxed) + 1000 > self.fates.len()
    }

    fn count(&self, fate: u8) -> usize {
        let made = self.made.load(Ordering::Relaxed);
        self.fates[..made].iter().filter(|own| own.load(Ordering::Relaxed) == fate).count()
    }
}

impl Message {
    fn take(mut self) {
        self.fate = fate::TAKEN;
    }
}

/// A message that is dropped by anybody but a taker was given back.
impl Drop for Message {
    fn drop(&mut self) {
        let before = self.accounts.fates[self.number].swap(self.fate, Ordering::Relaxed);
        assert_eq!(before, fate::UNKNOWN, "message {} has two fates", self.number);
    }
}

/// The queue under stress, behind one face.
trait Subject: Sync + 'static {
    type Put: Operation<Bounded = Result<(), Rejected<Message, WaitError<Closed>>>> + Send;
    type Take: Operation<Bounded = Result<Message, WaitError<Closed>>> + Send;

    fn put(&'static self, message: Message) -> Request<Self::Put>;
    fn take(&'static self) -> Request<Self::Take>;
    fn try_put(&self, message: Message) -> Result<(), Message>;
    fn try_take(&self) -> Option<Message>;
    fn drain_at_most(&self, max: usize) -> Vec<Message>;
    fn waiters(&self) -> usize;
    /// Something that only this queue has.
    fn special(&'static self, random: &mut Random);
}

macro_rules! subject {
    ($queue:ty, $put:ident, $put_operation:ty, $try:ident, $take_operation:ty, $special:expr) => {
        impl Subject for $queue {
            type Put = $put_operation;
            type Take = $take_operation;

            fn put(&'static self, message: Message) -> Request<Self::Put> {
                <$queue>::$put(self, message)
            }

            fn take(&'static self) -> Request<Self::Take> {
                self.take()
            }

            fn try_put(&self, message: Message) -> Result<(), Message> {
                self.$try(message).map_err(Rejected::into_item)
            }

            fn try_take(&self) -> Option<Message> {
                self.try_take().ok()
            }

            fn drain_at_most(&self, max: usize) -> Vec<Message> {
                self.drain_at_most(max)
            }

            fn waiters(&self) -> usize {
                self.waiters()
            }

            fn special(&'static self, random: &mut Random) {
                let special: fn(&'static $queue, &mut Random) = $special;
                special(self, random);
            }
        }
    };
}

type Bounded = BlockingQueue<Message>;
type Transferring = TransferQueue<Message>;
type Meeting = SynchronousQueue<Message>;

subject! {
    Bounded, put, semaforo::queue::blocking::Put<&'static Self>,
    try_put, semaforo::queue::blocking::Take<&'static Self>,
    take_batches
}

subject! {
    Transferring, transfer, semaforo::queue::Transfer<&'static Self>,
    try_transfer, semaforo::queue::Receive<&'static Self>,
    |queue, _| {
        let message = accounts_of(queue).make();
        queue.put(message).unwrap();
        accounts_of(queue).accepted.fetch_add(1, Ordering::Relaxed);
    }
}

subject! {
    Meeting, put, semaforo::queue::Transfer<&'static Self>,
    try_put, semaforo::queue::Receive<&'static Self>,
    |_, _| {}
}

/// Several queues at once: most requests are for any of them.
struct Several<Q> {
    queues: [Q; 3],
    accounts: &'static Accounts,
    cancellers: Cancellers,
    turn: AtomicUsize,
}

impl<Q> Several<Q> {
    fn new(queues: [Q; 3]) -> &'static Self {
        let (accounts, cancellers) = (Accounts::new(), Cancellers::new());
        leaked(Self { queues, accounts, cancellers, turn: AtomicUsize::new(0) })
    }

    /// One of them, each in turn.
    fn one(&self) -> &Q {
        &self.queues[self.turn.fetch_add(1, Ordering::Relaxed) % self.queues.len()]
    }

    /// All of them, beginning with any, and one of them twice.
    fn any(&self, random: &mut Random) -> [&Q; 4] {
        let first = random.below(3) as usize;
        [0, 1, 2, 3].map(|index| &self.queues[(first + index) % 3])
    }

    /// Waits, awaits or abandons a request.
    fn run<O: Operation>(
        &self,
        request: Request<O>,
        random: &mut Random,
    ) -> Option<Output<O, Limited>> {
        let request = bound(request, &self.cancellers, random);
        match random.below(3) {
            0 => Some(request.wait()),
            1 => Some(block_on(request)),
            _ => abandon(request, PATIENCE, 16, random),
        }
    }
}

macro_rules! several {
    ($queue:ty, $put:ident, $put_operation:ty, $try:ident, $take_operation:ty, $put_any:expr) => {
        impl Subject for Several<$queue> {
            type Put = $put_operation;
            type Take = $take_operation;

            fn put(&'static self, message: Message) -> Request<Self::Put> {
                self.one().$put(message)
            }

            fn take(&'static self) -> Request<Self::Take> {
                self.one().take()
            }

            fn try_put(&self, message: Message) -> Result<(), Message> {
                self.one().$try(message).map_err(Rejected::into_item)
            }

            fn try_take(&self) -> Option<Message> {
                <$queue>::try_take_any(&self.queues.each_ref()).ok().map(|(_, message)| message)
            }

            fn drain_at_most(&self, max: usize) -> Vec<Message> {
                self.queues.iter().flat_map(|queue| queue.drain_at_most(max)).collect()
            }

            fn waiters(&self) -> usize {
                self.queues.iter().map(|queue| queue.waiters()).sum()
            }

            fn special(&'static self, random: &mut Random) {
                let put_any: fn(&'static Self, &mut Random) = $put_any;
                for _ in 0..16 {
                    put_any(self, random);
                    let taken = self.run(<$queue>::take_any(self.any(random)), random);
                    if let Some(Ok((_, message))) = taken {
                        message.take();
                    }
                }
            }
        }
    };
}

several! {
    Bounded, put, semaforo::queue::blocking::Put<&'static Bounded>,
    try_put, semaforo::queue::blocking::Take<&'static Bounded>,
    |several, random| {
        let message = several.accounts.make();
        let put = several.run(Bounded::put_any(several.any(random), message), random);
        if let Some(Ok(_)) = put {
            several.accounts.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

several! {
    Transferring, transfer, semaforo::queue::Transfer<&'static Transferring>,
    try_transfer, semaforo::queue::Receive<&'static Transferring>,
    |several, random| {
        let message = several.accounts.make();
        let put = several.run(several.one().transfer(message), random);
        if let Some(Ok(())) = put {
            several.accounts.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Batches, of which some are dropped half-way.
fn take_batches(queue: &'static Bounded, random: &mut Random) {
    let silence = Duration::from_micros(random.below(50).into());
    let limit = Duration::from_micros(random.below(200).into());
    let batch = queue.take_batch(random.below(6) as usize + 1, silence).timeout(limit);
    let outcome = match random.below(3) {
        0 => batch.wait(),
        1 => block_on(batch.into_future()),
        _ => match poll_once(batch.into_future().as_mut()) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => return,
        },
    };
    outcome.into_iter().flatten().for_each(Message::take);
}

/// The accounts of the only transfer queue.
fn accounts_of(_: &Transferring) -> &'static Accounts {
    static ACCOUNTS: std::sync::OnceLock<&'static Accounts> = std::sync::OnceLock::new();
    ACCOUNTS.get_or_init(Accounts::new)
}

fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// A bound that may well end the request.
fn bound<O: Operation>(
    request: Request<O>,
    cancellers: &Cancellers,
    random: &mut Random,
) -> Request<O, Limited> {
    let short = Duration::from_micros(random.below(40).into());
    match random.below(4) {
        0 => request.timeout(short),
        1 => request.cancel_on(&cancellers.token(random)),
        2 => request.timeout(short).cancel_on(&cancellers.token(random)),
        // Not for ever, because everyone may happen to wait for the same.
        _ => request.timeout(Duration::from_millis(3)),
    }
}

struct Stress<S: 'static> {
    queue: &'static S,
    accounts: &'static Accounts,
    cancellers: Cancellers,
    end: Instant,
}

impl<S: Subject> Stress<S> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end || self.accounts.is_exhausted()
    }

    fn was_put(&self, outcome: Option<Result<(), Rejected<Message, WaitError<Closed>>>>) {
        if let Some(Ok(())) = outcome {
            self.accounts.accepted.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn was_taken(&self, outcome: Option<Result<Message, WaitError<Closed>>>) {
        if let Some(Ok(message)) = outcome {
            message.take();
        }
    }

    fn run<O: Operation>(
        &self,
        request: Request<O>,
        random: &mut Random,
    ) -> Option<Output<O, Limited>> {
        let request = bound(request, &self.cancellers, random);
        match random.below(10) {
            0..=3 => Some(request.wait()),
            4..=7 => Some(block_on(request)),
            _ => abandon(request, PATIENCE, 16, random),
        }
    }

    fn visit(&self, random: &mut Random) {
        let make = || self.accounts.make();
        match random.below(16) {
            0..=5 => self.was_put(self.run(self.queue.put(make()), random)),
            6..=11 => self.was_taken(self.run(self.queue.take(), random)),
            12 => {
                let put = self.queue.try_put(make());
                if put.is_ok() {
                    self.accounts.accepted.fetch_add(1, Ordering::Relaxed);
                }
            }
            13 => self.queue.try_take().into_iter().for_each(Message::take),
            14 => {
                let max = random.below(4) as usize;
                self.queue.drain_at_most(max).into_iter().for_each(Message::take);
            }
            _ => self.queue.special(random),
        }
    }

    async fn visit_as_a_task(&self, random: &mut Random) {
        if random.one_in(2) {
            let request = bound(self.queue.put(self.accounts.make()), &self.cancellers, random);
            self.was_put(select(request, random).await);
        } else {
            let request = bound(self.queue.take(), &self.cancellers, random);
            self.was_taken(select(request, random).await);
        }
    }
}

/// Awaits a request, or drops it for something else that is ready.
async fn select<O: Operation>(
    request: Request<O, Limited>,
    random: &mut Random,
) -> Option<Output<O, Limited>> {
    if !random.one_in(4) {
        return Some(request.await);
    }
    tokio::select! {
        biased;
        output = request => Some(output),
        () = tokio::task::yield_now() => None,
    }
}

/// Runs threads and tasks for the duration, and then settles the accounts. `accepted` messages may
/// still come back to the queue after their senders were told, so each was taken or is left.
fn stress<S: Subject>(queue: &'static S, accounts: &'static Accounts) {
    let end = Instant::now() + duration();
    let stress = leaked(Stress { queue, accounts, cancellers: Cancellers::new(), end });
    let canceller = stress.cancellers.start();
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            Waiter::on_a_thread(move || {
                let mut random = Random::new(seed + 1);
                while !stress.is_over() {
                    stress.visit(&mut random);
                }
            })
        })
        .collect();
    on_tokio(async {
        let tasks = (0..4).map(|seed| {
            tokio::spawn(async move {
                let mut random = Random::new(seed + 50);
                while !stress.is_over() {
                    stress.visit_as_a_task(&mut random).await;
                    if random.one_in(64) {
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    threads.into_iter().for_each(Waiter::join);
    stress.cancellers.stop(canceller);
    assert_eq!(queue.waiters(), 0);

    let left = queue.drain_at_most(usize::MAX);
    let (made, taken) = (accounts.made.load(Ordering::Relaxed), accounts.count(fate::TAKEN));
    let (returned, unknown) = (accounts.count(fate::RETURNED), accounts.count(fate::UNKNOWN));
    let accepted = accounts.accepted.load(Ordering::Relaxed);
    println!(
        "{made} made, {accepted} accepted, {taken} taken, {returned} returned, {}",
        left.len()
    );
    assert_eq!(unknown, left.len(), "a message that has no fate is left");
    assert_eq!(made, taken + returned + left.len());
    assert!(accepted <= taken + left.len(), "what was accepted is not given back");
    assert!(taken > 100 && returned > 100);
    left.into_iter().for_each(Message::take);
}

fn blocking(queue: BlockingQueue<Message>) {
    queue.set_patience(PATIENCE);
    stress(leaked(queue), Accounts::new());
}

#[test]
fn a_bounded_queue_loses_nothing() {
    blocking(BlockingQueue::bounded(3));
}

#[test]
fn a_queue_with_one_place_loses_nothing() {
    blocking(BlockingQueue::bounded(1));
}

#[test]
fn a_bounded_stack_loses_nothing() {
    blocking(BlockingQueue::builder().capacity(2).lifo().build());
}

#[test]
fn a_bounded_queue_by_priority_loses_nothing() {
    let priority = |message: &Message| (message.number % 5) as i64;
    blocking(BlockingQueue::builder().capacity(2).by_priority(priority).build());
}

#[test]
fn a_transfer_queue_loses_nothing() {
    let queue = leaked(TransferQueue::new());
    queue.set_patience(PATIENCE);
    stress(queue, accounts_of(queue));
}

#[test]
fn a_synchronous_queue_loses_nothing() {
    let queue = leaked(SynchronousQueue::new());
    queue.set_patience(PATIENCE);
    stress(queue, Accounts::new());
}

/// One producer and one consumer at a time: the order is exact, whatever they do.
#[test]
fn a_bounded_queue_keeps_its_order() {
    for capacity in [1, 2, 7] {
        let queue = leaked(BlockingQueue::bounded(capacity));
        queue.set_patience(PATIENCE);
        let producer = Waiter::on_a_thread(|| {
            let mut random = Random::new(1);
            for item in 0..4_000_u32 {
                match random.below(4) {
                    0 => queue.put(item).wait().unwrap(),
                    1 => block_on(queue.put(item)).unwrap(),
                    2 => {
                        while queue.try_put(item).is_err() {
                            std::thread::yield_now();
                        }
                    }
                    _ => {
                        let short = Duration::from_micros(random.below(20).into());
                        while queue.put(item).timeout(short).wait().is_err() {}
                    }
                }
            }
            queue.close();
        });
        let mut random = Random::new(2);
        let mut expected = 0..4_000;
        loop {
            let short = Duration::from_micros(random.below(20).into());
            let outcome = match random.below(5) {
                0 => queue.take().wait().map_err(Into::into),
                1 => block_on(queue.take()).map_err(Into::into),
                2 => queue.take().timeout(short).wait(),
                3 => match poll_once(pin!(queue.take())) {
                    Poll::Ready(outcome) => outcome.map_err(Into::into),
                    Poll::Pending => continue,
                },
                _ => {
                    let items = queue.drain_at_most(random.below(4) as usize);
                    items.into_iter().for_each(|item| assert_eq!(Some(item), expected.next()));
                    continue;
                }
            };
            match outcome {
                Ok(item) => assert_eq!(Some(item), expected.next()),
                Err(WaitError::Refused(Closed)) => break,
                Err(_) => {}
            }
        }
        assert_eq!(expected.next(), None);
        producer.join();
    }
}

fn several<Q>(several: &'static Several<Q>)
where
    Several<Q>: Subject,
{
    let canceller = several.cancellers.start();
    stress(several, several.accounts);
    several.cancellers.stop(canceller);
}

/// With room for one in one of them, so that those who put wait, too.
#[test]
fn several_bounded_queues_lose_nothing() {
    let queues = [1, 2, 1].map(BlockingQueue::bounded);
    queues.iter().for_each(|queue| queue.set_patience(PATIENCE));
    several(Several::new(queues));
}

#[test]
fn several_transfer_queues_lose_nothing() {
    let queues = [(); 3].map(|()| TransferQueue::new());
    queues.iter().for_each(|queue| queue.set_patience(PATIENCE));
    several(Several::new(queues));
}
