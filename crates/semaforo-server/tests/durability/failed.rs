//! A journal that cannot be written any more.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use semaforo_server::server::JOURNAL_FAILED;

use crate::support::{Client, Folder};

/// The process ends with its own status, also if its error output is a broken pipe.
#[test]
fn a_failed_write_ends_the_process_with_its_own_status() {
    for is_read in [true, false] {
        let folder = Folder::new();
        // A file that would become too large is an error then, and not a signal.
        let mut child = Command::new("sh")
            .args(["-c", r#"trap "" XFSZ; exec "$@""#, "sh", env!("CARGO_BIN_EXE_semaforo")])
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut lines = output.lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on ").map(str::to_owned));
        let mut client = Client::connect(address.unwrap().parse().unwrap());
        client.done("CREATE q");
        let errors = child.stderr.take().filter(|_| is_read);
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        prlimit(Some(Pid::from_child(&child)), Resource::Fsize, none).unwrap();
        client.send("PUT q | 1");
        assert!(client.ended(), "what was not written is not answered");
        assert_eq!(child.wait().unwrap().code(), Some(JOURNAL_FAILED), "is_read: {is_read}");
        if let Some(errors) = errors {
            let text = std::io::read_to_string(errors).unwrap();
            assert!(text.contains("the journal failed"), "{text}");
        }
    }
}
