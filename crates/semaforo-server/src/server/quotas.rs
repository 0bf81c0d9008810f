//! How much each token may have, and has.
//!
//! Counted is what was made with a token, by the token's name, for as long as it is there: sessions
//! that it opened, objects that it created, requests of its that wait for their answer on a
//! connection, and the bytes of messages that it put into queues. A share that is dropped is
//! counted no more, so there is one place where counts go down. Which token made what is not
//! journaled: what was there before a restart counts for no token.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::access::{Token, Tokens};
use crate::kernel::{Kind, SessionId};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// Objects that were created.
    Objects,
    /// Named sessions.
    Sessions,
    /// Requests that wait.
    Waits,
    /// Bytes of messages.
    Bytes,
}

impl Counted {
    pub(super) const ALL: [Self; 4] = [Self::Objects, Self::Sessions, Self::Waits, Self::Bytes];

    /// What is called so.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counted| counted.name() == name)
    }

    /// What it is called in a token file, and in statistics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Sessions => "sessions",
            Self::Waits => "waits",
            Self::Bytes => "bytes",
        }
    }
}

/// How much a token may have; none: as much as the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quotas([Option<u64>; Counted::ALL.len()]);

impl Quotas {
    pub(super) fn set(&mut self, counted: Counted, most: u64) {
        self.0[counted as usize] = Some(most);
    }

    fn get(&self, counted: Counted) -> Option<u64> {
        self.0[counted as usize]
    }
}

/// What one token has.
#[derive(Debug, Default)]
struct Account([AtomicU64; Counted::ALL.len()]);

/// What counts for a token until this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    account: Arc<Account>,
    counted: Counted,
    much: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.0[self.counted as usize].fetch_sub(self.much, Ordering::Relaxed);
    }
}

/// What all tokens have.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    accounts: HashMap<Box<str>, Arc<Account>>,
    sessions: HashMap<SessionId, Share>,
    objects: HashMap<(Kind, Box<str>), Share>,
}

impl Accounts {
    fn count(&self, token: &Token, counted: Counted) -> u64 {
        let account = self.accounts.get(token.name());
        account.map_or(0, |account| account.0[counted as usize].load(Ordering::Relaxed))
    }

    /// Why a token may not have so much more, if it may not.
    pub(super) fn refusal(&self, token: &Token, counted: Counted, more: u64) -> Option<String> {
        let most = token.quotas().get(counted)?;
        let (name, what, there) = (token.name(), counted.name(), self.count(token, counted));
        (there.saturating_add(more) > most)
            .then(|| format!("{name} has {there} {what}, and may have no more than {most}"))
    }

    /// So much more for a token.
    pub(super) fn share(&mut self, token: &Token, counted: Counted, much: u64) -> Share {
        let account = match self.accounts.get(token.name()) {
            Some(account) => Arc::clone(account),
            None => {
                let account = Arc::<Account>::default();
                self.accounts.insert(token.name().into(), Arc::clone(&account));
                account
            }
        };
        account.0[counted as usize].fetch_add(much, Ordering::Relaxed);
        Share { account, counted, much }
    }

    pub(super) fn opened(&mut self, token: &Token, session: SessionId) {
        let share = self.share(token, Counted::Sessions, 1);
        self.sessions.insert(session, share);
    }

    pub(super) fn ended(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    pub(super) fn created(&mut self, token: &Token, kind: Kind, name: &str) {
        let share = self.share(token, Counted::Objects, 1);
        self.objects.insert((kind, name.into()), share);
    }

    pub(super) fn deleted(&mut self, kind: Kind, name: &str) {
        self.objects.remove(&(kind, name.into()));
    }

    /// Forgets tokens that have nothing. To be called when others are known.
    pub(super) fn tidy(&mut self) {
        self.accounts.retain(|_, account| Arc::strong_count(account) > 1);
    }

    /// What the tokens have that have a quota, for each of these: name, what, how much there is and
    /// may be.
    pub(super) fn statistics(&self, tokens: &Tokens) -> Vec<(String, Counted, u64, u64)> {
        let all = tokens.iter().flat_map(|token| Counted::ALL.map(|counted| (token, counted)));
        all.filter_map(|(token, counted)| {
            let most = token.quotas().get(counted)?;
            Some((token.name().to_owned(), counted, self.count(token, counted), most))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_counts_and_what_is_gone_does_not() {
        let tokens = "0123456789abcdef name=ci sessions=2 objects=1\nfedcba9876543210 name=ci waits=1\n\
             ffffffffffffffff name=ci bytes=100";
        let tokens = Tokens::parse(tokens).unwrap();
        let [first, second, third] = ["0123456789abcdef", "fedcba9876543210", "ffffffffffffffff"]
            .map(|token| tokens.find(token).unwrap());
        let mut accounts = Accounts::default();
        for number in 0..2 {
            assert_eq!(accounts.refusal(first, Counted::Sessions, 1), None);
            accounts.opened(first, SessionId(number));
        }
        let refusal = accounts.refusal(first, Counted::Sessions, 1).unwrap();
        assert!(refusal.contains("ci") && refusal.contains("sessions"), "{refusal}");
        assert_eq!(
            accounts.refusal(second, Counted::Sessions, 1),
            None,
            "it has no quota of these"
        );
        accounts.ended(SessionId(0));
        accounts.ended(SessionId(0));
        accounts.ended(SessionId(7));
        assert_eq!(accounts.count(first, Counted::Sessions), 1);

        accounts.created(first, Kind::Queue, "q");
        assert!(accounts.refusal(first, Counted::Objects, 1).is_some());
        accounts.deleted(Kind::Latch, "q");
        assert!(accounts.refusal(first, Counted::Objects, 1).is_some());
        accounts.deleted(Kind::Queue, "q");
        assert_eq!(accounts.refusal(first, Counted::Objects, 1), None);

        // Two tokens of one name have one account.
        let share = accounts.share(first, Counted::Waits, 1);
        assert!(accounts.refusal(second, Counted::Waits, 1).is_some());
        accounts.tidy();
        let shown =
            [("ci".to_owned(), Counted::Objects, 0, 1), ("ci".to_owned(), Counted::Sessions, 1, 2)];
        assert_eq!(accounts.statistics(&tokens)[..2], shown);
        drop(share);
        assert_eq!(accounts.refusal(second, Counted::Waits, 1), None);
        accounts.ended(SessionId(1));
        let bytes = accounts.share(first, Counted::Bytes, 70);
        let refused = |more| accounts.refusal(third, Counted::Bytes, more).is_some();
        assert!(!refused(30) && refused(31) && refused(u64::MAX));
        drop(bytes);
        accounts.tidy();
        assert!(accounts.accounts.is_empty());
    }
}
