//! Durations as people write them: `5s`, `200ms`, `1m30s`.

use std::time::Duration;

use semaforo_protocol::limits::{MAX_TTL, MIN_TTL};

/// Reads a duration: numbers with units (`ms`, `s`, `m`, `h`, `d`), one after the other.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; write 200ms, 5s, 1m30s, 2h or 1d");
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            "d" => 86_400.0,
            _ => return Err(wrong()),
        };
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        total = total.checked_add(part).ok_or_else(wrong)?;
        rest = behind;
    }
    Ok(total)
}

/// Reads a session's time to live, as long as the server takes it.
pub(super) fn time_to_live(text: &str) -> Result<Duration, String> {
    let time = parse(text)?;
    if time < Duration::from_millis(MIN_TTL) || time > Duration::from_millis(MAX_TTL) {
        return Err(format!("a session's time to live is between {MIN_TTL}ms and 1d"));
    }
    Ok(time)
}

/// Reads a time limit for what may never happen: a day at most.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    parse(text).and_then(|time| {
        if time <= Duration::from_secs(86_400) { Ok(time) } else { Err("at most 1d".to_owned()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_as_people_write_them() {
        for (text, milliseconds) in [
            ("200ms", 200),
            ("5s", 5000),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("0.5s", 500),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in
            ["", "5", "s", "5x", "5 s", "-5s", "1e400s", "s5", "5s5", "99999999999999999999d"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(time_to_live("99ms").is_err() && time_to_live("1d1ms").is_err());
        assert!(patience("1d").is_ok() && patience("25h").is_err());
        assert_eq!(time_to_live("100ms"), Ok(Duration::from_millis(100)));
    }
}
