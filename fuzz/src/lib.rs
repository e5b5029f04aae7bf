//! What the fuzz targets share: a script of steps as text, so that seeds can
//! be read and written by people and mutations of them stay meaningful.

use pyproc_protocol::Frame;

/// The capability that a page of a script presents.
pub const CAPABILITY: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQ";

/// One line of a script: a letter, a digit, and a text.
pub struct Step<'a> {
    /// What happens.
    pub kind: u8,
    /// To whom it happens, 0 to 9.
    pub number: u8,
    /// With which text.
    pub text: &'a str,
}

/// The steps of a script. Lines that are none are left out.
pub fn steps(script: &str) -> impl Iterator<Item = Step<'_>> {
    script.split('\n').filter_map(|line| {
        let [kind, digit, ..] = *line.as_bytes() else {
            return None;
        };
        let text = line.get(2..)?;
        let number = digit.checked_sub(b'0').filter(|number| *number < 10)?;
        Some(Step { kind, number, text })
    })
}

/// Milliseconds that a step lets pass: the number its text starts with, at
/// most 200,000.
pub fn duration(text: &str) -> u64 {
    let digits = text.bytes().take_while(u8::is_ascii_digit).take(6);
    let number = digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    number.min(200_000)
}

/// Checks that an encoded line has no separator in it and means the same
/// frame.
pub fn check_encoding(frame: &Frame) {
    if let Ok(line) = frame.encode() {
        check_line(&line);
        let decoded = Frame::decode(line.as_bytes()).expect("what is encoded can be decoded");
        assert_eq!(decoded, *frame, "encoding changed the frame");
    }
}

/// Checks that a line holds nothing that some peer takes for its end.
pub fn check_line(line: &str) {
    let separator = line.find(['\n', '\r', '\u{2028}', '\u{2029}']);
    assert_eq!(separator, None, "a separator inside of a line");
}
