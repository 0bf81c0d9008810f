//! A small file system that is full now and then, and the real server with several clients that ask
//! for everything: it refuses what it has no space for, never ends, loses nothing, and goes on when
//! there is space.
//!
//! `SEMAFORO_FULL_REQUESTS` says how many requests. The file system is a `tmpfs` that only a
//! process of its own sees; where that is not allowed, the test says so and does nothing.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::everything::{Tally, Worker};
use crate::small_disk::requests;
use crate::support::{Folder, LONG, Process, until};

const WORKERS: u64 = 4;

/// A file system of 40 MiB. It is gone with the process that sees it.
struct SmallDisk {
    keeper: Child,
    path: PathBuf,
    log: PathBuf,
    folder: Folder,
}

impl SmallDisk {
    /// None if this user may not have one.
    fn mount() -> Option<Self> {
        let folder = Folder::new();
        let place = folder.path().join("disk");
        fs::create_dir(&place).unwrap();
        let script =
            r#"mount -t tmpfs -o size=40m,mode=700 tmpfs "$0" && echo mounted && exec cat"#;
        let mut keeper = Command::new("unshare")
            .args(["--user", "--mount", "--map-root-user", "sh", "-c", script])
            .arg(&place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut said = String::new();
        let _ = BufReader::new(keeper.stdout.take()?).read_line(&mut said);
        let seen = format!("/proc/{}/root{}", keeper.id(), place.display());
        let disk = Self { keeper, path: seen.into(), log: folder.path().join("log"), folder };
        (said == "mounted\n" && disk.path.is_dir()).then_some(disk)
    }

    fn serve(&self) -> Process {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        Process::logging(&self.path, &[], log.into())
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let mut filler =
            File::options().create(true).append(true).open(self.path.join("filler")).unwrap();
        for size in [64 << 10, 4096] {
            let bytes = vec![1; size];
            loop {
                match filler.write(&bytes) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    fn free(&self) {
        let _ = fs::remove_file(self.path.join("filler"));
    }

    fn logged(&self, text: &str) -> bool {
        fs::read_to_string(&self.log).unwrap().contains(text)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("the end of the log: {:#?}", &lines[lines.len().saturating_sub(20)..]);
        }
        // It ends with its input.
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
        let _ = &self.folder;
    }
}

/// What is at this path, with its status line.
fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn is_ready(server: &Process) -> bool {
    get(server.http, "/readyz").starts_with("HTTP/1.1 200")
}

fn shows_full(server: &Process, full: bool) -> bool {
    get(server.http, "/metrics").contains(&format!("\nsemaforo_journal_full {}\n", u8::from(full)))
}

/// Lets all workers ask until each has enough. Whether they had it before the time was over: what
/// waits may need space.
fn ask(
    server: &Process,
    workers: &mut [Worker],
    enough: impl Fn(Tally, Tally) -> bool + Sync,
    when_stuck: impl FnOnce(),
) -> bool {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let (stop, enough) = (&stop, &enough);
                scope.spawn(move || {
                    let (mut client, before) = (server.connect(), worker.tally);
                    while !stop.load(Ordering::SeqCst) && !enough(before, worker.tally) {
                        worker.window(&mut client);
                    }
                })
            })
            .collect();
        let begun = Instant::now();
        while threads.iter().any(|thread| !thread.is_finished()) {
            if begun.elapsed() > Duration::from_secs(5) {
                stop.store(true, Ordering::SeqCst);
                when_stuck();
                return false;
            }
            thread::sleep(Duration::from_millis(5));
        }
        true
    })
}

#[test]
fn a_full_file_system_ends_nothing_and_loses_nothing() {
    let requests = requests(8_000);
    let Some(disk) = SmallDisk::mount() else {
        println!("passed over: this user may not mount a file system of its own");
        return;
    };
    let mut server = disk.serve();
    let mut workers: Vec<Worker> =
        (1..=WORKERS).map(|number| Worker::new(number, &mut server.connect())).collect();
    let sum = |workers: &[Worker], of: fn(&Worker) -> u64| workers.iter().map(of).sum::<u64>();
    let (mut rounds, mut restarts) = (0, 0);
    while sum(&workers, |worker| worker.tally.asked) < requests {
        disk.fill();
        let refused = sum(&workers, |worker| worker.tally.refused);
        let enough = |before: Tally, now: Tally| {
            now.refused > before.refused + 100 || now.asked > before.asked + 20_000
        };
        let was_full = ask(&server, &mut workers, enough, || disk.free());
        assert!(server.lives());
        assert!(sum(&workers, |worker| worker.tally.refused) > refused, "the disk is never full");
        if was_full {
            until("it says that it is not ready", || !is_ready(&server));
            until("the gauge shows it", || shows_full(&server, true));
            assert!(disk.logged("no space for the next segment"));
            // It ends, one way or the other, and begins again on a full disk.
            if rounds % 2 == 0 {
                server.kill();
            } else {
                server.signal(Signal::TERM);
                assert!(server.wait().success());
            }
            server = disk.serve();
            restarts += 1;
            let enough = |before: Tally, now: Tally| now.asked > before.asked + 200;
            ask(&server, &mut workers, enough, || disk.free());
            assert!(server.lives());
        }
        disk.free();
        // It goes on, if only what is there is small enough.
        let enough = |before: Tally, now: Tally| now.done > before.done + 1_000;
        ask(&server, &mut workers, enough, || ());
        rounds += 1;
    }
    until("it is ready", || is_ready(&server));
    until("the gauge shows it", || shows_full(&server, false));
    let (asked, refused) =
        (sum(&workers, |it| it.tally.asked), sum(&workers, |it| it.tally.refused));
    println!(
        "{asked} requests, {refused} refused, {rounds} rounds, {restarts} restarts on a full disk"
    );
    assert!(restarts > 0);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    let server = disk.serve();
    for worker in &workers {
        worker.check(&mut server.connect());
    }
}
