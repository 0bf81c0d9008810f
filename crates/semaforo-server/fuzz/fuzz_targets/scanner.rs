//! Any bytes, in any pieces: nothing panics, pieces make no difference, and what is accepted is
//! JSON.

#![no_main]

use libfuzzer_sys::fuzz_target;
use semaforo_protocol::wire::{Answer, FrameError, Limits, Request, Scan, Scanner};

/// The first byte says how long the pieces are; what was seen is wiped.
fn in_pieces(input: &[u8], length: usize) -> Result<Scan, FrameError> {
    let mut scanner = Scanner::new();
    let mut seen = vec![0xff; input.len()];
    for start in (0..input.len()).step_by(length) {
        let end = input.len().min(start + length);
        seen[start..end].copy_from_slice(&input[start..end]);
        match scanner.scan(&seen[..end], &Limits::default())? {
            Scan::Incomplete => seen[..end].fill(0xff),
            found => return Ok(found),
        }
    }
    Ok(Scan::Incomplete)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((length, input)) = bytes.split_first() else { return };
    let found = Scanner::new().scan(input, &Limits::default());
    assert_eq!(in_pieces(input, 1 + usize::from(*length)), found);
    let _ = Request::parse(input);
    let _ = Answer::parse(input);
    if let Ok(Scan::Frame { start, end }) = found {
        let frame = &input[start..end];
        if let Err(error) = serde_json::from_slice::<serde_json::Value>(frame) {
            assert!(error.to_string().contains("number out of range"), "{error}");
        }
        let _ = Answer::parse(frame);
        if let Ok(request) = Request::parse(frame) {
            let payload = request.payload.unwrap_or(b"null");
            if let Err(error) = serde_json::from_slice::<serde_json::Value>(payload) {
                assert!(error.to_string().contains("number out of range"), "{error}");
            }
        }
    }
});
