//! Files that decide who gets in, opened as `ssh` opens its own.
//!
//! Another user who can write such a file decides instead of its owner; one who can read a secret
//! has it. So a file has to belong to the user of this process or to root, must not be a link, and
//! must not be open to other users. One that belongs to root may be readable by its group: that is
//! how a service gets a key that it cannot change.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

/// No token file, key or certificate is larger.
const LARGEST: u64 = 16 << 20;

const GROUP_READS: u32 = 0o040;
const OTHERS_READ: u32 = 0o044;
const OTHERS_LOOK: u32 = 0o055;
const OTHERS_WRITE: u32 = 0o022;

fn refused(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Reads a file that no other user may read or write.
///
/// # Errors
/// If it cannot be read, or may be read or written by others.
pub fn read_secret(path: &Path) -> io::Result<Vec<u8>> {
    read(path, true)
}

/// Reads a file that no other user may write.
///
/// # Errors
/// If it cannot be read, or may be written by others.
pub fn read_trusted(path: &Path) -> io::Result<Vec<u8>> {
    read(path, false)
}

/// Reads a file of text that no other user may read or write.
///
/// # Errors
/// As [`read_secret`]; or if it is not text.
pub fn read_secret_text(path: &Path) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not text");
    String::from_utf8(read_secret(path)?).map_err(not_text)
}

fn read(path: &Path, is_secret: bool) -> io::Result<Vec<u8>> {
    // A pipe is not waited for, and what is looked at is what is read.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::LOOP) => {
            return Err(refused("it is a link; say the file that it leads to".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let wanted = if is_secret { "600" } else { "644" };
    check_writers(path, &metadata, wanted)?;
    let of_root = metadata.uid() == 0;
    let readers = metadata.mode() & OTHERS_READ & if of_root { !GROUP_READS } else { !0 };
    if is_secret && readers != 0 {
        return Err(exposed(path, &metadata, "read", wanted));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a directory has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// Sessions, for example.
    Secrets,
    /// Nothing that other users must not read.
    NoSecrets,
}

/// Whether a directory is in good hands: other users must not write it, nor look into it if it
/// [holds](Holds) secrets.
///
/// A link is refused, as it is for files: an owner who moves the directory elsewhere says so.
///
/// # Errors
/// If it is not in good hands, or is not a directory.
pub fn check_directory(path: &Path, holds: Holds) -> io::Result<()> {
    // With a slash at its end a link would be what it leads to.
    let plain: PathBuf = path.components().collect();
    let metadata = fs::symlink_metadata(plain)?;
    if metadata.is_symlink() {
        return Err(refused("it is a link; say the directory that it leads to".to_owned()));
    }
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory"));
    }
    check_writers(path, &metadata, "700")?;
    if holds == Holds::Secrets && metadata.mode() & OTHERS_LOOK != 0 {
        return Err(exposed(path, &metadata, "read", "700"));
    }
    Ok(())
}

fn check_writers(path: &Path, metadata: &Metadata, wanted: &str) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        let owner = metadata.uid();
        return Err(refused(format!(
            "it belongs to user {owner}, neither to user {own} nor to root"
        )));
    }
    if metadata.mode() & OTHERS_WRITE != 0 {
        return Err(exposed(path, metadata, "written", wanted));
    }
    Ok(())
}

fn exposed(path: &Path, metadata: &Metadata, what: &str, wanted: &str) -> io::Error {
    let mode = metadata.mode() & 0o777;
    let path = path.display();
    refused(format!("it can be {what} by others (mode {mode:o}): chmod {wanted} {path}"))
}
