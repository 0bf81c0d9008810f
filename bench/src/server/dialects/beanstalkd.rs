//! beanstalkd: lines of text, and the bodies of jobs.

use super::{Dialect, PAYLOAD, Refusal, Seen, Step, decimal, line, no_such_step};

#[derive(Default)]
pub(in super::super) struct Beanstalkd {
    /// The number of the job that was taken last, as text.
    taken: Vec<u8>,
}

impl Dialect for Beanstalkd {
    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            // It has no ping. This is what every connection does anyway.
            Step::Ping => out.extend(b"use default\r\n"),
            Step::Put => {
                out.extend(b"put 0 0 60 100\r\n");
                out.extend(PAYLOAD.as_bytes());
                out.extend(b"\r\n");
            }
            Step::Take => out.extend(b"reserve\r\n"),
            Step::Acknowledge => {
                out.extend(b"delete ");
                out.extend(&self.taken);
                out.extend(b"\r\n");
            }
            other => no_such_step("beanstalkd", other),
        }
    }

    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        let Some(line) = line(input) else { return Ok(Seen::Incomplete) };
        let right = match step {
            Some(Step::Ping) => line == b"USING default\r\n",
            Some(Step::Put) => line.starts_with(b"INSERTED "),
            Some(Step::Acknowledge) => line == b"DELETED\r\n",
            Some(Step::Take) => return self.reserved(line, input),
            _ => false,
        };
        if right { Ok(Seen::Answer(line.len())) } else { Err(Refusal::answered(line)) }
    }
}

impl Beanstalkd {
    /// `RESERVED number length`, and then the body.
    fn reserved(&mut self, line: &[u8], input: &[u8]) -> Result<Seen, Refusal> {
        let mut words = line.trim_ascii_end().split(|&byte| byte == b' ');
        let (Some(b"RESERVED"), Some(number), Some(length)) =
            (words.next(), words.next(), words.next().and_then(decimal))
        else {
            return Err(Refusal::answered(line));
        };
        let end = line.len() + length as usize + 2;
        if input.len() < end {
            return Ok(Seen::Incomplete);
        }
        self.taken.clear();
        self.taken.extend(number);
        Ok(Seen::Answer(end))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_whole, refusal};
    use super::*;

    #[test]
    fn answers_end_where_they_end() {
        assert_whole(Beanstalkd::default, Step::Ping, b"USING default\r\n");
        assert_whole(Beanstalkd::default, Step::Put, b"INSERTED 12\r\n");
        assert_whole(Beanstalkd::default, Step::Take, b"RESERVED 12 4\r\na\r\nb\r\n");
        assert_whole(Beanstalkd::default, Step::Acknowledge, b"DELETED\r\n");
    }

    #[test]
    fn what_was_taken_is_what_is_deleted() {
        let (mut client, mut out) = (Beanstalkd::default(), Vec::new());
        let taken = client.answer(Some(Step::Take), b"RESERVED 712 1\r\nx\r\n", &mut out);
        assert_eq!(taken, Ok(Seen::Answer(19)));
        client.request(Step::Acknowledge, &mut out);
        assert_eq!(out, b"delete 712\r\n");
    }

    #[test]
    fn a_no_is_not_counted() {
        let refusal = |step, answer| refusal(Beanstalkd::default(), step, answer);
        assert!(refusal(Step::Take, "DEADLINE_SOON\r\n").contains("DEADLINE_SOON"));
        assert!(refusal(Step::Take, "RESERVED x\r\n").contains("RESERVED x"));
        assert!(refusal(Step::Put, "BURIED 3\r\n").contains("BURIED"));
        assert!(refusal(Step::Acknowledge, "NOT_FOUND\r\n").contains("NOT_FOUND"));
    }
}
