//! Signals, one after the other, on a thread.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use signal_hook::{flag, low_level};

/// Calls `deliver` for each of these signals that arrives, for as long as the process lives.
///
/// Those that are ignored stay ignored: whoever started this process (`nohup`, a shell that starts something in the
/// background) wants it so, also for the child.
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
    let bit = u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift));
    mask & bit.unwrap_or(0) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use signal_hook::consts::{SIGPIPE, SIGUSR1, SIGUSR2};
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
    fn what_is_ignored_is_known() {
        // Rust's runtime ignores it.
        assert!(is_ignored(SIGPIPE));
        assert!(!is_ignored(signal_hook::consts::SIGALRM));
    }
}
