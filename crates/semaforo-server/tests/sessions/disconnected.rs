//! A connection is a session of its own: what becomes of it when the connection is lost.

use semaforo_server::server::Options;

use crate::named::open;
use crate::support::{Client, Held, Random, Server, until};

/// The two ways to go.
fn leave(client: Client, with_a_reset: bool) {
    if with_a_reset { client.reset() } else { drop(client) }
}

#[test]
fn lost_while_holding() {
    let server = Server::start();
    for with_a_reset in [false, true] {
        let (mut holder, mut next) = (server.connect(), server.connect());
        let first = holder.done("ACQUIRE /locks/a").fence();
        holder.done("CREATE /semaphores/s permits=3");
        holder.done("ACQUIRE /semaphores/s permits=2");
        holder.done("ACQUIRE /rwlocks/r");
        next.send("ACQUIRE /locks/a id=lock");
        next.send("ACQUIRE /semaphores/s permits=3 id=semaphore");
        next.send("ACQUIRE /rwlocks/r mode=read id=rwlock");
        let mut other = server.connect();
        other.until_waiting("/rwlocks/r", 1);
        leave(holder, with_a_reset);
        let answers = next.answers(3);
        assert!(answers.iter().all(|answer| answer.status == 200 && answer.fence() > first));
        other.ask(&format!("CHECK /locks/a fence={first}")).is(410);
    }
}

#[test]
fn lost_while_waiting() {
    let server = Server::start();
    for with_a_reset in [false, true] {
        let (mut holder, mut lost, mut next) =
            (server.connect(), server.connect(), server.connect());
        holder.done("ACQUIRE /locks/a");
        for id in 0..3 {
            lost.send(&format!("ACQUIRE /locks/a id={id}"));
        }
        holder.until_waiting("/locks/a", 3);
        next.send("ACQUIRE /locks/a");
        holder.until_waiting("/locks/a", 4);
        leave(lost, with_a_reset);
        holder.until_waiting("/locks/a", 1);
        holder.done("RELEASE /locks/a");
        next.answer().is(200);
    }
}

#[test]
fn a_party_that_is_lost_breaks_the_barrier() {
    let server = Server::start();
    let (mut lost, mut other, mut next) = (server.connect(), server.connect(), server.connect());
    lost.send("ARRIVE /barriers/b parties=3");
    next.until_waiting("/barriers/b", 1);
    other.send("ARRIVE /barriers/b parties=3");
    next.until_waiting("/barriers/b", 2);
    lost.reset();
    other.answer().is(409);
    next.ask("ARRIVE /barriers/b parties=3").is(409);
    next.done("RESET /barriers/b");
    assert_eq!(next.done("ARRIVE /barriers/b parties=1").number("index"), 0);
}

/// The holder lets go and the next one is lost, at the same moment: the request after them gets it,
/// always, and nothing is left behind.
#[test]
fn lost_at_the_moment_of_the_grant() {
    let server = Server::start();
    let mut steady = server.connect();
    steady.done("CREATE /semaphores/s permits=2");
    let mut random = Random(5);
    for round in 0..150 {
        let path = if round % 2 == 0 { "/locks/a" } else { "/semaphores/s" };
        let request =
            if round % 2 == 0 { "ACQUIRE /locks/a" } else { "ACQUIRE /semaphores/s permits=2" };
        let (mut holder, mut lost, mut next) =
            (server.connect(), server.connect(), server.connect());
        let fence = holder.done(request).fence();
        lost.send(request);
        steady.until_waiting(path, 1);
        next.send(request);
        steady.until_waiting(path, 2);
        let pause = random.below(2000);
        let spin = || (0..pause).for_each(|_| std::hint::spin_loop());
        match round % 3 {
            0 => {
                holder.send(&format!("RELEASE {path}"));
                spin();
                leave(lost, round % 4 < 2);
            }
            1 => {
                leave(lost, round % 4 < 2);
                spin();
                holder.send(&format!("RELEASE {path}"));
            }
            _ => {
                let other = std::thread::spawn(move || leave(lost, round % 4 < 2));
                spin();
                holder.send(&format!("RELEASE {path}"));
                other.join().unwrap();
            }
        }
        holder.answer().is(200);
        assert!(next.answer().is(200).fence() > fence);
        next.done(&format!("RELEASE {path}"));
        steady.until_shown(path, "held", 0);
        steady.until_waiting(path, 0);
    }
    let state = steady.show("/").unwrap();
    assert_eq!((state["holds"].as_u64(), state["waiting"].as_u64()), (Some(0), Some(0)), "{state}");
    assert_eq!(steady.show("/semaphores/s").unwrap()["available"], 2);
    steady.ask("SHOW /locks/a").is(404);
}

/// Section 4: the answer to a grant is lost with its connection. Without `seq` the hold is the
/// session's all the same, until it ends or a client looks; with `seq` the same request tells the
/// fence again.
#[test]
fn what_was_granted_when_the_connection_was_lost_stays_with_the_session() {
    let journal = Held::default();
    let server = journal.server(Options::default());
    let mut other = server.connect();
    for seq in ["", " seq=1"] {
        let session = open(&mut other, 60_000);
        let mut lost = server.connect();
        journal.hold();
        lost.send(&format!("ACQUIRE /locks/a session={session}{seq}"));
        journal.await_standstill();
        lost.reset();
        journal.release();
        until("the connection is gone", || other.show("/").unwrap()["connections"] == 1);
        let fence = other.show("/locks/a").unwrap()["holders"][0]["fence"].as_u64().unwrap();
        if seq.is_empty() {
            other.done(&format!("RELEASE /locks/a fence={fence} session={session}"));
        } else {
            let again = other.done(&format!("ACQUIRE /locks/a session={session} seq=1"));
            assert_eq!(again.fence(), fence);
            other.done(&format!("CLOSE /sessions session={session}"));
        }
        assert!(other.show("/locks/a").is_none());
    }
}
