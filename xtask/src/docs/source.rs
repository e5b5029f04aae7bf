//! What the comments and constants of a source file say.

/// An item with the comment above it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// The line of the item, trimmed.
    pub(super) line: &'a str,
    /// Its comment as one line.
    pub(super) comment: String,
}

/// Items of `text` that have a comment, in their order.
pub(super) fn items(text: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut comment = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(more) = line.strip_prefix("///") {
            if !comment.is_empty() {
                comment.push(' ');
            }
            comment.push_str(more.trim());
        } else if !line.starts_with("#[") {
            let comment = std::mem::take(&mut comment);
            if !comment.is_empty() {
                items.push(Item { line, comment });
            }
        }
    }
    items
}

/// The value of the constant `name` in a Rust, JavaScript or Python file.
pub(super) fn constant(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("const ").unwrap_or(line);
        let rest = line.strip_prefix(name)?;
        let (kind, value) = rest.split_once(" = ")?;
        let is_whole_name = kind.is_empty() || kind.starts_with(':');
        is_whole_name
            .then(|| number(value.trim_end_matches(';')))
            .flatten()
    })
}

/// A number, a product, or a number shifted to the left.
pub(super) fn number(text: &str) -> Option<u64> {
    if let Some((number_, bits)) = text.split_once("<<") {
        return number(number_)?.checked_shl(u32::try_from(number(bits)?).ok()?);
    }
    text.split('*').try_fold(1_u64, |product, factor| {
        product.checked_mul(factor.trim().replace('_', "").parse().ok()?)
    })
}

/// The comment without the sections of the design that it cites.
pub(super) fn plain(comment: &str) -> String {
    let mut text = comment.to_owned();
    while let Some((start, end)) = citation(&text) {
        text.replace_range(start..end, "");
    }
    let words: Vec<_> = text.split_whitespace().collect();
    words
        .join(" ")
        .replace(" .", ".")
        .replace(" ,", ",")
        .replace('|', "\\|")
}

/// Where the first section in brackets stands: `(3.14)`, `(machine 19)`.
fn citation(text: &str) -> Option<(usize, usize)> {
    text.match_indices('(').find_map(|(start, _)| {
        let length = text[start..].find(')')?;
        let inside = &text[start + 1..start + length];
        let sources = ["control protocol ", "machine ", "mcp "];
        let section = sources
            .iter()
            .find_map(|source| inside.strip_prefix(source))
            .unwrap_or(inside);
        let is_section = section.starts_with(|c: char| c.is_ascii_digit());
        is_section.then_some((start, start + length + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_belong_to_the_item_below_them() {
        let text = "//! File.\n\n/// One\n/// line.\n#[must_use]\npub a: u8,\nb: u8,\n/// C.\nC;\n";
        let comments: Vec<_> = items(text)
            .into_iter()
            .map(|item| (item.line, item.comment))
            .collect();
        let expected = [("pub a: u8,", "One line."), ("C;", "C.")];
        assert_eq!(
            comments,
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn constants_of_three_languages_are_read() {
        let text = "const AB: u8 = 9;\npub const A: u64 = 64 * 1024;\nB = 1_000\nconst C = 64 << 20;\nconst D = x;\n";
        let values = ["A", "B", "C", "D", "E"].map(|name| constant(text, name));
        assert_eq!(
            values,
            [Some(65_536), Some(1000), Some(67_108_864), None, None]
        );
    }

    #[test]
    fn citations_are_left_out() {
        assert_eq!(plain("A bound (control protocol 3.3)."), "A bound.");
        assert_eq!(plain("Too long (3.14)."), "Too long.");
        assert_eq!(plain("Kept (as it is)."), "Kept (as it is).");
        assert_eq!(plain("a | b"), "a \\| b");
    }
}
