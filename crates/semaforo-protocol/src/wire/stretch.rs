//! How far a string goes on without anything special in it, eight bytes at a time.

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);

/// Sets the high bit of the first byte below 0x80 that a string cannot contain as it is: a quote, a
/// backslash, a control character. The high bits of the bytes above that one, and of those from
/// 0x80 on, can be anything.
#[inline]
const fn special(word: u64) -> u64 {
    // Exchanging the quote (0x22) and the space (0x20) puts it next to the control characters, so
    // that one subtraction borrows for all of them.
    let quote_or_control = (word ^ (ONES * 0x02)).wrapping_sub(ONES * 0x21);
    let backslash = (word ^ (ONES * b'\\' as u64)).wrapping_sub(ONES);
    quote_or_control | backslash
}

#[inline]
const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

#[inline]
fn length(bytes: &[u8], flags: impl Fn(u64) -> u64, is_end: impl Fn(u8) -> bool) -> usize {
    let (words, _) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let flags = flags(u64::from_le_bytes(*word));
        if flags != 0 {
            return index * 8 + (flags.trailing_zeros() / 8) as usize;
        }
    }
    let done = words.len() * 8;
    let rest = bytes.get(done..).unwrap_or_default();
    done + rest.iter().position(|byte| is_end(*byte)).unwrap_or(rest.len())
}

/// How many bytes there are before the first quote, backslash or control character.
#[inline]
pub(super) fn unescaped(bytes: &[u8]) -> usize {
    length(bytes, |word| special(word) & !word & HIGH, is_special)
}

/// As [`unescaped`], and stops before what is not ASCII.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    length(bytes, |word| (special(word) | word) & HIGH, |byte| is_special(byte) || !byte.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place() {
        for byte in 0..=255_u8 {
            for place in 0..20 {
                for before in [b'a', b' ', b'!', b'#', b'[', b']', 0x7f] {
                    let mut bytes = [before; 20];
                    bytes[place] = byte;
                    let expected = if is_special(byte) { place } else { 20 };
                    assert_eq!(unescaped(&bytes), expected, "{byte:#x} at {place}");
                    let expected = if is_special(byte) || byte > 0x7f { place } else { 20 };
                    assert_eq!(plain(&bytes), expected, "{byte:#x} at {place}");
                }
            }
        }
    }

    #[test]
    fn the_first_of_two_counts() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [b'a', first, second, b'b', b'c', b'd', b'e', b'f'];
                let expected = bytes.iter().position(|byte| is_special(*byte)).unwrap_or(8);
                assert_eq!(unescaped(&bytes), expected, "{first:#x} {second:#x}");
            }
        }
    }
}
