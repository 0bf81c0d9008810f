//! The versions of Rust that the manifests need are those that the documents say.

use std::collections::BTreeMap;

use crate::{cells, read};

const CRATES: [(&str, &str); 5] = [
    ("semaforo", "crates/semaforo/Cargo.toml"),
    ("semaforo-protocol", "crates/semaforo-protocol/Cargo.toml"),
    ("semaforo-client", "crates/semaforo-client/Cargo.toml"),
    ("semaforo-server", "crates/semaforo-server/Cargo.toml"),
    ("bench", "bench/Cargo.toml"),
];

/// Of a manifest, or of the workspace if it says so.
fn needed(path: &str) -> String {
    let manifest = read(path);
    let line = manifest.lines().find(|line| line.starts_with("rust-version"));
    match line.unwrap_or_else(|| panic!("{path} does not say which Rust it needs")) {
        "rust-version.workspace = true" => needed("Cargo.toml"),
        line => line.split('"').nth(1).unwrap().to_string(),
    }
}

#[test]
fn the_table_of_versions_is_that_of_the_manifests() {
    let needed: BTreeMap<_, _> =
        CRATES.iter().map(|(name, path)| ((*name).to_string(), needed(path))).collect();
    let document = read("docs/dependencies.md");
    let (_, table) = document.split_once("## Versions of Rust").unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let mut said = BTreeMap::new();
    for row in rows.map(cells) {
        assert!(row[2].len() > 10, "{}: why?", row[0]);
        said.insert(row[0].trim_matches('`').to_string(), row[1].clone());
    }
    assert_eq!(said, needed, "docs/dependencies.md says the first, the manifests the second");
}

#[test]
fn the_front_page_says_which_rust_is_needed() {
    let text = read("README.md");
    for (what, manifest) in [
        ("The server needs Rust ", "crates/semaforo-server/Cargo.toml"),
        ("the tests need Rust ", "bench/Cargo.toml"),
        ("The library needs Rust ", "crates/semaforo/Cargo.toml"),
    ] {
        let sentence = format!("{what}{}", needed(manifest));
        assert!(text.contains(&sentence), "README.md does not say: {sentence}");
    }
}
