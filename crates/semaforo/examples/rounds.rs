//! Working in rounds: no party begins a round before all have ended the one before. With a
//! `Barrier` the parties are fixed, and an action runs between two rounds; with a `Phaser` they come
//! and go.
//!
//! - *Heat* spreads along a rod, a part for each thread; the action swaps old and new temperatures.
//! - *Hikers* walk from hut to hut, and wait for each other at each; some join on the way, some go
//!   home early.
//!
//! `cargo run --release -p semaforo --example rounds`

use std::sync::{Arc, Mutex};
use std::thread;

use semaforo::{Barrier, Phaser};

/// The temperatures of a rod after so many rounds, computed by so many threads. Its ends stay as
/// they are, every other place becomes the mean of its neighbours.
fn heat(rod: &[f64], rounds: usize, threads: usize) -> Vec<f64> {
    let old = Arc::new(Mutex::new(rod.to_vec()));
    let new = Arc::new(Mutex::new(rod.to_vec()));
    // No party computes while the action runs: it has both vectors to itself.
    let barrier = Barrier::with_action(threads as u32, {
        let (old, new) = (old.clone(), new.clone());
        move || std::mem::swap(&mut *old.lock().unwrap(), &mut *new.lock().unwrap())
    });
    let inner = rod.len() - 2;
    thread::scope(|scope| {
        for part in 0..threads {
            let (barrier, old, new) = (&barrier, &old, &new);
            scope.spawn(move || {
                let mine = 1 + part * inner / threads..1 + (part + 1) * inner / threads;
                for _ in 0..rounds {
                    let means: Vec<f64> = {
                        let old = old.lock().unwrap();
                        mine.clone().map(|place| (old[place - 1] + old[place + 1]) / 2.0).collect()
                    };
                    new.lock().unwrap()[mine.clone()].copy_from_slice(&means);
                    barrier.arrive().wait().expect("no party leaves");
                }
            });
        }
    });
    drop(barrier);
    old.lock().unwrap().clone()
}

/// From which hut to which a hiker comes along.
type Tour = std::ops::Range<u32>;

/// Who was at each hut. A hiker that joins at a later hut is registered by the leader.
fn hike(tours: &[Tour], huts: u32) -> Vec<Vec<usize>> {
    // The leader goes all the way, and is a party from the beginning.
    let group = &Phaser::new(1);
    let guests = &Mutex::new(vec![Vec::new(); huts as usize]);
    thread::scope(|scope| {
        for hut in 0..huts {
            let joining = tours.iter().enumerate().filter(|(_, tour)| tour.start == hut);
            for (hiker, tour) in joining {
                group.register().expect("the hike goes on");
                let tour = tour.clone();
                scope.spawn(move || {
                    for hut in tour.clone() {
                        guests.lock().unwrap()[hut as usize].push(hiker);
                        if hut + 1 == tour.end {
                            group.arrive_and_deregister().expect("it is registered");
                        } else {
                            group.arrive_and_wait().wait().expect("it is registered");
                        }
                    }
                });
            }
            group.arrive_and_wait().wait().expect("the leader is registered");
        }
        group.arrive_and_deregister().expect("the leader is registered");
    });
    let mut guests = guests.lock().unwrap().clone();
    guests.iter_mut().for_each(|at_a_hut| at_a_hut.sort_unstable());
    guests
}

fn main() {
    let mut rod = vec![0.0; 17];
    rod[16] = 100.0;
    for rounds in [0, 10, 100, 1000] {
        let shown: Vec<_> =
            heat(&rod, rounds, 3).iter().map(|degrees| format!("{degrees:4.0}")).collect();
        println!("after {rounds:4} rounds {}", shown.concat());
    }
    println!("Hikers 0 to 3 walk from hut to hut:");
    for (hut, guests) in hike(&[0..4, 1..3, 0..2, 3..5], 5).iter().enumerate() {
        println!("  hut {hut}: {guests:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heat_does_not_depend_on_the_number_of_threads() {
        let rod: Vec<f64> = (0..20).map(|place| f64::from(place * place % 7)).collect();
        let alone = heat(&rod, 50, 1);
        assert_eq!(heat(&rod, 50, 2), alone);
        assert_eq!(heat(&rod, 50, 3), alone);
    }

    #[test]
    fn in_the_end_the_heat_is_spread_evenly() {
        let rod = heat(&[0.0, 0.0, 0.0, 0.0, 8.0], 200, 2);
        for (place, degrees) in rod.into_iter().enumerate() {
            assert!((degrees - 2.0 * place as f64).abs() < 1e-6, "{place}: {degrees}");
        }
    }

    #[test]
    fn at_each_hut_are_those_whose_tour_leads_there() {
        let tours = [0..4, 1..3, 0..2, 3..5];
        for (hut, guests) in (0..).zip(hike(&tours, 5)) {
            let expected: Vec<_> =
                (0..tours.len()).filter(|hiker| tours[*hiker].contains(&hut)).collect();
            assert_eq!(guests, expected, "hut {hut}");
        }
    }
}
