//! Threads and tasks that use one object at the same time: all is counted.

use std::task::Poll;
use std::time::{Duration, Instant};

use semaforo::CancelSource;

use super::lending::units;
use crate::support::{Step, block_on};

#[test]
fn units_are_neither_made_nor_lost() {
    let object = units(5);
    object.set_patience(Duration::from_millis(2));
    let stop = CancelSource::new();
    let token = stop.token();
    let end = Instant::now() + Duration::from_millis(300);
    std::thread::scope(|scope| {
        for seed in 1..=4_u64 {
            let (object, token) = (&object, &token);
            scope.spawn(move || {
                let mut random = seed;
                while Instant::now() < end {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let units = (random >> 40) as u32 % 4 + 1;
                    let limit = Duration::from_micros(random >> 56);
                    match random >> 61 {
                        0 => drop(object.hold(units).wait()),
                        1 => drop(block_on(object.hold(units))),
                        2 => drop(object.hold(units).timeout(limit).wait()),
                        3 => drop(block_on(object.hold(units).timeout(limit).cancel_on(token))),
                        4 => drop(Step::new(object.hold(units)).poll()),
                        5 => drop(object.try_hold(units)),
                        6 => {
                            let kept = object.hold(units).wait().keep();
                            object.change(|rule, _| rule.free += kept);
                        }
                        _ => {
                            let mut step = Step::new(object.request(units).timeout(limit));
                            if let Poll::Ready(Ok(units)) = step.poll() {
                                object.change(|rule, _| rule.free += units);
                            }
                        }
                    }
                }
            });
        }
        scope.spawn(|| {
            while Instant::now() < end {
                std::thread::yield_now();
            }
            stop.cancel();
        });
    });
    assert_eq!(object.waiters(), 0);
    assert_eq!(object.into_inner().free, 5);
}
