//! The names of the journal's files.

/// A file of the journal, as its name tells. Other files are not ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    Segment(u64),
    Snapshot(u64),
    /// Something that was being made.
    Unfinished,
}

const SEGMENT: &str = "segment-";
const SNAPSHOT: &str = "snapshot-";
const UNFINISHED: &str = ".new";

pub(super) fn segment(number: u64) -> String {
    format!("{SEGMENT}{number:020}")
}

pub(super) fn snapshot(number: u64) -> String {
    format!("{SNAPSHOT}{number:020}")
}

/// What a file is called until it is complete.
pub(super) fn unfinished(name: &str) -> String {
    format!("{name}{UNFINISHED}")
}

pub(super) fn parse(name: &str) -> Option<Name> {
    let (complete, is_unfinished) = match name.strip_suffix(UNFINISHED) {
        Some(complete) => (complete, true),
        None => (name, false),
    };
    let (number, found): (_, fn(u64) -> Name) = match complete.strip_prefix(SEGMENT) {
        Some(number) => (number, Name::Segment),
        None => (complete.strip_prefix(SNAPSHOT)?, Name::Snapshot),
    };
    // Exactly as written by us: `segment-7` or `segment-0...7-old` is another program's.
    if number.len() != 20 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = number.parse().ok()?;
    Some(if is_unfinished { Name::Unfinished } else { found(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_and_no_others() {
        assert_eq!(parse(&segment(7)), Some(Name::Segment(7)));
        assert_eq!(parse(&snapshot(u64::MAX)), Some(Name::Snapshot(u64::MAX)));
        assert_eq!(parse(&unfinished(&segment(7))), Some(Name::Unfinished));
        assert_eq!(parse(&unfinished(&snapshot(7))), Some(Name::Unfinished));
        let beyond = format!("segment-{}", "9".repeat(20));
        for other in
            ["lock", "segment-7", "segment-00000000000000000007.bak", "notes.new", "", &beyond]
        {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
