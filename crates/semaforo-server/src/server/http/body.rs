//! Bodies, as they arrive; chunked ones exactly as RFC 9112 has them. A proxy before this server
//! may have read the same bytes, and must not have found another end.

use super::Refusal;
use super::head::BodyLength;
use super::limits::HEAD;

/// A chunk's size is at most so many bytes, with its extensions.
const CHUNK_LINE: usize = 256;

/// The body of a request, as far as it has arrived.
#[derive(Debug)]
pub(super) struct Body {
    bytes: Vec<u8>,
    limit: usize,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// So much is still to come of a body of known length.
    Rest(usize),
    /// The line with the size of the next chunk.
    ChunkSize,
    /// So much is still to come of a chunk.
    Chunk(usize),
    /// The line break after a chunk.
    ChunkEnd,
    /// Lines after the last chunk, of which so many bytes were read.
    Trailers(usize),
    Complete,
}

impl Body {
    pub(super) fn new(length: BodyLength, limit: usize) -> Result<Self, Refusal> {
        let stage = match length {
            BodyLength::None => Stage::Complete,
            BodyLength::Chunked => Stage::ChunkSize,
            BodyLength::Known(length) => match usize::try_from(length) {
                Ok(0) => Stage::Complete,
                Ok(length) if length <= limit => Stage::Rest(length),
                _ => return Err(too_large(limit)),
            },
        };
        Ok(Self { bytes: Vec::new(), limit, stage })
    }

    pub(super) fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// How many bytes are kept of it.
    pub(super) fn kept(&self) -> usize {
        self.bytes.capacity()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Takes what belongs to the body; answers how much that was. Less than all means that the body
    /// is complete, or that a line is.
    pub(super) fn take(&mut self, input: &[u8]) -> Result<usize, Refusal> {
        let mut rest = input;
        loop {
            match self.stage {
                Stage::Complete => break,
                Stage::Rest(0) => self.stage = Stage::Complete,
                Stage::Chunk(0) => self.stage = Stage::ChunkEnd,
                Stage::Rest(missing) | Stage::Chunk(missing) => {
                    if rest.is_empty() {
                        break;
                    }
                    let (taken, after) = rest.split_at(missing.min(rest.len()));
                    self.bytes.extend_from_slice(taken);
                    rest = after;
                    let missing = missing - taken.len();
                    self.stage = match self.stage {
                        Stage::Chunk(_) => Stage::Chunk(missing),
                        _ => Stage::Rest(missing),
                    };
                }
                Stage::ChunkSize => {
                    let Some((line, after)) = take_line(rest, CHUNK_LINE)? else { break };
                    rest = after;
                    let size = chunk_size(line)?;
                    if size > self.limit - self.bytes.len() {
                        return Err(too_large(self.limit));
                    }
                    self.stage = if size == 0 { Stage::Trailers(0) } else { Stage::Chunk(size) };
                }
                Stage::ChunkEnd => match rest {
                    [b'\r', b'\n', after @ ..] => {
                        rest = after;
                        self.stage = Stage::ChunkSize;
                    }
                    [] | [b'\r'] => break,
                    _ => return Err(Refusal::new(400, "a chunk is not as long as its size says")),
                },
                Stage::Trailers(before) => {
                    let Some((line, after)) = take_line(rest, HEAD)? else { break };
                    let total = before + line.len();
                    if total > HEAD {
                        return Err(Refusal::new(431, "the trailers are too long"));
                    }
                    if !line.is_empty() && !is_field(line) {
                        return Err(Refusal::new(400, "what follows the chunks is not a header"));
                    }
                    rest = after;
                    self.stage =
                        if line.is_empty() { Stage::Complete } else { Stage::Trailers(total) };
                }
            }
        }
        Ok(input.len() - rest.len())
    }
}

fn too_large(limit: usize) -> Refusal {
    Refusal::new(413, format_args!("the body is larger than {limit} bytes"))
}

/// A line without its end, and what comes after it.
type Line<'a> = (&'a [u8], &'a [u8]);

/// The first line, if all of it is there. It ends with carriage return and line feed, and has
/// neither within.
fn take_line(input: &[u8], limit: usize) -> Result<Option<Line<'_>>, Refusal> {
    let within = input.get(..limit).unwrap_or(input);
    let end = within.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let (line, after) = match end.map(|end| input.split_at(end)) {
        Some((line, after)) => (line, after),
        None if input.len() < limit => return Ok(None),
        None => return Err(Refusal::new(400, "a line of a chunked body is too long")),
    };
    match after {
        [b'\r', b'\n', after @ ..] => Ok(Some((line, after))),
        [b'\r'] => Ok(None),
        _ => {
            let reason = "a line of a chunked body has to end with carriage return and line feed";
            Err(Refusal::new(400, reason))
        }
    }
}

/// The size; extensions have to be well-formed, and mean nothing.
fn chunk_size(line: &[u8]) -> Result<usize, Refusal> {
    let wrong = || {
        let line = String::from_utf8_lossy(line);
        Refusal::new(400, format_args!("'{line}' is not the size of a chunk"))
    };
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit()).unwrap_or(line.len());
    let (digits, extensions) = line.split_at(end);
    if digits.is_empty() || !are_extensions(extensions) {
        return Err(wrong());
    }
    let text = std::str::from_utf8(digits).map_err(|_| wrong())?;
    usize::from_str_radix(text, 16).map_err(|_| wrong())
}

/// `*( BWS ";" BWS token [ BWS "=" BWS ( token / quoted-string ) ] )`
fn are_extensions(mut rest: &[u8]) -> bool {
    while !rest.is_empty() {
        let Some(named) = skip_blank(rest).strip_prefix(b";") else { return false };
        let Some(after) = skip_token(skip_blank(named)) else { return false };
        rest = match skip_blank(after).strip_prefix(b"=") {
            None => after,
            Some(value) => {
                let value = skip_blank(value);
                let Some(after) = skip_token(value).or_else(|| skip_quoted(value)) else {
                    return false;
                };
                after
            }
        };
    }
    true
}

fn skip_blank(bytes: &[u8]) -> &[u8] {
    let blank = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    bytes.get(blank..).unwrap_or_default()
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What comes after a token, if there is one.
fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes.iter().take_while(|byte| is_token_byte(**byte)).count();
    if length > 0 { bytes.get(length..) } else { None }
}

/// What comes after a text in quotes, if there is one.
fn skip_quoted(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes.strip_prefix(b"\"")?;
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Some(after),
            [b'\\', byte, after @ ..] if is_text(*byte) => after,
            [byte, after @ ..] if is_text(*byte) && *byte != b'\\' => after,
            _ => return None,
        }
    }
}

fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Whether this is `Name: value`.
fn is_field(line: &[u8]) -> bool {
    let value = skip_token(line).and_then(|after| after.strip_prefix(b":"));
    value.is_some_and(|value| value.iter().all(|byte| is_text(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1000;

    /// Feeds a body in pieces; answers it and what was left over.
    fn feed(
        length: BodyLength,
        input: &[u8],
        piece: usize,
    ) -> Result<(Option<Vec<u8>>, Vec<u8>), Refusal> {
        let mut body = Body::new(length, LIMIT)?;
        let mut pending = Vec::new();
        for piece in input.chunks(piece) {
            pending.extend_from_slice(piece);
            let taken = body.take(&pending)?;
            pending.drain(..taken);
        }
        Ok((body.is_complete().then(|| body.into_bytes()), pending))
    }

    #[test]
    fn chunks_in_pieces_of_every_size() {
        let input =
            b"5\r\nhello\r\n00B;name=\"x\"\r\n chunked wo\r\n3\r\nrld\r\n0\r\nTrailer: x\r\n\r\nGET";
        for piece in 1..=input.len() {
            let (body, rest) = feed(BodyLength::Chunked, input, piece).unwrap();
            assert_eq!(body.unwrap(), b"hello chunked world");
            assert_eq!(rest, b"GET");
        }
    }

    #[test]
    fn known_lengths() {
        let (body, rest) = feed(BodyLength::Known(3), b"abcdef", 2).unwrap();
        assert_eq!((body.unwrap(), rest), (b"abc".to_vec(), b"def".to_vec()));
        let (body, _) = feed(BodyLength::Known(4), b"abc", 1).unwrap();
        assert_eq!(body, None);
        assert_eq!(feed(BodyLength::None, b"x", 1).unwrap(), (Some(vec![]), b"x".to_vec()));
        assert_eq!(feed(BodyLength::Known(1001), b"", 1).unwrap_err().status, 413);
        assert_eq!(feed(BodyLength::Known(u64::MAX), b"", 1).unwrap_err().status, 413);
    }

    #[test]
    fn wrong_chunks_are_refused() {
        let status = |input: &[u8]| feed(BodyLength::Chunked, input, 1).unwrap_err().status;
        assert_eq!(status(b"x\r\n"), 400);
        assert_eq!(status(b"\r\n"), 400);
        assert_eq!(status(b"+1\r\n"), 400);
        assert_eq!(status(b"3\r\nabcd\r\n"), 400);
        assert_eq!(status(b"ffffffffffffffffff\r\n"), 400);
        assert_eq!(status(b"ffffffffffffffff\r\n"), 413);
        assert_eq!(status(b"3e9\r\n"), 413, "one more than the limit");
        assert!(feed(BodyLength::Chunked, b"3e8\r\n", 1).is_ok());
    }

    proptest! {
        #[test]
        fn no_input_does_harm(input in proptest::collection::vec(any::<u8>(), 0..300), piece in 1..40_usize) {
            let _ = feed(BodyLength::Chunked, &input, piece);
        }
    }
}
