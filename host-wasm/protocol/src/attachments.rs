//! Attachments on the sending side (control protocol 3.13): their content and
//! the promotion of inline screenshots.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::frame::Descriptor;
use crate::json;
use crate::limits;
use crate::types::{AttachmentId, AttachmentKind, Mime, Sha256Hex};

/// Longest MIME type of an attachment in bytes; what media type registration
/// allows. It keeps a chunk of the largest size within one frame.
const MAX_MIME: usize = 255;

/// Bytes that accompany a successful terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentContent {
    kind: AttachmentKind,
    mime_type: Mime,
    bytes: Vec<u8>,
    sha256: Sha256Hex,
    artifact_ref: Option<String>,
}

/// Why bytes cannot be an attachment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAttachment {
    /// More than 64 MiB.
    #[error("an attachment is larger than {} bytes", limits::MAX_ATTACHMENT)]
    TooLarge,
    /// The MIME type is not one of the wire, or is longer than 255 bytes.
    #[error("an attachment has an invalid MIME type")]
    MimeType,
    /// An inline screenshot is not canonical base64.
    #[error("an inline screenshot is not canonical base64")]
    Base64,
    /// An inline screenshot has another length than its object says.
    #[error("an inline screenshot has {actual} bytes and not its byteLength")]
    ByteLength {
        /// Decoded length in bytes.
        actual: usize,
    },
    /// An inline screenshot has another digest than its object says.
    #[error("an inline screenshot does not match its sha256")]
    Digest,
}

impl AttachmentContent {
    /// An attachment of `bytes`, whose digest is computed here.
    ///
    /// # Errors
    /// [`InvalidAttachment`] when there are more than 64 MiB, or the MIME type
    /// is longer than 255 bytes.
    pub fn new(
        kind: AttachmentKind,
        mime_type: Mime,
        bytes: Vec<u8>,
    ) -> Result<Self, InvalidAttachment> {
        if bytes.len() as u64 > limits::MAX_ATTACHMENT {
            return Err(InvalidAttachment::TooLarge);
        }
        if mime_type.as_str().len() > MAX_MIME {
            return Err(InvalidAttachment::MimeType);
        }
        let sha256 = Sha256Hex::of(&bytes);
        Ok(Self {
            kind,
            mime_type,
            bytes,
            sha256,
            artifact_ref: None,
        })
    }

    /// What the bytes are.
    #[must_use]
    pub fn kind(&self) -> &AttachmentKind {
        &self.kind
    }

    /// How the bytes are encoded.
    #[must_use]
    pub fn mime_type(&self) -> &Mime {
        &self.mime_type
    }

    /// The bytes, at most 64 MiB.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Digest of the bytes.
    #[must_use]
    pub fn sha256(&self) -> &Sha256Hex {
        &self.sha256
    }

    /// The artifact that the bytes are a copy of, for promoted screenshots.
    #[must_use]
    pub fn artifact_ref(&self) -> Option<&str> {
        self.artifact_ref.as_deref()
    }

    /// What the terminal says about the attachment at `position`, counted
    /// from 1.
    #[must_use]
    pub fn descriptor(&self, position: usize) -> Descriptor {
        Descriptor {
            attachment_id: AttachmentId::numbered(position),
            kind: self.kind.clone(),
            mime_type: self.mime_type.clone(),
            byte_length: self.bytes.len() as u64,
            sha256: self.sha256.clone(),
        }
    }

    /// Checks the bytes of an inline screenshot against its object.
    fn promoted(screenshot: &Map<String, Value>, data: &str) -> Result<Self, InvalidAttachment> {
        let text = |name: &str| {
            screenshot
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let mime_type = Mime::parse(text("mimeType")).map_err(|_| InvalidAttachment::MimeType)?;
        let bytes = STANDARD
            .decode(data)
            .map_err(|_| InvalidAttachment::Base64)?;
        let stated = match screenshot.get("byteLength") {
            Some(Value::Number(number)) => json::as_integer(number),
            _ => None,
        };
        if stated.and_then(|length| usize::try_from(length).ok()) != Some(bytes.len()) {
            return Err(InvalidAttachment::ByteLength {
                actual: bytes.len(),
            });
        }
        let mut content = Self::new(AttachmentKind::screen_capture(), mime_type, bytes)?;
        if content.sha256 != *text("sha256") {
            return Err(InvalidAttachment::Digest);
        }
        content.artifact_ref = Some(text("artifactRef").to_owned());
        Ok(content)
    }
}

/// Moves the bytes of inline screenshots from `output` into attachments, in
/// document order. The first occurrence of an artifact becomes an attachment,
/// later ones only lose their bytes.
///
/// The recursion is as deep as `output`, which the caller has bounded.
pub(crate) fn promote(output: &mut Value) -> Result<Vec<AttachmentContent>, InvalidAttachment> {
    let mut promoted = Vec::new();
    let mut seen = BTreeSet::new();
    for_each_object(output, &mut |object| {
        let Some(artifact_ref) = inline_screenshot(object) else {
            return Ok(());
        };
        let first = seen.insert(artifact_ref.to_owned());
        // The remaining members keep their order.
        if let Some(Value::String(data)) = object.shift_remove("dataBase64")
            && first
        {
            promoted.push(AttachmentContent::promoted(object, &data)?);
        }
        Ok(())
    })?;
    Ok(promoted)
}

/// Removes the bytes of inline screenshots from the details of an error; the
/// rest of their objects stays (control protocol 3.12).
///
/// The recursion is as deep as `details`, which the caller has bounded.
pub(crate) fn strip_screenshots(details: &mut Map<String, Value>) {
    let strip = &mut |object: &mut Map<String, Value>| {
        if inline_screenshot(object).is_some() {
            object.shift_remove("dataBase64");
        }
        Ok::<(), std::convert::Infallible>(())
    };
    let Ok(()) = visit(details, strip);
}

/// The artifact of an inline screenshot, if `object` is one.
fn inline_screenshot(object: &Map<String, Value>) -> Option<&str> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let artifact_ref = text("artifactRef").filter(|text| is_artifact_ref(text))?;
    let qualifies = text("dataBase64").is_some()
        && !object.contains_key("offset")
        && text("kind") == Some("screenshot")
        && text("mimeType").is_some_and(|mime| mime.starts_with("image/"));
    qualifies.then_some(artifact_ref)
}

fn is_artifact_ref(text: &str) -> bool {
    text.strip_prefix("artifact:").is_some_and(|name| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
    })
}

fn for_each_object<E>(
    value: &mut Value,
    action: &mut impl FnMut(&mut Map<String, Value>) -> Result<(), E>,
) -> Result<(), E> {
    match value {
        Value::Object(object) => visit(object, action),
        Value::Array(items) => items
            .iter_mut()
            .try_for_each(|item| for_each_object(item, action)),
        _ => Ok(()),
    }
}

/// Runs `action` on `object` and then on every object inside it, in document
/// order.
fn visit<E>(
    object: &mut Map<String, Value>,
    action: &mut impl FnMut(&mut Map<String, Value>) -> Result<(), E>,
) -> Result<(), E> {
    action(object)?;
    object
        .values_mut()
        .try_for_each(|value| for_each_object(value, action))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn screenshot(artifact: &str, bytes: &[u8]) -> Value {
        json!({
            "kind": "screenshot",
            "artifactRef": artifact,
            "mimeType": "image/png",
            "dataBase64": STANDARD.encode(bytes),
            "byteLength": bytes.len(),
            "sha256": Sha256Hex::of(bytes),
        })
    }

    fn with(mut screenshot: Value, name: &str, value: Value) -> Value {
        screenshot[name] = value;
        screenshot
    }

    #[test]
    fn screenshots_are_promoted_in_document_order() {
        let mut output = json!({
            "z": [screenshot("artifact:two", b"22")],
            "a": {"deep": screenshot("artifact:one", b"1")},
        });
        let promoted = promote(&mut output).unwrap();
        let found: Vec<_> = promoted
            .iter()
            .map(|c| (c.artifact_ref(), c.bytes()))
            .collect();
        assert_eq!(
            found,
            [
                (Some("artifact:two"), &b"22"[..]),
                (Some("artifact:one"), b"1")
            ]
        );
        let descriptor = promoted[1].descriptor(2);
        assert_eq!(descriptor.attachment_id, "attachment:2");
        assert_eq!(descriptor.kind, "screen.capture");
        assert_eq!(descriptor.byte_length, 1);
        assert_eq!(descriptor.sha256, Sha256Hex::of(b"1"));
    }

    #[test]
    fn only_the_bytes_leave_the_output_and_the_order_stays() {
        let mut output = screenshot("artifact:a", b"x");
        promote(&mut output).unwrap();
        let keys: Vec<_> = output
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            keys,
            ["kind", "artifactRef", "mimeType", "byteLength", "sha256"]
        );
    }

    #[test]
    fn a_repeated_artifact_is_one_attachment() {
        let broken = with(screenshot("artifact:a", b"x"), "sha256", json!("wrong"));
        let mut output = json!([screenshot("artifact:a", b"x"), broken]);
        let promoted = promote(&mut output).unwrap();
        assert_eq!(promoted.len(), 1);
        assert!(output[1].get("dataBase64").is_none());
    }

    #[test]
    fn a_screenshot_may_contain_another_one() {
        let inner = screenshot("artifact:inner", b"i");
        let mut output = with(screenshot("artifact:outer", b"o"), "next", inner);
        let promoted = promote(&mut output).unwrap();
        let found: Vec<_> = promoted.iter().map(AttachmentContent::bytes).collect();
        assert_eq!(found, [b"o", b"i"]);
    }

    #[test]
    fn objects_that_do_not_qualify_stay_whole() {
        let good = screenshot("artifact:a", b"x");
        let others = [
            with(good.clone(), "offset", json!(0)),
            with(good.clone(), "offset", json!(null)),
            with(good.clone(), "kind", json!("download")),
            with(good.clone(), "mimeType", json!("application/pdf")),
            with(good.clone(), "artifactRef", json!("artifact:")),
            with(good.clone(), "artifactRef", json!("artifact:a.b")),
            with(good.clone(), "artifactRef", json!("other:a")),
            with(good, "dataBase64", json!(5)),
        ];
        for other in others {
            let mut output = other.clone();
            assert_eq!(promote(&mut output), Ok(Vec::new()), "{other}");
            assert_eq!(output, other);
        }
    }

    #[test]
    fn content_that_contradicts_its_object_is_refused() {
        let good = screenshot("artifact:a", b"x");
        let cases = [
            ("dataBase64", json!("eA"), InvalidAttachment::Base64),
            ("dataBase64", json!("eB=="), InvalidAttachment::Base64),
            ("dataBase64", json!("eA==\n"), InvalidAttachment::Base64),
            ("dataBase64", json!("e_=="), InvalidAttachment::Base64),
            ("dataBase64", json!("eQ=="), InvalidAttachment::Digest),
            (
                "byteLength",
                json!(2),
                InvalidAttachment::ByteLength { actual: 1 },
            ),
            (
                "byteLength",
                json!("1"),
                InvalidAttachment::ByteLength { actual: 1 },
            ),
            ("sha256", json!(null), InvalidAttachment::Digest),
            ("mimeType", json!("image/PNG"), InvalidAttachment::MimeType),
            (
                "mimeType",
                json!("image/png;q=1"),
                InvalidAttachment::MimeType,
            ),
        ];
        for (name, value, wanted) in cases {
            let mut output = with(good.clone(), name, value.clone());
            assert_eq!(promote(&mut output), Err(wanted), "{name} {value}");
        }
        let mut output = with(good, "byteLength", json!(1.0));
        assert_eq!(promote(&mut output).unwrap().len(), 1);
    }

    #[test]
    fn details_lose_bytes_and_keep_references() {
        let Value::Object(mut details) = json!({"completed":[screenshot("artifact:a", b"x")]})
        else {
            panic!("an object is wanted")
        };
        strip_screenshots(&mut details);
        assert!(details["completed"][0].get("dataBase64").is_none());
        assert_eq!(details["completed"][0]["artifactRef"], "artifact:a");
    }

    #[test]
    fn attachments_are_bounded() {
        let kind = AttachmentKind::machine_image;
        let mime = Mime::parse("application/octet-stream").unwrap();
        let limit = usize::try_from(limits::MAX_ATTACHMENT).unwrap();
        assert!(AttachmentContent::new(kind(), mime.clone(), vec![0; limit]).is_ok());
        assert_eq!(
            AttachmentContent::new(kind(), mime, vec![0; limit + 1]),
            Err(InvalidAttachment::TooLarge)
        );
        let long = Mime::parse(&format!("image/{}", "x".repeat(250))).unwrap();
        assert_eq!(
            AttachmentContent::new(kind(), long, Vec::new()),
            Err(InvalidAttachment::MimeType)
        );
    }
}
