//! Processes that are killed, and that no command runs meanwhile that must not.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::evidence::Evidence;
use super::support::{Directory, Program, SEMAFORO, Server, attentive, is_gone, wait_until};

/// Long enough for a busy machine, and longer than a test has to wait.
const LONG: &str = "20s";

struct Scene {
    server: Server,
    evidence: Evidence,
}

impl Scene {
    fn new() -> Self {
        let server = Server::start();
        let evidence = Evidence::new(server.directory.file("evidence"));
        Self { server, evidence }
    }

    /// A run whose child lives until it is ended.
    fn living(&self, options: &[&str]) -> Program {
        self.run(options, &self.evidence.living())
    }

    fn run(&self, options: &[&str], script: &str) -> Program {
        let arguments = ["run", "--quiet", "--lock", "a"];
        self.server.start_program(&[&arguments[..], options, &["--", "sh", "-c", script]].concat())
    }

    /// A run that waits for the lock, and ends soon after it has it.
    fn next(&self) -> Program {
        let next = self.run(&[], &self.evidence.short());
        self.server.wait_for_waiting("lock", "a", 1);
        next
    }
}

/// The guardian of a client.
fn guardian_of(client: Pid) -> Pid {
    let mut guardian = None;
    wait_until("there is a guardian", || {
        guardian = fs::read_dir("/proc").unwrap().find_map(|entry| {
            let name = entry.unwrap().file_name();
            let pid: i32 = name.to_str()?.parse().ok()?;
            let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
            let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let is_guardian = words.split(|byte| *byte == 0).nth(1) == Some(b"guardian");
            let of_client = parent.trim().parse() == Ok(client.as_raw_pid());
            (is_guardian && of_client).then(|| Pid::from_raw(pid)).flatten()
        });
        guardian.is_some()
    });
    guardian.unwrap()
}

#[test]
fn the_client_is_killed() {
    let scene = Scene::new();
    let first = scene.living(&["--ttl", LONG]);
    scene.evidence.wait_for_starts(1);
    let next = scene.next();
    let began = Instant::now();
    first.signal(Signal::KILL);
    assert_eq!(next.wait().code(), 0);
    // The guardian has ended the session: the next one has not waited for its time to live.
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(scene.evidence.starts().len(), 2);
    scene.evidence.check();
}

#[test]
fn the_client_is_killed_while_something_ignores_being_terminated() {
    let scene = Scene::new();
    // The child dies with its parent. What it has started ignores being told to end, and has to be
    // killed.
    let script = format!("(trap '' TERM; {}) & wait", scene.evidence.living());
    let first = scene.run(&["--ttl", LONG, "--grace", "300ms"], &script);
    scene.evidence.wait_for_starts(1);
    let next = scene.next();
    first.signal(Signal::KILL);
    assert_eq!(next.wait().code(), 0);
    assert_eq!(scene.evidence.starts().len(), 2);
    scene.evidence.check();
}

#[test]
fn the_client_and_its_guardian_are_killed() {
    let scene = Scene::new();
    let first = scene.living(&["--ttl", "2s"]);
    scene.evidence.wait_for_starts(1);
    let next = scene.next();
    kill_process(guardian_of(first.pid()), Signal::KILL).unwrap();
    first.signal(Signal::KILL);
    // The kernel ends the child; the session ends when its time is over.
    assert_eq!(next.wait().code(), 0);
    assert_eq!(scene.evidence.starts().len(), 2);
    scene.evidence.check();
}

#[test]
fn a_guardian_that_is_killed_is_replaced() {
    let scene = Scene::new();
    let first = scene.living(&["--ttl", "1s"]);
    scene.evidence.wait_for_starts(1);
    let guardian = guardian_of(first.pid());
    kill_process(guardian, Signal::KILL).unwrap();
    wait_until("there is another", || guardian_of(first.pid()) != guardian);
    let next = scene.next();
    first.signal(Signal::KILL);
    assert_eq!(next.wait().code(), 0);
    scene.evidence.check();
}

/// A script that begins, and exits with 5 when it may.
const WAITING: &str = "touch began; while ! [ -e go ]; do sleep 0.01; done; exit 5";

#[test]
fn a_guardian_that_is_stopped_does_not_hold_up_anybody() {
    let scene = Scene::new();
    let run = scene.run(&["--ttl", LONG], WAITING);
    wait_until("it runs", || scene.server.directory.file("began").exists());
    kill_process(guardian_of(run.pid()), Signal::STOP).unwrap();
    fs::write(scene.server.directory.file("go"), "").unwrap();
    assert_eq!(run.wait().code(), 5);
}

#[test]
fn a_guardian_that_was_stopped_for_longer_than_the_session_lives_hears_that_it_lives() {
    let scene = Scene::new();
    let run = scene.run(&["--ttl", "1s"], WAITING);
    wait_until("it runs", || scene.server.directory.file("began").exists());
    let guardian = guardian_of(run.pid());
    kill_process(guardian, Signal::STOP).unwrap();
    let stopped = Instant::now();
    wait_until("the time is over", || stopped.elapsed() > Duration::from_millis(1100));
    kill_process(guardian, Signal::CONT).unwrap();
    wait_until("it has looked around, and sleeps", || {
        let status = format!("/proc/{}/stat", guardian.as_raw_pid());
        fs::read_to_string(status).is_ok_and(|status| status.contains(") S "))
    });
    fs::write(scene.server.directory.file("go"), "").unwrap();
    assert_eq!(run.wait().code(), 5);
}

#[test]
fn the_client_is_stopped_until_shortly_before_the_end_of_its_session() {
    let scene = Scene::new();
    let script = format!("trap 'touch asked; exit 0' TERM; {}", scene.evidence.living());
    let run = scene.run(&["--ttl", "1s"], &script);
    scene.evidence.wait_for_starts(1);
    run.signal(Signal::STOP);
    wait_until("the guardian asks", || scene.server.directory.file("asked").exists());
    run.signal(Signal::CONT);
    let ended = run.wait();
    assert_eq!(ended.code(), 75, "{}", ended.stderr);
}

#[test]
fn the_client_is_stopped_for_longer_than_its_session_lives() {
    let scene = Scene::new();
    let script = format!("trap '' TERM; {}", scene.evidence.living());
    let first = scene.run(&["--ttl", "1s"], &script);
    scene.evidence.wait_for_starts(1);
    let next = scene.next();
    first.signal(Signal::STOP);
    // The guardian has ended the child before the session's time was over.
    assert_eq!(next.wait().code(), 0);
    assert_eq!(scene.evidence.starts().len(), 2);
    scene.evidence.check();
    first.signal(Signal::CONT);
    assert_eq!(first.wait().code(), 75);
}

#[test]
fn the_server_goes_away() {
    let mut scene = Scene::new();
    let file = scene.server.directory.file("tidied");
    let script =
        format!("trap 'touch {}; exit 0' TERM; {}", file.display(), scene.evidence.living());
    let polite = scene.run(&["--ttl", "1s"], &script);
    scene.evidence.wait_for_starts(1);
    scene.server.kill();
    let ended = polite.wait();
    assert_eq!(ended.code(), 75, "{}", ended.stderr);
    assert!(ended.stderr.contains("terminating the command"), "{}", ended.stderr);
    assert!(file.exists(), "it had time to tidy up");
}

#[test]
fn the_server_goes_away_and_the_child_does_not() {
    // All of them ignore the signal, or only what the child has started.
    for stubborn in ["trap '' TERM; LIVE & wait; sleep 1000", "(trap '' TERM; LIVE) & wait"] {
        let mut scene = Scene::new();
        let pid = scene.server.directory.file("pid");
        let live = scene.evidence.living();
        let script = format!("echo $$ > {}; {}", pid.display(), stubborn.replace("LIVE", &live));
        let run = scene.run(&["--ttl", "1s", "--grace", "100ms"], &script);
        scene.evidence.wait_for_starts(1);
        scene.server.kill();
        assert_eq!(run.wait().code(), 75);
        let group = fs::read_to_string(&pid).unwrap();
        assert!(is_gone(group.trim()), "something of the group is left");
    }
}

#[test]
fn a_lost_session_may_be_only_a_warning() {
    let mut scene = Scene::new();
    let [go, began, errors] =
        ["go", "began", "errors"].map(|name| scene.server.directory.file(name));
    let run = format!(
        "exec {SEMAFORO} run --lock a --ttl 500ms --on-lost warn -- sh -c '{WAITING}' 2> errors"
    );
    let mut shell = attentive("sh");
    shell.args(["-c", &run]).env("SEMAFORO_SERVER", &scene.server.address);
    let run = Program::start(shell.current_dir(scene.server.directory.path()));
    wait_until("it runs", || began.exists());
    scene.server.kill();
    wait_until("it warns", || {
        let errors = fs::read_to_string(&errors).unwrap_or_default();
        errors.contains("the session is lost: others may hold")
    });
    fs::write(&go, "").unwrap();
    assert_eq!(run.wait().code(), 5);
}

#[test]
fn a_restart_of_the_server_loses_nothing() {
    let directory = Directory::new();
    let data = directory.file("data");
    let mut server = Server::with(&["--data", data.to_str().unwrap()]);
    let script = "echo $SEMAFORO_FENCE > fence; while ! [ -e go ]; do sleep 0.01; done; exit 4";
    let run =
        server.start_program(&["run", "--lock", "a", "--ttl", LONG, "--", "sh", "-c", script]);
    let fence = server.directory.file("fence");
    wait_until("it runs", || fs::read_to_string(&fence).is_ok_and(|fence| fence.ends_with('\n')));
    server.restart(&["--data", data.to_str().unwrap()]);
    let fence = fs::read_to_string(&fence).unwrap();
    server.print(&["lock", "check", "a", "--fence", fence.trim()]);
    fs::write(server.directory.file("go"), "").unwrap();
    assert_eq!(run.wait().code(), 4);
    assert_eq!(server.semaforo(&["lock", "check", "a", "--fence", fence.trim()]).code(), 1);
}
