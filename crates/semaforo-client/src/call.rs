//! The request: what every operation of the client returns.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use semaforo::{CancelToken, WaitError};

use super::Error;
use super::completion::{Completer, Completion, Granted, Outcome};
use super::handle::Handle;
use super::request_spec::RequestSpec;

/// A request to the server: the same shape as the library's own.
///
/// It does nothing until it is awaited, or waited on with [`wait`](Self::wait). It can be bounded
/// in time and cancelled. Dropping it withdraws it; a hold or a message that it was granted but did
/// not claim is given back. Other things may have been done at that moment, but are not done later.
///
/// When the connection is lost it is repeated on the next one, without being done twice. It ends
/// with an error if that takes longer than its time limit, the session or the client's patience.
///
/// # Panics
/// When polled again after it has completed.
#[must_use = "a request does nothing until it is awaited or waited on"]
pub struct Call<T> {
    handle: Arc<Handle>,
    stage: Stage,
    limit: Option<Duration>,
    deadline: Option<Instant>,
    tokens: Vec<CancelToken>,
    make: Option<Make<T>>,
}

type Make<T> = Box<dyn FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send>;

enum Stage {
    Unsent(RequestSpec),
    Asked { number: Option<u64>, completion: Arc<Completion>, waiting: Option<Waiting> },
    Over,
}

/// Until there is an outcome, or the wait was ended here.
type Waiting = Pin<Box<dyn Future<Output = Result<(), WaitError>> + Send>>;

impl<T> Call<T> {
    pub(super) fn new(
        handle: &Arc<Handle>,
        spec: RequestSpec,
        make: impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self::with_any_status(handle, spec, done_only(make))
    }

    /// A request for which another status than 200 is not necessarily an error.
    pub(super) fn with_any_status(
        handle: &Arc<Handle>,
        spec: RequestSpec,
        make: impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self::at(Stage::Unsent(spec), handle, make)
    }

    /// A request that goes on its way now, and stays on it if this is dropped.
    pub(super) fn begun(
        handle: &Arc<Handle>,
        completion: Arc<Completion>,
        make: impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self::at(Stage::Asked { number: None, completion, waiting: None }, handle, done_only(make))
    }

    fn at(
        stage: Stage,
        handle: &Arc<Handle>,
        make: impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static,
    ) -> Self {
        Self {
            handle: Arc::clone(handle),
            stage,
            limit: None,
            deadline: None,
            tokens: Vec::new(),
            make: Some(Box::new(make)),
        }
    }

    /// Ends the wait after this time, counted from the first poll. Zero means now or not at all.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.limit = Some(self.limit.map_or(limit, |before| before.min(limit)));
        self
    }

    /// Ends the wait at this instant.
    pub fn deadline(mut self, limit: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(limit, |before| before.min(limit)));
        self
    }

    /// Ends the wait when this token is cancelled; with several, the first of them.
    pub fn cancel_on(mut self, token: &CancelToken) -> Self {
        self.tokens.push(token.clone());
        self
    }

    /// Blocks this thread until there is an answer, or the request is ended by its bounds.
    ///
    /// # Errors
    /// As the operation says, or with what ended it.
    pub fn wait(mut self) -> Result<T, Error> {
        let completion = self.ask();
        let done = completion.done().happened();
        let ended = match (self.token(), self.own_deadline()) {
            (None, None) => {
                done.wait();
                Ok(())
            }
            (Some(token), None) => done.cancel_on(&token).wait(),
            (None, Some(deadline)) => done.deadline(deadline).wait(),
            (Some(token), Some(deadline)) => done.cancel_on(&token).deadline(deadline).wait(),
        };
        self.finish(ended)
    }

    /// Sends the request, if that has not happened.
    fn ask(&mut self) -> Arc<Completion> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Unsent(spec) => {
                let completion = Arc::new(Completion::default());
                let deadline = self.earliest();
                let number =
                    self.handle.ask(spec, Completer::new(Arc::clone(&completion)), deadline);
                let asked = Arc::clone(&completion);
                self.stage = Stage::Asked { number, completion: asked, waiting: None };
                completion
            }
            Stage::Asked { number, completion, waiting } => {
                let asked = Arc::clone(&completion);
                self.stage = Stage::Asked { number, completion: asked, waiting };
                completion
            }
            Stage::Over => panic!("a request was polled after it had completed"),
        }
    }

    /// When its time is up, if it is asked, or waited for, from now on.
    fn earliest(&self) -> Option<Instant> {
        let limit = self.limit.and_then(|limit| Instant::now().checked_add(limit));
        limit.into_iter().chain(self.deadline).min()
    }

    /// The client's thread watches the time of what it was asked here; only what was on its way
    /// before has to be watched here.
    fn own_deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Asked { number: None, .. } => self.earliest(),
            _ => None,
        }
    }

    fn token(&self) -> Option<CancelToken> {
        match &*self.tokens {
            [] => None,
            [token] => Some(token.clone()),
            tokens => Some(CancelToken::any(tokens)),
        }
    }

    /// What came of it, once there is an outcome or the wait was ended here. A grant wins.
    fn finish(&mut self, ended: Result<(), WaitError>) -> Result<T, Error> {
        let Some(outcome) = self.leave() else {
            return Err(match ended {
                Err(WaitError::Cancelled) => Error::Cancelled,
                Err(WaitError::TimedOut) => Error::TimedOut,
                Ok(()) => Error::Disconnected,
            });
        };
        let granted = outcome?;
        match self.make.take() {
            Some(make) => make(&self.handle, granted),
            None => Err(Error::Disconnected),
        }
    }

    /// Claims the outcome, or withdraws the request.
    fn leave(&mut self) -> Option<Outcome> {
        let Stage::Asked { number, completion, .. } =
            std::mem::replace(&mut self.stage, Stage::Over)
        else {
            return None;
        };
        let outcome = completion.claim_or_withdraw();
        if let (None, Some(number)) = (&outcome, number) {
            self.handle.withdraw(number);
        }
        outcome
    }
}

fn done_only<T>(
    make: impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static,
) -> impl FnOnce(&Arc<Handle>, Granted) -> Result<T, Error> + Send + 'static {
    |handle, granted| match granted.reply.status {
        200 => make(handle, granted),
        _ => Err(Error::of(&granted.reply)),
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let completion = this.ask();
        let (token, deadline) = (this.token(), this.own_deadline());
        let Stage::Asked { waiting, .. } = &mut this.stage else {
            return Poll::Pending;
        };
        let waiting = waiting.get_or_insert_with(|| {
            Box::pin(async move {
                let done = completion.done().happened();
                match (token, deadline) {
                    (None, None) => {
                        done.await;
                        Ok(())
                    }
                    (Some(token), None) => done.cancel_on(&token).await,
                    (None, Some(deadline)) => done.deadline(deadline).await,
                    (Some(token), Some(deadline)) => {
                        done.cancel_on(&token).deadline(deadline).await
                    }
                }
            })
        });
        match waiting.as_mut().poll(context) {
            Poll::Ready(ended) => Poll::Ready(this.finish(ended)),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let Some(Ok(granted)) = self.leave() {
            self.handle.give_back(&granted);
        }
    }
}

impl<T> fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            Stage::Unsent(_) => "planned",
            Stage::Asked { .. } => "asked",
            Stage::Over => "over",
        };
        f.debug_struct("Call").field("stage", &stage).finish_non_exhaustive()
    }
}
