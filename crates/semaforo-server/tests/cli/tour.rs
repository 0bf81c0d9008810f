//! The tour works word for word.

use std::fs;
use std::path::Path;

use super::support::{Ended, Program, SEMAFORO, Server, attentive};

/// The section of the README.
const HEADING: &str = "## A two-minute tour";

/// What is typed, and what is printed then.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    typed: String,
    printed: String,
}

fn tour() -> String {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let (_, rest) = readme.split_once(HEADING).unwrap();
    rest.split_once("\n## ").map_or(rest, |(section, _)| section).to_owned()
}

/// Blocks of `sh`, each with the `text` that follows it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block: Option<&str> = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => {
                if language == "sh" {
                    steps.push(Step::default());
                }
                block = Some(language);
            }
            (None, Some(language)) => {
                if let Some(step) = steps.last_mut() {
                    let text = match language {
                        "sh" => &mut step.typed,
                        "text" => &mut step.printed,
                        _ => continue,
                    };
                    text.push_str(line);
                    text.push('\n');
                }
            }
            (None, None) => {}
        }
    }
    steps
}

/// What is printed, without the numbers that differ from one time to the next.
fn lasting(printed: &str) -> String {
    let mut text = String::new();
    for line in printed.lines() {
        let differs = ["job ", "generation=", "index="].iter().any(|word| line.starts_with(word));
        for c in line.chars() {
            match c {
                '0'..='9' if differs && text.ends_with('#') => {}
                '0'..='9' if differs => text.push('#'),
                c => text.push(c),
            }
        }
        text.push('\n');
    }
    text
}

#[test]
fn steps_are_blocks_with_what_follows_them() {
    let page = "x\n```sh\none\ntwo\n```\nwords\n```text\n1\n```\n```sh\nthree\n```\n";
    let expected = [
        Step { typed: "one\ntwo\n".into(), printed: "1\n".into() },
        Step { typed: "three\n".into(), printed: String::new() },
    ];
    assert_eq!(steps(page), expected);
}

#[test]
fn the_tour_works_word_for_word() {
    let steps = steps(&tour());
    assert!(steps.len() >= 3, "{steps:?}");
    let server = Server::start();
    let programs = Path::new(SEMAFORO).parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    for Step { typed, printed } in &steps {
        // The server is there already, and not on its usual port.
        if typed.contains("semaforo serve") || typed.contains("cargo ") {
            continue;
        }
        let mut bash = attentive("bash");
        bash.args(["-c", typed])
            .env_clear()
            .env("PATH", &path)
            .env("HOME", server.directory.path())
            .env("SEMAFORO_SERVER", &server.address)
            .current_dir(server.directory.path());
        let Ended { status, stdout, stderr } = Program::start(&mut bash).wait();
        assert!(
            status.success() && lasting(printed) == lasting(&stdout),
            "typed:\n{typed}expected:\n{printed}printed:\n{stdout}{stderr}"
        );
    }
}
