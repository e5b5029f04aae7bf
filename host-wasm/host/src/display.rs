//! What Python displays in a run: named in the output, sent as bytes after it,
//! and handed to the client as attachments.

use pyproc_protocol::ControlError;
use pyproc_protocol::attachments::AttachmentContent;
use pyproc_protocol::codes;
use pyproc_protocol::types::{AttachmentKind, Mime};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Member of a run's output that lists what it displayed.
pub(crate) const MEMBER: &str = "displays";

/// Most displays of one run.
const MAX_COUNT: usize = 16;

/// Most bytes of all displays of one run.
const MAX_BYTES: u64 = 8 << 20;

const MIME_TYPES: [&str; 6] = [
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/svg+xml",
    "text/html",
];

/// One of them, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Display {
    /// One of the six types that can be displayed.
    pub mime_type: String,
    /// Length in bytes, at least 1.
    pub byte_length: u64,
}

/// The bytes of all displays of one run; `None` when it may not have so many
/// or such.
pub(crate) fn total(displays: &[Display]) -> Option<u64> {
    let good = |display: &Display| {
        MIME_TYPES.contains(&display.mime_type.as_str()) && display.byte_length > 0
    };
    if displays.is_empty() || displays.len() > MAX_COUNT || !displays.iter().all(good) {
        return None;
    }
    let total = (displays.iter()).try_fold(0_u64, |sum, one| sum.checked_add(one.byte_length))?;
    (total <= MAX_BYTES).then_some(total)
}

/// The displays that an output names. `None` when they are not as they must be.
fn named(output: &Map<String, Value>) -> Option<Vec<Display>> {
    let displays = output.get(MEMBER)?;
    Vec::deserialize(displays).ok()
}

/// The bytes that follow the output of a run. `None` when the page names what
/// no run displays.
pub(crate) fn announced(output: &Map<String, Value>) -> Option<u64> {
    match output.contains_key(MEMBER) {
        true => total(&named(output)?),
        false => Some(0),
    }
}

/// The run ended well, and nobody gets what it displayed.
pub(crate) fn not_delivered(message: String) -> ControlError {
    ControlError::applied(codes::PYPROC_INTERNAL, message)
}

/// The attachments that the bytes behind an output are.
pub(crate) fn attachments(
    output: &Map<String, Value>,
    bytes: &[u8],
) -> Result<Vec<AttachmentContent>, ControlError> {
    let mut rest = bytes;
    let mut attachments = Vec::new();
    for display in named(output).unwrap_or_default() {
        let length = usize::try_from(display.byte_length).unwrap_or(usize::MAX);
        let (own, after) = (rest.split_at_checked(length))
            .ok_or_else(|| not_delivered("a display arrived incomplete".to_owned()))?;
        rest = after;
        let mime = Mime::parse(&display.mime_type);
        let mime = mime.map_err(|error| not_delivered(error.to_string()))?;
        let kind = AttachmentKind::machine_display();
        let content = AttachmentContent::new(kind, mime, own.to_vec());
        attachments.push(content.map_err(|error| not_delivered(error.to_string()))?);
    }
    Ok(attachments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn display(mime_type: &str, byte_length: u64) -> Display {
        Display {
            mime_type: mime_type.to_owned(),
            byte_length,
        }
    }

    fn output(displays: Value) -> Map<String, Value> {
        Map::from_iter([(MEMBER.to_owned(), displays)])
    }

    #[test]
    fn the_bounds_are_those_of_the_guest() {
        let png = |length| display("image/png", length);
        assert_eq!(total(&[png(1), display("text/html", 4)]), Some(5));
        assert_eq!(total(&[png(8 << 20)]), Some(8 << 20));
        assert_eq!(total(&vec![png(1); 16]), Some(16));
        for bad in [
            vec![],
            vec![png(0)],
            vec![png((8 << 20) + 1)],
            vec![png(4 << 20), png(4 << 20), png(1)],
            vec![png(u64::MAX), png(u64::MAX)],
            vec![png(1); 17],
            vec![display("text/plain", 1)],
        ] {
            assert_eq!(total(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn an_output_without_displays_announces_nothing_and_a_strange_one_is_refused() {
        assert_eq!(announced(&Map::new()), Some(0));
        let one = json!({"mimeType": "image/png", "byteLength": 3});
        assert_eq!(announced(&output(json!([one]))), Some(3));
        for bad in [
            json!(null),
            json!([]),
            json!([1]),
            json!([{"mimeType": "image/png"}]),
            json!([{"mimeType": "image/png", "byteLength": -1}]),
            json!([{"mimeType": "image/png", "byteLength": 3, "more": 1}]),
        ] {
            assert_eq!(announced(&output(bad.clone())), None, "{bad}");
        }
    }

    #[test]
    fn the_bytes_are_cut_in_the_order_of_the_output() {
        let output = output(json!([
            {"mimeType": "image/png", "byteLength": 2},
            {"mimeType": "text/html", "byteLength": 3},
        ]));
        let attachments = attachments(&output, b"abcde").unwrap();
        let parts: Vec<_> = (attachments.iter())
            .map(|one| (one.kind().as_str(), one.mime_type().as_str(), one.bytes()))
            .collect();
        assert_eq!(
            parts,
            [
                ("machine.display", "image/png", &b"ab"[..]),
                ("machine.display", "text/html", &b"cde"[..]),
            ]
        );
        assert!(super::attachments(&output, b"abcd").is_err());
    }
}
