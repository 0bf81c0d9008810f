//! What is in a journal's directory.

use std::collections::BTreeMap;

use super::{
    Disk, DiskFile, OpenError,
    heading::{BadHeading, HEADING, Heading, Kind},
    names::{self, Name},
};

/// The journal's files in a directory, with their headings.
pub(super) struct Files<File> {
    pub(super) segments: BTreeMap<u64, Opened<File>>,
    /// The newest one.
    pub(super) snapshot: Option<(u64, Opened<File>)>,
    /// Those that are of no use any more.
    pub(super) obsolete: Vec<String>,
    pub(super) identity: Option<u64>,
}

pub(super) struct Opened<File> {
    pub(super) file: File,
    pub(super) heading: Heading,
}

impl<File: DiskFile> Files<File> {
    pub(super) fn find<D: Disk<File = File>>(disk: &D) -> Result<Self, OpenError> {
        let mut names = disk.list().map_err(|error| OpenError::Io {
            doing: "list",
            file: disk.path(""),
            error,
        })?;
        names.sort();
        let newest = names.iter().rev().find_map(|name| match names::parse(name) {
            Some(Name::Snapshot(number)) => Some(number),
            _ => None,
        });
        let mut files = Self {
            segments: BTreeMap::new(),
            snapshot: None,
            obsolete: Vec::new(),
            identity: None,
        };
        let mut first = None;
        for name in names {
            let (kind, number) = match names::parse(&name) {
                None => continue,
                Some(Name::Unfinished) => {
                    files.obsolete.push(name);
                    continue;
                }
                Some(Name::Segment(number)) => (Kind::Segment, number),
                Some(Name::Snapshot(number)) => (Kind::Snapshot, number),
            };
            let replaced = match kind {
                Kind::Segment => Some(number) <= newest,
                Kind::Snapshot => Some(number) < newest,
            };
            let opened = match Opened::open(disk, &name, kind, number) {
                // Whatever is wrong with it, it is not needed; but a newer version's file is never
                // touched.
                Ok(_) | Err(OpenError::Corrupt { .. }) if replaced => {
                    files.obsolete.push(name);
                    continue;
                }
                opened => opened?,
            };
            let (identity, other) = first.get_or_insert((opened.heading.identity, name.clone()));
            if opened.heading.identity != *identity {
                return Err(OpenError::Mixed { file: disk.path(&name), other: disk.path(other) });
            }
            files.identity = Some(*identity);
            match kind {
                Kind::Segment => drop(files.segments.insert(number, opened)),
                Kind::Snapshot => files.snapshot = Some((number, opened)),
            }
        }
        Ok(files)
    }
}

impl<File: DiskFile> Opened<File> {
    fn open<D: Disk<File = File>>(
        disk: &D,
        name: &str,
        kind: Kind,
        number: u64,
    ) -> Result<Self, OpenError> {
        let failed = |doing| move |error| OpenError::Io { doing, file: disk.path(name), error };
        let corrupt = |offset, found: String| OpenError::Corrupt {
            file: disk.path(name),
            offset,
            found: format!("{found}; a file is complete before it gets its name"),
        };
        let file = disk.open(name).map_err(failed("open"))?;
        let size = file.size().map_err(failed("read"))?;
        let mut bytes = [0; HEADING];
        let present = bytes.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        file.read_at(&mut bytes[..present], 0).map_err(failed("read"))?;
        let heading = match Heading::read(&bytes[..present]) {
            Ok(heading) => heading,
            Err(BadHeading::Newer(version)) => {
                return Err(OpenError::Newer { file: disk.path(name), version });
            }
            Err(BadHeading::Damaged(found)) => return Err(corrupt(0, found.to_owned())),
        };
        if heading.kind != kind || heading.number != number {
            let Heading { kind, number, .. } = heading;
            return Err(corrupt(0, format!("its heading says that it is {kind:?} {number}")));
        }
        if kind == Kind::Segment && heading.size != size {
            let found = format!("the file should have {} bytes, but has {size}", heading.size);
            return Err(corrupt(size, found));
        }
        Ok(Self { file, heading })
    }
}
