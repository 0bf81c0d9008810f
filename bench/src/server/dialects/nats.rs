//! NATS: lines of text; only its ping.

use super::{Dialect, Refusal, Seen, Step, line, no_such_step};

pub(in super::super) struct Nats;

impl Dialect for Nats {
    fn greet(&mut self, out: &mut Vec<u8>) {
        out.extend(b"CONNECT {\"verbose\":false,\"pedantic\":false}\r\n");
    }

    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            Step::Ping => out.extend(b"PING\r\n"),
            other => no_such_step("nats", other),
        }
    }

    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        let Some(line) = line(input) else { return Ok(Seen::Incomplete) };
        match line {
            b"PONG\r\n" if step == Some(Step::Ping) => Ok(Seen::Answer(line.len())),
            // It asks, too.
            b"PING\r\n" => {
                out.extend(b"PONG\r\n");
                Ok(Seen::Aside(line.len()))
            }
            _ if line.starts_with(b"INFO ") => Ok(Seen::Aside(line.len())),
            _ => Err(Refusal::answered(line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_whole, refusal};
    use super::*;

    #[test]
    fn pongs_are_answers_and_pings_are_answered() {
        assert_whole(|| Nats, Step::Ping, b"PONG\r\n");
        let mut out = Vec::new();
        let seen = Nats.answer(Some(Step::Ping), b"INFO {\"max\":1}\r\nPONG\r\n", &mut out);
        assert_eq!(seen, Ok(Seen::Aside(16)));
        assert_eq!(Nats.answer(None, b"PING\r\n", &mut out), Ok(Seen::Aside(6)));
        assert_eq!(out, b"PONG\r\n");
        assert!(refusal(Nats, Step::Ping, "-ERR 'no'\r\n").contains("-ERR"));
    }
}
