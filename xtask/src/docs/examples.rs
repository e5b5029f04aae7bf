//! Codes, manifests and frames that a page shows.

use std::path::Path;

use pyproc_policy::{EntryKind, Manifest, ManifestFiles};
use pyproc_protocol::{Frame, codes};
use serde_json::Value;

use super::failure;
use crate::step::Result;

/// What codes begin with.
const FAMILIES: [&str; 4] = ["CONTROL_", "PYPROC_", "MACHINE_", "AUTOMATION_"];

/// Every code that the page names exists, and its JSON is what it passes for.
pub(super) fn check(path: &Path, text: &str) -> Result {
    if let Some(code) = named_codes(text).find(|code| !is_code(code)) {
        return Err(failure(path, format!("there is no code {code}")));
    }
    for block in blocks(text, "json") {
        let values = match serde_json::from_str(&block) {
            Ok(value) => vec![(block.trim().to_owned(), value)],
            Err(_) => lines(path, &block)?,
        };
        for (text, value) in values {
            value_is_good(&text, &value)
                .map_err(|reason| failure(path, format!("{reason}, in the example {text}")))?;
        }
    }
    Ok(())
}

/// Names in code style that look like a code.
fn named_codes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2).filter(|name| {
        let family = FAMILIES.iter().any(|family| name.starts_with(family));
        let spelled = name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        family && spelled && !name.ends_with('_')
    })
}

fn is_code(name: &str) -> bool {
    codes::ALL.iter().any(|code| code.as_str() == name)
}

/// Content of the fenced blocks in `language`.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    let mut other = false;
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut block) {
            (Some(_), Some(_)) => blocks.extend(block.take()),
            (Some(_), None) if other => other = false,
            (Some(info), None) if info == language => block = Some(String::new()),
            (Some(_), None) => other = true,
            (None, Some(block)) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    blocks
}

/// One JSON value a line.
fn lines(path: &Path, block: &str) -> Result<Vec<(String, Value)>> {
    let lines = block.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| match serde_json::from_str(line) {
            Ok(value) => Ok((line.to_owned(), value)),
            Err(error) => Err(failure(path, format!("{error}, in the example {line}"))),
        })
        .collect()
}

fn value_is_good(text: &str, value: &Value) -> std::result::Result<(), String> {
    if value.get("protocol").is_some() {
        let frame = Frame::decode(text.as_bytes());
        return frame.map(drop).map_err(|error| error.message().to_owned());
    }
    // A report of `--check` has the member, too.
    if value.get("schemaVersion").is_some() && value.get("ok").is_none() {
        let manifest = Manifest::parse(text.as_bytes(), &Everything);
        return manifest.map(drop).map_err(|error| error.to_string());
    }
    Ok(())
}

/// A file system where every path leads to something: a file when its last part has an
/// extension, else a directory.
struct Everything;

impl ManifestFiles for Everything {
    fn kind(&self, path: &str) -> EntryKind {
        match Path::new(path).extension() {
            Some(_) => EntryKind::File,
            None => EntryKind::Directory,
        }
    }

    fn canonicalize(&self, path: &str) -> Option<String> {
        Some(path.to_owned())
    }

    fn size(&self, path: &str) -> Option<u64> {
        (self.kind(path) == EntryKind::File).then_some(1)
    }

    fn is_exposed(&self, _path: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> bool {
        check(Path::new("p.md"), text).is_ok()
    }

    #[test]
    fn codes_must_exist() {
        assert!(good("`CONTROL_TIMEOUT`, variables with `PYPROC_`, `PATH`"));
        assert!(!good("`CONTROL_TIMEDOUT`"));
        assert!(!good("`MACHINE_INPUT_INVALID`"));
    }

    #[test]
    fn frames_and_manifests_must_be_accepted() {
        let json = |text: &str| format!("text\n```json\n{text}\n```\n");
        let cancel = r#"{"protocol":"pyproc-control","version":1,"type":"cancel","requestId":"r"}"#;
        assert!(good(&json(&format!("{cancel}\n{cancel}"))));
        assert!(!good(&json(&cancel.replace(r#""r""#, r#""""#))));
        assert!(good(&json(
            r#"{"schemaVersion":1,"engine":{"root":"/opt/pyodide"}}"#
        )));
        assert!(!good(&json(
            r#"{"schemaVersion":1,"engine":{"root":"pyodide"}}"#
        )));
        assert!(good(&json("{\n  \"stdout\": \"\"\n}")));
        assert!(!good(&json("{\"a\": }")));
        assert!(good("```python\n{\"a\": }\n```\n"));
    }
}
