//! `bench server --limits`: what one client can do to others, and what much of everything costs. Only ours: the bars
//! are absolute.

mod attacks;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::dialects::Semaforo;
use super::load::Failure;
use super::process::{Directory, Recipe, Server};
use super::{Sampler, contestant_of, contestants, ours};
use crate::measure::Plan;
use crate::row::{Bar, Contestant, Row};
use attacks::{ATTACKS, Act, Attack};

/// The longest that a `PING` of another client may take, at the 99th percentile.
const PING_MILLISECONDS: f64 = 50.0;

/// The longest that a restart may take.
const RESTART_MILLISECONDS: f64 = 5000.0;

/// How often it is looked whether a number is shown.
const LOOK: Duration = Duration::from_millis(20);

/// How much there is.
#[derive(Clone, Copy)]
struct Sizes {
    objects: usize,
    waits: usize,
}

pub(super) fn rows(plan: &Plan) -> Vec<Row> {
    let sizes = match plan.quick {
        false => Sizes { objects: 1_000_000, waits: 100_000 },
        true => Sizes { objects: 100_000, waits: 10_000 },
    };
    let mut rows: Vec<_> = ATTACKS
        .into_iter()
        .map(|(name, about, attack)| {
            Row::new(name, about, move || pings(sizes, attack))
                .unit("ms")
                .bar(Bar::limit(PING_MILLISECONDS))
                .at_most_rounds(5)
        })
        .collect();
    // The half shows that the time grows with the number, and not with its square.
    for (name, about, objects) in [
        ("restart-half", "restart from a snapshot of half as many objects", sizes.objects / 2),
        ("restart-objects", "restart from a snapshot of a million objects", sizes.objects),
    ] {
        rows.push(
            Row::new(name, about, move || restarts(objects))
                .unit("ms")
                .bar(Bar::limit(RESTART_MILLISECONDS))
                .at_most_rounds(3),
        );
    }
    rows
}

/// A server with much in it.
struct Crowd {
    sizes: Sizes,
    server: Server,
    session: String,
    /// Whose requests wait.
    _waiting: TcpStream,
}

impl Crowd {
    fn gather(recipe: &Recipe<Semaforo>, sizes: Sizes) -> Result<Self, Failure> {
        let server = recipe.start()?;
        let session = fill_with_locks(server.address, "", sizes.objects)?;
        let mut waiting = TcpStream::connect(server.address)?;
        for number in 0..sizes.waits {
            let request = format!("ACQUIRE /locks/{number:07} id={number}");
            waiting.write_all(&frame(&request))?;
        }
        until(&mut TcpStream::connect(server.address)?, "waiting", sizes.waits as u64)?;
        Ok(Self { sizes, server, session, _waiting: waiting })
    }
}

/// Locks whose names begin so, held by the session that is returned.
fn fill_with_locks(address: SocketAddr, prefix: &str, count: usize) -> Result<String, Failure> {
    let mut stream = TcpStream::connect(address)?;
    let answer = ask(&mut stream, "OPEN /sessions ttl=86400000")?;
    let begin = answer.find(r#""session":""#).ok_or_else(|| Failure(answer.clone()))?;
    let session = answer[begin + 11..][..32].to_owned();
    pipeline(
        address,
        (0..count).map(|number| format!("ACQUIRE /locks/{prefix}{number:07} session={session}")),
    )?;
    Ok(session)
}

/// A request and its answer.
fn ask(stream: &mut TcpStream, request: &str) -> Result<String, Failure> {
    stream.write_all(&frame(request))?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer)?;
    Ok(answer)
}

fn done(stream: &mut TcpStream, request: &str) -> Result<(), Failure> {
    let answer = ask(stream, request)?;
    if answer.starts_with(r#"{"Status":200"#) { Ok(()) } else { Err(Failure(answer)) }
}

/// A number that the server shows of itself.
fn shown(stream: &mut TcpStream, member: &str) -> Result<u64, Failure> {
    let answer = ask(stream, "SHOW /")?;
    let value: serde_json::Value =
        serde_json::from_str(&answer).map_err(|error| Failure(error.to_string()))?;
    value["Payload"][member].as_u64().ok_or(Failure(answer))
}

fn until(stream: &mut TcpStream, member: &str, number: u64) -> Result<(), Failure> {
    while shown(stream, member)? != number {
        thread::sleep(LOOK);
    }
    Ok(())
}

/// The time of a `PING` that 99 of 100 do not exceed, while the attack goes on.
fn pings(sizes: Sizes, attack: Attack) -> Vec<Contestant> {
    contestants([contestant_of(ours::in_abundance(), |recipe| {
        let crowd = Crowd::gather(&recipe, sizes)?;
        let sampler: Sampler = Box::new(move |length| {
            let mut times = Vec::new();
            let begun = Instant::now();
            while times.is_empty() || begun.elapsed() < length {
                let act = attack(&crowd)?;
                times.extend(pings_during(crowd.server.address, act)?);
            }
            times.sort_unstable();
            let rank = (times.len() * 99).div_ceil(100).max(1) - 1;
            Ok(times[rank.min(times.len() - 1)].as_secs_f64() * 1e3)
        });
        Ok(sampler)
    })])
}

fn pings_during(address: SocketAddr, act: Act) -> Result<Vec<Duration>, Failure> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let pinging = scope.spawn(|| ping(address, &over));
        let result = act();
        over.store(true, Ordering::SeqCst);
        let times = pinging.join().map_err(|_| Failure("the pings have failed".into()))??;
        result.map(|()| times)
    })
}

fn ping(address: SocketAddr, over: &AtomicBool) -> Result<Vec<Duration>, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut times = Vec::new();
    let mut answer = [0; 64];
    while times.is_empty() || !over.load(Ordering::SeqCst) {
        let asked = Instant::now();
        stream.write_all(&frame("PING"))?;
        let mut length = 0;
        while !answer[..length].ends_with(b"\n") {
            length += stream.read(&mut answer[length..])?;
        }
        times.push(asked.elapsed());
    }
    Ok(times)
}

fn restarts(objects: usize) -> Vec<Contestant> {
    contestants([contestant_of(ours::in_abundance(), |recipe| {
        let directory: Rc<Directory> = Directory::new()?;
        {
            let server = recipe.start_in(&directory)?;
            let create = |number| format!("CREATE /semaphores/{number:07} permits=3");
            pipeline(server.address, (0..objects / 2).map(create))?;
            fill_with_locks(server.address, "", objects / 2)?;
            await_snapshot(server.address, &directory)?;
        }
        let sampler: Sampler = Box::new(move |_| {
            let server = recipe.start_in(&directory)?;
            Ok(server.started_within.as_secs_f64() * 1e3)
        });
        Ok(sampler)
    })])
}

/// Lets messages come and go until the server has made a snapshot, which it does after so many bytes: objects alone are
/// too few.
fn await_snapshot(address: SocketAddr, directory: &Directory) -> Result<(), Failure> {
    const PATIENCE: Duration = Duration::from_secs(60);
    let put = format!("PUT churn | \"{}\"", "x".repeat(500_000));
    pipeline(address, std::iter::once("CREATE churn".to_owned()))?;
    let begun = Instant::now();
    while !directory.contains("data/snapshot-")? {
        if begun.elapsed() > PATIENCE {
            return Err(Failure("the server has made no snapshot".into()));
        }
        pipeline(address, (0..20).flat_map(|_| [put.clone(), "TAKE churn".to_owned()]))?;
    }
    Ok(())
}

/// Sends requests while another thread reads the answers, and waits for all of them.
fn pipeline(address: SocketAddr, requests: impl Iterator<Item = String>) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address)?;
    let (mut bytes, mut count) = (Vec::new(), 0);
    for request in requests {
        bytes.extend(frame(&request));
        count += 1;
    }
    let twin = stream.try_clone()?;
    thread::scope(|scope| {
        let reading = scope.spawn(move || read(twin, count));
        stream.write_all(&bytes)?;
        reading.join().map_err(|_| Failure("reading has failed".into()))?
    })
}

fn read(mut stream: TcpStream, mut count: usize) -> Result<(), Failure> {
    let mut buffer = vec![0; 1 << 20];
    while count > 0 {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(Failure("closed".into()));
        }
        count -= buffer[..length].iter().filter(|byte| **byte == b'\n').count();
    }
    Ok(())
}

/// `METHOD PATH header=value... | PAYLOAD` as it goes over the wire.
fn frame(request: &str) -> Vec<u8> {
    let (request, payload) = match request.split_once(" | ") {
        Some((request, payload)) => (request, Some(payload)),
        None => (request, None),
    };
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut text = format!(r#"{{"Method":"{method}","Path":"{path}""#);
    let headers: Vec<_> = words
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| format!(r#""{name}":"{value}""#))
        .collect();
    if !headers.is_empty() {
        text += &format!(r#","Headers":{{{}}}"#, headers.join(","));
    }
    if let Some(payload) = payload {
        text += &format!(r#","Payload":{payload}"#);
    }
    (text + "}").into_bytes()
}
