//! The maps of `docs/design.md` and the tree name the same files, by the rule above the first map.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::{code, read, root};

const DESIGN: &str = "docs/design.md";

/// What the maps have to show: each is the first line of a map, or of a part of one.
const ROOTS: [&str; 5] = [
    "crates/semaforo/src/",
    "crates/semaforo-protocol/src/",
    "crates/semaforo-client/src/",
    "crates/semaforo-server/src/",
    "bench/src/",
];

/// Their folder says what they are.
const OBVIOUS: [&str; 4] = ["lib.rs", "main.rs", "mod.rs", "tests.rs"];

/// What maps and tree disagree on, a sentence for each path.
fn differences(document: &str, tree: &BTreeSet<String>) -> Vec<String> {
    let mut named = BTreeSet::new();
    let mut found = Vec::new();
    for path in paths_on_maps(document) {
        if !tree.contains(&path) {
            found.push(format!("on the map, not in the tree: {path}"));
        }
        if !named.insert(path.clone()) {
            found.push(format!("twice on the map: {path}"));
        }
    }
    let modules: BTreeSet<&str> = named.iter().map(|path| module(path)).collect();
    let divided: BTreeSet<&str> = named.iter().filter_map(|path| folder(path)).collect();
    for path in tree {
        let is_obvious = OBVIOUS.iter().any(|name| path.ends_with(&format!("/{name}")));
        let lies_in_a_whole = folder(path).is_some_and(|around| {
            let is_root = !folder(around).is_some_and(|outer| tree.contains(outer));
            tree.contains(around) && !is_root && !divided.contains(around)
        });
        if !modules.contains(module(path)) && !is_obvious && !lies_in_a_whole {
            found.push(format!("in the tree, not on the map: {path}"));
        }
    }
    found
}

/// `a/b` of both `a/b.rs` and `a/b/`, which are one module.
fn module(path: &str) -> &str {
    path.trim_end_matches(".rs").trim_end_matches('/')
}

/// `a/` of `a/b.rs` and of `a/b/`.
fn folder(path: &str) -> Option<&str> {
    let end = path.trim_end_matches('/').rfind('/')?;
    Some(&path[..=end])
}

/// Every path that the code blocks of a document name.
fn paths_on_maps(document: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for map in document.split("```").skip(1).step_by(2) {
        // The folders around a line, each with the indentation of its own line.
        let mut folders: Vec<(usize, String)> = Vec::new();
        for line in map.lines() {
            let indentation = line.len() - line.trim_start().len();
            folders.retain(|(outer, _)| *outer < indentation);
            let around = folders.last().map_or(String::new(), |(_, folder)| folder.clone());
            let is_path = |name: &&str| name.ends_with(".rs") || name.ends_with('/');
            for name in line.split_whitespace().take_while(is_path) {
                let path = format!("{around}{name}");
                if name.ends_with('/') {
                    folders.push((indentation, path.clone()));
                }
                paths.push(path);
            }
        }
    }
    paths
}

/// A folder, and all Rust files and folders below it; folders end with a slash.
fn add_tree(below: &Path, path: &str, tree: &mut BTreeSet<String>) {
    tree.insert(path.to_string());
    for entry in fs::read_dir(below.join(path)).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            add_tree(below, &format!("{path}{name}/"), tree);
        } else if name.ends_with(".rs") {
            tree.insert(format!("{path}{name}"));
        }
    }
}

#[test]
fn the_maps_of_the_design_and_the_tree_agree() {
    let mut tree = BTreeSet::new();
    for path in ROOTS {
        add_tree(&root(), path, &mut tree);
    }
    let found = differences(&read(DESIGN), &tree);
    assert!(found.is_empty(), "{DESIGN}:\n{}", found.join("\n"));
}

/// In backticks in the text; what has capitals stands for any name.
#[test]
fn the_files_that_the_design_speaks_of_exist() {
    let mut tree: BTreeSet<String> = BTreeSet::new();
    for folder in ["crates/", "bench/src/"] {
        for entry in fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            for part in ["src/", "tests/", "examples/"] {
                if entry.path().join(part).is_dir() {
                    add_tree(&root(), &format!("{folder}{name}/{part}"), &mut tree);
                }
            }
        }
    }
    let design = read(DESIGN);
    let is_path = |name: &&str| {
        !name.contains(|c: char| c.is_uppercase() || c.is_whitespace())
            && (name.ends_with(".rs") || name.ends_with(".md") || name.ends_with('/'))
    };
    let exists = |name: &str| {
        let end = format!("/{name}");
        let is_file = [name, &format!("crates/{name}")].iter().any(|it| root().join(it).exists());
        is_file || tree.iter().any(|path| path.ends_with(&end))
    };
    let text = design.split("```").step_by(2);
    let gone: Vec<&str> =
        text.flat_map(code).filter(is_path).filter(|name| !exists(name)).collect();
    assert!(gone.is_empty(), "{DESIGN} speaks of these, and they are not there: {gone:#?}");
}

const SMALL_TREE: [&str; 11] = [
    "src/",
    "src/lib.rs",
    "src/first.rs",
    "src/first/",
    "src/first/part.rs",
    "src/second/",
    "src/second/mod.rs",
    "src/second/here.rs",
    "src/second/there.rs",
    "src/third/",
    "src/third/any.rs",
];

const TRUE_MAP: &str = "The text.\n```\n\
    src/\n\
    \x20 first.rs   what comes first, not as other.rs and elsewhere/\n\
    \x20 second/    two halves\n\
    \x20   here.rs there.rs   the halves\n\
    \x20 third/     all the rest\n\
    ```\n";

fn small(map: &str) -> Vec<String> {
    differences(map, &SMALL_TREE.into_iter().map(String::from).collect())
}

#[test]
fn a_true_map_is_accepted() {
    assert!(small(TRUE_MAP).is_empty(), "{:?}", small(TRUE_MAP));
}

#[test]
fn a_wrong_map_is_caught_and_the_wrong_path_named() {
    let cases: [(&str, &str, &[&str]); 8] = [
        ("here.rs there.rs", "here.rs", &["in the tree, not on the map: src/second/there.rs"]),
        (
            "here.rs there.rs",
            "here.rs there.rs gone.rs",
            &["on the map, not in the tree: src/second/gone.rs"],
        ),
        ("  third/     all the rest\n", "", &["in the tree, not on the map: src/third/"]),
        (
            "third/     all",
            "thrid/     all",
            &["on the map, not in the tree: src/thrid/", "in the tree, not on the map: src/third/"],
        ),
        (
            "    here.rs there.rs",
            "  here.rs there.rs",
            &[
                "on the map, not in the tree: src/here.rs",
                "on the map, not in the tree: src/there.rs",
            ],
        ),
        ("first.rs   what", "first.rs first.rs   what", &["twice on the map: src/first.rs"]),
        (
            "first.rs   what",
            "what",
            &[
                "in the tree, not on the map: src/first.rs",
                "in the tree, not on the map: src/first/",
            ],
        ),
        ("src/\n", "sources/\n", &["in the tree, not on the map: src/"]),
    ];
    for (right, wrong, said) in cases {
        assert!(TRUE_MAP.contains(right), "{right}");
        let found = small(&TRUE_MAP.replace(right, wrong));
        for sentence in said {
            assert!(found.iter().any(|it| it == sentence), "{wrong:?}: {found:#?}");
        }
    }
}

#[test]
fn a_folder_that_nothing_names_is_not_on_the_map_as_a_whole() {
    let only_its_name = "```\nsrc/   everything\n```\n";
    let found = small(only_its_name);
    assert!(found.contains(&"in the tree, not on the map: src/second/".to_string()), "{found:#?}");
    assert!(small("No map.").contains(&"in the tree, not on the map: src/".to_string()));
}
