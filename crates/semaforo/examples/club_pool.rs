//! A club's pool: a semaphore limits the number of bathers, and the ice-cream cart at its side watches
//! their number in a monitor: it opens when there are many, and closes when there are few.
//!
//! `cargo run --release -p semaforo --example club_pool`

use std::thread;
use std::time::Duration;

use semaforo::{Monitor, Permit, Semaphore};

const PLACES: u32 = 6;
/// The cart opens above this number of bathers,
const MANY: u32 = 4;
/// and closes below this one: it does not open and close with every single bather.
const FEW: u32 = 2;

struct Pool {
    places: Semaphore,
    scene: Monitor<Scene>,
}

/// What can be seen at the pool.
#[derive(Default)]
struct Scene {
    bathers: u32,
    most_bathers: u32,
    cart_is_open: bool,
    evening: bool,
    /// How many bathers the cart saw when it opened, closed, opened, and so on.
    cart_saw: Vec<u32>,
}

/// Somebody in the pool, until dropped.
struct Bather<'a> {
    pool: &'a Pool,
    _place: Permit<'a>,
}

impl Pool {
    fn new() -> Self {
        Self { places: Semaphore::new(PLACES), scene: Monitor::default() }
    }

    /// Goes in, when there is a place.
    fn bathe(&self) -> Bather<'_> {
        let place = self.places.acquire(1).wait().expect("the places are never closed");
        self.change(|scene| {
            scene.bathers += 1;
            scene.most_bathers = scene.most_bathers.max(scene.bathers);
        });
        Bather { pool: self, _place: place }
    }

    fn change(&self, change: impl FnOnce(&mut Scene)) {
        let mut scene = self.scene.enter().wait();
        change(&mut scene);
        self.scene.notify_all(&scene);
    }

    fn wait_until(&self, seen: impl Fn(&Scene) -> bool) {
        let scene = self.scene.enter().wait();
        drop(self.scene.wait_while(scene, |scene| !seen(scene)).wait());
    }

    /// Sells ice cream until the evening.
    fn run_cart(&self) {
        let nothing_to_do = |scene: &Scene| {
            let stays = if scene.cart_is_open { FEW..=PLACES } else { 0..=MANY };
            stays.contains(&scene.bathers) && !scene.evening
        };
        loop {
            let scene = self.scene.enter().wait();
            let mut scene = self.scene.wait_while(scene, nothing_to_do).wait();
            if scene.evening {
                return;
            }
            scene.cart_is_open = !scene.cart_is_open;
            let (bathers, opens) = (scene.bathers, scene.cart_is_open);
            scene.cart_saw.push(bathers);
            self.scene.notify_all(&scene);
            println!("{bathers} in the pool: the cart {}", if opens { "opens" } else { "closes" });
        }
    }
}

impl Drop for Bather<'_> {
    fn drop(&mut self) {
        self.pool.change(|scene| scene.bathers -= 1);
    }
}

fn main() {
    let pool = &Pool::new();
    thread::scope(|day| {
        day.spawn(|| pool.run_cart());
        for (time, visitors) in [("In the morning", 3), ("At noon", 15), ("In the afternoon", 10)] {
            println!("{time} {visitors} visitors come.");
            thread::scope(|crowd| {
                for visitor in 0..visitors {
                    crowd.spawn(move || {
                        let _bather = pool.bathe();
                        thread::sleep(Duration::from_millis(50 + 10 * visitor));
                    });
                }
            });
            pool.wait_until(|scene| !scene.cart_is_open);
        }
        pool.change(|scene| scene.evening = true);
    });
    let most = pool.scene.enter().wait().most_bathers;
    println!("Never were there more than {most} in the pool, which has {PLACES} places.");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cart_opens_above_many_and_closes_below_few() {
        let pool = &Pool::new();
        thread::scope(|scope| {
            scope.spawn(|| pool.run_cart());
            for _ in 0..3 {
                let mut bathers: Vec<_> = (0..=MANY).map(|_| pool.bathe()).collect();
                pool.wait_until(|scene| scene.cart_is_open);
                bathers.truncate(FEW as usize - 1);
                pool.wait_until(|scene| !scene.cart_is_open);
            }
            pool.change(|scene| scene.evening = true);
        });
        assert_eq!(pool.scene.enter().wait().cart_saw, [MANY + 1, FEW - 1].repeat(3));
    }

    #[test]
    fn who_finds_the_pool_full_waits_for_a_place() {
        let pool = &Pool::new();
        let mut bathers: Vec<_> = (0..PLACES).map(|_| pool.bathe()).collect();
        thread::scope(|scope| {
            let late = scope.spawn(|| pool.bathe());
            while pool.places.waiters() == 0 {
                thread::yield_now();
            }
            assert_eq!(pool.scene.enter().wait().bathers, PLACES);
            bathers.pop();
            bathers.push(late.join().unwrap());
        });
        assert_eq!(pool.scene.enter().wait().most_bathers, PLACES);
    }

    #[test]
    fn a_crowd_leaves_an_empty_pool() {
        let pool = &Pool::new();
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| (0..50).for_each(|_| drop(pool.bathe())));
            }
        });
        let scene = pool.scene.enter().wait();
        assert_eq!((scene.bathers, pool.places.available()), (0, PLACES));
        assert!(scene.most_bathers <= PLACES, "{} of {PLACES}", scene.most_bathers);
    }
}
