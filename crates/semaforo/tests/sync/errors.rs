//! Errors travel with `?`: into each other where that makes sense, boxed, and into `anyhow`.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use semaforo::policy::{Ending, Exclusive, NotHeldSo, NotOwner, ReadWrite};
use semaforo::tasks::{JoinError, Pool};
use semaforo::{
    AcquireError, Barrier, BlockingQueue, Broken, Closed, Condition, Latch, Mutex, Phaser,
    PhaserError, Policy, Promise, PromiseError, ReentrantLock, Rejected, Semaphore, TooManyHolds,
    TryError, TryPutError, TryTakeError, WaitError,
};

type Boxed = Box<dyn Error>;
type BoxedAndSent = Box<dyn Error + Send + Sync>;

const MOMENT: Duration = Duration::from_millis(1);

/// A lock that is taken, and a condition of it that nothing signals.
struct Stuck {
    lock: Mutex<u32>,
    never: Condition,
}

impl Stuck {
    fn new() -> Self {
        Self { lock: Mutex::new(7), never: Condition::new() }
    }
}

/// Everything that can end a wait here, in one function for each error that it may return: what was
/// interrupted, what was refused, and what timed out.
macro_rules! every_end {
    ($($function:ident -> $error:ty),* $(,)?) => {$(
        fn $function(stuck: &Stuck, end: u32) -> Result<u32, $error> {
            let guard = stuck.lock.lock().wait();
            match end {
                0 => drop(stuck.never.wait(guard).timeout(MOMENT).wait()?),
                1 => drop(stuck.never.wait_while(guard, |_| true).timeout(MOMENT).wait()?),
                _ => drop(stuck.lock.lock().timeout(Duration::ZERO).wait()?),
            }
            Ok(0)
        }
    )*};
}

every_end! {
    alone -> WaitError,
    with_permits -> WaitError<AcquireError>,
    with_holds -> WaitError<TooManyHolds>,
    with_queue -> WaitError<Closed>,
    with_barrier -> WaitError<Broken>,
    with_phaser -> WaitError<PhaserError>,
    with_task -> WaitError<JoinError>,
    boxed -> Boxed,
    boxed_and_sent -> BoxedAndSent,
}

#[test]
fn what_ends_a_wait_becomes_every_wait_error() {
    for end in 0..3 {
        let stuck = Stuck::new();
        assert!(matches!(alone(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_permits(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_holds(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_queue(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_barrier(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_phaser(&stuck, end), Err(WaitError::TimedOut)));
        assert!(matches!(with_task(&stuck, end), Err(WaitError::TimedOut)));
        for error in [boxed(&stuck, end).unwrap_err(), boxed_and_sent(&stuck, end).unwrap_err()] {
            assert_eq!(error.downcast_ref::<WaitError>(), Some(&WaitError::TimedOut));
            assert_eq!(error.to_string(), "timed out while waiting");
        }
        assert!(!stuck.lock.is_locked(), "a guard does not travel with its error");
    }
}

/// A guard borrows, so what `anyhow` gets is the reason.
fn interrupted_for_anyhow(stuck: &Stuck) -> anyhow::Result<u32> {
    let guard = stuck.lock.lock().wait();
    let ended = stuck.never.wait(guard).timeout(MOMENT).wait();
    Ok(*ended.map_err(semaforo::Interrupted::into_error)?)
}

#[test]
fn what_was_interrupted_becomes_an_anyhow_error() {
    let stuck = Stuck::new();
    let error = interrupted_for_anyhow(&stuck).unwrap_err();
    assert_eq!(error.downcast_ref::<WaitError>(), Some(&WaitError::TimedOut));
    assert!(!stuck.lock.is_locked());
}

/// A refusal, and the same refusal of a request with limits, in each order.
fn permits(semaphore: &Semaphore, bounded: bool) -> Result<(), WaitError<AcquireError>> {
    if bounded {
        drop(semaphore.acquire(1).timeout(MOMENT).wait()?);
    }
    drop(semaphore.acquire(1).wait()?);
    Ok(())
}

fn holds(lock: &ReentrantLock<()>) -> Result<(), WaitError<TooManyHolds>> {
    let _first = lock.lock().wait()?;
    let _second = lock.lock().timeout(MOMENT).wait()?;
    Ok(())
}

fn parties(barrier: &Barrier) -> Result<u32, WaitError<Broken>> {
    barrier.arrive().wait()?;
    Ok(barrier.arrive().timeout(MOMENT).wait()?.index())
}

fn phases(phaser: &Phaser) -> Result<u32, WaitError<PhaserError>> {
    phaser.register()?;
    phaser.arrive_and_wait().timeout(MOMENT).wait()
}

fn items(queue: &BlockingQueue<u32>) -> Result<u32, WaitError<Closed>> {
    let first = queue.take().wait()?;
    Ok(first + queue.take().timeout(MOMENT).wait()?)
}

fn task(pool: &Pool) -> Result<u32, WaitError<JoinError>> {
    Ok(pool.spawn(|| 1).wait()? + pool.spawn(|| 2).timeout(Duration::from_secs(3600)).wait()?)
}

#[test]
fn a_refusal_becomes_the_wait_error_of_its_kind() {
    let semaphore = Semaphore::new(1);
    assert_eq!(permits(&semaphore, true), Ok(()));
    semaphore.close();
    for bounded in [false, true] {
        let refused = Err(WaitError::Refused(AcquireError::Closed));
        assert_eq!(permits(&semaphore, bounded), refused);
    }
    assert_eq!(holds(&ReentrantLock::new(())), Ok(()));
    assert_eq!(parties(&Barrier::new(1)), Ok(0));
    let phaser = Phaser::new(0);
    assert_eq!(phases(&phaser), Ok(1));
    phaser.terminate();
    assert_eq!(phases(&phaser), Err(WaitError::Refused(PhaserError::Terminated)));
    let queue = BlockingQueue::bounded(2);
    queue.try_put(1).unwrap();
    assert_eq!(items(&queue), Err(WaitError::TimedOut));
    queue.close();
    assert_eq!(items(&queue), Err(WaitError::Refused(Closed)));
    assert!(matches!(task(&Pool::new()), Ok(3)));
}

/// Nothing here borrows.
fn everything_for_anyhow(semaphore: &Semaphore, end: u32) -> anyhow::Result<()> {
    match end {
        0 => drop(semaphore.acquire(1).wait()?),
        1 => drop(semaphore.acquire(1).timeout(MOMENT).wait()?),
        2 => semaphore.release(1)?,
        3 => drop(Barrier::new(2).arrive().timeout(Duration::ZERO).wait()?),
        4 => drop(Phaser::new(0).arrive()?),
        5 => drop(Latch::new(1).count_down_by(2)?),
        6 => drop(BlockingQueue::<u32>::bounded(1).take().timeout(MOMENT).wait()?),
        _ => Barrier::new(1).remove_parties(1)?,
    }
    Ok(())
}

#[test]
fn what_borrows_nothing_becomes_an_anyhow_error() {
    let semaphore = Semaphore::with_max(1, 1);
    semaphore.close();
    for end in 0..8 {
        everything_for_anyhow(&semaphore, end).unwrap_err();
    }
}

fn failure(promise: &Promise<u32, String>) -> Result<u32, PromiseError<String>> {
    Ok(*promise.get().wait()?)
}

fn failure_boxed(promise: &Promise<u32>) -> Result<u32, BoxedAndSent> {
    Ok(*promise.get().timeout(MOMENT).wait()?.map_err(PromiseError::described)?)
}

fn failure_for_anyhow(promise: &Promise<u32, AcquireError>) -> anyhow::Result<u32> {
    Ok(*promise.get().timeout(MOMENT).wait()?.map_err(PromiseError::cloned)?)
}

fn taken(promise: Promise<u32>) -> anyhow::Result<u32> {
    let outcome = promise.into_inner().ok_or(WaitError::<AcquireError>::TimedOut)?;
    Ok(outcome?)
}

/// A failed promise keeps its failure for other readers; what is passed on is a copy of it, or what it
/// says.
#[test]
fn the_failure_of_a_promise_travels() {
    let promise = Promise::new();
    promise.fail("broke".to_owned()).unwrap();
    assert_eq!(failure(&promise), Err(PromiseError::Failed("broke".to_owned())));

    let promise = Promise::new();
    let late = failure_boxed(&promise).unwrap_err();
    assert_eq!(late.downcast_ref::<WaitError>(), Some(&WaitError::TimedOut));
    promise.fail("broke".into()).unwrap();
    assert_eq!(failure_boxed(&promise).unwrap_err().to_string(), "broke");
    assert_eq!(taken(promise).unwrap_err().to_string(), "broke");

    let promise = Promise::new();
    promise.fail(AcquireError::Closed).unwrap();
    let error = failure_for_anyhow(&promise).unwrap_err();
    let expected = PromiseError::Failed(AcquireError::Closed);
    assert_eq!(error.downcast_ref(), Some(&expected));
    assert!(promise.is_done());
}

/// A refusal of a policy of one's own.
#[test]
fn a_wait_error_widens_to_any_kind() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct OfOnesOwn;
    assert_eq!(WaitError::Cancelled.widen::<OfOnesOwn>(), WaitError::Cancelled);
    assert_eq!(WaitError::TimedOut.widen::<OfOnesOwn>(), WaitError::TimedOut);
}

/// Every error that borrows nothing, by its type, becomes whatever users have at the end of a `?`.
#[test]
fn every_error_travels_boxed_and_in_anyhow() {
    fn boxed(error: impl Error + 'static) -> Result<(), Boxed> {
        Err(error)?
    }
    fn sent(error: impl Error + Send + Sync + 'static) -> Result<(), BoxedAndSent> {
        Err(error)?
    }
    fn for_anyhow(error: impl Error + Send + Sync + 'static) -> anyhow::Result<()> {
        Err(error)?
    }
    macro_rules! check {
        ($($error:expr),* $(,)?) => {$({
            let said = format!("{}", $error);
            assert!(!said.is_empty() && !format!("{:?}", $error).is_empty());
            assert_eq!(boxed($error).unwrap_err().to_string(), said);
            assert_eq!(sent($error).unwrap_err().to_string(), said);
            assert_eq!(for_anyhow($error).unwrap_err().to_string(), said);
        })*};
    }
    check! {
        WaitError::<Infallible>::TimedOut,
        WaitError::Refused(AcquireError::Closed),
        WaitError::Refused(Closed),
        WaitError::Refused(JoinError::Cancelled),
        TryError::<Infallible>::NotNow,
        TryError::Refused(AcquireError::Closed),
        AcquireError::Closed,
        Semaphore::with_max(1, 1).release(1).unwrap_err(),
        Latch::new(1).count_down_by(2).unwrap_err(),
        PhaserError::Terminated,
        TooManyHolds,
        Exclusive.release(0, ()).unwrap_err(),
        ReadWrite.release(0, Ending::Read).unwrap_err(),
        NotOwner,
        NotHeldSo,
        Barrier::new(1).remove_parties(1).unwrap_err(),
        Broken,
        Closed,
        TryPutError::Full,
        TryTakeError::Empty,
        Rejected { item: 1, why: Closed },
        Rejected { item: "item", why: TryPutError::Closed },
        Rejected { item: vec![1], why: WaitError::<Closed>::Cancelled },
        JoinError::ShutDown,
        PromiseError::Failed(Closed),
        PromiseError::<Closed>::Cancelled,
        semaforo::query::Cancelled,
        Pool::builder().threads(0).build().unwrap_err(),
    }
}

/// Now or never, and the same with a wait: one function has both.
#[test]
fn what_was_tried_becomes_what_was_waited_for() {
    fn take(queue: &BlockingQueue<u32>) -> Result<u32, WaitError<Closed>> {
        queue.try_put(1)?;
        queue.put(2).timeout(MOMENT).wait()?;
        Ok(queue.try_take()? + queue.take().wait()?)
    }
    fn permit(semaphore: &Semaphore) -> Result<u32, WaitError<AcquireError>> {
        let first = semaphore.try_acquire(1)?;
        Ok(first.permits() + semaphore.acquire(1).timeout(MOMENT).wait()?.permits())
    }
    let queue = BlockingQueue::bounded(2);
    assert_eq!(take(&queue), Ok(3));
    let full = BlockingQueue::bounded(1);
    full.try_put(0).unwrap();
    assert_eq!(take(&full), Err(WaitError::TimedOut), "not now is a limit of zero");
    full.close();
    assert_eq!(take(&full), Err(WaitError::Refused(Closed)));
    assert_eq!(WaitError::<Closed>::from(TryTakeError::Empty), WaitError::TimedOut);
    assert_eq!(WaitError::<Closed>::from(TryTakeError::Closed), WaitError::Refused(Closed));
    assert_eq!(permit(&Semaphore::new(2)), Ok(2));
    assert_eq!(permit(&Semaphore::new(0)), Err(WaitError::TimedOut));
}
