//! Cases X: what holds for every operation that may wait, shown for every one of them.
//!
//! `subjects.rs` has the operations, `cases.rs` the cases; here they meet. An operation of which two
//! cannot wait beside each other (they would meet, or the end of one would be the other's), or that is
//! no [`Request`](semaforo::Request), is in `loners.rs`, and has the cases of `alone.rs`.

#[path = "../support/mod.rs"]
mod support;

mod alone;
mod cases;
mod loners;
mod subjects;

macro_rules! every_case_for {
    ($($module:ident: $subject:ident),* $(,)?) => {$(
        mod $module {
            use crate::cases;
            use crate::subjects::$subject as Subject;

            run! {
                a_zero_timeout_ends_at_once,
                a_deadline_in_the_past_ends_at_once,
                the_longest_limit_is_no_limit,
                a_limit_is_kept,
                a_token_fired_before_ends_at_once,
                cancelled_comes_before_timed_out,
                an_available_resource_is_granted_whatever_the_bounds,
                cancelling_ends_the_wait_and_leaves_no_trace,
                an_unbounded_request_cannot_be_cancelled,
                the_place_counts_from_the_first_poll,
                dropping_gives_the_waker_back,
                the_last_waker_is_the_one_that_is_woken,
                a_dropped_grant_goes_to_the_next,
                polling_after_the_end_panics,
                short_attempts_leave_nothing_behind,
            }
        }
    )*};
}

macro_rules! run {
    ($($case:ident),* $(,)?) => {$(
        #[test]
        fn $case() {
            cases::$case::<Subject>();
        }
    )*};
}

every_case_for! {
    semaphore_acquire: Acquire,
    barging_semaphore_acquire: BargingAcquire,
    mutex_lock: Lock,
    barging_mutex_lock: BargingLock,
    rwlock_read: Read,
    rwlock_write: Write,
    barging_rwlock_read: BargingRead,
    barging_rwlock_write: BargingWrite,
    reentrant_rwlock_read: ReadForThread,
    reentrant_rwlock_read_as: ReadForKey,
    reentrant_rwlock_write: WriteForThread,
    reentrant_rwlock_write_as: WriteForKey,
    reentrant_lock: LockForThread,
    reentrant_lock_as: LockForKey,
    latch_opened: Opened,
    event_happened: Happened,
    auto_event_happened: Signalled,
    promise_get: Get,
    phaser_advanced: Advanced,
    parker_park: Park,
    token_cancelled: Cancelled,
    synchronizer_acquire: Own,
    blocking_queue_take: Take,
    unbounded_queue_take: TakeUnbounded,
    blocking_queue_put: Put,
    priority_queue_put: PutByPriority,
    transfer_queue_take: Receive,
    transfer_queue_transfer: Transfer,
    synchronous_queue_take: ReceiveSynchronously,
    synchronous_queue_put: PutSynchronously,
}

macro_rules! every_case_alone_for {
    ($($module:ident: $loner:ident),* $(,)?) => {$(
        mod $module {
            use crate::alone as cases;
            use crate::loners::$loner as Subject;

            run! {
                a_limit_that_has_passed_ends_it_at_once,
                a_token_fired_before_ends_it_at_once,
                cancelled_comes_before_timed_out,
                a_limit_is_kept,
                the_longest_limit_is_no_limit,
                what_is_there_is_granted_whatever_the_bounds,
                cancelling_ends_the_wait_and_leaves_no_trace,
                dropping_gives_the_waker_back,
                the_last_waker_is_the_one_that_is_woken,
            }
        }
    )*};
}

every_case_alone_for! {
    barrier_arrive: Arrive,
    exchanger_exchange: Exchange,
    condition_wait: Wait,
    condition_wait_while: WaitWhile,
    reentrant_condition_wait: WaitForKey,
    phaser_arrive_and_wait: ArriveAndWait,
    handle_join: Join,
    handle_finished: Finished,
    pool_shutdown: Leave,
    take_batch: TakeBatch,
    take_any: TakeAny,
    put_any: PutAny,
    write_condition_wait: WaitToWrite,
    condition_wait_by: WaitByPriority,
}
