use semaforo::*;
use std::future::Future;
use std::pin::pin;
use std::task::*;
use std::time::*;
fn main() {
    let s = Semaphore::new(1);
    println!(
        "{} {} {}",
        size_of_val(&s.acquire(1)),
        size_of_val(&s.acquire(1).timeout(Duration::from_secs(1))),
        size_of::<Mutex<()>>()
    );
    let n = 10_000_000u32;
    for _ in 0..3 {
        let t = Instant::now();
        for _ in 0..n {
            let p = std::hint::black_box(&s).acquire(1).wait().unwrap();
            drop(p);
        }
        println!("sem blocking {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let mut cx = Context::from_waker(Waker::noop());
        let t = Instant::now();
        for _ in 0..n {
            let f = pin!(std::hint::black_box(&s).acquire(1));
            match f.poll(&mut cx) {
                Poll::Ready(p) => drop(p.unwrap()),
                _ => panic!(),
            }
        }
        println!("sem async {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let t = Instant::now();
        for _ in 0..n {
            let f = pin!(std::hint::black_box(&s).acquire(1).timeout(Duration::from_secs(3600)));
            match f.poll(&mut cx) {
                Poll::Ready(p) => drop(p.unwrap()),
                _ => panic!(),
            }
        }
        println!("sem async limited {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let m = Mutex::new(0);
        let t = Instant::now();
        for _ in 0..n {
            drop(std::hint::black_box(&m).lock().wait());
        }
        println!("mutex blocking {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let t = Instant::now();
        for _ in 0..n {
            let f = pin!(std::hint::black_box(&m).lock());
            match f.poll(&mut cx) {
                Poll::Ready(p) => drop(p),
                _ => panic!(),
            }
        }
        println!("mutex async {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let l = RwLock::new(0);
        let t = Instant::now();
        for _ in 0..n {
            let f = pin!(std::hint::black_box(&l).read());
            match f.poll(&mut cx) {
                Poll::Ready(p) => drop(p),
                _ => panic!(),
            }
        }
        println!("rw read async {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let m = std::sync::Mutex::new(0);
        let t = Instant::now();
        for _ in 0..n {
            drop(std::hint::black_box(&m).lock().unwrap());
        }
        println!("std mutex {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let h = Semaphore::new(1);
        let _p = h.acquire(1).wait().unwrap();
        let t = Instant::now();
        for _ in 0..n {
            let mut f = pin!(std::hint::black_box(&h).acquire(1));
            assert!(f.as_mut().poll(&mut cx).is_pending());
        }
        println!("queue+drop {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
        let t = Instant::now();
        for _ in 0..n {
            let mut f =
                pin!(std::hint::black_box(&h).acquire(1).timeout(Duration::from_secs(3600)));
            assert!(f.as_mut().poll(&mut cx).is_pending());
        }
        println!("queue+drop limited {:.2}", t.elapsed().as_nanos() as f64 / n as f64);
    }
    // ping pong
    let (a, b) = (Semaphore::new(0), Semaphore::new(0));
    let rounds = 1_000_000;
    std::thread::scope(|sc| {
        sc.spawn(|| {
            for _ in 0..rounds {
                a.acquire(1).wait().unwrap().forget();
                b.release(1).unwrap();
            }
        });
        let t = Instant::now();
        for _ in 0..rounds {
            a.release(1).unwrap();
            b.acquire(1).wait().unwrap().forget();
        }
        println!("pingpong {:.1}", t.elapsed().as_nanos() as f64 / rounds as f64 / 2.0);
    });
    for (name, s) in [("fifo", Semaphore::new(1)), ("barging", Semaphore::barging(1))] {
        for _ in 0..3 {
            let t = Instant::now();
            std::thread::scope(|sc| {
                for _ in 0..2 {
                    sc.spawn(|| {
                        for _ in 0..rounds {
                            drop(s.acquire(1).wait().unwrap());
                        }
                    });
                }
            });
            println!("fight {name} {:.1}", t.elapsed().as_nanos() as f64 / rounds as f64 / 2.0);
        }
    }
}
