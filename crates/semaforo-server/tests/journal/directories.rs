//! The directory: locked, shared with strangers, made if it is not there.

use semaforo_server::journal::simulated_disk::SimulatedDisk;
use semaforo_server::journal::{Disk, OpenError};

use crate::simulation::{SMALL, disk_with, open, refused};

#[test]
fn a_directory_has_one_user() {
    let disk = SimulatedDisk::new();
    let first = open(&disk, SMALL);
    let error = refused(&disk);
    assert!(matches!(&error, OpenError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("in use by process 4711"), "{error}");
    drop(first);
    open(&disk, SMALL);
}

#[test]
fn files_of_others_are_left_alone_and_leftovers_are_not() {
    let disk = disk_with(10, SMALL);
    let strangers = ["notes.txt", "segment-1", "snapshot-00000000000000000001.bak", "old.new"];
    for name in strangers {
        disk.put(name, b"mine");
    }
    let leftovers = ["segment-00000000000000000009.new", "snapshot-00000000000000000003.new"];
    for name in leftovers {
        disk.put(name, b"half");
    }
    let opened = open(&disk, SMALL);
    assert_eq!((opened.state.last, opened.report.removed), (10, 2));
    for name in strangers {
        assert_eq!(disk.contents(name).as_deref(), Some(&b"mine"[..]), "{name}");
    }
    for name in leftovers {
        assert_eq!(disk.contents(name), None, "{name}");
    }
}

#[test]
fn empty_segments_that_are_not_needed_go() {
    let disk = disk_with(2, SMALL);
    // As after a crash between a switch and the first batch in the new segment.
    let third = SimulatedDisk::new();
    drop(open(&third, SMALL));
    let mut bytes = disk.contents("segment-00000000000000000002").unwrap();
    bytes[24] = 3;
    let sum = crc32(&bytes[..60]);
    bytes[60..64].copy_from_slice(&sum.to_le_bytes());
    disk.put("segment-00000000000000000003", &bytes);
    let opened = open(&disk, SMALL);
    assert_eq!((opened.state.last, opened.report.removed), (2, 1));
    let segments = disk.list().unwrap().into_iter().filter(|name| name.starts_with("segment-"));
    assert_eq!(segments.count(), 2);
}

/// The usual one, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| {
            (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg())
        })
    })
}
