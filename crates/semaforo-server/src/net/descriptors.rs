//! The limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::limits::OTHER_DESCRIPTORS;

/// The limit of open files.
pub fn open_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit of open files so that so many connections fit, as far as the system allows.
/// Answers how many connections fit now.
pub fn raise_open_files(connections: usize) -> usize {
    let wanted = (connections as u64).saturating_add(OTHER_DESCRIPTORS);
    let limit = getrlimit(Resource::Nofile);
    let mut current = open_files();
    if current < wanted {
        let raised = limit.maximum.map_or(wanted, |maximum| maximum.min(wanted));
        let new = Rlimit { current: Some(raised), maximum: limit.maximum };
        if raised > current && setrlimit(Resource::Nofile, new).is_ok() {
            current = raised;
        }
    }
    usize::try_from(current.saturating_sub(OTHER_DESCRIPTORS))
        .unwrap_or(usize::MAX)
        .min(connections)
}
