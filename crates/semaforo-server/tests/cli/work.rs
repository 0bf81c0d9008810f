//! `work`: a command for each message, and what becomes of messages when a process dies.

use std::fs;

use rustix::process::Signal;
use semaforo_client::Client;
use serde_json::{Value, json};

use super::client_support::liar::{Liar, Lie, Speaker};
use super::support::{Ended, Server, is_gone, wait_until};

fn queue(messages: &[&str]) -> Server {
    let server = Server::start();
    server.print(&["queue", "create", "jobs"]);
    for message in messages {
        server.print(&["queue", "put", "jobs", message]);
    }
    server
}

/// Works until there is nothing left to do.
#[track_caller]
fn work(server: &Server, options: &[&str], script: &str) -> Ended {
    let arguments = ["work", "jobs", "--idle-exit", "10ms"];
    server.semaforo(&[&arguments[..], options, &["--", "sh", "-c", script]].concat())
}

fn count(server: &Server, name: &str, member: &str) -> u64 {
    server.state("queue", name, member).and_then(|count| count.as_u64()).unwrap()
}

#[test]
fn a_command_gets_the_message_and_its_circumstances() {
    let server = queue(&[r#"{"n": 1}"#, r#""two words""#]);
    let script = "cat; echo $SEMAFORO_QUEUE $SEMAFORO_MESSAGE $SEMAFORO_DELIVERIES; \
                  test -n \"$SEMAFORO_SERVER\"";
    let ended = work(&server, &["--max", "1"], script);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(ended.stdout, "{\"n\": 1}\njobs 1 1\n");
    let ended = work(&server, &["--raw"], script);
    assert_eq!(ended.stdout, "two words\njobs 2 1\n");
    assert_eq!(count(&server, "jobs", "held"), 0);
    assert_eq!(count(&server, "jobs", "out"), 0);
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn a_large_message_for_a_command_that_reads_it_or_does_not() {
    let server = queue(&[]);
    let large = format!("\"{}\"", "x".repeat(300_000));
    for script in ["wc -c", "exit 0"] {
        let mut command = server.command(&["queue", "put", "jobs", "-"]);
        let mut put = super::support::Program::start(command.stdin(std::process::Stdio::piped()));
        put.feed(&large);
        assert_eq!(put.wait().code(), 0);
        let ended = work(&server, &[], script);
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
        let expected = if script == "exit 0" { "" } else { "300003" };
        assert_eq!(ended.stdout.trim(), expected);
    }
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn only_success_acknowledges() {
    let server = queue(&["1"]);
    // Two failures, then success.
    let script = "echo $SEMAFORO_DELIVERIES; test $SEMAFORO_DELIVERIES = 3";
    let ended = work(&server, &["--retry-delay", "0s"], script);
    assert_eq!(ended.code(), 0);
    assert_eq!(ended.stdout, "1\n2\n3\n");
    assert_eq!(
        ended.stderr,
        "semaforo: message 1 (delivery 1): the command exited with 1; it is returned\n\
         semaforo: message 1 (delivery 2): the command exited with 1; it is returned\n"
    );
    assert_eq!(server.json(&["show"])["messages"], 0);

    server.print(&["queue", "put", "jobs", "2"]);
    let ended = work(&server, &["--max", "1", "--retry-delay", "1h"], "kill -9 $$");
    assert!(ended.stderr.contains("died of signal 9"), "{}", ended.stderr);
    assert_eq!(count(&server, "jobs", "delayed"), 1, "it rests");
}

#[test]
fn a_message_that_fails_too_often_is_given_up() {
    let server = queue(&[r#"{"bad": true}"#, "1"]);
    let options = ["--retry-delay", "0s", "--max-deliveries", "2"];
    let script = "read message; test \"$message\" = 1";
    let ended = work(&server, &[&options[..], &["--dead", "lost"]].concat(), script);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.ends_with("it is in queue lost now\n"), "{}", ended.stderr);
    assert_eq!(server.print(&["queue", "take", "lost", "--timeout", "0s"]), "{\"bad\": true}\n");
    server.print(&["queue", "put", "jobs", "2"]);
    let ended = work(&server, &options, script);
    assert!(ended.stderr.ends_with("it is dropped\n"), "{}", ended.stderr);
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn nothing_is_given_up_that_has_not_failed() {
    let server = queue(&["1"]);
    // As when a worker is told to end just when it gets a message.
    let client = Client::connect(&*server.address).wait().unwrap();
    let take = || client.queue("jobs").take_manual().wait().unwrap();
    take().give_back().wait().unwrap();
    let options = ["--max-deliveries", "1", "--dead", "lost"];
    let ended = work(&server, &options, "echo $SEMAFORO_DELIVERIES");
    assert_eq!((ended.stdout, ended.stderr), ("2\n".into(), String::new()));
    assert_eq!(server.json(&["show"])["messages"], 0);

    // One that so many had in vain is not tried again: perhaps they died of it.
    server.print(&["queue", "put", "jobs", "2"]);
    for _ in 0..11 {
        take().give_back().wait().unwrap();
    }
    let ended = work(&server, &options, "echo again");
    assert_eq!(ended.stdout, "");
    assert!(ended.stderr.contains("was delivered too often; it is in queue lost now"));
}

#[test]
fn a_message_for_which_there_is_no_space_among_the_dead_returns() {
    let server = queue(&["1"]);
    server.print(&["queue", "create", "lost", "--capacity", "1"]);
    server.print(&["queue", "put", "lost", "0"]);
    let options = ["--max", "1", "--retry-delay", "1h", "--max-deliveries", "1", "--dead", "lost"];
    let ended = work(&server, &options, "false");
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert!(ended.stderr.contains("cannot be put into \"lost\""), "{}", ended.stderr);
    assert_eq!(count(&server, "jobs", "delayed"), 1, "it rests");

    // Who is told to end does not wait so long.
    server.print(&["queue", "put", "jobs", "2"]);
    let options = ["work", "jobs", "--max-deliveries", "1", "--dead", "lost", "--", "false"];
    let worker = server.start_program(&options);
    server.wait_for_waiting("queue", "lost", 1);
    worker.signal(Signal::TERM);
    assert_eq!(worker.wait().code(), 0);
    assert_eq!(count(&server, "jobs", "delayed"), 2);
}

#[test]
fn programs_read_what_became_of_messages() {
    let server = queue(&["1", "2"]);
    let script = "test $SEMAFORO_MESSAGE = 1 || exit 3";
    let options = ["--json", "--retry-delay", "0s", "--max-deliveries", "1"];
    let ended = work(&server, &options, script);
    let lines: Vec<Value> =
        ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({"message": 1, "deliveries": 1, "outcome": "acknowledged", "exit": 0}),
            json!({"message": 2, "deliveries": 1, "outcome": "dead"}),
        ]
    );
}

#[test]
fn several_at_a_time() {
    let server = queue(&["1", "2", "3"]);
    // All three have to run for any of them to end.
    let script =
        "touch m$SEMAFORO_MESSAGE; while ! [ -e m1 -a -e m2 -a -e m3 ]; do sleep 0.01; done";
    let ended = work(&server, &["--concurrency", "3"], script);
    assert_eq!(ended.code(), 0, "{}", ended.stderr);
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn who_has_nothing_to_do_while_others_work_waits_quietly() {
    let server = queue(&["1", "2"]);
    let script = "touch b$SEMAFORO_MESSAGE; until [ -e go$SEMAFORO_MESSAGE ]; do sleep 0.01; done";
    let options = ["work", "jobs", "--concurrency", "2", "--idle-exit", "0s"];
    let worker = server.start_program(&[&options[..], &["--", "sh", "-c", script]].concat());
    let file = |name: &str| server.directory.file(name);
    wait_until("both work", || file("b1").exists() && file("b2").exists());
    fs::write(file("go1"), "").unwrap();
    // It does not ask for what is there at once, again and again.
    server.wait_for_waiting("queue", "jobs", 1);
    fs::write(file("go2"), "").unwrap();
    assert_eq!(worker.wait().code(), 0);
}

#[test]
fn a_worker_that_is_killed_returns_its_message() {
    let server = queue(&["1"]);
    let script = "echo $SEMAFORO_DELIVERIES >> runs; \
                  test $SEMAFORO_DELIVERIES -gt 1 || while :; do echo alive >> runs; sleep 0.005; done";
    let arguments = ["work", "jobs", "--ttl", "20s", "--max", "1", "--", "sh", "-c", script];
    let first = server.start_program(&arguments);
    let runs = || fs::read_to_string(server.directory.file("runs")).unwrap_or_default();
    wait_until("it works", || runs().contains("alive"));
    assert_eq!(count(&server, "jobs", "out"), 1);
    let second = server.start_program(&arguments);
    server.wait_for_waiting("queue", "jobs", 1);
    first.signal(Signal::KILL);
    assert_eq!(second.wait().code(), 0);
    // The second delivery came when the first command was gone.
    assert!(runs().ends_with("alive\n2\n"), "{}", runs());
    assert_eq!(server.json(&["show"])["messages"], 0);
}

#[test]
fn a_worker_lets_its_commands_finish() {
    let server = queue(&["1", "2"]);
    let script = "touch began; while ! [ -e go ]; do sleep 0.01; done";
    let worker = server.start_program(&["work", "jobs", "--", "sh", "-c", script]);
    wait_until("it works", || server.directory.file("began").exists());
    worker.signal(Signal::TERM);
    fs::write(server.directory.file("go"), "").unwrap();
    assert_eq!(worker.wait().code(), 0);
    assert_eq!(count(&server, "jobs", "ready"), 1, "the second was not taken");
}

#[test]
fn a_worker_that_is_told_twice_terminates_its_commands() {
    let server = queue(&["1"]);
    let script = "touch began; while :; do sleep 0.01; done";
    let mut worker = server.start_program(&["work", "jobs", "--", "sh", "-c", script]);
    wait_until("it works", || server.directory.file("began").exists());
    wait_until("it has ended", || {
        // Two signals that arrive at the same time are one.
        worker.signal(Signal::INT);
        std::thread::yield_now();
        !worker.is_running()
    });
    assert_eq!(worker.wait().code(), 0);
    assert_eq!(count(&server, "jobs", "ready"), 1);
    // The message of a terminated command does not rest, and it counts as a delivery.
    assert_eq!(server.json(&["queue", "take", "jobs", "--timeout", "0s"])["deliveries"], 2);
}

#[test]
fn a_worker_that_loses_its_session_ends_its_commands() {
    let mut server = queue(&["1"]);
    let script = "touch began; while :; do sleep 0.01; done";
    let worker =
        server.start_program(&["work", "jobs", "--ttl", "500ms", "--", "sh", "-c", script]);
    wait_until("it works", || server.directory.file("began").exists());
    server.kill();
    let ended = worker.wait();
    assert_eq!(ended.code(), 75, "{}", ended.stderr);
}

#[test]
fn what_a_terminated_command_has_started_does_not_go_on() {
    // Without a server the session is lost; and a worker that is told twice does not wait for its
    // commands.
    for is_lost in [true, false] {
        let mut server = queue(&["1"]);
        let alive = server.directory.file("alive");
        let stubborn = "(trap '' TERM; echo $$ > pid; while :; do echo >> alive; sleep 0.005; done) > log 2>&1 & \
                        trap 'exit 1' TERM; wait";
        let options = ["work", "jobs", "--ttl", "500ms", "--grace", "100ms"];
        let mut worker =
            server.start_program(&[&options[..], &["--", "sh", "-c", stubborn]].concat());
        wait_until("it works", || alive.exists());
        if is_lost {
            server.kill();
        } else {
            wait_until("it has ended", || {
                worker.signal(Signal::TERM);
                std::thread::yield_now();
                !worker.is_running()
            });
        }
        assert_eq!(worker.wait().code(), if is_lost { 75 } else { 0 });
        let group = fs::read_to_string(server.directory.file("pid")).unwrap();
        assert!(is_gone(group.trim()), "something of the group is left");
    }
}

#[test]
fn what_cannot_work() {
    let server = queue(&["1"]);
    let ended = server.semaforo(&["work", "jobs", "--", "no-such-command"]);
    assert_eq!(ended.code(), 127);
    assert_eq!(count(&server, "jobs", "ready"), 1, "the message is back");
    let ended = server.semaforo(&["work", "other", "--", "true"]);
    assert_eq!(ended.code(), 1);
    assert_eq!(
        ended.stderr,
        "semaforo: not found: there is no queue \"other\"; `semaforo queue create` makes one\n"
    );
    for arguments in [
        &["work", "jobs"][..],
        &["work", "jobs", "--concurrency", "0", "--", "true"],
        &["work", "jobs", "--dead", "lost", "--", "true"],
    ] {
        assert_eq!(server.semaforo(arguments).code(), 64, "{arguments:?}");
    }
}

/// Two workers on a network that repeats what they return: a message is never run twice at the same
/// time.
#[test]
fn a_return_that_comes_twice_starts_no_second_command() {
    let server = queue(&["1"]);
    let is_return = |frame: &[u8]| String::from_utf8_lossy(frame).contains(r#""RETURN""#);
    let liar = Liar::start(server.address.parse().unwrap(), move |speaker, frame| {
        if speaker == Speaker::Client && is_return(frame) { Lie::Repeat } else { Lie::Pass }
    });
    // It fails until it was delivered forty times. Who finds another one at work says so.
    let script = "mkdir busy || echo $SEMAFORO_DELIVERIES >> both; sleep 0.02; rmdir busy; \
                  test $SEMAFORO_DELIVERIES -ge 40";
    let address = liar.address.to_string();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let arguments = ["work", "jobs", "--concurrency", "2", "--idle-exit", "500ms"];
            let command = ["--retry-delay", "0s", "--", "sh", "-c", script];
            let mut command = server.command(&[&arguments[..], &command].concat());
            super::support::Program::start(command.env("SEMAFORO_SERVER", &address))
        })
        .collect();
    for worker in workers {
        let ended = worker.wait();
        assert_eq!(ended.code(), 0, "{}", ended.stderr);
    }
    let both = fs::read_to_string(server.directory.file("both")).unwrap_or_default();
    assert_eq!(both, "", "deliveries that ran beside another");
    assert_eq!(count(&server, "jobs", "held"), 0);
}
