//! Whether a piece of Python is whole, or waits for more lines.
//!
//! The rules are those of Python's own prompt: an open bracket, a string in
//! triple quotes and a backslash at the end of a line want another line, and a
//! compound statement ends with an empty one. Deciding needs no Python, so
//! nothing runs while somebody types, and what the machine counts as runs are
//! the runs that were asked for.

use super::command::Command;

/// Statements that may go on with further clauses or lines.
const COMPOUND: [&str; 8] = ["async", "class", "def", "for", "if", "try", "while", "with"];

/// Clauses that belong to the statement before them.
const CLAUSES: [&str; 5] = ["case", "elif", "else", "except", "finally"];

/// Whether nothing more is to come: commands are one line, except for the code
/// of `%time`.
pub(super) fn is_whole(source: &str) -> bool {
    Command::python(source).is_none_or(is_complete)
}

/// Whether Python takes `source` as it is. What cannot become valid by more
/// lines counts as whole, so that Python says what is wrong.
fn is_complete(source: &str) -> bool {
    let scan = Scan::of(source);
    match scan.end {
        End::Broken => true,
        End::Open => false,
        End::Closed => !scan.block || last_line(source).trim().is_empty(),
    }
}

fn last_line(source: &str) -> &str {
    source.rsplit('\n').next().unwrap_or(source)
}

/// Statements of a script that comes line by line.
///
/// As at the prompt, an empty line ends a compound statement; so does a line
/// that begins another statement.
#[derive(Default)]
pub(super) struct Script {
    pending: String,
}

impl Script {
    /// Takes the next line, without its terminator; the result is what can run
    /// now.
    pub(super) fn line(&mut self, line: &str) -> Vec<String> {
        let mut ready = Vec::new();
        if self.is_ended_by(line) {
            ready.push(std::mem::take(&mut self.pending));
        }
        if !self.pending.is_empty() {
            self.pending.push('\n');
        }
        self.pending.push_str(line);
        if is_whole(&self.pending) {
            ready.push(std::mem::take(&mut self.pending));
        }
        ready
    }

    /// What is left at the end of the script.
    pub(super) fn finish(self) -> String {
        self.pending
    }

    fn is_ended_by(&self, line: &str) -> bool {
        let scan = Scan::of(&self.pending);
        scan.block
            && matches!(scan.end, End::Closed)
            && line.starts_with(|first: char| !first.is_whitespace() && first != '#')
            && !CLAUSES.contains(&word(line))
            && !last_line(&self.pending).starts_with('@')
    }
}

/// The identifier at the start of `text`.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

enum End {
    /// Nothing is open.
    Closed,
    /// Another line is wanted.
    Open,
    /// It is not Python, whatever follows.
    Broken,
}

#[derive(Clone, Copy)]
struct Quote {
    mark: char,
    triple: bool,
    raw: bool,
    formatted: bool,
}

#[derive(Clone, Copy)]
enum Open {
    Bracket,
    Text(Quote),
    /// Replacement field of a formatted string.
    Field(Quote),
    /// Format specification of such a field.
    Format(Quote),
}

/// What one pass over a source finds.
struct Scan {
    end: End,
    /// It holds a compound statement or a decorator.
    block: bool,
}

impl Scan {
    fn of(source: &str) -> Self {
        let mut scanner = Scanner {
            chars: source.chars().collect(),
            at: 0,
            open: Vec::new(),
            line: Line::default(),
            block: false,
        };
        let end = scanner.scan();
        Self {
            end,
            block: scanner.block,
        }
    }
}

/// The logical line that is being read.
#[derive(Default)]
struct Line {
    begun: bool,
    last: Option<char>,
}

struct Scanner {
    chars: Vec<char>,
    at: usize,
    open: Vec<Open>,
    line: Line,
    block: bool,
}

impl Scanner {
    fn scan(&mut self) -> End {
        while let Some(&c) = self.chars.get(self.at) {
            let end = match self.open.last().copied() {
                None | Some(Open::Bracket | Open::Field(_)) => self.code(c),
                Some(Open::Text(quote)) => self.text(c, quote),
                Some(Open::Format(quote)) => self.format(c, quote),
            };
            if let Some(end) = end {
                return end;
            }
        }
        self.end_line();
        match self.open.last() {
            None => End::Closed,
            Some(Open::Text(quote) | Open::Format(quote)) if !quote.triple => End::Broken,
            Some(_) => End::Open,
        }
    }

    /// Whether the next characters are `text`.
    fn sees(&self, text: &str) -> bool {
        let rest = &self.chars[self.at..];
        text.chars().count() <= rest.len() && text.chars().zip(rest).all(|(a, b)| a == *b)
    }

    fn code(&mut self, c: char) -> Option<End> {
        match c {
            '#' => {
                while self.chars.get(self.at).is_some_and(|&c| c != '\n') {
                    self.at += 1;
                }
                return None;
            }
            '\n' => {
                self.at += 1;
                if self.open.is_empty() {
                    self.end_line();
                }
                return None;
            }
            '\\' if self.at + 1 == self.chars.len() => return Some(End::Open),
            '\\' if self.chars[self.at + 1] == '\n' => {
                self.at += 2;
                return None;
            }
            _ if c.is_whitespace() => {
                self.at += 1;
                return None;
            }
            _ => {}
        }
        if c.is_alphanumeric() || c == '_' {
            return self.word();
        }
        self.begin(&c.to_string());
        self.line.last = Some(c);
        match c {
            '"' | '\'' => self.quote(c, ""),
            '(' | '[' | '{' => {
                self.open.push(Open::Bracket);
                self.at += 1;
            }
            ')' | ']' | '}' => {
                self.at += 1;
                match self.open.pop() {
                    Some(Open::Bracket) => {}
                    Some(Open::Field(_)) if c == '}' => {}
                    _ => return Some(End::Broken),
                }
            }
            ':' => {
                self.at += 1;
                if let Some(Open::Field(quote)) = self.open.last().copied() {
                    self.open.pop();
                    self.open.push(Open::Format(quote));
                }
            }
            _ => self.at += 1,
        }
        None
    }

    /// An identifier, a number, or the prefix of a string.
    fn word(&mut self) -> Option<End> {
        let start = self.at;
        while (self.chars.get(self.at)).is_some_and(|&c| c.is_alphanumeric() || c == '_') {
            self.at += 1;
        }
        let word: String = self.chars[start..self.at].iter().collect();
        self.begin(&word);
        self.line.last = word.chars().last();
        let prefix = word.to_ascii_lowercase();
        if let Some(&mark @ ('"' | '\'')) = self.chars.get(self.at)
            && prefix.len() <= 2
            && prefix.chars().all(|c| "rubft".contains(c))
        {
            self.quote(mark, &prefix);
        }
        None
    }

    /// The first token of a logical line.
    fn begin(&mut self, token: &str) {
        if !self.line.begun && self.open.is_empty() {
            self.line.begun = true;
            self.block |= token == "@" || COMPOUND.contains(&token);
        }
    }

    fn end_line(&mut self) {
        // `match` and the clauses are known by their colon.
        self.block |= self.line.last == Some(':') && self.open.is_empty();
        self.line = Line::default();
    }

    fn quote(&mut self, mark: char, prefix: &str) {
        let triple = self.sees(&mark.to_string().repeat(3));
        self.open.push(Open::Text(Quote {
            mark,
            triple,
            raw: prefix.contains('r'),
            formatted: prefix.contains(['f', 't']),
        }));
        self.line.last = Some(mark);
        self.at += if triple { 3 } else { 1 };
    }

    fn text(&mut self, c: char, quote: Quote) -> Option<End> {
        if c == '\\' {
            return self.escape(quote);
        }
        if c == quote.mark && (!quote.triple || self.sees(&c.to_string().repeat(3))) {
            self.at += if quote.triple { 3 } else { 1 };
            self.open.pop();
            self.line.last = Some(c);
            return None;
        }
        if c == '\n' && !quote.triple {
            return Some(End::Broken);
        }
        if c == '{' && quote.formatted {
            if self.sees("{{") {
                self.at += 1;
            } else {
                self.open.push(Open::Field(quote));
            }
        }
        self.at += 1;
        None
    }

    fn escape(&mut self, quote: Quote) -> Option<End> {
        self.at += 1;
        match self.chars.get(self.at) {
            None => Some(End::Open),
            // A field begins after the backslash.
            Some('{') if quote.formatted => None,
            Some('N') if !quote.raw && self.sees("N{") => {
                while self.chars.get(self.at).is_some_and(|&c| c != '}') {
                    self.at += 1;
                }
                None
            }
            Some(_) => {
                self.at += 1;
                None
            }
        }
    }

    fn format(&mut self, c: char, quote: Quote) -> Option<End> {
        self.at += 1;
        match c {
            '}' => {
                self.open.pop();
            }
            '{' => self.open.push(Open::Field(quote)),
            _ if !quote.triple && (c == '\n' || c == quote.mark) => return Some(End::Broken),
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_statements_need_no_more() {
        for source in [
            "",
            "40 + 2",
            "x = {'a': [1, 2]}",
            "x: int",
            "match = 5",
            "print('if x:')  # for:",
            "'''one line'''",
            "f\"{x[\"key\"]!r:>{width}}\"",
            "f'{{' + f'{a}}}'",
            "rf'\\{x}'",
            "f'\\N{DASH}'",
            "r'\\''",
            "a = 'it''s'",
            "f'{x:%H:%M}'",
            "f(lambda: 1)",
            "x[1:]",
            "if_ = 1",
            "a = b'x'; c = Rb\"y\"",
            "x = 1 + \\\n 2",
            "(1,\n 2)",
            "f'''{\n1\n}'''",
        ] {
            assert!(is_complete(source), "{source:?}");
        }
    }

    #[test]
    fn open_things_want_another_line() {
        for source in [
            "f(1,",
            "x = [",
            "'''text",
            "'''text''",
            "f'''{x",
            "f'{x",
            "x = 1 + \\",
            "x = 'a\\",
            "if x:",
            "if x: y",
            "for a in b:\n    print(a)",
            "match x:\n    case 1:\n        pass",
            "@decorator",
            "async def f():\n    pass",
            "try:\n    pass\nexcept E:",
            "x = 1\nif x:\n    y",
            "def f(a,\n",
        ] {
            assert!(!is_complete(source), "{source:?}");
        }
    }

    #[test]
    fn an_empty_line_ends_a_block_but_not_a_bracket() {
        assert!(is_complete("if x:\n    y\n"));
        assert!(is_complete("def f():\n    return 1\n    "));
        assert!(!is_complete("if f(x,\n"));
        assert!(!is_complete("def f():\n    '''\n"));
    }

    #[test]
    fn errors_go_to_python() {
        for source in ["x = )", "'open", "f(]", "f'{x]'", "if x)", "f'{x:'"] {
            assert!(is_complete(source), "{source:?}");
        }
    }

    fn script(text: &str) -> Vec<String> {
        let mut script = Script::default();
        let mut sources: Vec<_> = text.lines().flat_map(|line| script.line(line)).collect();
        sources.push(script.finish());
        sources.retain(|source| !source.is_empty());
        sources
    }

    #[test]
    fn a_script_is_cut_into_statements() {
        assert_eq!(
            script("x = 1\nfor a in b:\n    c\nprint(1)"),
            ["x = 1", "for a in b:\n    c", "print(1)"]
        );
        assert_eq!(
            script("if a:\n    b\nelse:\n    c\n# note\n\nd"),
            ["if a:\n    b\nelse:\n    c\n# note\n", "d"]
        );
        assert_eq!(
            script("@d\ndef f():\n    pass\n\nf()"),
            ["@d\ndef f():\n    pass\n", "f()"]
        );
        assert_eq!(script("x = '''\ny\n'''\nx"), ["x = '''\ny\n'''", "x"]);
        assert_eq!(script("def f():\n    pass"), ["def f():\n    pass"]);
        assert_eq!(
            script("%save (\nif a:\n    b\n%time f(1,\n2)"),
            ["%save (", "if a:\n    b", "%time f(1,\n2)"]
        );
    }
}
