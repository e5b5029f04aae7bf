//! Attachment streams on the receiving side (control protocol 4, K6 and K7).

use std::collections::BTreeMap;

use crate::frame::{AttachmentFrame, ChunkLimit, Descriptor};
use crate::limits;
use crate::types::{AttachmentId, AttachmentKind, Mime, Sha256Hex};

/// A complete attachment whose length and digest were verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedAttachment {
    /// Identifier within the request.
    pub attachment_id: AttachmentId,
    /// What the bytes are.
    pub kind: AttachmentKind,
    /// How the bytes are encoded.
    pub mime_type: Mime,
    /// Digest of the bytes.
    pub sha256: Sha256Hex,
    /// The bytes, at most 64 MiB.
    pub bytes: Vec<u8>,
}

/// How a stream breaks the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the attachment {attachment_id} {problem}")]
pub(super) struct StreamError {
    attachment_id: AttachmentId,
    problem: &'static str,
}

/// The streams of one pending request.
#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<AttachmentId, Stream>,
}

#[derive(Debug)]
struct Stream {
    mime_type: Mime,
    bytes: Vec<u8>,
    /// Digest of a complete stream.
    digest: Option<Sha256Hex>,
}

impl Streams {
    /// Appends a chunk of at most `max_chunk` bytes.
    pub(super) fn receive(
        &mut self,
        chunk: AttachmentFrame,
        max_chunk: ChunkLimit,
    ) -> Result<(), StreamError> {
        let AttachmentFrame {
            attachment_id,
            mime_type,
            offset,
            data,
            end,
            ..
        } = chunk;
        let stream = self
            .streams
            .entry(attachment_id.clone())
            .or_insert_with(|| Stream {
                mime_type: mime_type.clone(),
                bytes: Vec::new(),
                digest: None,
            });
        stream
            .check(&mime_type, offset, &data, max_chunk)
            .map_err(|problem| StreamError {
                attachment_id: attachment_id.clone(),
                problem,
            })?;
        if stream.bytes.is_empty() {
            stream.bytes = data;
        } else {
            stream.bytes.extend_from_slice(&data);
        }
        let Some(end) = end else { return Ok(()) };
        let digest = Sha256Hex::of(&stream.bytes);
        let problem = if end.byte_length != stream.bytes.len() as u64 {
            "does not have its byteLength"
        } else if end.sha256 != digest {
            "does not match its sha256"
        } else {
            stream.digest = Some(digest);
            return Ok(());
        };
        Err(StreamError {
            attachment_id,
            problem,
        })
    }

    /// The attachments, if they are exactly those of `descriptors`.
    pub(super) fn finish(
        mut self,
        descriptors: &[Descriptor],
    ) -> Result<Vec<ReceivedAttachment>, StreamError> {
        let mut received = Vec::with_capacity(descriptors.len());
        for descriptor in descriptors {
            let stream = self.streams.remove(&descriptor.attachment_id);
            let attachment = declared(descriptor, stream).map_err(|problem| StreamError {
                attachment_id: descriptor.attachment_id.clone(),
                problem,
            })?;
            received.push(attachment);
        }
        match self.streams.into_keys().next() {
            None => Ok(received),
            Some(attachment_id) => Err(StreamError {
                attachment_id,
                problem: "was not declared by the terminal",
            }),
        }
    }

    /// Bytes held by the streams.
    pub(super) fn buffered(&self) -> u64 {
        self.streams
            .values()
            .map(|stream| stream.bytes.len() as u64)
            .sum()
    }
}

impl Stream {
    fn check(
        &self,
        mime_type: &Mime,
        offset: u64,
        data: &[u8],
        max_chunk: ChunkLimit,
    ) -> Result<(), &'static str> {
        let received = self.bytes.len() as u64;
        if self.digest.is_some() {
            Err("goes on after its end")
        } else if *mime_type != self.mime_type {
            Err("changes its MIME type")
        } else if offset != received {
            Err("has a gap or an overlap")
        } else if data.len() > max_chunk.bytes() {
            Err("has a chunk over the announced limit")
        } else if received + data.len() as u64 > limits::MAX_ATTACHMENT {
            Err("is larger than the limit")
        } else {
            Ok(())
        }
    }
}

fn declared(
    descriptor: &Descriptor,
    stream: Option<Stream>,
) -> Result<ReceivedAttachment, &'static str> {
    let stream = stream.ok_or("was declared but not sent")?;
    let sha256 = stream.digest.ok_or("did not end")?;
    let matches = stream.mime_type == descriptor.mime_type
        && stream.bytes.len() as u64 == descriptor.byte_length
        && sha256 == descriptor.sha256;
    if !matches {
        return Err("does not match its descriptor");
    }
    Ok(ReceivedAttachment {
        attachment_id: descriptor.attachment_id.clone(),
        kind: descriptor.kind.clone(),
        mime_type: stream.mime_type,
        sha256,
        bytes: stream.bytes,
    })
}
