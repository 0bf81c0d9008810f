//! What a client does to others: each attack is prepared, and while it goes on another client pings.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Crowd, Failure, done, fill_with_locks, frame, pipeline, read, shown, until};

/// The part of an attack that others are watched during.
pub(super) type Act = Box<dyn FnOnce() -> Result<(), Failure> + Send>;

/// Prepares it.
pub(super) type Attack = fn(&Crowd) -> Result<Act, Failure>;

pub(super) const ATTACKS: [(&str, &str, Attack); 10] = [
    ("ping-list", "1250 pipelined LIST", |crowd| requests(crowd, same("LIST / limit=1", BURST))),
    ("ping-list-all", "20 pipelined LIST of 100 000", |crowd| {
        requests(crowd, same("LIST / limit=100000", 20))
    }),
    ("ping-show", "1250 pipelined SHOW of the server", |crowd| {
        requests(crowd, same("SHOW /", BURST))
    }),
    ("ping-metrics", "100 times /metrics, over HTTP", metrics),
    ("ping-delete", "1250 pipelined CREATE and DELETE", |crowd| {
        let both = |number| {
            let name = format!("/semaphores/s{number}");
            [format!("CREATE {name} permits=1"), format!("DELETE {name}")]
        };
        requests(crowd, (0..BURST).flat_map(both).collect())
    }),
    ("ping-delete-laden", "DELETE of a queue with 100 000 messages", delete_laden),
    ("ping-release", "1250 pipelined RELEASE without a fence", |crowd| {
        let own = crowd.sizes.objects - BURST..crowd.sizes.objects;
        let each = |verb: &'static str| {
            let session = &crowd.session;
            own.clone().map(move |n| format!("{verb} /locks/{n:07} session={session}"))
        };
        requests(crowd, each("RELEASE").chain(each("ACQUIRE")).collect())
    }),
    ("ping-release-all", "RELEASE that lets 100 000 readers in", release_into_waiting),
    ("ping-close", "CLOSE of a session with 100 000 holds", close),
    ("ping-disconnect", "the end of a connection with 100 000 waiting requests", disconnect),
];

/// Requests of a burst.
const BURST: usize = 1250;

fn same(request: &str, count: usize) -> Vec<String> {
    vec![request.to_owned(); count]
}

/// All of them at once.
fn requests(crowd: &Crowd, requests: Vec<String>) -> Result<Act, Failure> {
    let address = crowd.server.address;
    Ok(Box::new(move || pipeline(address, requests.into_iter())))
}

fn metrics(crowd: &Crowd) -> Result<Act, Failure> {
    const TIMES: usize = 100;
    let mut stream = TcpStream::connect(crowd.server.http_address()?)?;
    Ok(Box::new(move || {
        let head = |connection| {
            format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: {connection}\r\n\r\n")
        };
        let asked = head("keep-alive").repeat(TIMES - 1) + &head("close");
        stream.write_all(asked.as_bytes())?;
        let mut answers = String::new();
        stream.read_to_string(&mut answers)?;
        match answers.matches("HTTP/1.1 200 OK").count() {
            TIMES => Ok(()),
            count => Err(Failure(format!("{count} answers of {TIMES}"))),
        }
    }))
}

fn delete_laden(crowd: &Crowd) -> Result<Act, Failure> {
    let address = crowd.server.address;
    let mut stream = TcpStream::connect(address)?;
    done(&mut stream, "CREATE /queues/laden")?;
    pipeline(address, same("PUT /queues/laden", crowd.sizes.waits).into_iter())?;
    Ok(Box::new(move || done(&mut stream, "DELETE /queues/laden")))
}

fn release_into_waiting(crowd: &Crowd) -> Result<Act, Failure> {
    let mut writer = TcpStream::connect(crowd.server.address)?;
    done(&mut writer, "ACQUIRE /rwlocks/gate mode=write")?;
    let waits = crowd.sizes.waits;
    let readers = waiting(crowd, "ACQUIRE /rwlocks/gate mode=read")?;
    Ok(Box::new(move || {
        done(&mut writer, "RELEASE /rwlocks/gate")?;
        read(readers, waits)
    }))
}

fn close(crowd: &Crowd) -> Result<Act, Failure> {
    let address = crowd.server.address;
    let mut stream = TcpStream::connect(address)?;
    let before = shown(&mut stream, "holds")?;
    let session = fill_with_locks(address, "of-a-session-", crowd.sizes.waits)?;
    Ok(Box::new(move || {
        done(&mut stream, &format!("CLOSE /sessions session={session}"))?;
        until(&mut stream, "holds", before)
    }))
}

fn disconnect(crowd: &Crowd) -> Result<Act, Failure> {
    let address = crowd.server.address;
    let mut stream = TcpStream::connect(address)?;
    let before = shown(&mut stream, "waiting")?;
    let crowd = waiting(crowd, "ACQUIRE /locks/0000000")?;
    Ok(Box::new(move || {
        drop(crowd);
        until(&mut stream, "waiting", before)
    }))
}

/// A connection of which as many requests as the crowd has wait more than before.
fn waiting(crowd: &Crowd, request: &str) -> Result<TcpStream, Failure> {
    let address: SocketAddr = crowd.server.address;
    let mut observer = TcpStream::connect(address)?;
    let before = shown(&mut observer, "waiting")?;
    let mut stream = TcpStream::connect(address)?;
    let all: Vec<u8> = (0..crowd.sizes.waits)
        .flat_map(|number| frame(&format!("{request} id={number}")))
        .collect();
    stream.write_all(&all)?;
    until(&mut observer, "waiting", before + crowd.sizes.waits as u64)?;
    Ok(stream)
}
