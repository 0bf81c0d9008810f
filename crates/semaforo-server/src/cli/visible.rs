//! Text that came from a server, made harmless for a terminal.

use std::borrow::Cow;

/// Whether a terminal would act on this character, or hide what is around it: control characters,
/// line separators and marks that change the direction of writing.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// The text with `\u001b` in the place of an escape character, and so on. JSON that has such
/// characters only within strings stays the same value.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The same, with its lines and tabs.
pub(super) fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_hidden(character) && !matches!(character, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_escaped(character) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        assert_eq!(
            visible("a\u{1b}[2Jb\r\n\u{7f}\u{9b}\u{202e}"),
            r"a\u001b[2Jb\u000d\u000a\u007f\u009b\u202e"
        );
        assert_eq!(visible_lines("a\tb\nc\r"), "a\tb\nc\\u000d");
        assert!(matches!(visible("häßlich 'and' \"plain\""), Cow::Borrowed(_)));
    }

    #[test]
    fn json_stays_what_it_is() {
        let value = serde_json::json!({"a\u{7f}": "\u{1b}\u{9b}\u{2028}\\u001b"});
        let text = value.to_string();
        let shown = visible(&text);
        assert!(!shown.contains(is_hidden));
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
