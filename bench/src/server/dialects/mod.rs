//! How the contestants are spoken to. The load generator is the same for all of them; a dialect
//! only writes requests, and says where an answer ends and whether it is the right one.

mod beanstalkd;
mod echo;
mod etcd;
mod grpc;
mod nats;
mod redis;
mod semaforo;

pub(super) use beanstalkd::Beanstalkd;
pub(super) use echo::Echo;
pub(super) use etcd::Etcd;
pub(super) use nats::Nats;
pub(super) use redis::Redis;
pub(super) use semaforo::Semaforo;

/// What a message carries: 100 bytes.
const PAYLOAD: &str = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN\
                       0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";

/// What a client asks for, whatever its server calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Once per connection, if the server needs it: a queue, a session, a lease.
    Prepare,
    Ping,
    Put,
    /// Waits for a message.
    Take,
    /// The message that was taken is done with.
    Acknowledge,
    /// Waits for the lock, if the server knows waiting.
    Lock,
    Unlock,
    /// Everything is written to disk in one piece.
    Save,
    /// How many messages there are; wrong if it is not so many.
    Count(u64),
}

/// What stands at the beginning of what has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Not enough to tell.
    Incomplete,
    /// The answer to the oldest request, of so many bytes.
    Answer(usize),
    /// So many bytes that answer nothing.
    Aside(usize),
}

/// One connection's side of a protocol.
pub(super) trait Dialect {
    /// What comes before the first request.
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    fn request(&mut self, step: Step, out: &mut Vec<u8>);

    /// Looks at the beginning of `input`, where the answer to `step` is expected if there is one.
    /// What the protocol demands in return goes to `out`. An error is an answer that says no.
    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal>;
}

/// An answer that was not hoped for, as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) String);

impl Refusal {
    /// With the answer itself, or as much of it as a line holds.
    fn answered(answer: &[u8]) -> Refusal {
        const LONGEST: usize = 200;
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(LONGEST)]);
        Refusal(format!("the answer was {:?}", shown.trim_end()))
    }
}

/// The first line with its end, if all of it is there.
fn line(input: &[u8]) -> Option<&[u8]> {
    memchr::memchr(b'\n', input).map(|end| &input[..=end])
}

fn decimal(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok()?.trim_end().parse().ok()
}

/// A server that is asked for what its dialect does not have: a mistake in a row.
fn no_such_step(dialect: &str, step: Step) -> ! {
    unreachable!("{dialect} has no {step:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same answer must be seen wherever the stream is cut, and nothing before it is whole.
    pub(super) fn assert_whole<D: Dialect>(mut new: impl FnMut() -> D, step: Step, answer: &[u8]) {
        for cut in 0..answer.len() {
            let seen = new().answer(Some(step), &answer[..cut], &mut Vec::new());
            assert_eq!(seen, Ok(Seen::Incomplete), "{cut} bytes of {answer:?}");
        }
        let mut glued = answer.to_vec();
        glued.extend(answer);
        for input in [answer, &glued] {
            let seen = new().answer(Some(step), input, &mut Vec::new());
            assert_eq!(seen, Ok(Seen::Answer(answer.len())));
        }
    }

    pub(super) fn refusal<D: Dialect>(mut dialect: D, step: Step, answer: &str) -> String {
        match dialect.answer(Some(step), answer.as_bytes(), &mut Vec::new()) {
            Err(Refusal(text)) => text,
            Ok(seen) => panic!("{answer:?} was taken for {seen:?}"),
        }
    }

    #[test]
    fn a_payload_has_a_hundred_bytes() {
        assert_eq!(PAYLOAD.len(), 100);
    }

    #[test]
    fn a_long_refusal_is_cut() {
        let Refusal(text) = Refusal::answered(&[b'x'; 1000]);
        assert!(text.len() < 300, "{text}");
    }
}
