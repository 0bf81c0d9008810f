//! A session, to which holds belong.

use std::sync::Arc;
use std::time::Instant;

use semaforo::CancelToken;

use crate::Error;
use crate::completion::Granted;
use crate::lease::Lease;
use crate::moment::Moment;

/// A session of a client, to which its holds and its unacknowledged messages belong.
///
/// The client keeps it alive for as long as this exists, or a hold of it, or it is the one that the
/// client uses.
///
/// ```no_run
/// # use semaforo_client::{Client, Error};
/// # use std::time::{Duration, Instant};
/// # fn example(client: &Client) -> Result<(), Error> {
/// let guard = client.lock("press").acquire().wait()?;
/// let session = client.session().wait()?;
/// // A step that takes up to a second, and must not overlap with the next holder's.
/// if session.ends() > Instant::now() + Duration::from_secs(1) {
///     println!("printing under fence {}", guard.fence());
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    lease: Arc<Lease>,
}

impl Session {
    pub(crate) fn new(granted: Granted) -> Result<Self, Error> {
        let lease = granted.lease.filter(|lease| lease.id().is_some());
        let lease = lease.ok_or_else(|| Error::Nonsense("a session without a name".to_owned()))?;
        Ok(Self { lease })
    }

    /// What the server calls it: a secret, since a client that knows it can release what the
    /// session holds.
    #[must_use]
    pub fn id(&self) -> &str {
        self.lease.id().unwrap_or_default()
    }

    /// It lives until then for sure, and longer if the server answers meanwhile; none of its holds
    /// is given to another before. Counted from when the last request was sent by which the server
    /// has renewed it, so it is earlier than what the server thinks. In the past, once the session
    /// is lost.
    ///
    /// It is to be asked for anew before each step that depends on it: while the machine sleeps,
    /// the clock of [`Instant`] may stand still, and the session's time goes on.
    #[must_use]
    pub fn ends(&self) -> Instant {
        let now = Instant::now();
        let ends = self.lease.ends().map_or(now, Moment::instant);
        // It can be over before its time: it was closed, or the server has ended it.
        if self.lease.is_lost() { ends.min(now) } else { ends }
    }

    /// Whether it has ended, and all that it held is lost. The answer is good for now only.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Fires when it has ended.
    #[must_use]
    pub fn lost(&self) -> CancelToken {
        self.lease.lost()
    }
}
