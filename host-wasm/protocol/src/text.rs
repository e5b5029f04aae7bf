//! Lengths and cuts of wire strings (control protocol 0).
//!
//! A sender counts UTF-16 code units and a receiver counts Unicode scalar
//! values, so that nothing a conforming peer sends is refused.

/// Length of `text` in UTF-16 code units, the count of a sender.
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    text.chars().map(char::len_utf16).sum()
}

/// The last `units` UTF-16 code units of `text`, cut so that no surrogate pair
/// is split (the result is then one unit shorter).
#[must_use]
pub fn tail(text: &str, units: usize) -> &str {
    // A UTF-16 unit count never exceeds the UTF-8 byte count.
    if text.len() <= units {
        return text;
    }
    let mut left = units;
    for (index, character) in text.char_indices().rev() {
        match left.checked_sub(character.len_utf16()) {
            Some(rest) => left = rest,
            None => return &text[index + character.len_utf8()..],
        }
    }
    text
}

/// `text` in quotes for an error message: escaped, and cut after 64 characters
/// so that a peer cannot make a message arbitrarily long.
#[must_use]
pub fn quote(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tail_keeps_the_last_units() {
        assert_eq!(tail("abcdef", 3), "def");
        assert_eq!(tail("abc", 3), "abc");
        assert_eq!(tail("abc", 0), "");
        assert_eq!(tail("", 5), "");
    }

    #[test]
    fn tail_never_splits_a_surrogate_pair() {
        assert_eq!(tail("a\u{1f600}b", 3), "\u{1f600}b");
        assert_eq!(tail("a\u{1f600}b", 2), "b");
        assert_eq!(tail("\u{1f600}\u{1f600}", 3), "\u{1f600}");
    }

    #[test]
    fn tail_counts_units_and_not_bytes() {
        assert_eq!(tail("\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}");
        assert_eq!(tail("\u{e9}\u{e9}\u{e9}", 2), "\u{e9}\u{e9}");
    }

    #[test]
    fn utf16_length_counts_astral_characters_twice() {
        assert_eq!(utf16_len("a\u{1f600}"), 3);
        assert_eq!(utf16_len("\u{ffff}"), 1);
    }

    #[test]
    fn quote_escapes_and_cuts() {
        assert_eq!(quote("a\nb"), "\"a\\nb\"");
        assert_eq!(quote(&"x".repeat(65)), format!("\"{}\"...", "x".repeat(64)));
        assert_eq!(quote(&"x".repeat(64)), format!("\"{}\"", "x".repeat(64)));
    }
}
