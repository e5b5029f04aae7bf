//! Bytes to lines, and what can still be told of a line that is refused
//! (MCP 2.1, 2.2).

use pyproc_protocol::LineReader;
use serde_json::Value;

use crate::id::Id;

/// Longest line without its end, bytes.
pub const MAX_LINE: usize = 8_388_608;

/// Longest id, as it is written, that is looked for in a refused line.
const MAX_RECOVERED: usize = 256;

/// Longest name of a member that may turn out to be `id`: each of its two
/// letters can be written as an escape of six.
const MAX_NAME: usize = 14;

/// What bytes were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Framed {
    /// A line of at most [`MAX_LINE`] bytes.
    Line(Vec<u8>),
    /// A line that was longer, with the id of its request if it has one.
    TooLong(Option<Id>),
}

/// Assembles lines from pieces of any size. Of a line that is too long it
/// keeps nothing but the search for its id.
#[derive(Debug)]
pub struct Framer {
    reader: LineReader,
    scan: Option<IdScan>,
}

impl Default for Framer {
    fn default() -> Self {
        Self::new()
    }
}

impl Framer {
    /// A framer that has read nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            reader: LineReader::new(MAX_LINE),
            scan: None,
        }
    }

    /// Consumes `input` up to the end of one line, or all of it. Call it until
    /// it returns `None`.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<Framed> {
        if self.scan.is_none() {
            match self.reader.next_line(input) {
                Ok(line) => return line.map(Framed::Line),
                Err(_) => self.begin_scan(),
            }
        }
        let scan = self.scan.get_or_insert_default();
        let skipped = self.reader.skip_line(input);
        scan.take(skipped.bytes);
        skipped.ended.then(|| self.end_scan())
    }

    /// What is left when the input ends without LF.
    pub fn finish(&mut self) -> Option<Framed> {
        if self.scan.is_some() {
            return Some(self.end_scan());
        }
        match self.reader.finish() {
            Ok(line) => line.map(Framed::Line),
            Err(_) => {
                self.begin_scan();
                Some(self.end_scan())
            }
        }
    }

    fn begin_scan(&mut self) {
        let mut scan = IdScan::default();
        scan.take(self.reader.refused_prefix());
        self.scan = Some(scan);
    }

    fn end_scan(&mut self) -> Framed {
        Framed::TooLong(self.scan.take().unwrap_or_default().found())
    }
}

/// The id of the one request that a refused line holds, if it can be told
/// (MCP 2.2).
#[must_use]
pub fn recover_id(line: &[u8]) -> Option<Id> {
    let mut scan = IdScan::default();
    scan.take(line);
    scan.found()
}

/// A search for the members `id` of the outermost object, in constant memory.
#[derive(Debug, Default)]
struct IdScan {
    depth: u64,
    /// The outermost value is an object.
    object: bool,
    begun: bool,
    string: Option<Escape>,
    part: Part,
    /// The text of the present name or value as it is written.
    text: Vec<u8>,
    /// Ids seen, and how many more there were.
    found: Option<Id>,
    count: u64,
}

/// Whether the next byte of a string is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    No,
    Yes,
}

/// Where in the outermost object the scan is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Before or in the name of a member.
    #[default]
    Name,
    /// In the value of a member with another name.
    Other,
    /// In the value of a member `id`.
    Id,
}

impl IdScan {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.byte(*byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if let Some(escape) = self.string {
            self.keep(byte);
            self.string = match (escape, byte) {
                (Escape::Yes, _) => Some(Escape::No),
                (Escape::No, b'\\') => Some(Escape::Yes),
                (Escape::No, b'"') => None,
                (Escape::No, _) => Some(Escape::No),
            };
            return;
        }
        match byte {
            b'"' => {
                self.begun = true;
                self.keep(byte);
                self.string = Some(Escape::No);
            }
            b'{' | b'[' => {
                if !self.begun {
                    self.object = byte == b'{';
                }
                self.begun = true;
                self.keep(byte);
                self.depth = self.depth.saturating_add(1);
            }
            b'}' | b']' => {
                if self.depth == 1 {
                    self.member_ends();
                }
                self.depth = self.depth.saturating_sub(1);
                self.keep(byte);
            }
            b':' if self.depth == 1 && self.part == Part::Name => {
                let name = serde_json::from_slice::<String>(&self.text);
                self.part = match name.is_ok_and(|name| name == "id") {
                    true => Part::Id,
                    false => Part::Other,
                };
                self.text.clear();
            }
            b',' if self.depth == 1 => self.member_ends(),
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => {
                self.begun = true;
                self.keep(byte);
            }
        }
    }

    /// Keeps a byte of a name or an id. One that has grown too long can be
    /// neither, and stays so.
    fn keep(&mut self, byte: u8) {
        let limit = match (self.depth, self.part) {
            (0, _) | (_, Part::Other) => return,
            (1, Part::Name) => MAX_NAME,
            (_, Part::Name) => return,
            (_, Part::Id) => MAX_RECOVERED,
        };
        if self.text.len() <= limit {
            self.text.push(byte);
        }
    }

    fn member_ends(&mut self) {
        if self.part == Part::Id {
            self.count = self.count.saturating_add(1);
            let value = serde_json::from_slice::<Value>(&self.text).ok();
            self.found = value
                .filter(|_| self.text.len() <= MAX_RECOVERED)
                .as_ref()
                .and_then(Id::of);
        }
        self.part = Part::Name;
        self.text.clear();
    }

    fn found(self) -> Option<Id> {
        self.found.filter(|_| self.object && self.count == 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames(pieces: &[&[u8]]) -> Vec<Framed> {
        let mut framer = Framer::new();
        let mut found = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(framed) = framer.next(&mut input) {
                found.push(framed);
            }
            assert!(input.is_empty());
        }
        found.extend(framer.finish());
        found
    }

    fn line(text: &str) -> Framed {
        Framed::Line(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_arrive_whole_however_they_are_cut() {
        assert_eq!(
            frames(&[b"a", b"b\r", b"\ncd\n\ne\xe2\x80\xa8f", b"\rg"]),
            [line("ab"), line("cd"), line(""), line("e\u{2028}f\rg")]
        );
        assert_eq!(frames(&[]), []);
    }

    #[test]
    fn a_line_of_the_largest_size_is_taken_and_a_longer_one_skipped() {
        let most = vec![b'x'; MAX_LINE];
        let found = frames(&[&most, b"\r\nnext\n"]);
        assert_eq!(found, [Framed::Line(most.clone()), line("next")]);
        let found = frames(&[&most, b"x\r\nnext\n"]);
        assert_eq!(found, [Framed::TooLong(None), line("next")]);
        let found = frames(&[&most, b"x"]);
        assert_eq!(found, [Framed::TooLong(None)]);
    }

    #[test]
    fn a_line_that_is_too_long_keeps_its_id_wherever_it_is() {
        let fill = "x".repeat(MAX_LINE);
        for long in [
            format!(r#"{{"id":5,"method":"tools/call","params":{{"id":6,"a":"{fill}"}}}}"#),
            format!(r#"{{"params":{{"a":"\"{fill}","id":[6]}},"id" : 5 }}"#),
            format!(r#"{{"a":"{fill}","i\u0064":5.0}}"#),
        ] {
            let mut framer = Framer::new();
            let mut found = Vec::new();
            for piece in long.as_bytes().chunks(65_537) {
                let mut input = piece;
                found.extend(framer.next(&mut input));
                assert!(
                    framer
                        .scan
                        .as_ref()
                        .is_none_or(|scan| scan.text.len() <= 257)
                );
            }
            let mut end: &[u8] = b"\n";
            found.extend(framer.next(&mut end));
            assert_eq!(found, [Framed::TooLong(Some(Id::Integer(5)))]);
        }
    }

    #[test]
    fn only_the_one_valid_id_of_the_outermost_object_is_recovered() {
        let recovered = |text: &str| recover_id(text.as_bytes());
        assert_eq!(recovered(r#"{"id":"a"}"#), Some(Id::Text("a".to_owned())));
        assert_eq!(
            recovered(r#" {"a":[{"id":1}],"id":-2}"#),
            Some(Id::Integer(-2))
        );
        assert_eq!(
            recovered("{\"id\":7,\"a\":\"\u{fffd}\"}"),
            Some(Id::Integer(7))
        );
        assert_eq!(
            recover_id(b"{\"id\":7,\"a\":\"\xff\"}"),
            Some(Id::Integer(7))
        );
        let deep = format!(r#"{{"a":{}{},"id":3}}"#, "[".repeat(200), "]".repeat(200));
        assert_eq!(recovered(&deep), Some(Id::Integer(3)));
        let longest = "x".repeat(MAX_RECOVERED - 2);
        assert!(recovered(&format!(r#"{{"id":"{longest}"}}"#)).is_some());
        for text in [
            r#"{"id":1,"id":1}"#,
            r#"[{"id":1}]"#,
            r#"{"a":{"id":1}}"#,
            r#"{"id":{"a":1}}"#,
            r#"{"id":[1]}"#,
            r#"{"id":null}"#,
            r#"{"id":1.5}"#,
            r#"{"id":tru}"#,
            r#"{"ids":1}"#,
            r#"{"id":1"#,
            r#""id":1"#,
            "",
            &format!(r#"{{"id":"{longest}x"}}"#),
            &format!(r#"{{"id":"{}"}}"#, "x".repeat(5000)),
        ] {
            assert_eq!(recovered(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_lines(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
            size in 1_usize..9,
        ) {
            let whole = frames(&[&bytes]);
            let pieces: Vec<_> = bytes.chunks(size).collect();
            prop_assert_eq!(frames(&pieces), whole);
        }

        #[test]
        fn the_search_agrees_with_a_parser(
            id in -100_i64..100,
            names in proptest::collection::vec("(id|i|idd|\\\\\"id|[a-z]{1,3})", 0..5),
            at in 0_usize..5,
        ) {
            let mut members: Vec<_> = names.iter().map(|name| format!(r#""{}":{{"id":"}}"}}"#, name.replace('\\', "\\\\").replace('"', "\\\""))).collect();
            let others = names.iter().filter(|name| *name == "id").count();
            members.insert(at.min(members.len()), format!(r#""id":{id}"#));
            let text = format!("{{{}}}", members.join(","));
            let expected = (others == 0).then_some(Id::Integer(id));
            prop_assert_eq!(recover_id(text.as_bytes()), expected, "{}", text);
        }
    }
}
