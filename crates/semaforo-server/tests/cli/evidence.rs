//! What children leave behind, to see who ran when.

use std::fs;
use std::path::PathBuf;

use super::support::wait_until;

/// A file to which children append lines. All of them write at its end, in the order in which they
/// write.
#[derive(Debug)]
pub(crate) struct Evidence(PathBuf);

impl Evidence {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self(file)
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(&self.0).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A script that says that it begins, with its fence, and lives until it is ended.
    pub(crate) fn living(&self) -> String {
        let file = self.0.display();
        format!(
            "echo \"start $SEMAFORO_FENCE\" >> '{file}'; \
             while :; do echo \"alive $SEMAFORO_FENCE\" >> '{file}'; sleep 0.005; done"
        )
    }

    /// A script that says that it begins, and ends after a while.
    pub(crate) fn short(&self) -> String {
        let file = self.0.display();
        format!(
            "echo \"start $SEMAFORO_FENCE\" >> '{file}'; sleep 0.1; \
             echo \"alive $SEMAFORO_FENCE\" >> '{file}'"
        )
    }

    /// Until so many have begun, and the last of them lives.
    #[track_caller]
    pub(crate) fn wait_for_starts(&self, count: usize) {
        wait_until("a child lives", || {
            let lines = self.lines();
            let is_alive = lines.last().is_some_and(|line| line.starts_with("alive"));
            self.starts().len() == count && is_alive
        });
    }

    /// The fences of the commands that have begun.
    pub(crate) fn starts(&self) -> Vec<u64> {
        let lines = self.lines();
        let fences = lines.iter().filter_map(|line| line.strip_prefix("start "));
        fences.map(|fence| fence.parse().unwrap()).collect()
    }

    /// No command has written after the next one has begun, and fences have grown.
    #[track_caller]
    pub(crate) fn check(&self) {
        let mut holder = 0;
        for line in self.lines() {
            let (word, fence) = line.split_once(' ').expect("a whole line");
            let fence: u64 = fence.parse().unwrap();
            match word {
                "start" => {
                    assert!(fence > holder, "{fence} began after {holder}");
                    holder = fence;
                }
                _ => assert_eq!(fence, holder, "{fence} was alive after {holder} had begun"),
            }
        }
    }
}
