//! Open semaphores, and those that change their size, through crashes of a real server.

use crate::named::open;
use crate::over_http::Http;
use crate::support::{Client, Folder, Process};

fn available(client: &mut Client, path: &str) -> u64 {
    client.show(path).unwrap()["available"].as_u64().unwrap()
}

#[test]
fn the_count_of_an_open_semaphore_outlives_a_crash_and_retries_count_once() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.done("CREATE /semaphores/items permits=9 initial=0 open=true");
    let add = format!("RELEASE /semaphores/items permits=3 session={session} seq=1");
    let take = format!("ACQUIRE /semaphores/items session={session} seq=2");
    client.done(&add);
    client.done(&take);
    // A taker that waits is let through by another client, over HTTP and without a session.
    let mut taker = server.connect();
    taker.send("ACQUIRE /semaphores/items permits=4");
    client.until_shown("/semaphores/items", "waiting", 1);
    let mut http = Http::at(server.http);
    http.send("/semaphores/items/RELEASE?permits=3", "");
    assert_eq!(http.answer().unwrap().0, 200);
    assert!(!taker.answer().text.contains("fence"));
    http.send("/semaphores/items/ACQUIRE?timeout=0&permits=2", "");
    assert_eq!(http.answer().unwrap().0, 204);
    assert_eq!(available(&mut client, "/semaphores/items"), 1);
    server.kill();

    let server = Process::start(folder.path());
    let mut client = server.connect();
    assert_eq!(available(&mut client, "/semaphores/items"), 1);
    client.done(&add);
    client.done(&take);
    assert_eq!(available(&mut client, "/semaphores/items"), 1);
    // Nothing comes back with the end of who has used it up.
    client.done(&format!("CLOSE /sessions session={session}"));
    assert_eq!(available(&mut client, "/semaphores/items"), 1);
    client.done("ACQUIRE /semaphores/items timeout=0");
    client.ask("ACQUIRE /semaphores/items timeout=0").is(204);
}

#[test]
fn a_semaphore_that_is_too_small_for_what_is_held_is_so_after_a_crash() {
    let folder = Folder::new();
    let server = Process::start(folder.path());
    let mut client = server.connect();
    let session = open(&mut client, 60_000);
    client.done("CREATE /semaphores/gpu permits=5");
    let acquire = format!("ACQUIRE /semaphores/gpu permits=4 session={session} seq=1");
    let fence = client.done(&acquire).fence();
    client.done("RESIZE /semaphores/gpu permits=2");
    server.kill();

    let server = Process::start(folder.path());
    let mut client = server.connect();
    assert_eq!(available(&mut client, "/semaphores/gpu"), 0);
    let release = format!("RELEASE /semaphores/gpu fence={fence} session={session}");
    client.done(&format!("{release} permits=2"));
    client.ask("ACQUIRE /semaphores/gpu timeout=0").is(204);
    client.done(&release);
    assert_eq!(available(&mut client, "/semaphores/gpu"), 2);
    assert!(client.done("CREATE /semaphores/gpu permits=2").text.contains(r#""created":"false""#));
}
