//! Which session a command is for: said as an argument, in the environment, or in a file.
//!
//! A session's id is a secret: with it, what the session holds can be released. The arguments of a
//! process can be seen by every user of its machine; its environment and a file with mode 600
//! cannot.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use semaforo_client::Error;

use super::exit::{self, Failure};
use super::output::is_session;
use crate::server::files;

/// Where the session may be said.
pub(super) const SESSION_VARIABLE: &str = "SEMAFORO_SESSION";

/// The session in a file; none if there is no such file.
pub(super) fn read(file: &Path) -> Result<Option<String>> {
    let text = match files::read_secret_text(file) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| cannot("use", file)),
    };
    let session = text.trim();
    if !is_session(session) {
        let text = format!("{}: there is no session in it", file.display());
        return Err(Failure::with(exit::FAILURE, text));
    }
    Ok(Some(session.to_owned()))
}

/// The session in a file that has to be there, or the other one.
pub(super) fn of(session: Option<&str>, file: Option<&Path>) -> Result<String> {
    match (file, session) {
        (Some(file), _) => read(file)?.ok_or_else(|| {
            let text = format!("there is no session file {}", file.display());
            Failure::with(exit::FAILURE, text)
        }),
        (None, Some(session)) => Ok(session.to_owned()),
        (None, None) => Err(Failure::usage("no session is said")),
    }
}

/// A file that a new session will be written to, and that is removed if it is not.
#[derive(Debug)]
pub(super) struct NewFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl NewFile {
    /// Makes the file, before there is a session that could not be written anywhere.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let created = options.write(true).create_new(true).mode(0o600).open(path);
        let file = created.with_context(|| cannot("make", path))?;
        Ok(Self { path: path.to_owned(), file, is_written: false })
    }

    pub(super) fn write(mut self, session: &str) -> Result<()> {
        if !is_session(session) {
            return Err(Error::Nonsense(format!("session is {session:?}")).into());
        }
        let text = format!("{session}\n");
        self.file.write_all(text.as_bytes()).with_context(|| cannot("write", &self.path))?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_written {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn cannot(verb: &str, path: &Path) -> String {
    format!("cannot {verb} the session file {}", path.display())
}
