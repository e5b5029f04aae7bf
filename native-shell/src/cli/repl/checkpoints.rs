//! What this session knows of its checkpoints: the machine keeps them, the
//! session remembers what for.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// Longest shown note, in characters.
const NOTE: usize = 60;

/// A saved checkpoint.
struct Saved {
    index: u64,
    changed_pages: u64,
    page_bytes: u64,
    /// Since the session began.
    at: Duration,
    note: String,
}

/// Checkpoints in the order of their saves.
#[derive(Default)]
pub(super) struct Checkpoints {
    saved: Vec<Saved>,
    /// The one that the machine was at last.
    last: Option<u64>,
}

impl Checkpoints {
    /// A save succeeded with this output.
    pub(super) fn saved(&mut self, output: &Value, at: Duration, note: &str) {
        let number = |name: &str| output.get(name).and_then(Value::as_u64).unwrap_or_default();
        self.last = Some(number("index"));
        self.saved.push(Saved {
            index: number("index"),
            changed_pages: number("changedPages"),
            page_bytes: number("pageBytes"),
            at,
            note: note.chars().take(NOTE).collect(),
        });
    }

    /// The machine is at this checkpoint.
    pub(super) fn restored(&mut self, index: u64) {
        self.last = Some(index);
    }

    /// The machine has forgotten all of them.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl fmt::Display for Checkpoints {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.saved.is_empty() {
            return writeln!(out, "no checkpoint yet; %save makes one");
        }
        for saved in &self.saved {
            let mark = if self.last == Some(saved.index) {
                '*'
            } else {
                ' '
            };
            let seconds = saved.at.as_secs();
            let changed = saved.changed_pages * saved.page_bytes;
            let line = format!(
                "{mark}{:>4}  {:>2}:{:02}  {:>8}  {}",
                saved.index,
                seconds / 60,
                seconds % 60,
                size(changed),
                saved.note
            );
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A size as people read it.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1 << 20 {
        format!("{} KiB", bytes.div_ceil(1 << 10))
    } else {
        format!("{} MiB", bytes.div_ceil(1 << 20))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_list_shows_where_the_machine_is() {
        let mut checkpoints = Checkpoints::default();
        let output =
            |index, pages| json!({"index": index, "changedPages": pages, "pageBytes": 4096});
        checkpoints.saved(&output(1, 122), Duration::from_secs(5), "clean");
        checkpoints.saved(&output(2, 300), Duration::from_secs(65), "");
        assert_eq!(
            checkpoints.to_string(),
            "    1   0:05   488 KiB  clean\n*   2   1:05     2 MiB\n"
        );
        checkpoints.restored(1);
        assert!(checkpoints.to_string().starts_with("*   1"));
        checkpoints.reset();
        assert!(checkpoints.to_string().starts_with("no checkpoint"));
    }
}
