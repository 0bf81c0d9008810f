//! The journal: what is remembered, and what a crash, a full disk or a flipped bit can do to it.

mod files;
mod ledger;
