//! Foreign text on a terminal: nothing in it steers.

use std::borrow::Cow;

/// Whether a terminal obeys a character rather than showing it: control characters but the ends of lines and tabs, and those that
/// turn the direction of what stands around them.
pub fn steers(c: char) -> bool {
    let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control() && c != '\n' && c != '\t'
}

/// A text with what steers written out, as JSON does, so that JSON stays what it is: `\u001b`.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let each = |c: char| if steers(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Cow::Owned(text.chars().map(each).collect())
}

/// The same on one line.
pub fn on_one_line(text: &str) -> String {
    escaped(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_steers_is_written_out_and_the_rest_stays() {
        assert_eq!(escaped("a\n\tµ – 漢"), "a\n\tµ – 漢");
        assert_eq!(escaped("\x1b[2J\u{9b}31m\r\x07\u{202e}"), "\\u001b[2J\\u009b31m\\u000d\\u0007\\u202e");
        assert_eq!(on_one_line("a\nb"), "a\\nb");
    }

    proptest! {
        #[test]
        fn nothing_steers_and_json_says_the_same(text in any::<String>()) {
            prop_assert!(!escaped(&text).contains(steers));
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(serde_json::from_str::<String>(&escaped(&json)).unwrap(), text);
        }
    }
}
