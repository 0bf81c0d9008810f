//! The guard of the tests that run in a process of their own: a child that runs nothing, or ends
//! before its test does, fails them.

use crate::support::{in_its_own_process, panic_of};

/// In a thread of this name, as a test of this name would.
fn alone(test: &str, body: impl FnOnce() + Send) -> String {
    std::thread::scope(|scope| {
        let named = std::thread::Builder::new().name(test.to_owned());
        let run = || panic_of(|| in_its_own_process(body));
        named.spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}

#[test]
fn a_child_that_finds_no_test_fails_its_test() {
    let message = alone("alone::a_test_that_was_renamed", || {});
    assert!(message.starts_with("alone::a_test_that_was_renamed did not run alone"), "{message}");
}

#[test]
fn a_child_that_ends_early_fails_its_test() {
    let message = panic_of(|| in_its_own_process(|| std::process::exit(0)));
    assert!(message.contains("did not run alone"), "{message}");
}

#[test]
fn a_child_that_fails_fails_its_test() {
    let message = panic_of(|| in_its_own_process(|| std::process::exit(3)));
    assert!(message.contains("alone ended with exit status: 3"), "{message}");
}
