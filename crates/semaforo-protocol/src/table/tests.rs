//! The table and `docs/protocol.md` say the same.

use std::collections::BTreeSet;

use super::*;

const PROTOCOL: &str = include_str!("../../../../docs/protocol.md");

/// What is between back-quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The cells of the tables in a section.
fn tables(title: &str) -> Vec<Vec<&'static str>> {
    let (_, section) = PROTOCOL.split_once(title).unwrap_or_else(|| panic!("no {title}"));
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| "));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The parts of a cell, at the commas and semicolons that are not in parentheses.
fn parts(cell: &str) -> Vec<&str> {
    let mut depth = 0;
    let split = cell.split(|character| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        depth == 0 && matches!(character, ',' | ';')
    });
    split.map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// A number as people write it: `-2^31`, `2^30-1`, `100`.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_matches([',', ';', ':', ')', '(']);
    let Some((base, rest)) = text.split_once('^') else { return text.parse().ok() };
    let (exponent, less) = rest.split_once('-').unwrap_or((rest, "0"));
    let power = base.trim_start_matches('-').parse::<i64>().ok()?.pow(exponent.parse().ok()?);
    let power = if base.starts_with('-') { -power } else { power };
    Some(power - less.parse::<i64>().ok()?)
}

/// Compares what a part of a cell says of a header.
fn compare(row: &Row, said: &str) {
    let name = quoted(said).next().unwrap_or_else(|| panic!("{said:?} names no header"));
    let header = row.header(name).unwrap_or_else(|| panic!("{:?} has no {name}", row.method));
    let words: Vec<&str> = said.split_whitespace().collect();
    match header.value {
        Value::Number(least, most) => {
            for bounds in words.windows(3).filter(|words| words[1] == "to") {
                if let (Some(from), Some(to)) = (number(bounds[0]), number(bounds[2])) {
                    assert_eq!((from, to), (least, most), "{said}");
                }
            }
            for default in words.windows(2).filter(|words| words[0] == "default") {
                if let Some(default) = number(default[1]) {
                    assert_eq!(header.default, Some(default), "{said}");
                }
            }
        }
        Value::OneOf(all) => {
            let one_of: BTreeSet<&str> = quoted(said).skip(1).collect();
            assert_eq!(one_of, all.iter().copied().collect(), "{said}");
            let usual = format!("`{}` (default)", all[0]);
            assert!(said.contains(&usual), "{said}");
        }
        Value::Plain(most) => assert!(said.contains(&format!("at most {most} bytes")), "{said}"),
        Value::Text | Value::Session | Value::Path => {}
    }
}

#[test]
fn methods_headers_and_answers_are_as_the_document_says() {
    for resource in OBJECTS.iter().chain([&SESSIONS]) {
        let title = match resource.kind {
            Some(_) => format!("### `/{}/NAME`", resource.path),
            None => format!("`Path` is `/{}`:", resource.path),
        };
        let mut described = BTreeSet::new();
        for cells in tables(&title).into_iter().filter(|cells| cells[0].starts_with('`')) {
            let [methods, headers, answer] = cells[..] else { panic!("{cells:?}") };
            for method in quoted(methods) {
                let row = Row::called(method, resource.rows);
                let row = row.unwrap_or_else(|| panic!("{method} of {}", resource.path));
                assert!(described.insert(method), "{method} is there twice");
                let said: BTreeSet<_> =
                    parts(headers).into_iter().flat_map(|part| quoted(part).next()).collect();
                let own: BTreeSet<_> = match row.session {
                    // What everything can have is said only where there is nothing else.
                    Session::Must if row.headers.is_empty() => [SESSION.name].into(),
                    _ => row.headers.iter().map(|header| header.name).collect(),
                };
                assert_eq!(said, own, "headers of {method} of {}", resource.path);
                for part in parts(headers).into_iter().filter(|_| !row.headers.is_empty()) {
                    compare(row, part);
                }
                if answer.starts_with("as for") {
                    continue;
                }
                for name in row.answers {
                    assert!(quoted(answer).any(|word| word == *name), "{method}: {name}");
                }
                assert_eq!(answer.contains("204"), row.waits(), "{method}: {answer}");
            }
        }
        // Every kind has these, and they are described once.
        described.extend(resource.kind.map(|_| "SHOW"));
        described.extend(resource.kind.filter(|kind| !kind.exists_by_use()).map(|_| "DELETE"));
        let ours: BTreeSet<_> = resource.rows.iter().map(|row| row.method.name()).collect();
        assert_eq!(ours, described, "the methods of {}", resource.path);
    }
}

#[test]
fn the_methods_of_the_server_are_as_the_document_says() {
    let mut described = BTreeSet::new();
    for cells in tables("\n### Others").iter().filter(|cells| cells[1].starts_with('`')) {
        let method = quoted(cells[1]).next().unwrap();
        let row = Row::called(method, SERVER.rows).unwrap();
        assert_eq!(cells[0] == "any", row.is_pathless, "{method}");
        if row.method == Method::List {
            parts(cells[2]).into_iter().for_each(|part| compare(row, part));
        }
        described.insert(method);
    }
    let ours: BTreeSet<_> = SERVER.rows.iter().map(|row| row.method.name()).collect();
    assert_eq!(ours, described);
}

/// The table of all methods, as it is in the document.
fn overview() -> String {
    let mut lines: Vec<(String, Vec<&str>, String)> = Vec::new();
    for resource in resources() {
        for row in resource.rows {
            let yes = |is: bool| if is { "yes" } else { "" };
            let effect = match row.effect {
                Effect::Nothing => "",
                Effect::Grows => "grows",
                Effect::Shrinks => "shrinks",
            };
            let method = format!("`{}`", row.method.name());
            let says = [
                row.right.map_or("", Right::name),
                yes(row.waits()),
                effect,
                yes(row.keeps_outcome),
                yes(row.renews),
                yes(row.names_a_hold),
            ];
            let says =
                says.map(|said| format!(" {said}{}|", if said.is_empty() { "" } else { " " }));
            let place = match resource.path {
                "" if row.is_pathless => "any",
                "" => "`/`",
                path => path,
            };
            let same = |line: &&mut (String, _, _)| line.0 == method && line.2 == says.concat();
            match lines.iter_mut().find(same) {
                Some(line) => line.1.push(place),
                None => lines.push((method, vec![place], says.concat())),
            }
        }
    }
    let lines = lines
        .iter()
        .map(|(method, places, says)| format!("| {method} | {} |{says}\n", places.join(", ")));
    "| method | of | right | may wait | state | outcome kept | renews | names a hold |\n\
     |---|---|---|---|---|---|---|---|\n"
        .to_owned()
        + &lines.collect::<String>()
}

#[test]
fn the_document_has_the_table() {
    let table = overview();
    assert!(PROTOCOL.contains(&table), "docs/protocol.md should have this table:\n{table}");
}

#[test]
fn kinds_are_found_by_their_numbers() {
    for (number, resource) in OBJECTS.iter().enumerate() {
        assert_eq!(resource.kind.map(|kind| kind as usize), Some(number));
        let made = Row::called("create", resource.rows).is_some();
        assert_eq!(resource.kind.map(Kind::exists_by_use), Some(!made));
    }
}

#[test]
fn a_method_is_found_in_any_case_where_it_is() {
    let found = |path, method| find(path, method).map(|row| row.method);
    assert_eq!(found("/locks/a", "acquire"), Some(Method::Acquire));
    assert_eq!(found("jobs", "Take"), Some(Method::Take));
    assert_eq!(found("/sessions", "OPEN"), Some(Method::Open));
    assert_eq!(found("/locks", "LIST"), Some(Method::List));
    assert_eq!(found("", "LIST"), Some(Method::List));
    for path in ["", "/", "/nowhere/x", "/locks/", "/locks/a"] {
        assert_eq!(found(path, "echo-x"), Some(Method::Echo), "{path}");
        assert_eq!(found(path, "ping"), Some(Method::Ping), "{path}");
    }
    for (path, method) in [
        ("/locks/a", "PUT"),
        ("/locks/a", "LIST"),
        ("/locks", "SHOW"),
        ("/nowhere/x", "SHOW"),
        ("/locks/", "ACQUIRE"),
        ("/", "ECHOX"),
        ("/", "OPEN"),
        ("/", ""),
    ] {
        assert_eq!(found(path, method), None, "{method} {path}");
    }
}

#[test]
fn a_default_is_within_its_bounds_and_nothing_with_one_is_required() {
    for header in resources().flat_map(|resource| resource.rows).flat_map(|row| row.headers) {
        if let (Value::Number(least, most), Some(default)) = (header.value, header.default) {
            assert!((least..=most).contains(&default) && !header.is_required, "{header:?}");
        }
    }
}
