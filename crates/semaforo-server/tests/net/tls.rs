//! The connection layer with TLS.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::net_support::{LONG, Options, Server, echo, exchange, read_all, read_exactly};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use semaforo_server::net::tls::{TlsError, server_config};
use semaforo_server::net::{Limits, Reason};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/net_support").join(name)
}

fn tls() -> Options {
    let config = server_config(&file("certificate.pem"), &file("key.pem"), &[]).unwrap();
    Options { tls: Some(config), ..Options::default() }
}

fn shake_hands(stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file("certificate.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

#[test]
fn echoes_through_tls_small_and_large() {
    let server = Server::start(tls(), echo);
    let (stream, id) = server.connect_seen();
    let mut stream = shake_hands(stream);
    assert_eq!(exchange(&mut stream, b"hello"), b"hello");
    let large: Vec<u8> = (0..500_000u32).map(|n| (n % 251) as u8).collect();
    for piece in large.chunks(20_000) {
        assert_eq!(exchange(&mut stream, piece), piece);
    }
    let offsets = server.ask(move |net| (net.queued(id), net.accepted(id)));
    assert_eq!(offsets, (Some(500_005), Some(500_005)), "offsets count what the service sent");
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"");
    assert_eq!(server.wait_closed(id).reason, Reason::Finished);
}

#[test]
fn a_slow_reader_of_tls_catches_up() {
    const SIZE: usize = 6 << 20;
    let server = Server::start(tls(), |net, id, input| {
        let output = net.output(id);
        output.extend((0..SIZE).map(|n| (n % 253) as u8));
        input.len()
    });
    let (stream, id) = server.connect_seen();
    let mut stream = shake_hands(stream);
    stream.write_all(b"x").unwrap();
    server.wait(|seen| matches!(seen, crate::net_support::Seen::Congested(_, true)).then_some(()));
    let accepted = server.ask(move |net| net.accepted(id)).unwrap();
    assert!(accepted < SIZE as u64);
    let expected: Vec<u8> = (0..SIZE).map(|n| (n % 253) as u8).collect();
    assert!(read_exactly(&mut stream, SIZE) == expected);
    server.wait(|seen| matches!(seen, crate::net_support::Seen::Congested(_, false)).then_some(()));
}

#[test]
fn who_does_not_speak_tls_is_closed() {
    let server = Server::start(tls(), echo);
    let (mut stream, id) = server.connect_seen();
    stream.write_all(b"{\"Method\":\"PING\"}{\"Method\":\"PING\"}").unwrap();
    assert_eq!(server.wait_closed(id).reason, Reason::Tls);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(!rest.windows(4).any(|window| window == b"PING"));
}

#[test]
fn a_connection_that_ends_within_the_handshake_is_let_go() {
    let server = Server::start(tls(), echo);
    let (mut stream, id) = server.connect_seen();
    // The beginning of a handshake record.
    stream.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.wait_closed(id).reason, Reason::Finished);
}

#[test]
fn input_held_back_inside_tls_is_offered_after_a_pause() {
    let limits = Limits::default();
    let server = Server::start(Options { limits, ..tls() }, |net, id, input| {
        net.send(id, &input[..1]);
        net.pause(id);
        1
    });
    let (stream, id) = server.connect_seen();
    let mut stream = shake_hands(stream);
    stream.write_all(b"ab").unwrap();
    stream.write_all(b"c").unwrap();
    for expected in [b"a", b"b", b"c"] {
        assert_eq!(&read_exactly(&mut stream, 1), expected);
        server.ask(move |net| net.resume(id));
    }
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let error = server_config(&file("nothing.pem"), &file("key.pem"), &[]).unwrap_err();
    assert!(matches!(error, TlsError::Unreadable(..)));
    assert!(error.to_string().contains("nothing.pem"), "{error}");
    let error = server_config(&file("key.pem"), &file("key.pem"), &[]).unwrap_err();
    assert!(matches!(error, TlsError::NoCertificate(..)), "{error}");
    let error = server_config(&file("certificate.pem"), &file("certificate.pem"), &[]).unwrap_err();
    assert!(matches!(error, TlsError::NoKey(..)), "{error}");
}

/// What the socket refused has not arrived, and all else has.
#[test]
fn output_that_a_reset_connection_refuses_counts_as_not_sent() {
    const RECORD: &[u8] = b"abcdef";
    let options = Options { flushes: false, ..tls() };
    let (sender, received) = mpsc::channel();
    let server = Server::start(options, move |_, _, input| {
        sender.send(()).unwrap();
        input.len()
    });
    let (stream, id) = server.connect_seen();
    let mut stream = shake_hands(stream);
    stream.write_all(b"x").unwrap();
    received.recv().unwrap();
    let tried = server.ask(move |net| {
        // The loop is here, and cannot hear of it before it writes.
        rustix::net::sockopt::set_socket_linger(&stream.sock, Some(Duration::ZERO)).unwrap();
        drop(stream);
        let mut tried = 0;
        while net.queued(id).is_some() {
            net.send(id, RECORD);
            net.flush(id);
            tried += 1;
        }
        tried
    });
    assert_eq!(server.wait_closed(id).accepted, RECORD.len() as u64 * (tried - 1));
}

#[test]
fn a_connection_that_waits_for_a_place_is_answered_through_tls_after_a_stop() {
    let limits = Limits { connections: 1, ..Limits::default() };
    let server = Server::start(Options { limits, ..tls() }, echo);
    let (inside, _) = server.connect_seen();
    let outside = server.connect();
    assert!(server.ask(|net| {
        net.stop(LONG);
        net.is_accepting()
    }));
    drop(inside);
    let mut outside = shake_hands(outside);
    assert_eq!(exchange(&mut outside, b"late"), b"late");
    assert_eq!(read_all(&mut outside), b"");
}
