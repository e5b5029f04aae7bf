//! The RECORD file of a wheel: one line of comma-separated values an entry.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::engine::digests::Sha256Digest;

/// One line of RECORD.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordEntry {
    /// Name of the entry inside the wheel.
    pub(super) name: String,
    /// Its digest. RECORD itself and signatures of it have none.
    pub(super) sha256: Option<Sha256Digest>,
}

/// Reads RECORD.
///
/// # Errors
/// A line that has no name, a broken quotation, or a `sha256` value that is not one. Digests of
/// other algorithms count as absent.
pub(super) fn parse(text: &str) -> Result<Vec<RecordEntry>, String> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() {
            continue;
        }
        let entry = parse_line(line)
            .ok_or_else(|| format!("RECORD is malformed in line {}", number + 1))?;
        entries.push(entry);
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Option<RecordEntry> {
    let (name, rest) = field(line)?;
    let (digest, _) = field(rest.unwrap_or_default())?;
    if name.is_empty() {
        return None;
    }
    let sha256 = match digest.strip_prefix("sha256=") {
        Some(encoded) => {
            let bytes = URL_SAFE_NO_PAD.decode(encoded.trim_end_matches('=')).ok()?;
            Some(Sha256Digest(bytes.try_into().ok()?))
        }
        None => None,
    };
    Some(RecordEntry { name, sha256 })
}

/// The first field of `text` and what follows its comma. A field in quotation marks may hold
/// commas, and quotation marks that are doubled.
fn field(text: &str) -> Option<(String, Option<&str>)> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Some(match text.split_once(',') {
            Some((value, rest)) => (value.to_owned(), Some(rest)),
            None => (text.to_owned(), None),
        });
    };
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(continued) => {
                value.push('"');
                rest = continued;
            }
            None if after.is_empty() => return Some((value, None)),
            None => return Some((value, Some(after.strip_prefix(',')?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

    #[test]
    fn names_and_digests_are_read() {
        let text = format!("a.py,{EMPTY},0\r\n\"b,\"\"c.py\",{EMPTY}=,0\nd/RECORD,,\n\ne,md5=x,\n");
        let entries = parse(&text).unwrap();
        let digest = Some(Sha256Digest::of(b""));
        let expected = [
            ("a.py", digest),
            ("b,\"c.py", digest),
            ("d/RECORD", None),
            ("e", None),
        ];
        let expected = expected.map(|(name, sha256)| RecordEntry {
            name: name.to_owned(),
            sha256,
        });
        assert_eq!(entries, expected);
    }

    #[test]
    fn broken_lines_are_named() {
        for line in ["\"open,x,1", "\"a\"b,x,1", "a,sha256=short,1", ",sha256=,0"] {
            let error = parse(&format!("ok,,\n{line}\n")).unwrap_err();
            assert_eq!(error, "RECORD is malformed in line 2", "{line}");
        }
    }
}
