//! redis: RESP, arrays of strings.

use super::{Dialect, PAYLOAD, Refusal, Seen, Step, decimal, line, no_such_step};

const QUEUE: &str = "q";

pub(in super::super) struct Redis {
    put: Vec<u8>,
    lock: Vec<u8>,
    unlock: Vec<u8>,
}

impl Redis {
    /// A client that uses this name for its locks.
    pub(in super::super) fn new(name: &str) -> Redis {
        Redis {
            put: command(&["LPUSH", QUEUE, PAYLOAD]),
            lock: command(&["SET", name, "owner", "NX", "PX", "30000"]),
            unlock: command(&["DEL", name]),
        }
    }

    /// A client whose messages are put at the end that is cheaper if nobody takes them.
    pub(in super::super) fn appending() -> Redis {
        Redis { put: command(&["RPUSH", QUEUE, PAYLOAD]), ..Redis::new("") }
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

impl Dialect for Redis {
    fn request(&mut self, step: Step, out: &mut Vec<u8>) {
        match step {
            Step::Ping => out.extend(b"*1\r\n$4\r\nPING\r\n"),
            Step::Put => out.extend(&self.put),
            Step::Take => out.extend(b"*3\r\n$5\r\nBRPOP\r\n$1\r\nq\r\n$1\r\n0\r\n"),
            Step::Lock => out.extend(&self.lock),
            Step::Unlock => out.extend(&self.unlock),
            Step::Save => out.extend(b"*1\r\n$4\r\nSAVE\r\n"),
            Step::Count(_) => out.extend(b"*2\r\n$4\r\nLLEN\r\n$1\r\nq\r\n"),
            other => no_such_step("redis", other),
        }
    }

    fn answer(
        &mut self,
        step: Option<Step>,
        input: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<Seen, Refusal> {
        let Some(length) = length_of_value(input)? else { return Ok(Seen::Incomplete) };
        let answer = &input[..length];
        let right = match step {
            Some(Step::Ping) => answer == b"+PONG\r\n",
            Some(Step::Put) => answer.starts_with(b":"),
            Some(Step::Take) => answer.starts_with(b"*2\r\n"),
            Some(Step::Lock | Step::Save) => answer == b"+OK\r\n",
            Some(Step::Unlock) => answer == b":1\r\n",
            Some(Step::Count(expected)) => decimal(&answer[1..]) == Some(expected),
            _ => false,
        };
        if right { Ok(Seen::Answer(length)) } else { Err(Refusal::answered(answer)) }
    }
}

/// None if the value has not arrived as a whole.
fn length_of_value(input: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some(line) = line(input) else { return Ok(None) };
    let number = || decimal(&line[1..]).ok_or_else(|| Refusal::answered(line));
    match line[0] {
        b'+' | b':' => Ok(Some(line.len())),
        // Nothing, as a string or as an array.
        b'$' | b'*' if line[1] == b'-' => Ok(Some(line.len())),
        b'$' => {
            let end = line.len() + number()? as usize + 2;
            Ok((end <= input.len()).then_some(end))
        }
        b'*' => {
            let mut end = line.len();
            for _ in 0..number()? {
                match length_of_value(&input[end..])? {
                    Some(length) => end += length,
                    None => return Ok(None),
                }
            }
            Ok(Some(end))
        }
        _ => Err(Refusal::answered(line)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_whole, refusal};
    use super::*;

    fn client() -> Redis {
        Redis::new("l1")
    }

    #[test]
    fn answers_end_where_they_end() {
        assert_whole(client, Step::Ping, b"+PONG\r\n");
        assert_whole(client, Step::Put, b":17\r\n");
        assert_whole(client, Step::Take, b"*2\r\n$1\r\nq\r\n$5\r\na\r\nbc\r\n");
        assert_whole(client, Step::Lock, b"+OK\r\n");
        assert_whole(client, Step::Unlock, b":1\r\n");
        assert_whole(client, Step::Count(12), b":12\r\n");
    }

    #[test]
    fn a_no_is_not_counted() {
        assert!(refusal(client(), Step::Ping, "-LOADING Redis is loading\r\n").contains("LOADING"));
        assert!(refusal(client(), Step::Lock, "$-1\r\n").contains("$-1"));
        assert!(refusal(client(), Step::Unlock, ":0\r\n").contains(":0"));
        assert!(refusal(client(), Step::Take, "*-1\r\n").contains("*-1"));
        assert!(refusal(client(), Step::Count(12), ":11\r\n").contains(":11"));
    }

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut bytes = Vec::new();
        client().request(Step::Unlock, &mut bytes);
        assert_eq!(bytes, b"*2\r\n$3\r\nDEL\r\n$2\r\nl1\r\n");
    }
}
