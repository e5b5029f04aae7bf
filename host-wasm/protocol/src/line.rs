//! Bytes to lines (control protocol 3.1).
//!
//! Only LF ends a line; a CR directly before it is dropped. U+2028, U+2029 and
//! a lone CR are ordinary bytes here.

/// A line is longer than the reader's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line is longer than {limit} bytes")]
pub struct LineTooLong {
    /// The limit in bytes, without the terminator.
    pub limit: usize,
}

/// What [`LineReader::skip_line`] consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped<'a> {
    /// Bytes of the line, without its LF.
    pub bytes: &'a [u8],
    /// Whether the line ended, so that the reader reads lines again.
    pub ended: bool,
}

/// Assembles lines from pieces of any size.
///
/// Holds at most one line of `limit` bytes and one CR. A line that passes the
/// limit is refused as soon as it does, without waiting for its LF.
#[derive(Debug)]
pub struct LineReader {
    limit: usize,
    buffer: Vec<u8>,
    overflowed: bool,
}

impl LineReader {
    /// A reader of lines of at most `limit` bytes, terminator not counted.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self {
            limit,
            buffer: Vec::new(),
            overflowed: false,
        }
    }

    /// Consumes `input` up to and including the next LF and returns the line,
    /// or consumes all of it and returns `None` when more bytes are needed.
    /// Call it until it returns `None`.
    ///
    /// # Errors
    /// [`LineTooLong`] when the line passes the limit; the rest of `input` is
    /// left. Every later call fails too, until [`Self::skip_line`] has passed
    /// the end of that line.
    pub fn next_line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, LineTooLong> {
        if self.overflowed {
            return Err(self.too_long());
        }
        let end = input.iter().position(|&byte| byte == b'\n');
        let piece = &input[..end.unwrap_or(input.len())];
        // One byte more than the limit may be held if it can turn out to be
        // the CR of the terminator.
        let room = self.limit + 1 - self.buffer.len();
        let last = piece.last().or(self.buffer.last());
        if piece.len() > room || piece.len() == room && last != Some(&b'\r') {
            let taken = piece.len().min(room);
            self.buffer.extend_from_slice(&piece[..taken]);
            *input = &input[taken..];
            self.overflowed = true;
            return Err(self.too_long());
        }
        self.buffer.extend_from_slice(piece);
        let Some(end) = end else {
            *input = &[];
            return Ok(None);
        };
        *input = &input[end + 1..];
        let mut line = std::mem::take(&mut self.buffer);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }

    /// The final line when the input ended without LF, if there is one.
    ///
    /// # Errors
    /// [`LineTooLong`] when that line passes the limit.
    pub fn finish(&mut self) -> Result<Option<Vec<u8>>, LineTooLong> {
        if self.overflowed || self.buffer.len() > self.limit {
            return Err(self.too_long());
        }
        let line = std::mem::take(&mut self.buffer);
        Ok(if line.is_empty() { None } else { Some(line) })
    }

    /// The beginning of the line that was refused: `limit` bytes and one more.
    /// Empty when no line was refused.
    #[must_use]
    pub fn refused_prefix(&self) -> &[u8] {
        if self.overflowed { &self.buffer } else { &[] }
    }

    /// Consumes `input` up to and including the end of the line that was
    /// refused. The bytes are shown to the caller and not kept. Without a
    /// refused line nothing is consumed.
    pub fn skip_line<'a>(&mut self, input: &mut &'a [u8]) -> Skipped<'a> {
        if !self.overflowed {
            return Skipped {
                bytes: &[],
                ended: true,
            };
        }
        let whole: &'a [u8] = input;
        match whole.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                *input = &whole[end + 1..];
                self.buffer = Vec::new();
                self.overflowed = false;
                Skipped {
                    bytes: &whole[..end],
                    ended: true,
                }
            }
            None => {
                *input = &[];
                Skipped {
                    bytes: whole,
                    ended: false,
                }
            }
        }
    }

    const fn too_long(&self) -> LineTooLong {
        LineTooLong { limit: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(limit: usize, pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, LineTooLong> {
        let mut reader = LineReader::new(limit);
        let mut lines = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(line) = reader.next_line(&mut input)? {
                lines.push(line);
            }
            assert!(input.is_empty());
        }
        lines.extend(reader.finish()?);
        Ok(lines)
    }

    #[test]
    fn lines_end_at_lf_and_lose_one_cr() {
        let input: &[u8] = b"a\r\nb\n\n\r\nc\rd\re\r\r\n";
        let expected: [&[u8]; 5] = [b"a", b"b", b"", b"", b"c\rd\re\r"];
        assert_eq!(lines_of(10, &[input]).unwrap(), expected);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_lines() {
        let input = "\u{e9}\u{2028}x\r\n\u{1f600}\ny".as_bytes();
        let whole = lines_of(20, &[input]).unwrap();
        assert_eq!(whole.len(), 3);
        for size in 1..input.len() {
            let pieces: Vec<&[u8]> = input.chunks(size).collect();
            assert_eq!(lines_of(20, &pieces).unwrap(), whole, "pieces of {size}");
        }
    }

    #[test]
    fn a_final_line_needs_no_lf() {
        assert_eq!(
            lines_of(5, &[b"a\nbc"]).unwrap(),
            [b"a".to_vec(), b"bc".to_vec()]
        );
        assert_eq!(lines_of(5, &[b"a\n"]).unwrap(), [b"a".to_vec()]);
        assert_eq!(lines_of(5, &[b""]).unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn the_limit_does_not_count_the_terminator() {
        assert_eq!(lines_of(3, &[b"abc\r\n"]).unwrap(), [b"abc".to_vec()]);
        assert_eq!(lines_of(3, &[b"abc\n"]).unwrap(), [b"abc".to_vec()]);
        assert_eq!(
            lines_of(3, &[b"abc", b"\r", b"\n"]).unwrap(),
            [b"abc".to_vec()]
        );
        assert_eq!(lines_of(3, &[b"abc"]).unwrap(), [b"abc".to_vec()]);
        for input in [&b"abcd\n"[..], b"abcd", b"abc\rd", b"abc\r\r\n", b"abc\r"] {
            assert_eq!(
                lines_of(3, &[input]),
                Err(LineTooLong { limit: 3 }),
                "{input:?}"
            );
        }
    }

    #[test]
    fn a_long_line_fails_without_waiting_for_its_end() {
        let mut reader = LineReader::new(3);
        assert_eq!(reader.next_line(&mut &b"ab"[..]), Ok(None));
        assert!(reader.next_line(&mut &b"cd"[..]).is_err());
        assert!(reader.next_line(&mut &b"\nok\n"[..]).is_err());
        assert!(reader.finish().is_err());
    }

    #[test]
    fn the_memory_of_a_refused_line_is_bounded() {
        let mut reader = LineReader::new(3);
        let long = vec![b'x'; 10_000];
        let mut input = &long[..];
        assert!(reader.next_line(&mut input).is_err());
        assert_eq!(reader.refused_prefix(), b"xxxx");
        assert_eq!(input.len(), 9_996);
    }

    #[test]
    fn a_refused_line_can_be_skipped() {
        let mut reader = LineReader::new(3);
        let mut input = &b"ok\nabcdef"[..];
        assert_eq!(reader.next_line(&mut input), Ok(Some(b"ok".to_vec())));
        assert!(reader.next_line(&mut input).is_err());
        assert_eq!(reader.refused_prefix(), b"abcd");
        assert_eq!(
            reader.skip_line(&mut input),
            Skipped {
                bytes: b"ef",
                ended: false
            }
        );
        let mut input = &b"gh\nnew\n"[..];
        assert_eq!(
            reader.skip_line(&mut input),
            Skipped {
                bytes: b"gh",
                ended: true
            }
        );
        assert_eq!(reader.refused_prefix(), b"");
        assert_eq!(reader.next_line(&mut input), Ok(Some(b"new".to_vec())));
        assert_eq!(
            reader.skip_line(&mut input),
            Skipped {
                bytes: b"",
                ended: true
            }
        );
    }
}
