//! Who may do what: tokens, and what each of them allows.
//!
//! A token file has a line for each token: the token, then what it may do, and what it is called in
//! the log.
//!
//! ```text
//! # token                            prefix (default: all names)  rights (default: use,create)
//! 7c1f0e0d4c1d4bd0a6a1cbb7cf8a1f1e   prefix=ci/                   rights=use  name=ci
//! 0f5d7d0e4b7a4c6c8d1e2f3a4b5c6d7e   rights=use,create,admin
//! 9d2b6e7c1a5f4e3d8c7b6a5f4e3d2c1b   name=guest  objects=100 sessions=10 waits=50
//! ```

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use semaforo_protocol::table::Right;
use subtle::ConstantTimeEq;

use super::quotas::{Counted, Quotas};
use crate::kernel::{Operation, Selection};

/// The shortest token: shorter ones can be guessed.
pub const MIN_TOKEN: usize = 16;

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    prefix: String,
    uses: bool,
    creates: bool,
    administers: bool,
    observes: bool,
}

impl Rights {
    /// Everything: what every client of a server without tokens may.
    #[must_use]
    pub fn all() -> Self {
        let prefix = String::new();
        Self { prefix, uses: true, creates: true, administers: true, observes: true }
    }

    /// Why it is not allowed, if it is not.
    pub(super) fn refusal(&self, right: Right, operation: &Operation<'_>) -> Option<String> {
        let has = match right {
            Right::Use => self.uses,
            Right::Create => self.creates,
            Right::Administer => self.administers,
            Right::Observe => self.observes,
        };
        if !has {
            return Some(format!("this token lacks the right {:?}", right.name()));
        }
        match operation {
            Operation::Object { name: begins, .. }
            | Operation::List(Selection { prefix: begins, .. })
                if !begins.starts_with(&self.prefix) =>
            {
                Some(format!("this token is for names that begin with {:?}", self.prefix))
            }
            _ => None,
        }
    }
}

/// A token, and what it allows.
pub struct Token {
    secret: Vec<u8>,
    name: String,
    rights: Rights,
    quotas: Quotas,
}

impl Token {
    /// How much it may have.
    pub(super) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// What it allows.
    #[must_use]
    pub fn rights(&self) -> &Rights {
        &self.rights
    }

    /// What it is called in the log: its name, or what [`fingerprint`] makes of it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("name", &self.name)
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

/// What a token without a name is called in the log: a few digits of its hash, by which it can be
/// found in a list of tokens, and from which it cannot be guessed.
#[must_use]
pub fn fingerprint(token: &str) -> String {
    // TLS needs this hash anyway.
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite.tls13().map(|suite| suite.common.hash_provider.hash(token.as_bytes()));
    let digits = hash.iter().flat_map(|hash| hash.as_ref()).take(4);
    digits.fold("token #".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// All tokens that a server knows.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    tokens: Vec<Arc<Token>>,
}

/// A line of a token file that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadTokens {
    line: usize,
    reason: String,
}

impl fmt::Display for BadTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl Error for BadTokens {}

impl Tokens {
    /// Reads a token file.
    ///
    /// # Errors
    /// If a line makes no sense, or there is no token at all.
    pub fn parse(text: &str) -> Result<Self, BadTokens> {
        let mut tokens = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let bad = |reason: String| BadTokens { line: number + 1, reason };
            let mut words = line.split_whitespace();
            let Some(token) = words.next().filter(|word| !word.starts_with('#')) else { continue };
            if token.len() < MIN_TOKEN {
                return Err(bad(format!("a token has fewer than {MIN_TOKEN} characters")));
            }
            let mut name = fingerprint(token);
            let mut quotas = Quotas::default();
            let mut rights = Rights { administers: false, observes: false, ..Rights::all() };
            for word in words {
                match word.split_once('=') {
                    Some(("prefix", prefix)) => rights.prefix = prefix.into(),
                    Some(("name", "")) => return Err(bad("a name is empty".to_owned())),
                    Some(("name", called)) => name = called.into(),
                    Some(("rights", list)) => {
                        (rights.uses, rights.creates) = (false, false);
                        for right in list.split(',') {
                            match right {
                                "use" => rights.uses = true,
                                "create" => rights.creates = true,
                                "admin" => rights.administers = true,
                                "observe" => rights.observes = true,
                                _ => {
                                    return Err(bad(format!(
                                        "right {right:?}; there are use, create, admin and observe"
                                    )));
                                }
                            }
                        }
                    }
                    Some((what, most)) if Counted::of(what).is_some() => {
                        let number = format!("{what}={most}; a quota is a number");
                        let most = most.parse().map_err(|_| bad(number))?;
                        Counted::of(what).into_iter().for_each(|counted| quotas.set(counted, most));
                    }
                    _ => {
                        return Err(bad(format!(
                            "{word:?}; after the token come prefix=..., rights=..., name=..., \
                             objects=..., sessions=..., waits=... and bytes=..."
                        )));
                    }
                }
            }
            let secret = token.as_bytes().to_vec();
            tokens.push(Arc::new(Token { secret, name, rights, quotas }));
        }
        if tokens.is_empty() {
            return Err(BadTokens { line: 1, reason: "there is no token".into() });
        }
        Ok(Self { tokens })
    }

    /// What is known of this token. All tokens are compared, each in a time that does not depend on
    /// where they differ.
    #[must_use]
    pub fn find(&self, token: &str) -> Option<&Arc<Token>> {
        let mut found = None;
        for known in &self.tokens {
            if bool::from(known.secret.as_slice().ct_eq(token.as_bytes())) {
                found = Some(known);
            }
        }
        found
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().map(Arc::as_ref)
    }

    /// What is known here of a token that was known before.
    pub(super) fn again(&self, token: &Token) -> Option<&Arc<Token>> {
        self.tokens.iter().rfind(|known| bool::from(known.secret.ct_eq(&token.secret)))
    }

    /// What this token allows.
    #[must_use]
    pub fn rights(&self, token: &str) -> Option<&Rights> {
        self.find(token).map(|token| token.rights())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Kind, Verb};

    fn object(name: &str) -> Operation<'_> {
        Operation::Object { kind: Kind::Lock, name, verb: Verb::Show }
    }

    const FILE: &str = "\
# comment

0123456789abcdef prefix=ci/ rights=use
fedcba9876543210 rights=use,create,admin
00000000000000000
";

    #[test]
    fn a_token_allows_what_its_line_says() {
        let tokens = Tokens::parse(FILE).unwrap();
        let ci = tokens.rights("0123456789abcdef").unwrap();
        assert_eq!(ci.refusal(Right::Use, &object("ci/a")), None);
        assert!(ci.refusal(Right::Use, &object("other")).is_some());
        assert!(ci.refusal(Right::Create, &object("ci/a")).is_some());
        assert!(ci.refusal(Right::Administer, &Operation::Ping).is_some());
        let list =
            |prefix| Operation::List(Selection { kind: None, prefix, after: None, limit: 1 });
        assert_eq!(ci.refusal(Right::Use, &list("ci/")), None);
        assert!(ci.refusal(Right::Use, &list("ci")).is_some());
        let admin = tokens.rights("fedcba9876543210").unwrap();
        assert_eq!(admin.refusal(Right::Administer, &Operation::Ping), None);
        let usual = tokens.rights("00000000000000000").unwrap();
        assert_eq!(usual.refusal(Right::Create, &object("q")), None);
        assert!(usual.refusal(Right::Administer, &Operation::Ping).is_some());
        for unknown in ["", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF"] {
            assert_eq!(tokens.rights(unknown), None);
        }
    }

    #[test]
    fn a_token_is_called_by_its_name_or_its_hash() {
        let tokens = Tokens::parse("0123456789abcdef name=ci\nfedcba9876543210").unwrap();
        assert_eq!(tokens.find("0123456789abcdef").unwrap().name(), "ci");
        // As `printf fedcba9876543210 | sha256sum` has it.
        assert_eq!(tokens.find("fedcba9876543210").unwrap().name(), "token #3465f6e6");
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn a_line_that_makes_no_sense_is_refused_with_its_number() {
        for (text, line) in [
            ("", 1),
            ("# only a comment", 1),
            ("short", 1),
            ("# one\n0123456789abcdef right=use", 2),
            ("0123456789abcdef rights=everything", 1),
            ("0123456789abcdef name=", 1),
            ("0123456789abcdef waits=many", 1),
            ("0123456789abcdef objects=-1", 1),
            ("0123456789abcdef sessions=", 1),
        ] {
            assert_eq!(Tokens::parse(text).unwrap_err().line, line, "{text:?}");
        }
    }
}
