//! Which cores the threads of a sample run on.
//!
//! What a hand-off between two threads costs depends on where the scheduler puts
//! them: waking a thread on another core takes ten times as long as on the same
//! one. Rows with two threads therefore say where they run.

#[derive(Clone, Copy)]
pub(crate) enum Placement {
    /// Each thread on a core of its own.
    Apart,
    /// All threads on one core.
    Together,
    /// Wherever the system puts them.
    Free,
}

#[cfg(target_os = "linux")]
mod linux {
    use std::sync::LazyLock;

    use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

    use super::Placement;

    /// The cores this process may use, read before any of its threads is pinned.
    static CORES: LazyLock<Vec<usize>> = LazyLock::new(|| {
        let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
        (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
    });

    impl Placement {
        /// Places the calling thread, the `member`-th of its sample.
        pub(crate) fn place_this_thread(self, member: usize) {
            self.place(None, member);
        }

        /// Places a thread of another process, by the name the system knows it by.
        pub(crate) fn place_thread_of(self, process: u32, name: &str, member: usize) {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
                return;
            };
            for thread in threads.flatten() {
                let named = std::fs::read_to_string(thread.path().join("comm"));
                let id = thread.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
                if named.is_ok_and(|found| found.trim_end() == name) && id.is_some() {
                    self.place(id, member);
                }
            }
        }

        fn place(self, thread: Option<Pid>, member: usize) {
            let mut cores = CpuSet::new();
            match self {
                Placement::Apart => cores.set(CORES[member % CORES.len()]),
                Placement::Together => cores.set(CORES[0]),
                Placement::Free => CORES.iter().for_each(|&core| cores.set(core)),
            }
            // A thread that cannot be pinned is still measured; the spread then shows it.
            let _ = sched_setaffinity(thread, &cores);
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Placement {
    pub(crate) fn place_this_thread(self, _member: usize) {}

    pub(crate) fn place_thread_of(self, _process: u32, _name: &str, _member: usize) {}
}
