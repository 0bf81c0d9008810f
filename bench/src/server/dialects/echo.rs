//! What comes back as it was: the least that a server can do.

use super::{Dialect, Refusal, Seen, Step, line, no_such_step};

const PING: &[u8] = b"PING\r\n";

pub(in super::super) struct Echo;

impl Dialect for Echo {
    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            Step::Ping => out.extend(PING),
            other => no_such_step("echo", other),
        }
    }

    fn answer(
        &mut self,
        _step: Option<Step>,
        input: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        match line(input) {
            None => Ok(Seen::Incomplete),
            Some(PING) => Ok(Seen::Answer(PING.len())),
            Some(other) => Err(Refusal::answered(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_whole, refusal};
    use super::*;

    #[test]
    fn only_what_was_said_is_an_answer() {
        assert_whole(|| Echo, Step::Ping, b"PING\r\n");
        assert!(refusal(Echo, Step::Ping, "PONG\r\n").contains("PONG"));
    }
}
