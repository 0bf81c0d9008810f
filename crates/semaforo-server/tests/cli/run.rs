//! `run`: what it holds, for how long, and what it tells.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::evidence::Evidence;
use super::support::{Program, SEMAFORO, Server, attentive, wait_until};

#[test]
fn the_status_is_the_childs() {
    let server = Server::start();
    for (script, status) in
        [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let ended = server.semaforo(&["run", "--lock", "a", "--", "sh", "-c", script]);
        assert_eq!(ended.code(), status, "{script}: {}", ended.stderr);
        assert_eq!(ended.stderr, "", "{script}");
    }
    for (command, status) in [("/no/such/command", 127), ("no-such-command", 127), ("/", 126)] {
        let ended = server.semaforo(&["run", "--lock", "a", "--", command]);
        assert_eq!(ended.code(), status, "{command}: {}", ended.stderr);
        assert!(ended.stderr.contains(command), "{}", ended.stderr);
    }
    // Nothing is left behind.
    assert_eq!(server.json(&["show"])["sessions"], 0);
}

#[test]
fn the_child_learns_what_it_holds() {
    let server = Server::start();
    let script = "echo $SEMAFORO_FENCE; echo $SEMAFORO_HOLDINGS; echo $SEMAFORO_SERVER";
    let printed = server.print(&["run", "--lock", "b", "--lock", "a", "--", "sh", "-c", script]);
    let lines: Vec<_> = printed.lines().collect();
    let [fence, holdings, address] = lines[..] else { panic!("{printed}") };
    let next = fence.parse::<u64>().unwrap() + 1;
    assert_eq!(holdings, format!("lock:a={fence} lock:b={next}"));
    assert_eq!(address, server.address);

    let all = ["run", "--semaphore", "s", "--of", "3", "--units", "2", "--rwlock", "w", "--write"];
    let printed = server.print(&[&all[..], &["--", "sh", "-c", script]].concat());
    let lines: Vec<_> = printed.lines().collect();
    // In one order, whatever was said first; the fence is that of what is held alone.
    assert!(lines[1].starts_with(&format!("rwlock:w={} semaphore:s=", lines[0])), "{printed}");
    assert_eq!(server.state("semaphore", "s", "permits").unwrap(), 3);
    assert_eq!(server.state("semaphore", "s", "available").unwrap(), 3);
}

#[test]
fn two_runs_of_one_lock_one_after_the_other() {
    let server = Server::start();
    let evidence = Evidence::new(server.directory.file("evidence"));
    let script = evidence.short();
    let runs: Vec<_> = (0..3)
        .map(|_| server.start_program(&["run", "--lock", "a", "--", "sh", "-c", &script]))
        .collect();
    for run in runs {
        assert_eq!(run.wait().code(), 0);
    }
    assert_eq!(evidence.starts().len(), 3);
    evidence.check();
}

#[test]
fn a_semaphore_lets_so_many_run_and_readers_run_together() {
    let server = Server::start();
    let marks = server.directory.file("marks");
    fs::create_dir(&marks).unwrap();
    // Both have to be there at the same time for either to end.
    let script = format!(
        "cd {}; touch $1; while ! [ -e one -a -e two ]; do sleep 0.01; done",
        marks.display()
    );
    for holding in [&["--semaphore", "gpu", "--of", "2"][..], &["--rwlock", "w", "--read"]] {
        let runs = ["one", "two"].map(|name| {
            let command = ["--", "sh", "-c", &script, "sh", name];
            server.start_program(&[&["run"], holding, &command].concat())
        });
        for run in runs {
            assert_eq!(run.wait().code(), 0);
        }
        for name in ["one", "two"] {
            fs::remove_file(marks.join(name)).unwrap();
        }
    }
    let ended = server.semaforo(&["run", "--semaphore", "gpu", "--of", "3", "--", "true"]);
    assert_eq!(ended.code(), 1);
    assert!(ended.stderr.contains("semaphore gpu: conflict"), "{}", ended.stderr);
    let ended = server.semaforo(&["run", "--semaphore", "new", "--", "true"]);
    assert_eq!(ended.code(), 1, "nobody has said how many there are");
}

#[test]
fn a_wait_ends_in_time() {
    let server = Server::start();
    let held = server.print(&["lock", "acquire", "a"]);
    let session = held.lines().next().unwrap().strip_prefix("session=").unwrap();
    for timeout in ["0s", "200ms"] {
        let began = Instant::now();
        let arguments = ["run", "--lock", "0", "--lock", "a", "--timeout", timeout, "--", "true"];
        let ended = server.semaforo(&arguments);
        assert_eq!(ended.code(), 124);
        assert_eq!(ended.stderr, "semaforo: lock a: timed out while waiting\n");
        assert!(timeout == "0s" || began.elapsed() >= Duration::from_millis(200));
    }
    // What it had in vain was released.
    server.print(&["run", "--lock", "0", "--timeout", "0s", "--", "true"]);
    // A free one is granted, even at once.
    server.print(&["lock", "release", "a", "--session", session]);
    server.print(&["run", "--lock", "a", "--timeout", "0s", "--", "true"]);
}

#[test]
fn a_wait_is_interrupted() {
    let server = Server::start();
    server.print(&["lock", "acquire", "a"]);
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let run = server.start_program(&["run", "--lock", "a", "--", "true"]);
        server.wait_for_waiting("lock", "a", 1);
        run.signal(signal);
        assert_eq!(run.wait().code(), status);
        server.wait_for_waiting("lock", "a", 0);
    }
}

#[test]
fn it_says_what_it_waits_for() {
    let server = Server::start();
    server.print(&["lock", "acquire", "a"]);
    let arguments = ["run", "--lock", "a", "--timeout", "1500ms", "--", "true"];
    let runs = [server.start_program(&arguments), {
        server.wait_for_waiting("lock", "a", 1);
        server.start_program(&[&["run", "--quiet"], &arguments[1..]].concat())
    }];
    let [spoken, quiet] = runs.map(|run| run.wait().stderr);
    let first = spoken.lines().next().unwrap();
    assert!(
        first.starts_with("semaforo: waiting for lock a: 1st in line, held by tester@"),
        "{spoken}"
    );
    assert_eq!(spoken.lines().count(), 2, "{spoken}");
    assert_eq!(quiet, "semaforo: lock a: timed out while waiting\n");
}

#[test]
fn signals_reach_the_child_and_what_it_has_started() {
    let server = Server::start();
    let file = server.directory.file("signals");
    let script = format!(
        "sh -c 'trap \"echo inner >> {0}; exit\" USR1; echo ready >> {0}; while :; do sleep 0.01; done' & \
         trap 'echo usr1 >> {0}' USR1; trap 'echo usr2 >> {0}' USR2; trap 'echo term >> {0}; exit 3' TERM; \
         echo ready >> {0}; while :; do sleep 0.01; done",
        file.display()
    );
    let run = server.start_program(&["run", "--lock", "a", "--", "sh", "-c", &script]);
    let lines = || {
        let mut lines: Vec<_> =
            fs::read_to_string(&file).unwrap_or_default().lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    wait_until("both are ready", || lines() == ["ready", "ready"]);
    run.signal(Signal::USR1);
    wait_until("both have it", || lines() == ["inner", "ready", "ready", "usr1"]);
    run.signal(Signal::USR2);
    wait_until("it has it", || lines().contains(&"usr2".to_owned()));
    run.signal(Signal::TERM);
    assert_eq!(run.wait().code(), 3);
    assert!(lines().contains(&"term".to_owned()));
}

#[test]
fn what_is_ignored_stays_ignored() {
    let server = Server::start();
    let file = server.directory.file("signals");
    // As of nohup: the child must not get a hangup either.
    let script = format!("echo ready >> {}; while :; do sleep 0.01; done", file.display());
    let nohup = format!("trap '' HUP; exec {SEMAFORO} run --lock a -- sh -c '{script}'");
    let mut shell = attentive("sh");
    let run = Program::start(shell.args(["-c", &nohup]).env("SEMAFORO_SERVER", &server.address));
    wait_until("it runs", || file.exists());
    run.signal(Signal::HUP);
    run.signal(Signal::TERM);
    assert_eq!(run.wait().code(), 143);
}

#[test]
fn the_status_is_the_childs_also_if_its_end_was_to_be_ignored() {
    let server = Server::start();
    server.print(&["queue", "create", "jobs"]);
    server.print(&["queue", "put", "jobs", "1"]);
    for (arguments, status) in [
        ("run --lock a -- sh -c 'exit 7'", 7),
        ("run --lock a -- true", 0),
        ("work jobs --max 1 --max-deliveries 1 -- true", 0),
    ] {
        // A program that never looks after its children.
        let script = format!("trap '' CHLD; exec {SEMAFORO} {arguments}");
        let mut shell = attentive("bash");
        shell.args(["-c", &script]).env("SEMAFORO_SERVER", &server.address);
        let ended = Program::start(&mut shell).wait();
        assert_eq!(ended.code(), status, "{arguments}: {}", ended.stderr);
        assert_eq!(ended.stderr, "", "{arguments}");
    }
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn what_a_child_leaves_behind_lives_on_without_the_lock() {
    let server = Server::start();
    let file = server.directory.file("late");
    let script = format!(
        "(while ! [ -e go ]; do sleep 0.01; done; echo done > {}) > /dev/null 2>&1 &",
        file.display()
    );
    server.print(&["run", "--lock", "a", "--", "sh", "-c", &script]);
    server.print(&["run", "--lock", "a", "--timeout", "0s", "--", "true"]);
    assert!(!file.exists());
    fs::write(server.directory.file("go"), "").unwrap();
    wait_until("it has gone on", || file.exists());
}

#[test]
fn what_makes_no_sense_is_usage() {
    let server = Server::start();
    for arguments in [
        &["run", "--", "true"][..],
        &["run", "--lock", "a"],
        &["run", "--lock", "a", "--lock", "a", "--", "true"],
        &["run", "--rwlock", "a", "--", "true"],
        &["run", "--rwlock", "a", "--read", "--write", "--", "true"],
        &["run", "--of", "2", "--", "true"],
        &["run", "--lock", "a", "--timeout", "5", "--", "true"],
        &["run", "--lock", "a", "--ttl", "1ms", "--", "true"],
        &["run", "--lock", "a", "--grace", "999999999d", "--", "true"],
        &["run", "--lock", "a", "--on-lost", "cry", "--", "true"],
        &["run", "--semaphore", "a", "--of", "many", "--", "true"],
        &["frobnicate"],
        &[],
    ] {
        let ended = server.semaforo(arguments);
        assert_eq!(ended.code(), 64, "{arguments:?}");
        assert_eq!(ended.stdout, "", "{arguments:?}");
        assert!(!ended.stderr.is_empty(), "{arguments:?}");
    }
}
