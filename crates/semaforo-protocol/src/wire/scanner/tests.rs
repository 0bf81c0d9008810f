//! The scanner against serde_json, and against itself in pieces.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::*;
use crate::wire::{Answer, Request};

fn at_once(input: &[u8]) -> Result<Scan, FrameError> {
    Scanner::new().scan(input, &Limits::default())
}

/// What comes of the input in these pieces. What the scanner has seen is wiped, so that it can look
/// at no byte twice.
fn in_pieces(input: &[u8], ends: impl IntoIterator<Item = usize>) -> Result<Scan, FrameError> {
    let mut scanner = Scanner::new();
    let mut seen = vec![0xff; input.len()];
    let mut start = 0;
    for end in ends.into_iter().chain([input.len()]) {
        seen[start..end].copy_from_slice(&input[start..end]);
        match scanner.scan(&seen[..end], &Limits::default())? {
            Scan::Incomplete => seen[..end].fill(0xff),
            found => return Ok(found),
        }
        start = end;
    }
    Ok(Scan::Incomplete)
}

/// Every JSON value here, within an object, is found whole; in all of its splits.
fn accepts(value: &str) {
    let input = format!("{{\"a\":{value}}}");
    let whole = Scan::Frame { start: 0, end: input.len() };
    assert_eq!(at_once(input.as_bytes()), Ok(whole), "{input}");
    for split in 0..=input.len() {
        assert_eq!(in_pieces(input.as_bytes(), [split]), Ok(whole), "{input} split at {split}");
    }
    assert_eq!(in_pieces(input.as_bytes(), 0..input.len()), Ok(whole), "{input}");
}

/// To serde_json; except that a number that no f64 can hold is grammatical.
fn is_json(bytes: &[u8]) {
    if let Err(error) = serde_json::from_slice::<Json>(bytes) {
        assert!(error.to_string().contains("number out of range"), "{error}");
    }
}

fn refuses(value: &[u8]) -> FrameError {
    let input = [b"{\"a\":", value, b"}"].concat();
    let error = at_once(&input).expect_err(&String::from_utf8_lossy(&input));
    assert_eq!(in_pieces(&input, 0..input.len()), Err(error));
    error
}

#[test]
fn everything_that_is_json() {
    for value in [
        "0",
        "-0",
        "1",
        "10",
        "1234567890123456789012345678901234567890",
        "0.5",
        "-1.25",
        "1e5",
        "1E+5",
        "1e-5",
        "0e0",
        "0.0e00",
        "1e999",
        "true",
        "false",
        "null",
        "\"\"",
        "\"abc\"",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0000\\uabCD\\uFFFF\"",
        "\"\\ud83d\\ude00\"",
        "\"\\uDBFF\\uDFFF\"",
        "\"\u{7f}é\u{800}\u{ffff}\u{10000}\u{10ffff}\u{feff}\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1]",
        "[1,2]",
        "[[],{}]",
        "{\"a\":1,\"a\":[{}]}",
        " \t\r\n1 ",
        "[1 , 2 ]",
        "{ \"a\" : 1 , \"b\" : 2 }",
        "[true,false,null]",
        "\"01234567890123456789\\n0123456789\"",
    ] {
        accepts(value);
        let json = format!("{{\"a\":{value}}}");
        is_json(json.as_bytes());
    }
}

#[test]
fn everything_that_is_not() {
    for value in [
        "",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e5",
        "1e",
        "1e+",
        "1.5.5",
        "0x1",
        "1a",
        "-a",
        "--1",
        "NaN",
        "Infinity",
        "tru",
        "truE",
        "True",
        "nul",
        "nulll",
        "falsee",
        "'a'",
        "a",
        "\"\\a\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u 123\"",
        "\"\\x41\"",
        "\"\\ud800\"",
        "\"\\ud800a\"",
        "\"\\ud800\\n\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\ud800\"",
        "\"\\udc00\"",
        "\"\n\"",
        "\"\t\"",
        "\"\u{0}\"",
        "\"\u{1f}\"",
        "[",
        "]",
        "[}",
        "{]",
        "[1}",
        "[,]",
        "[1,]",
        "[1 2]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\" 1}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1 \"b\":2}",
        "[1,,2]",
        "1,",
        "1 2",
        ":",
        "//",
        "\u{a0}1",
        "\u{feff}1",
    ] {
        let error = refuses(value.as_bytes());
        assert!(matches!(error, FrameError::Malformed { .. }), "{value}: {error}");
        assert_eq!(error.status(), 400);
        let json = format!("{{\"a\":{value}}}");
        serde_json::from_str::<Json>(&json).unwrap_err();
    }
}

#[test]
fn what_is_not_utf_8() {
    for text in [
        &b"\x80"[..],
        b"\xbf",
        b"\xc0\x80",
        b"\xc1\xbf",
        b"\xc3",
        b"\xc3(",
        b"\xe0\x80\x80",
        b"\xe0\x9f\xbf",
        b"\xed\xa0\x80",
        b"\xed\xbf\xbf",
        b"\xe2\x82",
        b"\xe2\x82(",
        b"\xf0\x80\x80\x80",
        b"\xf0\x8f\xbf\xbf",
        b"\xf4\x90\x80\x80",
        b"\xf5\x80\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xff",
        b"\xfe",
        b"\xf0\x9f\x98",
    ] {
        let value = [b"\"", text, b"\""].concat();
        assert!(matches!(refuses(&value), FrameError::InvalidUtf8 { .. }), "{text:x?}");
        std::str::from_utf8(&value).unwrap_err();
    }
}

#[test]
fn errors_say_where_and_come_again() {
    let mut scanner = Scanner::new();
    let input = b" {\"a\" 1}";
    let error = scanner.scan(input, &Limits::default()).unwrap_err();
    assert_eq!(error.to_string(), "malformed JSON at byte 6: expected a colon");
    assert_eq!(scanner.scan(input, &Limits::default()), Err(error));

    assert_eq!(at_once(b"  [1]"), Err(FrameError::NotAnObject { at: 2 }));
    assert_eq!(at_once(b"x"), Err(malformed(0, "an object, {...}")));
    assert_eq!(at_once(b"}"), Err(malformed(0, "an object, {...}")));
}

#[test]
fn a_mark_at_the_very_beginning_only() {
    assert_eq!(at_once(b"\xef\xbb\xbf{}"), Ok(Scan::Frame { start: 3, end: 5 }));
    assert_eq!(in_pieces(b"\xef\xbb\xbf{}", 0..5), Ok(Scan::Frame { start: 3, end: 5 }));
    at_once(b" \xef\xbb\xbf{}").unwrap_err();
    at_once(b"\xef\xbb{}").unwrap_err();
    at_once(b"\xef\xef").unwrap_err();
    at_once(b"\xef\xbb\xbf\xef\xbb\xbf{}").unwrap_err();
    let mut scanner = Scanner::new();
    assert_eq!(scanner.scan(b"{}", &Limits::default()), Ok(Scan::Frame { start: 0, end: 2 }));
    scanner.scan(b"\xef\xbb\xbf{}", &Limits::default()).unwrap_err();
}

#[test]
fn glued_frames() {
    let input = br#"{"a":1}{"b":"}{"} {"c":[{}]}
        {}"#;
    let mut scanner = Scanner::new();
    let mut rest = &input[..];
    let mut frames = Vec::new();
    while let Scan::Frame { start, end } = scanner.scan(rest, &Limits::default()).unwrap() {
        frames.push(std::str::from_utf8(&rest[start..end]).unwrap());
        rest = &rest[end..];
    }
    assert_eq!(frames, [r#"{"a":1}"#, r#"{"b":"}{"}"#, r#"{"c":[{}]}"#, "{}"]);
    assert!(scanner.is_idle());
}

#[test]
fn blanks_can_be_dropped() {
    let limits = Limits { size: 10, ..Limits::default() };
    let mut scanner = Scanner::new();
    for _ in 0..100 {
        assert_eq!(scanner.scan(b"\n \n", &limits), Ok(Scan::Incomplete));
        assert!(scanner.is_idle());
        assert_eq!(scanner.take_blank(), 3);
    }
    assert_eq!(scanner.scan(b" {", &limits), Ok(Scan::Incomplete));
    assert!(!scanner.is_idle());
    assert_eq!(scanner.take_blank(), 0);
    assert_eq!(scanner.scan(b" {}", &limits), Ok(Scan::Frame { start: 1, end: 3 }));
    assert_eq!(scanner.scan(&[b' '; 11], &limits), Err(FrameError::TooLarge { limit: 10 }));
}

#[test]
fn size_is_limited() {
    let limits = Limits { size: 16, ..Limits::default() };
    let too_large = Err(FrameError::TooLarge { limit: 16 });
    let fits = br#"  {"a":"12345678"}"#;
    let frame = Scan::Frame { start: 2, end: 18 };
    assert_eq!(Scanner::new().scan(fits, &limits), Ok(frame));
    for large in [&br#"{"a":"123456789"}"#[..], br#"{"a":"12345678901"#, br#"{"a":"12345678"  !"#] {
        let mut scanner = Scanner::new();
        assert_eq!(scanner.scan(large, &limits), too_large);
        assert_eq!(scanner.scan(large, &limits), too_large);
        let mut scanner = Scanner::new();
        let last = (0..=large.len()).map(|end| scanner.scan(&large[..end], &limits)).last();
        assert_eq!(last, Some(too_large));
    }
    assert_eq!(FrameError::TooLarge { limit: 16 }.status(), 413);
}

#[test]
fn depth_is_limited() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| {
            let core = if open == "[" { "" } else { "1" };
            format!("{{\"a\":{}{core}{}}}", open.repeat(depth - 1), close.repeat(depth - 1))
        };
        let deepest = nested(64);
        let frame = Scan::Frame { start: 0, end: deepest.len() };
        assert_eq!(at_once(deepest.as_bytes()), Ok(frame));
        assert_eq!(at_once(nested(65).as_bytes()), Err(FrameError::TooDeep { limit: 64 }));
        let limits = Limits { depth: 1000, ..Limits::default() };
        let error = Scanner::new().scan(nested(65).as_bytes(), &limits).unwrap_err();
        assert_eq!((error.status(), error), (413, FrameError::TooDeep { limit: 64 }));
        let limits = Limits { depth: 2, ..Limits::default() };
        assert!(Scanner::new().scan(nested(2).as_bytes(), &limits).is_ok());
        Scanner::new().scan(nested(3).as_bytes(), &limits).unwrap_err();
    }
}

/// The wiping in [`in_pieces`] is what proves that no byte is looked at twice; here the offsets are
/// large, and only the new piece is there to be looked at.
#[test]
fn a_large_frame_in_small_pieces_is_looked_at_once() {
    const PIECE: usize = 4096;
    let mut input = b"{\"Payload\":[\"".to_vec();
    while input.len() < 8 << 20 {
        input.extend_from_slice("\",{\"é\\u00e9\":-1.5e3,\"text\":\"0123456789".as_bytes());
        input.extend_from_slice(b"\"},\"");
    }
    input.extend_from_slice(b"\"]}");

    let limits = Limits { size: 16 << 20, ..Limits::default() };
    let mut scanner = Scanner::new();
    let mut seen = vec![0xff; input.len()];
    let mut found = Scan::Incomplete;
    for start in (0..input.len()).step_by(PIECE) {
        let end = input.len().min(start + PIECE);
        seen[start..end].copy_from_slice(&input[start..end]);
        found = scanner.scan(&seen[..end], &limits).unwrap();
        seen[start..end].fill(0xff);
    }
    assert_eq!(found, Scan::Frame { start: 0, end: input.len() });
}

#[test]
fn it_is_small() {
    assert!(size_of::<Scanner>() < 64, "{}", size_of::<Scanner>());
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<String>().prop_map(Json::from),
        "[\\x00-\\x7f]{0,40}".prop_map(Json::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Json::from),
            prop::collection::vec((any::<String>(), inner), 0..8)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Vec<u8>> {
    (json(), any::<bool>()).prop_map(|(value, is_pretty)| {
        let object = serde_json::json!({ "Method": "X", "Payload": value });
        let bytes = if is_pretty {
            serde_json::to_vec_pretty(&object)
        } else {
            serde_json::to_vec(&object)
        };
        bytes.unwrap()
    })
}

/// Whatever these bytes are: nothing panics, pieces make no difference, and what is accepted is
/// JSON.
fn check(input: &[u8], ends: &[usize]) {
    let found = at_once(input);
    assert_eq!(in_pieces(input, 0..input.len()), found);
    let mut ends: Vec<usize> = ends.iter().map(|end| end % (input.len() + 1)).collect();
    ends.sort_unstable();
    assert_eq!(in_pieces(input, ends), found);
    let _ = Request::parse(input);
    let _ = Answer::parse(input);
    let text = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
    match found {
        Ok(Scan::Frame { start, end }) => {
            is_json(&input[start..end]);
            let _ = Answer::parse(&input[start..end]);
            if let Ok(Request { payload: Some(payload), .. }) = Request::parse(&input[start..end]) {
                is_json(payload);
            }
        }
        // The beginning of a byte-order mark.
        Ok(Scan::Incomplete) if matches!(input, b"\xef" | b"\xef\xbb") => {}
        Ok(Scan::Incomplete) => {
            let error = serde_json::from_slice::<Json>(text).unwrap_err();
            assert!(error.is_eof() || error.to_string().contains("number out of range"), "{error}");
        }
        Err(_) => {
            // serde_json either refuses it, or it is a value other than an object.
            let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Json>();
            assert!(!matches!(values.next(), Some(Ok(Json::Object(_)))));
        }
    }
}

#[test]
fn a_byte_order_mark_can_be_cut() {
    check(b"\xef", &[0]);
    check(b"\xef\xbb", &[1]);
    check(b"\xef\xbb\xbf", &[2]);
}

proptest! {
    #[test]
    fn split_anywhere_it_is_the_same(input in object()) {
        let whole = Ok(Scan::Frame { start: 0, end: input.len() });
        prop_assert_eq!(at_once(&input), whole);
        for split in 0..=input.len() {
            prop_assert_eq!(in_pieces(&input, [split]), whole);
        }
        let request = Request::parse(&input).unwrap();
        let parsed: Json = serde_json::from_slice(&input).unwrap();
        let payload = request.payload.map_or(Json::Null, |bytes| serde_json::from_slice(bytes).unwrap());
        prop_assert_eq!(&payload, &parsed["Payload"]);
    }

    #[test]
    fn any_bytes_at_all(input in prop::collection::vec(any::<u8>(), 0..64), ends in any::<[usize; 3]>()) {
        check(&input, &ends);
        check(&[b"{\"", &*input].concat(), &ends);
        check(&[b"{\"a\":", &*input].concat(), &ends);
    }

    #[test]
    fn any_grammatical_bytes(input in "[{}\\[\\],:\"a\\\\u0-9.eE+\\- tfn]{0,40}", ends in any::<[usize; 3]>()) {
        check(input.as_bytes(), &ends);
        check(format!("{{\"a\":{input}}}").as_bytes(), &ends);
    }

    /// Ten thousand mutated requests.
    #[test]
    fn mutations(
        input in object(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>(), 0..4_u8), 40),
        ends in any::<[usize; 3]>(),
    ) {
        for change in changes.chunks(3).chain(changes.windows(1)).take(40) {
            let mut input = input.clone();
            for (place, byte, kind) in change {
                let place = place % input.len().max(1);
                match kind {
                    0 if !input.is_empty() => input[place] = *byte,
                    1 => input.insert(place, *byte),
                    2 if !input.is_empty() => drop(input.remove(place)),
                    _ => input.truncate(place),
                }
            }
            check(&input, &ends);
        }
    }
}
