//! A directory of the file system.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, io::Errno};

use super::{Disk, DiskFile, LockError};

const LOCK: &str = "lock";

/// Opens a file, and not what a link leads to: that may be anything that this user can write.
pub(crate) fn open_no_link(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let opened = options.clone().custom_flags(OFlags::NOFOLLOW.bits().cast_signed()).open(path);
    opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => is_a_link(path),
        _ => error,
    })
}

fn is_a_link(path: &Path) -> io::Error {
    let reason = format!("{} is a link: only files are opened here", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// A directory of the file system. Other users of the machine may not look into it.
#[derive(Debug)]
pub struct RealDisk {
    directory: PathBuf,
    /// Kept open for syncing.
    handle: File,
}

impl RealDisk {
    /// Opens a directory, or makes it durably if there is none.
    pub fn new(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        if !directory.is_dir() {
            DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
            for parent in directory.ancestors().skip(1) {
                let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
                // Not every ancestor may be opened by us; those that we made may.
                let Ok(parent) = File::open(parent) else { break };
                parent.sync_all()?;
            }
        }
        let handle = File::open(&directory)?;
        Ok(Self { directory, handle })
    }
}

impl Disk for RealDisk {
    type File = File;
    type Lock = File;

    fn lock(&self) -> Result<File, LockError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = open_no_link(&options, &self.path(LOCK)).map_err(LockError::Io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // The process id only makes the message better.
                let _ = file.take(64).read_to_string(&mut holder);
                return Err(LockError::Held(holder.trim().to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
        }
        // As only a message depends on it, a full disk is no reason to stop here.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        Ok(file)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            // Also one that would only be replaced, when it is too late to say so.
            if entry.file_type()?.is_symlink() {
                return Err(is_a_link(&entry.path()));
            }
            // A name that is not Unicode is none of ours.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        open_no_link(&options, &self.path(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        open_no_link(OpenOptions::new().read(true).write(true), &self.path(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn available(&self) -> Option<u64> {
        let numbers = rustix::fs::fstatvfs(&self.handle).ok()?;
        numbers.f_bavail.checked_mul(numbers.f_frsize)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn forget_cache(&self) {
        #[cfg(target_os = "linux")]
        let _ = rustix::fs::fadvise(self, 0, None, rustix::fs::Advice::DontNeed);
    }
}
