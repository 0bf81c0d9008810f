//! A process group: a child and whatever it starts.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process_group,
    test_kill_process_group, waitpid,
};

use super::guardian_messages;
use super::signals;
use super::terminal::Terminal;
use crate::cli::connection::TOKEN_VARIABLE;

/// How often it is looked whether a group that was ended is gone.
const GLANCE: Duration = Duration::from_millis(5);

/// A process group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::cli) struct Group(Pid);

/// Whether processes of a group are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    /// None of them runs any more.
    Gone,
    Here,
    /// Some run, but none that this process may send signals to: `sudo` makes a command another
    /// user's.
    OutOfReach,
}

impl Group {
    pub(super) fn of_number(number: i32) -> Option<Self> {
        // 0 and 1 are not groups of children, but those of all processes.
        if number > 1 { Pid::from_raw(number).map(Self) } else { None }
    }

    /// Starts a command as the leader of a new group, which dies with the calling thread.
    ///
    /// `guardian`, the pipe to the guardian, is told about the group before the command begins.
    /// `terminal`: with whether the group is to have it.
    pub(in crate::cli) fn start(
        command: &mut Command,
        guardian: Option<BorrowedFd<'_>>,
        terminal: Option<(&Terminal, bool)>,
    ) -> io::Result<(Self, Child)> {
        // A command that needs the token can be told it; what it starts need not know it.
        command.env_remove(TOKEN_VARIABLE);
        let parent = getpid();
        let guardian = guardian.map(|pipe| pipe.as_raw_fd());
        let turn = terminal.map(|(terminal, to_child)| terminal.turn(to_child));
        // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing
        // and takes no locks. The descriptors are open when it runs, since this function has
        // borrowed them, and it is not run again.
        unsafe {
            command.process_group(0).pre_exec(move || {
                let own = getpid();
                // Before another process learns of the group, and may send it something.
                signals::unwatch();
                die_with_parent(parent)?;
                if let Some(pipe) = guardian {
                    guardian_messages::announce(BorrowedFd::borrow_raw(pipe), own);
                }
                turn.map_or(Ok(()), |turn| turn.take(own))
            });
        }
        let child = command.spawn()?;
        let group = i32::try_from(child.id()).ok().and_then(Self::of_number);
        Ok((group.ok_or(io::ErrorKind::NotFound)?, child))
    }

    pub(in crate::cli) const fn leader(self) -> Pid {
        self.0
    }

    /// Blocks until the leader has ended, or was stopped.
    pub(in crate::cli) fn wait(self) -> io::Result<WaitStatus> {
        loop {
            match waitpid(Some(self.0), WaitOptions::UNTRACED) {
                Ok(Some((_, status))) => return Ok(status),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    pub(in crate::cli) fn send(self, signal: i32) {
        if let Some(signal) = Signal::from_named_raw(signal) {
            // It may be gone already, which is what most signals are about.
            let _ = kill_process_group(self.0, signal);
        }
    }

    /// Asks all of it to end. A stopped process has to go on for that.
    pub(in crate::cli) fn terminate(self) {
        self.send(Signal::TERM.as_raw());
        self.send(Signal::CONT.as_raw());
    }

    /// Ends all of it.
    pub(in crate::cli) fn kill(self) {
        self.send(Signal::KILL.as_raw());
    }

    /// Whether no process of it runs any more.
    pub(super) fn is_gone(self) -> bool {
        self.presence() == Presence::Gone
    }

    /// Blocks until no process of it runs any more that this one could end.
    pub(in crate::cli) fn outlast(self, mut meanwhile: impl FnMut()) {
        while self.presence() == Presence::Here {
            meanwhile();
            thread::sleep(GLANCE);
        }
    }

    fn presence(self) -> Presence {
        presence(test_kill_process_group(self.0), || runs(self.0.as_raw_pid()))
    }
}

/// What follows from an attempt to reach a group.
fn presence(reached: rustix::io::Result<()>, runs: impl FnOnce() -> Option<bool>) -> Presence {
    match reached {
        Err(Errno::SRCH) => Presence::Gone,
        Err(_) => Presence::OutOfReach,
        // Processes that have ended, but were not waited for, count as members. If their parent
        // never looks, the group never vanishes: then only the states of all processes tell.
        Ok(()) if runs() == Some(false) => Presence::Gone,
        Ok(()) => Presence::Here,
    }
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that.
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

#[cfg(not(target_os = "linux"))]
fn die_with_parent(parent: Pid) -> io::Result<()> {
    if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

/// Whether any process of a group runs, or waits, or is stopped; none if the system does not say.
fn runs(group: i32) -> Option<bool> {
    let mut found = false;
    for entry in std::fs::read_dir("/proc").ok()? {
        let name = entry.ok()?.file_name();
        let Some(number) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        else {
            continue;
        };
        // It may have vanished meanwhile.
        let Ok(status) = std::fs::read_to_string(format!("/proc/{number}/stat")) else { continue };
        found |= state_and_group(&status)
            .is_some_and(|(state, of)| of == group && !matches!(state, 'Z' | 'X'));
    }
    Some(found)
}

/// The third and the fifth word of a process's status. The second, its name, may contain anything.
fn state_and_group(status: &str) -> Option<(char, i32)> {
    let mut words = status.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    Some((state, words.nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_status_whose_name_is_a_trap() {
        let status = "17 (a) R 1 2 (b) S 4 1234 1234 0 -1 4194560";
        assert_eq!(state_and_group(status), Some(('S', 1234)));
        assert_eq!(state_and_group(""), None);
        assert_eq!(state_and_group("17 (a) Z"), None);
    }

    #[test]
    fn who_cannot_be_reached_is_not_gone() {
        let unknown = || panic!("who cannot be reached may be hidden, too");
        assert_eq!(presence(Err(Errno::SRCH), unknown), Presence::Gone);
        assert_eq!(presence(Err(Errno::PERM), unknown), Presence::OutOfReach);
        assert_eq!(presence(Ok(()), || Some(true)), Presence::Here);
        assert_eq!(presence(Ok(()), || Some(false)), Presence::Gone);
        assert_eq!(presence(Ok(()), || None), Presence::Here);
    }

    #[test]
    fn a_group_is_gone_when_no_process_of_it_runs() {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null());
        let (group, child) = Group::start(&mut command, None, None).unwrap();
        assert!(!group.is_gone());
        group.kill();
        // It was not waited for yet, so that the group is still there.
        while !group.is_gone() {
            thread::yield_now();
        }
        assert!(test_kill_process_group(group.leader()).is_ok());
        assert_eq!(group.wait().unwrap().terminating_signal(), Some(9));
        assert!(test_kill_process_group(group.leader()).is_err());
        drop(child);
    }
}
