//! Signals: one after the other, on a thread; and what they do to this process and its children.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use signal_hook::consts::SIGCHLD;
use signal_hook::{flag, low_level};

unsafe extern "C" {
    /// Of the C library: changes what a signal does, and returns what it did before.
    fn signal(number: i32, action: usize) -> usize;
}

/// What a signal does: one of the two things that are not code, or what [`set`] has found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Action(usize);

impl Action {
    /// `SIG_DFL`.
    const DEFAULT: Self = Self(0);
    /// `SIG_IGN`.
    pub(super) const IGNORE: Self = Self(1);
}

/// Changes what a signal does, and returns what it did before. One system call.
pub(super) fn set(number: i32, action: Action) -> Action {
    // SAFETY: the action is not code, or it is code that was in place for this before.
    Action(unsafe { signal(number, action.0) })
}

/// Those that are watched: the lowest bit is signal 1.
static WATCHED: AtomicU64 = AtomicU64::new(0);

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift)).unwrap_or(0)
}

/// Calls `deliver` for each of these signals that arrives, for as long as the process lives.
///
/// Those that are ignored stay ignored: what started this process (`nohup`, a shell that starts
/// something in the background) wants it so, also for the child.
pub(in crate::cli) fn watch(
    signals: &[i32],
    mut deliver: impl FnMut(i32) + Send + 'static,
) -> io::Result<()> {
    let (mut reader, writer) = UnixStream::pair()?;
    let mut arrivals = Vec::new();
    for signal in signals.iter().copied().filter(|signal| !is_ignored(*signal)) {
        let arrived = Arc::new(AtomicBool::new(false));
        // In this order: what wakes the thread has to come after what it looks at.
        flag::register(signal, Arc::clone(&arrived))?;
        low_level::pipe::register(signal, writer.try_clone()?)?;
        WATCHED.fetch_or(bit(signal), Ordering::SeqCst);
        arrivals.push((signal, arrived));
    }
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        // Kept open, also if all signals are ignored.
        let _writer = writer;
        let mut bytes = [0; 64];
        loop {
            match reader.read(&mut bytes) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
            for (signal, arrived) in &arrivals {
                if arrived.swap(false, Ordering::SeqCst) {
                    deliver(*signal);
                }
            }
        }
    })?;
    Ok(())
}

/// Whether this process ignores a signal; not if the system does not say.
pub(in crate::cli) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & bit(signal) != 0
}

/// For a child, between fork and exec: what is watched here does there what it would do without us.
/// Otherwise a signal that comes before exec would be lost. System calls only.
pub(super) fn unwatch() {
    let watched = WATCHED.load(Ordering::SeqCst);
    for signal in (1..=64).filter(|signal| watched & bit(*signal) != 0) {
        set(signal, Action::DEFAULT);
    }
}

/// Children can be waited for from now on. If the parent of this process has it ignore their end,
/// the system forgets how they ended.
pub(in crate::cli) fn heed_children() {
    set(SIGCHLD, Action::DEFAULT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGPIPE, SIGPROF, SIGUSR1, SIGUSR2};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;
    use std::sync::mpsc;

    #[test]
    fn signals_arrive_with_their_numbers() {
        let (sender, receiver) = mpsc::channel();
        watch(&[SIGUSR1, SIGUSR2], move |signal| sender.send(signal).unwrap()).unwrap();
        for signal in [SIGUSR2, SIGUSR1] {
            low_level::raise(signal).unwrap();
            assert_eq!(receiver.recv().unwrap(), signal);
        }
    }

    #[test]
    fn a_child_does_not_watch_before_it_is_the_command() {
        watch(&[SIGPROF], |_| {}).unwrap();
        let mut command = Command::new("true");
        // SAFETY: both are only system calls.
        unsafe {
            command.pre_exec(|| {
                unwatch();
                low_level::raise(SIGPROF)
            });
        }
        assert_eq!(command.status().unwrap().signal(), Some(SIGPROF));
    }

    #[test]
    fn what_is_ignored_is_known() {
        // Rust's runtime ignores it.
        assert!(is_ignored(SIGPIPE));
        assert!(!is_ignored(signal_hook::consts::SIGALRM));
    }
}
