//! Work beside processes of lower priority that keep every core busy.
//!
//! On users' machines that is the normal case: a thread that yields gives its core away, and gets it
//! back when the system thinks that the other one had its share.

use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;

use crate::row::{Contestant, Work};

/// These contestants, with one busy process per core from now until the last of them is dropped.
pub(crate) fn beside_busy_processes(contestants: Vec<Contestant>) -> Vec<Contestant> {
    let processes = Rc::new(BusyProcesses::start());
    let beside = |contestant: Contestant| {
        let processes = Rc::clone(&processes);
        let work = match contestant.work {
            Work::Timed(mut sample) => Work::timed(move |length| {
                let _processes = &processes;
                sample(length)
            }),
            Work::Counted(mut sample) => Work::counted(move |operations| {
                let _processes = &processes;
                sample(operations)
            }),
            known @ Work::Known(_) => known,
        };
        Contestant { work, ..contestant }
    };
    contestants.into_iter().map(beside).collect()
}

struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    fn start() -> BusyProcesses {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        BusyProcesses((0..cores).map(|_| busy_process()).collect())
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for process in &mut self.0 {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Ends by itself, should this process be killed.
fn busy_process() -> Child {
    let spin = format!("while kill -0 {}; do :; done", std::process::id());
    let mut command = Command::new("nice");
    command.args(["-n", "19", "sh", "-c", &spin]).stderr(Stdio::null());
    command.spawn().expect("nice and sh can be started")
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn processes_are_busy_until_the_last_contestant_is_dropped() {
        let mut processes = BusyProcesses::start();
        assert!(processes.0.iter_mut().all(|process| process.try_wait().unwrap().is_none()));
        let ids: Vec<u32> = processes.0.iter().map(Child::id).collect();
        drop(processes);
        for id in ids {
            let mut look = Command::new("kill");
            look.args(["-0", &id.to_string()]).stderr(Stdio::null());
            assert!(!look.status().unwrap().success(), "process {id} goes on");
        }
    }
}
