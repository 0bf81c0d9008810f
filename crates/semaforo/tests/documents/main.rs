//! The documents agree with the tree: what they name exists, what they count is so many, and what
//! they list is complete.

mod inventory;
mod map;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const GUIDE: &str = "docs/from-the-literature.md";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// What the sources of all crates declare.
#[derive(Default)]
struct Declared {
    /// What a test program runs: functions with the attribute, and cases that a `main.rs` lists.
    tests: BTreeSet<String>,
    /// Of the libraries and the examples.
    functions: BTreeSet<String>,
    types: BTreeSet<String>,
}

impl Declared {
    fn read() -> Self {
        let mut files = Vec::new();
        sources(&root().join("crates"), &mut files);
        let mut declared = Self::default();
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let in_tests = file.components().any(|part| part.as_os_str() == "tests");
            if in_tests {
                let listed = file.parent().unwrap().join("main.rs");
                let listed = fs::read_to_string(listed).unwrap_or_default();
                declared.read_tests(&text, &listed);
            } else {
                declared.read_tests(&text, "");
                declared.read_items(&text);
            }
        }
        declared
    }

    /// The tests of a file, and its functions that the program's `main.rs` lists as cases.
    fn read_tests(&mut self, text: &str, listed: &str) {
        let cases: BTreeSet<_> = listed
            .lines()
            .filter_map(|line| line.trim().strip_suffix(','))
            .map(|line| line.rsplit(": ").next().unwrap_or(line))
            .collect();
        let mut is_test = false;
        for line in text.lines() {
            let line = line.trim_start();
            let words: Vec<_> = words(line).collect();
            is_test |= line.starts_with("#[") && words.contains(&"test");
            if let Some(at) = words.iter().position(|word| *word == "fn") {
                let name = words.get(at + 1).copied().unwrap_or_default();
                if is_test || cases.contains(name) {
                    self.tests.insert(name.to_string());
                }
            }
            is_test &= line.starts_with("#[") || line.starts_with("//");
        }
    }

    fn read_items(&mut self, text: &str) {
        for line in text.lines() {
            let words: Vec<_> = words(line).collect();
            for pair in words.windows(2) {
                match pair[0] {
                    "fn" => drop(self.functions.insert(pair[1].to_string())),
                    "struct" | "enum" | "trait" | "type" | "mod" => {
                        self.types.insert(pair[1].to_string());
                    }
                    _ => {}
                }
            }
            // A variant, on a line of its own.
            let variant = words.first().filter(|word| line.trim_start().starts_with(**word));
            self.types.extend(variant.filter(|word| is_type(word)).map(|w| (*w).to_string()));
        }
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// As the names of types are written: `CancelToken`, and not `TAKE`.
fn is_type(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().any(|c| c.is_ascii_lowercase())
}

/// What stands in backticks.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Where the links of a text lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The names of a document's headings in links.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        heading
            .chars()
            .filter(|c| c.is_alphanumeric() || "_- ".contains(*c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect()
    };
    headings.map(anchor).collect()
}

/// A row of the guide's tables.
#[derive(Debug)]
struct Row {
    text: String,
    number: String,
    kind: String,
    /// What it is in the text.
    said: String,
    here: String,
    differs: String,
    shown: String,
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    line.split('|').map(|cell| cell.trim().to_string()).collect()
}

fn rows(guide: &str) -> Vec<Row> {
    let mut text = String::new();
    let mut rows = Vec::new();
    for line in guide.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            text = heading.to_string();
        }
        let cells = cells(line);
        let numbered = |cell: &String| {
            cell.len() > 1
                && cell.starts_with(|c: char| c.is_ascii_lowercase())
                && cell[1..].chars().all(|c| c.is_ascii_digit())
        };
        if line.starts_with('|') && cells.first().is_some_and(numbered) {
            let [number, kind, said, here, differs, shown] = &cells[..] else {
                panic!("a row has six cells: {line}")
            };
            rows.push(Row {
                text: text.clone(),
                number: number.clone(),
                kind: kind.clone(),
                said: said.clone(),
                here: here.clone(),
                differs: differs.clone(),
                shown: shown.clone(),
            });
        }
    }
    rows
}

#[test]
fn the_guide_has_as_many_rows_as_it_says() {
    const KINDS: [&str; 4] = ["construct", "listing", "table", "exercise"];
    let guide = read(GUIDE);
    let mut counted: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    let mut last = String::new();
    let mut expected = 0;
    for row in rows(&guide) {
        expected = if row.text == last { expected + 1 } else { 1 };
        assert_eq!(row.number[1..], expected.to_string(), "the rows of {} are numbered", row.text);
        last = row.text.clone();
        let kind = KINDS.iter().position(|kind| *kind == row.kind);
        let kind =
            kind.unwrap_or_else(|| panic!("{}: there is no kind {:?}", row.number, row.kind));
        counted.entry(row.text.clone()).or_default()[kind] += 1;
        counted.entry("all".to_string()).or_default()[kind] += 1;
    }
    assert_eq!(counted.len(), 6, "five texts, and all of them: {:?}", counted.keys());

    let mut said = BTreeMap::new();
    let summary = guide.lines().skip_while(|line| !line.starts_with("| text |")).skip(2);
    for line in summary.take_while(|line| line.starts_with('|')) {
        let cells = cells(line);
        let title = cells[0].trim_start_matches('[').split("](").next().unwrap().to_string();
        let numbers: Vec<usize> = cells[1..].iter().map(|cell| cell.parse().unwrap()).collect();
        assert_eq!(numbers[..4].iter().sum::<usize>(), numbers[4], "{title}: the sum of its kinds");
        said.insert(title, <[usize; 4]>::try_from(&numbers[..4]).unwrap());
    }
    assert_eq!(counted, said);
}

#[test]
fn every_row_of_the_guide_is_shown_or_has_a_reason() {
    for row in rows(&read(GUIDE)) {
        let reason = row.shown.strip_prefix("none: ").is_some_and(|reason| reason.len() > 10);
        let shown = links(&row.shown).count() + code(&row.shown).count() > 0;
        assert!(reason || shown, "{}: {:?}", row.number, row.shown);
    }
}

#[test]
fn the_tests_that_the_guide_names_exist() {
    let declared = Declared::read();
    let mut missing = Vec::new();
    for row in rows(&read(GUIDE)) {
        for name in code(&row.shown).filter(|name| !declared.tests.contains(*name)) {
            missing.push(format!("{}: {name}", row.number));
        }
    }
    assert!(missing.is_empty(), "no such tests: {missing:#?}");
}

#[test]
fn the_items_that_the_guide_names_exist() {
    /// Of the language and its library.
    const KNOWN: [&str; 7] = ["None", "Ok", "Vec", "Iterator", "Result", "Some", "Err"];
    /// With these a path begins that leads elsewhere, or a command.
    const ELSEWHERE: [&str; 7] =
        ["std::", "tokio::", "crossbeam_", "dashmap::", "semaforo ", "bench ", "matmul "];
    let declared = Declared::read();
    let mut missing = Vec::new();
    for row in rows(&read(GUIDE)) {
        for item in code(&row.here).chain(code(&row.differs)) {
            if ELSEWHERE.iter().any(|prefix| item.starts_with(prefix)) {
                continue;
            }
            let calls = item.match_indices('(').filter_map(|(at, _)| words(&item[..at]).last());
            let unknown =
                calls.filter(|name| !declared.functions.contains(*name) && !is_type(name));
            missing.extend(unknown.map(|name| format!("{}: {name}() in `{item}`", row.number)));
            let types = words(item).filter(|word| is_type(word) && !KNOWN.contains(word));
            let unknown = types.filter(|name| !declared.types.contains(*name));
            missing.extend(unknown.map(|name| format!("{}: {name} in `{item}`", row.number)));
        }
    }
    assert!(missing.is_empty(), "no such items: {missing:#?}");
}

#[test]
fn links_lead_somewhere() {
    let mut documents = vec![("README.md".to_string(), root())];
    for entry in fs::read_dir(root().join("docs")).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        documents.push((format!("docs/{name}"), root().join("docs")));
    }
    let mut missing = Vec::new();
    for (document, folder) in documents.iter().filter(|(name, _)| name.ends_with(".md")) {
        let text = read(document);
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { root().join(document) } else { folder.join(file) };
            if !target.exists() {
                missing.push(format!("{document}: {link}"));
            } else if !anchor.is_empty() {
                let found = anchors(&fs::read_to_string(&target).unwrap());
                if !found.contains(anchor) {
                    missing.push(format!("{document}: {link} (no such heading)"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "these lead nowhere: {missing:#?}");
}

/// The names of a crate's examples.
fn examples(of: &str) -> BTreeSet<String> {
    let files = fs::read_dir(root().join("crates").join(of).join("examples")).unwrap();
    let names = files.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(".rs").map(String::from)).collect()
}

#[test]
fn the_front_page_lists_every_example() {
    let readme = read("README.md");
    for of in ["semaforo", "semaforo-server"] {
        let folder = format!("crates/{of}/examples/");
        let listed: BTreeSet<String> = links(&readme)
            .filter_map(|link| link.strip_prefix(&folder)?.strip_suffix(".rs"))
            .map(String::from)
            .collect();
        assert_eq!(listed, examples(of));
    }
}

#[test]
fn cargo_runs_the_tests_of_every_example_that_has_some() {
    let manifest = read("crates/semaforo/Cargo.toml");
    for example in examples("semaforo") {
        let source = read(&format!("crates/semaforo/examples/{example}.rs"));
        let told = manifest.contains(&format!("name = \"{example}\"\ntest = true"));
        assert_eq!(told, source.contains("#[cfg(test)]"), "{example}");
        let command = format!("cargo run --release -p semaforo --example {example}");
        assert!(source.contains(&command), "{example} says how it is run");
    }
}

/// Of a list in a document: the names of Rust files.
fn files(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && !"_/.".contains(c))
        .filter(|name| name.ends_with(".rs") && name.len() > ".rs".len())
}

#[test]
fn what_shows_the_promises_exists() {
    let declared = Declared::read();
    let text = read("docs/guarantees.md");
    let (library, server) = text.split_once("## For the server").unwrap();
    let (server, _) = server.split_once("## What is not promised").unwrap();
    let mut missing = Vec::new();
    for (text, of) in [(library, "semaforo"), (server, "semaforo-server")] {
        let crates = if of == "semaforo" { &[of][..] } else { &[of, "semaforo-client"] };
        let exists = |path: &str| {
            crates.iter().any(|name| root().join("crates").join(name).join(path).exists())
        };
        for line in text.lines().filter(|line| line.starts_with("| ") || line.contains(".rs`")) {
            let shown = cells(line).pop().unwrap();
            let gone = files(&shown).filter(|file| {
                !exists(&format!("tests/{file}")) && !exists(&format!("src/{file}"))
            });
            missing.extend(gone.map(String::from));
            if !line.starts_with("| ") {
                continue;
            }
            // A test; a program with tests, or one of its files; an example; a model.
            let mut program = "";
            for name in code(&shown).filter(|name| !name.contains(['.', '/', ' ', ':'])) {
                let places = [
                    format!("tests/{name}"),
                    format!("tests/{program}/{name}.rs"),
                    format!("tests/{program}/{name}"),
                    format!("examples/{name}.rs"),
                    format!("fuzz/fuzz_targets/{name}.rs"),
                    format!("src/models/{name}.rs"),
                ];
                if exists(&places[0]) {
                    program = name;
                }
                if !declared.tests.contains(name) && !places.iter().any(|place| exists(place)) {
                    missing.push(format!("{name}, in: {line}"));
                }
            }
        }
    }
    assert!(missing.is_empty(), "these show nothing: {missing:#?}");
}

#[test]
fn the_types_of_the_glossary_exist() {
    let declared = Declared::read();
    let design = read("docs/design.md");
    let (_, words) = design.split_once("## Words").unwrap();
    let (words, _) = words.split_once("\n## ").unwrap();
    let gone: Vec<_> =
        code(words).filter(|word| is_type(word) && !declared.types.contains(*word)).collect();
    assert!(gone.is_empty(), "the glossary has these, and the sources do not: {gone:?}");
}
