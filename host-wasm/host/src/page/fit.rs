//! Keeps what the page says within one reply (machine 13).

use pyproc_protocol::{ControlError, json};
use serde_json::Value;

/// Longest serialized reply, bytes.
const REPLY_BYTES: usize = 983_040;

/// Room for the envelope around an output or an error.
const ENVELOPE_BYTES: usize = 4096;

/// Bytes that one reply has left beside `output`; `None` when it is too large.
pub(crate) fn room_beside(output: &Value) -> Option<usize> {
    (REPLY_BYTES - ENVELOPE_BYTES).checked_sub(wire_length(output))
}

/// The longest start of `text` whose wire form has at most `room` bytes.
pub(crate) fn head_within(text: &str, room: usize) -> &str {
    let mut keep = text.len().min(room);
    loop {
        let head = head(text, keep);
        let over = wire_length(&Value::from(head)).saturating_sub(room);
        if over == 0 || head.is_empty() {
            return head;
        }
        keep = head.len().saturating_sub(over.div_ceil(6));
    }
}

fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Cuts the details of an error until it fits: first the middle of the output,
/// then the tail of the value, then the middle of the traceback.
pub(crate) fn error(error: ControlError) -> ControlError {
    let Some(details) = error.details() else {
        return error;
    };
    let length = |error: &ControlError| -> usize {
        error.details().map_or(0, |details| {
            (details.iter())
                .map(|(name, value)| name.len() + wire_length(value) + 4)
                .sum()
        })
    };
    let texts: Vec<_> = ["stdout", "value", "traceback"]
        .into_iter()
        .filter_map(|name| Some((name, details.get(name)?.as_str()?.to_owned())))
        .collect();
    let mut error = error;
    for (name, full) in texts {
        let mut keep = full.len();
        let mut wire = wire_length(&Value::from(full.as_str()));
        // Escaping makes parts of a text longer on the wire than others, so
        // that the length to keep is approached in steps.
        loop {
            let over = length(&error).saturating_sub(REPLY_BYTES - ENVELOPE_BYTES);
            if over == 0 || keep == 0 {
                break;
            }
            keep = keep * wire.saturating_sub(over + 256) / wire.max(1);
            let cut = match name {
                "value" => head(&full, keep).to_owned(),
                _ => cut_middle(&full, keep),
            };
            wire = wire_length(&Value::from(cut.as_str()));
            error = error.with_detail(name, cut);
        }
    }
    match length(&error) > REPLY_BYTES - ENVELOPE_BYTES {
        true => error.without_details(),
        false => error,
    }
}

/// Length of a value as the protocol writes it, which escapes more than JSON
/// must.
fn wire_length(value: &Value) -> usize {
    json::encode(value, usize::MAX).map_or(usize::MAX, |text| text.len())
}

/// Keeps about `keep` bytes of both ends and says how much is missing.
fn cut_middle(full: &str, keep: usize) -> String {
    let head_end = full.floor_char_boundary(keep / 2);
    let tail_start = full.ceil_char_boundary(full.len() - keep / 2);
    if head_end >= tail_start {
        return full.to_owned();
    }
    let missing = tail_start - head_end;
    let (head, tail) = (&full[..head_end], &full[tail_start..]);
    format!("{head}\n[{missing} bytes left out]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyproc_protocol::codes;

    fn failed(stdout: &str) -> ControlError {
        ControlError::applied(codes::MACHINE_PYTHON_ERROR, "x")
            .with_detail("stdout", stdout)
            .with_detail("traceback", "t".repeat(60_000))
    }

    #[test]
    fn an_error_that_fits_is_untouched() {
        let error = failed("some output");
        assert_eq!(fit_twice(error.clone()), error);
    }

    #[test]
    fn large_output_loses_its_middle_and_keeps_both_ends() {
        for unit in ["a", "\u{1}", "é", "\u{1F600}"] {
            let error = fit_twice(failed(&format!("first{}last", unit.repeat(1_200_000))));
            let details = error.details().unwrap();
            let stdout = details["stdout"].as_str().unwrap();
            assert!(stdout.starts_with("first") && stdout.ends_with("last"));
            assert!(stdout.contains("bytes left out"));
            assert_eq!(details["traceback"].as_str().unwrap().len(), 60_000);
            let whole = serde_json::to_string(&details).unwrap();
            assert!(whole.len() <= REPLY_BYTES, "{}", whole.len());
        }
    }

    #[test]
    fn text_that_is_longer_on_the_wire_at_its_ends_is_cut_and_not_dropped() {
        let ends = "\u{1}".repeat(200_000);
        let error = fit_twice(failed(&format!("{ends}{}{ends}", "a".repeat(600_000))));
        let details = error.details().unwrap();
        assert!(details["stdout"].as_str().unwrap().len() > 100_000);
        assert_eq!(details["traceback"].as_str().unwrap().len(), 60_000);
        assert!(wire_length(&Value::Object(details.clone())) <= REPLY_BYTES);
    }

    #[test]
    fn a_head_fits_its_room_and_is_the_whole_when_there_is_enough() {
        assert_eq!(head_within("abc", 5), "abc");
        assert_eq!(head_within("abc", 4), "ab");
        let controls = "\u{1}".repeat(100);
        assert_eq!(head_within(&controls, 62).len(), 10);
        assert_eq!(head_within("éé", 5), "é");
        assert_eq!(head_within("é", 0), "");
    }

    fn fit_twice(full: ControlError) -> ControlError {
        let once = error(full);
        assert_eq!(error(once.clone()), once);
        once
    }
}
