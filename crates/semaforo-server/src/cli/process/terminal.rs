//! The terminal, and whose turn it is to use it.
//!
//! Ctrl-C and Ctrl-Z go to the terminal's foreground process group. While a child runs that is the
//! child's group, just as if a shell had started it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use rustix::process::{Pid, getpgrp};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

use super::signals::{self, Action};

/// The signal that stops a process which uses the terminal out of turn.
const OUT_OF_TURN: i32 = signal_hook::consts::SIGTTOU;

/// The terminal that controls this process, when this process had it at the beginning.
#[derive(Debug)]
pub(in crate::cli) struct Terminal {
    device: File,
    /// What [`OUT_OF_TURN`] did before.
    action: Action,
}

impl Terminal {
    /// The terminal, if there is one.
    pub(in crate::cli) fn open() -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/tty").ok()?;
        // To take the terminal back is to use it out of turn.
        let action = signals::set(OUT_OF_TURN, Action::IGNORE);
        Some(Self { device, action })
    }

    /// Whether it is the turn of this process.
    pub(in crate::cli) fn is_ours(&self) -> bool {
        self.is_of(getpgrp())
    }

    /// Whether it is the turn of this group.
    pub(in crate::cli) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// It is the group's turn now.
    pub(in crate::cli) fn give_to(&self, group: Pid) {
        // Without a terminal, which may have been closed, there is no turn.
        let _ = tcsetpgrp(&self.device, group);
    }

    /// It is this process's turn again.
    pub(in crate::cli) fn take_back(&self) {
        self.give_to(getpgrp());
    }

    /// What a child has to do before it becomes the command, if it is to have the terminal.
    pub(super) fn turn(&self, to_child: bool) -> Turn {
        Turn { device: to_child.then(|| self.device.as_raw_fd()), action: self.action }
    }
}

/// What a child does about the terminal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    device: Option<RawFd>,
    action: Action,
}

impl Turn {
    /// Takes the terminal for the calling process's group, and makes signals as they were. Does
    /// nothing that must not be done between fork and exec.
    ///
    /// # Safety
    /// The terminal has to be open.
    pub(super) unsafe fn take(self, group: Pid) -> io::Result<()> {
        if let Some(device) = self.device {
            // SAFETY: it is open, says the caller.
            tcsetpgrp(unsafe { BorrowedFd::borrow_raw(device) }, group)?;
        }
        signals::set(OUT_OF_TURN, self.action);
        Ok(())
    }
}
