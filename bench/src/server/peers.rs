//! The peers, each as its users start it. One that is not installed is left out.

use std::ffi::OsString;
use std::path::Path;

use super::dialects::{Beanstalkd, Echo, Etcd, Nats, Redis};
use super::disguise::Program;
use super::process::{Recipe, free_address};

/// What an answer promises.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// Nothing is left when the server stops.
    InMemory,
    /// It is on the disk.
    OnDisk,
}

/// Above the number of connections that rows open.
pub(super) const MOST_CONNECTIONS: &str = "11000";

/// Its log is never rewritten: what was pushed is loaded as it was pushed.
pub(super) fn redis(kept: Kept) -> Option<Recipe<Redis>> {
    let arguments = move |port: &str, path: &Path| {
        let mut arguments = words(&["--bind", "127.0.0.1", "--port", port, "--save", ""]);
        arguments.extend(words(&["--maxclients", MOST_CONNECTIONS, "--loglevel", "warning"]));
        arguments.extend(words(&["--auto-aof-rewrite-percentage", "0", "--dir"]));
        arguments.push(path.into());
        arguments.extend(match kept {
            Kept::InMemory => words(&["--appendonly", "no"]),
            Kept::OnDisk => words(&["--appendonly", "yes", "--appendfsync", "always"]),
        });
        arguments
    };
    let program = Program::installed("redis-server")?;
    Some(Recipe::new("redis", program, arguments, || Redis::new("")))
}

pub(super) fn beanstalkd(kept: Kept) -> Option<Recipe<Beanstalkd>> {
    let arguments = move |port: &str, path: &Path| {
        let mut arguments = words(&["-l", "127.0.0.1", "-p", port]);
        if kept == Kept::OnDisk {
            arguments.extend(words(&["-f", "0", "-b"]));
            arguments.push(path.into());
        }
        arguments
    };
    let program = Program::installed("beanstalkd")?;
    Some(Recipe::new("beanstalkd", program, arguments, Beanstalkd::default))
}

pub(super) fn nats() -> Option<Recipe<Nats>> {
    let arguments = |port: &str, _: &Path| words(&["-a", "127.0.0.1", "-p", port]);
    Some(Recipe::new("nats", Program::installed("nats-server")?, arguments, || Nats))
}

/// One node, which keeps everything on disk: it cannot do otherwise.
pub(super) fn etcd() -> Option<Recipe<Etcd>> {
    let peers = format!("http://{}", free_address().ok()?);
    let arguments = move |port: &str, path: &Path| {
        let clients = format!("http://127.0.0.1:{port}");
        let mut arguments = words(&["--listen-client-urls", &clients]);
        arguments.extend(words(&["--advertise-client-urls", &clients]));
        arguments.extend(words(&["--listen-peer-urls", &peers]));
        arguments.extend(words(&["--initial-advertise-peer-urls", &peers]));
        arguments.extend(words(&["--initial-cluster", &format!("default={peers}")]));
        arguments.extend(words(&["--logger", "zap", "--log-level", "error", "--data-dir"]));
        arguments.push(path.join("etcd").into());
        arguments
    };
    let program = Program::installed("etcd")?;
    Some(Recipe::new("etcd", program, arguments, || Etcd::with_transactions("", 1)))
}

/// What a connection costs if nothing is done with what arrives.
pub(super) fn echo() -> Option<Recipe<Echo>> {
    let arguments = |port: &str, _: &Path| words(&[&format!("127.0.0.1:{port}")]);
    Some(Recipe::new("echo", Program::echo(), arguments, || Echo))
}

pub(super) fn words(words: &[&str]) -> Vec<OsString> {
    words.iter().map(OsString::from).collect()
}
