//! Anything that the protocol has.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use semaforo_protocol::table::Method;

use crate::call::Call;
use crate::handle::Handle;
use crate::request_spec::{Repeat, RequestSpec, Undo};
use crate::{Error, Reply};

/// A request in the protocol's own words. [`send`](Self::send) makes it a request to be awaited or
/// waited on.
///
/// It belongs to the connection, or, with [`in_session`](Self::in_session), to the client's
/// session, or to the one in its header `session`. Holds that it is granted are for the caller to
/// release, with another of these; one that was acquired and not claimed is released. Only one that
/// was granted in the session of a header when the connection was lost stays until that session
/// ends: the client does not learn its fence, and no `seq` is known to be free there.
#[derive(Debug)]
#[must_use = "a request does nothing until it is sent, and awaited or waited on"]
pub struct Raw {
    handle: Arc<Handle>,
    spec: RequestSpec,
    timeout: Option<Duration>,
}

impl Raw {
    pub(crate) fn new(handle: &Arc<Handle>, method: String, path: String) -> Self {
        let mut spec = RequestSpec::raw(method, path, Repeat::Never);
        if spec.is(Method::Acquire) {
            spec.undo = Undo::Release;
        }
        Self { handle: Arc::clone(handle), spec, timeout: None }
    }

    /// Adds a header. A `token` is sent as that [of the client](crate::Connect::token) is:
    /// encrypted, or to this machine, unless it is said otherwise. `id`, `seq`, `acked` and,
    /// [in the client's session](Self::in_session), `session` are the client's own affair.
    pub fn header(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.spec = self.spec.header(name.into(), value);
        self
    }

    /// Adds a payload, which has to be JSON.
    pub fn payload(mut self, json: impl Into<String>) -> Self {
        self.spec = self.spec.payload(json);
        self
    }

    /// How long it may wait, for methods that do; the server is told.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.spec = self.spec.waits();
        self.timeout = Some(limit);
        self
    }

    /// In the client's session, and so that it can be repeated safely when the connection is lost.
    /// Otherwise it fails then.
    pub fn in_session(mut self) -> Self {
        self.spec.repeat = Repeat::Numbered;
        self
    }

    /// The request. An answer other than 200 is its error.
    pub fn send(self) -> Call<Reply> {
        let call = Call::new(&self.handle, self.spec, |_, granted| Ok(granted.reply));
        match self.timeout {
            Some(limit) => call.timeout(limit),
            None => call,
        }
    }

    /// [`send`](Self::send), and blocks this thread until there is an answer.
    ///
    /// # Errors
    /// If the answer is not 200, or there is none.
    pub fn wait(self) -> Result<Reply, Error> {
        self.send().wait()
    }
}

impl IntoFuture for Raw {
    type Output = Result<Reply, Error>;
    type IntoFuture = Call<Reply>;

    fn into_future(self) -> Call<Reply> {
        self.send()
    }
}
