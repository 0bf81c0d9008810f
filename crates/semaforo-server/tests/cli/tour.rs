//! The tour works word for word.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::{Program, SEMAFORO, Server};

/// The section of the README; or the page that it comes from.
const HEADING: &str = "## A two-minute tour";

/// What is typed, and what is printed then.
#[derive(Debug, Default, PartialEq, Eq)]
struct Step {
    typed: String,
    printed: String,
}

fn tour() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme
        .split_once(HEADING)
        .map(|(_, rest)| rest.split_once("\n## ").map_or(rest, |(section, _)| section).to_owned());
    let section = section.filter(|section| section.contains("```sh"));
    section.unwrap_or_else(|| fs::read_to_string(root.join("docs/tour.md")).unwrap())
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

/// Whether it is what was expected; `*` in the expectation is anything but a space.
fn is_like(expected: &str, printed: &str) -> bool {
    let (mut one, mut other) = (expected.split_whitespace(), printed.split_whitespace());
    let same_lines = expected.lines().count() == printed.lines().count();
    same_lines
        && loop {
            match (one.next(), other.next()) {
                (None, None) => break true,
                (Some(expected), Some(printed)) if matches(expected, printed) => {}
                _ => break false,
            }
        }
}

fn matches(pattern: &str, word: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else { return pattern == word };
    let Some(mut word) = word.strip_prefix(before) else { return false };
    let parts: Vec<_> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else { return true };
    for part in middle {
        match word.split_once(part) {
            Some((_, behind)) => word = behind,
            None => return false,
        }
    }
    word.ends_with(last)
}

#[test]
fn patterns() {
    for (pattern, word) in [("a", "a"), ("*", "x"), ("a*c", "abc"), ("a*b*c", "a1b2c"), ("x*", "x")]
    {
        assert!(matches(pattern, word), "{pattern} {word}");
    }
    for (pattern, word) in [("a", "b"), ("a*c", "ab"), ("a*b*c", "axc"), ("a*", "b")] {
        assert!(!matches(pattern, word), "{pattern} {word}");
    }
    let page = "x\n```sh\none\ntwo\n```\nwords\n```text\n1\n```\n```sh\nthree\n```\n";
    let expected = [
        Step { typed: "one\ntwo\n".into(), printed: "1\n".into() },
        Step { typed: "three\n".into(), printed: String::new() },
    ];
    assert_eq!(steps(page), expected);
}

/// Plays all steps; what was not as expected.
fn play(steps: &[Step]) -> Result<(), String> {
    let server = Server::start();
    let programs = Path::new(SEMAFORO).parent().unwrap().to_str().unwrap().to_owned();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    for Step { typed, printed } in steps {
        // The server is there already, and not on its usual port.
        if typed.contains("semaforo serve") || typed.contains("cargo ") {
            continue;
        }
        let mut bash = Command::new("bash");
        bash.args(["-c", typed])
            .env_clear()
            .env("PATH", &path)
            .env("HOME", server.directory.path())
            .env("SEMAFORO_SERVER", &server.address)
            .current_dir(server.directory.path());
        let ended = Program::start(&mut bash).wait();
        if !is_like(printed, &ended.stdout) || !ended.status.success() {
            let (stdout, stderr) = (ended.stdout, ended.stderr);
            return Err(format!("typed:\n{typed}expected:\n{printed}printed:\n{stdout}{stderr}"));
        }
    }
    Ok(())
}

#[test]
fn the_tour_works_word_for_word() {
    let steps = steps(&tour());
    assert!(steps.len() >= 3, "{steps:?}");
    // The tour sleeps for a second, as a reader would, which may be too short on a machine that is busy with tests.
    let mut attempts = 3;
    while let Err(wrong) = play(&steps) {
        attempts -= 1;
        assert!(attempts > 0, "{wrong}");
    }
}
