//! Cases C, and R-20: conditions, for every kind of guard that can be waited with.
//!
//! `locks.rs` has the locks; `signals.rs`, `leaving.rs`, `limits.rs`, `dropped.rs` and `behind.rs` have
//! cases that are run for each of them. Conditions of a lock that a user made are in `own_lock.rs`.
//! What only a re-entrant lock can get wrong is in `reentrant.rs`, and in `absent.rs` what becomes of
//! the other guards of an owner that waits; programs that are odd but legal are in `odd.rs`, and how
//! many wake-ups a signal costs in `wake_ups.rs`.

#[path = "../support/mod.rs"]
mod support;

mod absent;
mod behind;
mod dropped;
mod leaving;
mod limits;
mod locks;
mod odd;
mod own_lock;
mod reentrant;
mod signals;
mod wait_while;
mod wake_ups;

macro_rules! every_case_for {
    ($($module:ident: $lock:ident),* $(,)?) => {$(
        mod $module {
            use crate::locks::$lock as Lock;

            run! {
                signals: waiting_gives_the_lock_away_and_returns_with_it,
                signals: a_signal_moves_the_first_into_the_locks_line,
                signals: nobody_else_is_woken_by_a_signal,
                signals: a_signal_that_nobody_waits_for_is_not_stored,
                signals: more_signals_than_waiters_are_not_stored,
                signals: a_broadcast_signals_everyone,
                signals: a_hundred_are_all_woken_by_a_broadcast,
                signals: the_smallest_priority_is_signalled_first,
                signals: the_signalled_stand_behind_those_who_wait_for_the_lock,
                signals: the_guard_of_another_lock_panics_and_changes_nothing,
                signals: misuse_does_not_disturb_those_who_wait,
                signals: a_condition_belongs_to_its_first_lock_for_good,
                signals: a_fresh_condition_takes_the_lock_of_its_first_wait,
                signals: several_conditions_of_one_lock,
                leaving: the_signalled_one_has_the_lock_at_once,
                leaving: without_anybody_who_waits_it_only_leaves,
                leaving: the_guard_of_another_lock_is_refused,
                leaving: a_signalled_task_that_does_not_come_keeps_its_signal,
                leaving: a_signalled_task_that_is_dropped_passes_the_signal_on,
                leaving: a_panicking_waker_leaves_nothing_behind,
                limits: a_wait_is_not_ended_before_its_time,
                limits: a_zero_timeout_never_gives_the_lock_away,
                limits: a_fired_token_never_gives_the_lock_away,
                limits: cancelled_comes_before_timed_out,
                limits: cancelling_ends_the_wait_with_the_lock_held,
                limits: whoever_is_cancelled_waits_for_the_lock,
                limits: a_signal_wins_over_a_token,
                limits: a_signal_wins_over_the_time,
                limits: a_limit_that_came_first_wins_over_a_signal,
                limits: everyone_is_cancelled_by_one_token,
                limits: the_longest_limit_is_no_limit,
                dropped: a_wait_that_was_never_polled_never_gave_the_lock_away,
                dropped: dropped_in_the_condition,
                dropped: dropped_in_the_locks_line,
                dropped: dropped_when_granted,
                dropped: dropped_after_a_limit_signals_nobody,
                dropped: dropped_after_a_broadcast_signals_nobody,
                dropped: a_passed_on_signal_is_passed_on_again,
                dropped: every_stage_with_everyone_behind,
                dropped: an_unpolled_task_holds_up_nobody,
                dropped: a_signalled_task_that_was_passed_over_keeps_its_signal,
                dropped: a_signalled_task_that_was_passed_over_can_be_dropped,
                dropped: the_waker_is_given_back,
                behind: a_signal_behind_an_unpolled_task,
                behind: a_broadcast_behind_an_unpolled_task,
                behind: an_urgent_signal_behind_an_unpolled_task,
                behind: a_signal_passed_on_behind_an_unpolled_task,
            }
        }
    )*};
}

macro_rules! run {
    ($($room:ident: $case:ident),* $(,)?) => {$(
        #[test]
        fn $case() {
            crate::$room::$case::<Lock>();
        }
    )*};
}

every_case_for! {
    mutex: Strict,
    barging_mutex: Barging,
    owned_mutex_guard: OwnedGuard,
    rwlock_write: WriteSide,
    barging_rwlock_write: BargingWriteSide,
    reentrant_key: Keyed,
    reentrant_rwlock_write: KeyedWriteSide,
}
