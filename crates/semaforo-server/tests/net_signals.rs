//! Signals and wakers. Alone in its process, since signals are the process's.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use semaforo_server::net::{ConnectionId, Connections, Limits, Service};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

struct Heard(Sender<i32>);

impl Service for Heard {
    fn received(&mut self, _: &mut Connections, _: ConnectionId, input: &[u8]) -> usize {
        input.len()
    }
    fn signalled(&mut self, net: &mut Connections, signal: i32) {
        self.0.send(signal).unwrap();
        if signal == SIGUSR2 {
            net.stop(Duration::ZERO);
        }
    }
    fn woken(&mut self, _: &mut Connections) {
        self.0.send(0).unwrap();
    }
}

#[test]
fn signals_and_wakes_reach_the_service() {
    let mut net = Connections::new(Limits::default()).unwrap();
    net.watch_signal(SIGUSR1).unwrap();
    net.watch_signal(SIGUSR2).unwrap();
    let waker = net.waker();
    let (send, heard) = channel();
    let thread = std::thread::spawn(move || net.run(&mut Heard(send)).unwrap());
    let next = || heard.recv_timeout(Duration::from_secs(20)).unwrap();
    for _ in 0..3 {
        signal_hook::low_level::raise(SIGUSR1).unwrap();
        assert_eq!(next(), SIGUSR1);
        waker.wake();
        assert_eq!(next(), 0);
    }
    signal_hook::low_level::raise(SIGUSR2).unwrap();
    assert_eq!(next(), SIGUSR2);
    thread.join().unwrap();
    waker.wake();
}
