//! `attachment`, one chunk of a stream (control protocol 3.8).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::codes;
use crate::error::FatalError;
use crate::json::EncodeError;
use crate::limits;
use crate::members::{MemberError, Members};
use crate::types::{AttachmentId, Mime, RequestId, Sha256Hex};

/// Server to client: one chunk of an attachment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentFrame {
    /// The request whose terminal will list the attachment.
    pub request_id: RequestId,
    /// The stream.
    pub attachment_id: AttachmentId,
    /// How the bytes are encoded; the same in every chunk of a stream.
    pub mime_type: Mime,
    /// Bytes of the stream before this chunk.
    pub offset: u64,
    /// At most 262 144 bytes.
    pub data: Vec<u8>,
    /// Present in the last chunk only.
    pub end: Option<StreamEnd>,
}

/// What the last chunk says about its whole stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEnd {
    /// Length of the stream.
    pub byte_length: u64,
    /// Digest of the stream.
    pub sha256: Sha256Hex,
}

/// A chunk whose bytes are borrowed from the attachment that is being sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk<'a> {
    pub(crate) request_id: &'a RequestId,
    pub(crate) attachment_id: &'a AttachmentId,
    pub(crate) mime_type: &'a Mime,
    pub(crate) offset: u64,
    pub(crate) data: &'a [u8],
    pub(crate) end: Option<(u64, &'a Sha256Hex)>,
}

impl Chunk<'_> {
    /// The line of the chunk. It is put together by hand because chunks carry
    /// the bulk of all bytes, and because no text of a chunk needs an escape:
    /// ids, MIME types, digests and base64 have alphabets without quotes,
    /// backslashes and control characters.
    pub(crate) fn encode(self) -> String {
        let mut line = String::with_capacity(512 + self.data.len().div_ceil(3) * 4);
        line.push_str(r#"{"protocol":"pyproc-control","version":1,"type":"attachment""#);
        let text = |line: &mut String, name, value: &str| {
            for part in [",\"", name, "\":\"", value, "\""] {
                line.push_str(part);
            }
        };
        text(&mut line, "requestId", self.request_id.as_str());
        text(&mut line, "attachmentId", self.attachment_id.as_str());
        text(&mut line, "mimeType", self.mime_type.as_str());
        line.push_str(&format!(",\"offset\":{},\"dataBase64\":\"", self.offset));
        STANDARD.encode_string(self.data, &mut line);
        line.push_str(&format!("\",\"eof\":{}", self.end.is_some()));
        if let Some((byte_length, sha256)) = self.end {
            line.push_str(&format!(",\"byteLength\":{byte_length}"));
            text(&mut line, "sha256", sha256.as_str());
        }
        line.push('}');
        line
    }
}

impl AttachmentFrame {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, FatalError> {
        let required = [
            "requestId",
            "attachmentId",
            "mimeType",
            "offset",
            "dataBase64",
            "eof",
        ];
        let mut frame = Members::closed("", members, &required, &["byteLength", "sha256"])?;
        let request_id = frame.text("requestId")?;
        let attachment_id = frame.text("attachmentId")?;
        Self::decode_content(request_id, attachment_id, frame)
            .map_err(|error| FatalError::new(codes::CONTROL_ATTACHMENT_INVALID, error.to_string()))
    }

    /// Reads the members whose faults are faults of the attachment and not of
    /// the frame (control protocol 3.4, step 7).
    fn decode_content(
        request_id: RequestId,
        attachment_id: AttachmentId,
        mut frame: Members,
    ) -> Result<Self, MemberError> {
        let mime_type = frame.text("mimeType")?;
        let offset = frame.integer("offset", 0, limits::MAX_SAFE_UNSIGNED)?;
        let data = decode_chunk(&frame.string("dataBase64")?)
            .map_err(|problem| frame.error("dataBase64", problem))?;
        let end = if frame.boolean("eof")? {
            Some(StreamEnd {
                byte_length: frame.integer("byteLength", 0, limits::MAX_SAFE_UNSIGNED)?,
                sha256: frame.text("sha256")?,
            })
        } else {
            if let Some(name) = ["byteLength", "sha256"].iter().find(|name| frame.has(name)) {
                return Err(frame.error(name, "belongs to the last chunk"));
            }
            None
        };
        Ok(Self {
            request_id,
            attachment_id,
            mime_type,
            offset,
            data,
            end,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        let line = Chunk {
            request_id: &self.request_id,
            attachment_id: &self.attachment_id,
            mime_type: &self.mime_type,
            offset: self.offset,
            data: &self.data,
            end: self.end.as_ref().map(|end| (end.byte_length, &end.sha256)),
        }
        .encode();
        let limit = limits::MAX_OUTBOUND_FRAME;
        if line.len() > limit {
            Err(EncodeError::TooLarge { limit })
        } else {
            Ok(line)
        }
    }
}

fn decode_chunk(text: &str) -> Result<Vec<u8>, &'static str> {
    const TOO_LONG: &str = "decodes to more than 262144 bytes";
    if text.len() > limits::MAX_CHUNK.div_ceil(3) * 4 {
        return Err(TOO_LONG);
    }
    let data = STANDARD
        .decode(text)
        .map_err(|_| "is not canonical base64")?;
    if data.len() > limits::MAX_CHUNK {
        Err(TOO_LONG)
    } else {
        Ok(data)
    }
}
