//! A few large jobs that are known beforehand, unlike the chunks of a source.

use std::sync::{Mutex, PoisonError};

use super::context::{Context, Halted};
use super::extra_workers::{ExtraWorkers, Role, Turn, Work};

/// Does all jobs, in parallel from the beginning if `large`, and yields what comes of them, in
/// order.
pub(crate) fn jobs<J: Send, R: Send>(
    context: &Context,
    jobs: Vec<J>,
    large: bool,
    work: impl Fn(J) -> R + Sync,
) -> Result<Vec<R>, Halted> {
    let done = run(context, jobs, large, true, work);
    context.check()?;
    Ok(done)
}

/// [`jobs`] that nothing ends early. They must not panic.
pub(crate) fn jobs_to_the_end<J: Send, R: Send>(
    context: &Context,
    jobs: Vec<J>,
    large: bool,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    run(context, jobs, large, false, work)
}

fn run<J: Send, R: Send>(
    context: &Context,
    jobs: Vec<J>,
    large: bool,
    stoppable: bool,
    work: impl Fn(J) -> R + Sync,
) -> Vec<R> {
    let left = Mutex::new(jobs.into_iter().enumerate());
    let list = JobList { context, left, done: Mutex::new(Vec::new()), large, stoppable, work };
    context.extra_workers.run(&list);
    let mut done = list.done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

struct JobList<'a, I, R, W> {
    context: &'a Context,
    left: Mutex<I>,
    done: Mutex<Vec<(usize, R)>>,
    large: bool,
    stoppable: bool,
    work: W,
}

impl<J, I, R, W> Work for JobList<'_, I, R, W>
where
    I: ExactSizeIterator<Item = (usize, J)> + Send,
    R: Send,
    W: Fn(J) -> R + Sync,
{
    fn turn(&self, role: Role, extra_workers: &ExtraWorkers) -> Turn {
        if self.large && role == Role::CallerAlone {
            return Turn::Yield;
        }
        while !(self.stoppable && self.context.is_halted()) {
            let next = self.left.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((number, job)) = next else { break };
            let Ok(result) = self.context.guard(|| (self.work)(job)) else { break };
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
            if role == Role::Extra && extra_workers.should_leave() {
                return Turn::Yield;
            }
        }
        Turn::Done
    }

    /// The calling thread does one of the jobs.
    fn useful_workers(&self) -> usize {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).len().saturating_sub(1)
    }
}
