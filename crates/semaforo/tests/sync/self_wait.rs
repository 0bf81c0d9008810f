//! A thread that locks twice what is not re-entrant is told so, in builds with debug assertions.

#![cfg(debug_assertions)]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::Builder;

use crate::support::{LIMIT, SHORT, eventually, leaked};
use semaforo::{Condition, Monitor, Mutex, RwLock};

const ALONE: &str = "SEMAFORO_SELF_WAIT";

/// A child that is not left behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the calling test again in a process that ends only when it is killed. Returns what it says,
/// a line at a time.
fn said_alone() -> (Running, mpsc::Receiver<String>) {
    let thread = std::thread::current();
    let test = thread.name().expect("the thread of a test has its name");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, "yes")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap());
    let (line, lines) = mpsc::channel();
    std::thread::spawn(move || {
        said.lines().map_while(Result::ok).try_for_each(|said| line.send(said))
    });
    (Running(child), lines)
}

/// Says what has to be told of this thread, which locked at a line of this file and is going to lock
/// again in the line after the caller's.
#[track_caller]
fn expect(kind: &str, locked: u32) {
    let waits = std::panic::Location::caller().line() + 1;
    let thread = std::thread::current();
    let name = thread.name().unwrap();
    eprintln!("expect {name} {kind} {waits} {locked}");
}

/// Threads that each wait for themselves, in their own way. They never end.
fn wait_for_themselves() {
    let begin = |name: &str, run: fn()| {
        Builder::new().name(name.to_owned()).spawn(run).unwrap();
    };
    begin("twice", || {
        let lock = leaked(Mutex::new(0));
        let (_guard, locked) = (lock.lock().wait(), line!());
        expect("Mutex", locked);
        drop(lock.lock().wait());
    });
    begin("tried", || {
        let lock = leaked(Mutex::new(0));
        let (_guard, locked) = (lock.try_lock(), line!());
        expect("Mutex", locked);
        drop(lock.lock().wait());
    });
    begin("unlimited", || {
        let lock = leaked(Arc::new(Mutex::new(0)));
        let (_guard, locked) = (lock.try_lock_owned(), line!());
        expect("Mutex", locked);
        drop(lock.lock_owned().timeout(None).wait());
    });
    begin("entered", || {
        let monitor = leaked(Monitor::new(0));
        let (_inside, locked) = (monitor.enter().wait(), line!());
        expect("Monitor", locked);
        drop(monitor.enter().wait());
    });
    begin("back", || {
        let (lock, never) = (leaked(Mutex::new(0)), Condition::new());
        let guard = lock.lock().wait();
        let (_guard, locked) = (never.wait(guard).timeout(SHORT).wait(), line!());
        expect("Mutex", locked);
        drop(lock.lock().wait());
    });
    begin("again", || {
        let (lock, never) = (leaked(Monitor::new(0)), Condition::new());
        let guard = lock.enter().wait();
        let (_guard, locked) = (never.wait_while(guard, |_| true).timeout(SHORT).wait(), line!());
        expect("Monitor", locked);
        drop(lock.enter().wait());
    });
    begin("writer", || {
        let lock = leaked(RwLock::new(0));
        let (_guard, locked) = (lock.write().wait(), line!());
        expect("RwLock", locked);
        drop(lock.write().wait());
    });
    begin("reader", || {
        let lock = leaked(RwLock::new(0));
        let (_guard, locked) = (lock.read().wait().try_upgrade(), line!());
        expect("RwLock", locked);
        drop(lock.read().wait());
    });
}

#[test]
fn a_thread_that_waits_for_itself_is_told_both_places() {
    if std::env::var_os(ALONE).is_some() {
        wait_for_themselves();
        loop {
            std::thread::park();
        }
    }
    let (_child, lines) = said_alone();
    let (mut expected, mut told) = (Vec::new(), Vec::new());
    while told.len() < 8 {
        let line = lines.recv_timeout(LIMIT).expect("eight threads are told");
        if let Some(line) = line.strip_prefix("expect ") {
            let line: Vec<_> = line.split(' ').map(str::to_owned).collect();
            expected.push(line);
        } else if line.starts_with("semaforo: ") {
            told.push(line);
        }
    }
    let file = file!();
    assert_eq!(expected.len(), 8);
    for expected in expected {
        let [thread, kind, waits, locked] = &expected[..] else { panic!("{expected:?}") };
        let begins = format!("semaforo: thread '{thread}' waits at {file}:{waits}:");
        let goes_on = format!(" for a {kind} that it locked itself at {file}:{locked}:");
        let matches = |line: &&String| line.starts_with(&begins) && line.contains(&goes_on);
        assert_eq!(told.iter().filter(matches).count(), 1, "{expected:?} of {told:#?}");
    }
}

/// Takes a lock for ever, in a thread that ends.
fn kept(take: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(take).join().unwrap());
}

/// Threads that wait for locks that were once their own.
fn wait_for_another() {
    let (released, downgraded) = (leaked(Mutex::new(0)), leaked(RwLock::new(0)));
    let (sent, left) = (leaked(Mutex::new(0)), leaked(Monitor::new(0)));
    std::thread::spawn(|| {
        drop(released.lock().wait());
        kept(|| std::mem::forget(released.lock().wait()));
        drop(released.lock().wait());
    });
    std::thread::spawn(|| {
        drop(downgraded.write().wait().downgrade());
        kept(|| std::mem::forget(downgraded.write().wait()));
        drop(downgraded.read().wait());
    });
    std::thread::spawn(|| {
        let guard = sent.lock().wait();
        kept(|| drop(guard));
        kept(|| std::mem::forget(sent.lock().wait()));
        drop(sent.lock().wait());
    });
    std::thread::spawn(|| {
        let inside = left.enter().wait();
        left.signal_and_leave(inside);
        kept(|| std::mem::forget(left.enter().wait()));
        drop(left.enter().wait());
    });
    eventually("all four wait", || {
        released.waiters() + downgraded.waiters() + sent.waiters() + left.waiters() == 4
    });
}

/// What a thread has given back, in whatever way, is another's: waiting for it is no news. One thread
/// begins to wait for itself when the others wait already, so it is told last.
#[test]
fn a_thread_that_waits_for_another_is_told_nothing() {
    if std::env::var_os(ALONE).is_some() {
        wait_for_another();
        let mine = Mutex::new(0);
        let _guard = mine.lock().wait();
        drop(mine.lock().wait());
    }
    let (_child, lines) = said_alone();
    let told = std::iter::from_fn(|| Some(lines.recv_timeout(LIMIT).expect("one is told")))
        .find(|line| line.starts_with("semaforo: "))
        .unwrap();
    let itself = format!("semaforo: thread '{}' ", std::thread::current().name().unwrap());
    assert!(told.starts_with(&itself), "{told}");
}
