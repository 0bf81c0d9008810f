//! Lines that come through a pipe, without waiting for more than what is there.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// The lines of a pipe.
#[derive(Debug)]
pub(super) struct Lines<P> {
    pipe: P,
    /// What has come and was not asked for yet.
    unread: Vec<u8>,
}

/// What there is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Without its end.
    Line(String),
    Nothing,
    /// The other end is closed.
    End,
}

impl<P: AsFd> Lines<P> {
    pub(super) const fn new(pipe: P) -> Self {
        Self { pipe, unread: Vec::new() }
    }

    /// Blocks until something comes, or the pipe ends.
    pub(super) fn wait_for_line(&mut self) -> Option<String> {
        loop {
            match self.next() {
                Next::Line(line) => return Some(line),
                Next::Nothing => self.wait(Duration::from_secs(1)),
                Next::End => return None,
            }
        }
    }

    /// Blocks until there is something to read, for at most this time. It may also end without a
    /// reason.
    pub(super) fn wait(&self, limit: Duration) {
        let limit = Timespec::try_from(limit).ok();
        let _ = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], limit.as_ref());
    }

    fn has_something(&self) -> bool {
        let mut fds = [PollFd::new(&self.pipe, PollFlags::IN)];
        loop {
            match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
                Ok(count) => return count > 0,
                Err(Errno::INTR) => {}
                // Reading will tell.
                Err(_) => return true,
            }
        }
    }

    /// The next line that has come.
    pub(super) fn next(&mut self) -> Next {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                return Next::Line(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            if !self.has_something() {
                return Next::Nothing;
            }
            let mut bytes = [0; 4096];
            match read(&self.pipe, &mut bytes) {
                Ok(count @ 1..) => self.unread.extend_from_slice(&bytes[..count]),
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return Next::End,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn whole_lines_as_soon_as_they_are_there() {
        let (reader, mut writer) = UnixStream::pair().unwrap();
        let mut lines = Lines::new(reader);
        assert_eq!(lines.next(), Next::Nothing);
        writer.write_all(b"one\ntwo\nth").unwrap();
        assert_eq!(lines.next(), Next::Line("one".into()));
        assert_eq!(lines.next(), Next::Line("two".into()));
        assert_eq!(lines.next(), Next::Nothing);
        writer.write_all(b"ree\n").unwrap();
        assert_eq!(lines.wait_for_line().as_deref(), Some("three"));
        drop(writer);
        // A process that another test is starting may have the other end for a moment longer.
        assert_eq!(lines.wait_for_line(), None);
        assert_eq!(lines.next(), Next::End);
    }
}
