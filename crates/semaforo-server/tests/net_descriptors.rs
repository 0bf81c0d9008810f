//! Running out of file descriptors. Alone in its process, since the limit is the process's.

mod net_support;

use std::net::TcpStream;

use net_support::{Seen, Server, exchange};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use semaforo_server::net::raise_open_files;
use semaforo_server::server;

#[test]
fn running_out_of_descriptors_is_survived() {
    let server = Server::echo();
    let mut first = server.connect();
    assert_eq!(exchange(&mut first, b"one"), b"one");
    let before = getrlimit(Resource::Nofile);
    let mut clients: Vec<TcpStream> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(exchange(client, b"in"), b"in");
    }
    // The clients' own sockets come out of the same limit: so many more, and it is reached while
    // the kernel goes on completing connections.
    let mut waiting = Vec::new();
    let used = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let tight = Rlimit { current: Some(used + 6), maximum: before.maximum };
    setrlimit(Resource::Nofile, tight).unwrap();
    while let Ok(stream) = TcpStream::connect(server.address) {
        waiting.push(stream);
    }
    assert!(!waiting.is_empty());
    server.wait(|seen| matches!(seen, Seen::AcceptFailed).then_some(()));
    assert_eq!(exchange(&mut first, b"still served"), b"still served");

    drop(clients);
    for stream in &mut waiting {
        stream.set_read_timeout(Some(net_support::LONG)).unwrap();
        assert_eq!(exchange(stream, b"late"), b"late");
    }

    setrlimit(Resource::Nofile, before).unwrap();
    let enough = raise_open_files(100);
    assert_eq!(enough, 100);

    // A server needs some for HTTP, too.
    let few = Rlimit { current: Some(400), maximum: before.maximum };
    setrlimit(Resource::Nofile, few).unwrap();
    let http = Some("127.0.0.1:0".parse().unwrap());
    let options = server::Options { http, max_connections: 300, ..server::Options::default() };
    let all = (options.max_connections + options.http_connections) as u64;
    let _server = server::Server::start(options).unwrap();
    let raised = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    assert!(raised >= before.maximum.map_or(all, |maximum| maximum.min(all)), "{raised}");
}
