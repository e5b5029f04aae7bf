//! What ends a request (control protocol 3.12 to 3.14).
//!
//! Every adapter packages a result here before it writes it, so that a result
//! which cannot be delivered fails in the same way on every protocol.

use serde_json::Value;

use crate::attachments::{self, AttachmentContent};
use crate::codes;
use crate::error::ControlError;
use crate::frame::{Chunk, ChunkLimit, Frame, Response, encode_terminal};
use crate::json::{self, EncodeError};
use crate::limits;
use crate::outcome::SuccessOutcome;
use crate::types::{AttachmentId, RequestId};

/// A success that can be delivered: its output holds no inline screenshots and
/// its response fits one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    response: Response,
    attachments: Vec<AttachmentContent>,
    line: String,
}

impl Completion {
    /// Packages the result of `request_id`. Inline screenshots of `output`
    /// become attachments behind the given ones.
    ///
    /// # Errors
    /// The failure that the request ends with instead, never retryable; its
    /// outcome is `applied` when `outcome` is, else `notSent`:
    /// `CONTROL_ATTACHMENT_INVALID` for an inline screenshot that contradicts
    /// itself, `CONTROL_FRAME_TOO_LARGE` for a response that does not fit a
    /// frame, `PYPROC_INTERNAL` for output nested deeper than 64.
    pub fn package(
        request_id: &RequestId,
        outcome: SuccessOutcome,
        mut output: Value,
        mut attachments: Vec<AttachmentContent>,
    ) -> Result<Self, ControlError> {
        let fail =
            |code, message: String| ControlError::new(code, outcome.when_undeliverable(), message);
        if !json::depth_within(&output, limits::MAX_JSON_DEPTH) {
            let message = format!(
                "the output is nested deeper than {}",
                limits::MAX_JSON_DEPTH
            );
            return Err(fail(codes::PYPROC_INTERNAL, message));
        }
        let promoted = attachments::promote(&mut output)
            .map_err(|error| fail(codes::CONTROL_ATTACHMENT_INVALID, error.to_string()))?;
        attachments.extend(promoted);
        let descriptors = attachments
            .iter()
            .enumerate()
            .map(|(index, attachment)| attachment.descriptor(index + 1))
            .collect();
        let request_id = request_id.clone();
        let frame = Frame::Response(Response {
            request_id,
            outcome,
            output,
            attachments: descriptors,
        });
        let line = frame.encode().map_err(|error| match error {
            EncodeError::TooLarge { limit } => fail(
                codes::CONTROL_FRAME_TOO_LARGE,
                format!("the response would be longer than {limit} bytes"),
            ),
            EncodeError::NotJson => fail(codes::PYPROC_INTERNAL, error.to_string()),
        })?;
        let Frame::Response(response) = frame else {
            return Err(fail(
                codes::PYPROC_INTERNAL,
                "a response changed its type".to_owned(),
            ));
        };
        Ok(Self {
            response,
            attachments,
            line,
        })
    }

    /// What became of the effect.
    #[must_use]
    pub fn outcome(&self) -> SuccessOutcome {
        self.response.outcome
    }

    /// The output without inline screenshots.
    #[must_use]
    pub fn output(&self) -> &Value {
        &self.response.output
    }

    /// The attachments; their descriptors are those of the response, in order.
    #[must_use]
    pub fn attachments(&self) -> &[AttachmentContent] {
        &self.attachments
    }

    /// The response frame.
    #[must_use]
    pub fn response(&self) -> &Response {
        &self.response
    }

    /// Response and attachments.
    #[must_use]
    pub fn into_parts(self) -> (Response, Vec<AttachmentContent>) {
        (self.response, self.attachments)
    }

    /// The lines of this success for a client that takes chunks of `max_chunk`.
    pub fn into_lines(self, max_chunk: ChunkLimit) -> TerminalLines {
        TerminalLines {
            request_id: self.response.request_id,
            max_chunk,
            attachments: self.attachments,
            position: 0,
            offset: 0,
            terminal: Some(self.line),
        }
    }
}

/// A failure that can be delivered: its details hold no inline screenshots and
/// its frame fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    error: ControlError,
    request_id: RequestId,
    line: String,
}

impl Failure {
    /// Packages the failure of `request_id`. Details that do not fit a frame
    /// are dropped; code, message and outcome always stay.
    #[must_use]
    pub fn package(request_id: &RequestId, mut error: ControlError) -> Self {
        if let Some(details) = error.details_mut() {
            attachments::strip_screenshots(details);
        }
        let (error, line) = encode_terminal(request_id, error);
        Self {
            error,
            request_id: request_id.clone(),
            line,
        }
    }

    /// The error as it is delivered.
    #[must_use]
    pub fn error(&self) -> &ControlError {
        &self.error
    }

    /// The error as it is delivered.
    #[must_use]
    pub fn into_error(self) -> ControlError {
        self.error
    }

    /// The one line of this failure, without its terminator.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }

    /// The lines of this failure.
    pub fn into_lines(self) -> TerminalLines {
        TerminalLines {
            request_id: self.request_id,
            max_chunk: ChunkLimit::MAX,
            attachments: Vec::new(),
            position: 0,
            offset: 0,
            terminal: Some(self.line),
        }
    }
}

/// The lines that end a request, without terminators: the chunks of all
/// attachments in order, then the terminal. They are written contiguously.
///
/// Chunks are made when they are asked for, so that a large attachment is not
/// held twice.
#[derive(Clone, Debug)]
#[must_use = "a request ends only when its lines are written"]
pub struct TerminalLines {
    request_id: RequestId,
    max_chunk: ChunkLimit,
    attachments: Vec<AttachmentContent>,
    position: usize,
    offset: usize,
    terminal: Option<String>,
}

impl Iterator for TerminalLines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let Some(attachment) = self.attachments.get(self.position) else {
            return self.terminal.take();
        };
        let bytes = attachment.bytes();
        let end = bytes.len().min(self.offset + self.max_chunk.bytes());
        let is_last = end == bytes.len();
        let line = Chunk {
            request_id: &self.request_id,
            attachment_id: &AttachmentId::numbered(self.position + 1),
            mime_type: attachment.mime_type(),
            offset: self.offset as u64,
            data: &bytes[self.offset..end],
            end: is_last.then_some((bytes.len() as u64, attachment.sha256())),
        }
        .encode();
        self.offset = if is_last { 0 } else { end };
        self.position += usize::from(is_last);
        Some(line)
    }
}

impl std::iter::FusedIterator for TerminalLines {}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::*;
    use crate::outcome::FailureOutcome;
    use crate::types::{AttachmentKind, Mime, Sha256Hex};

    fn id() -> RequestId {
        RequestId::parse("r:1").unwrap()
    }

    fn screenshot(bytes: &[u8], sha256: &Sha256Hex) -> Value {
        json!({
            "kind": "screenshot", "artifactRef": "artifact:a", "mimeType": "image/png",
            "dataBase64": STANDARD.encode(bytes), "byteLength": bytes.len(), "sha256": sha256,
        })
    }

    fn failure_of(outcome: SuccessOutcome, output: Value) -> ControlError {
        let error = Completion::package(&id(), outcome, output, Vec::new()).unwrap_err();
        assert!(!error.retryable());
        error
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(0), |inner, _| json!([inner]))
    }

    #[test]
    fn promoted_screenshots_follow_given_attachments() {
        let mime = Mime::parse("application/octet-stream").unwrap();
        let given = AttachmentContent::new(AttachmentKind::machine_image(), mime, vec![1]).unwrap();
        let output = json!({"shot": screenshot(b"x", &Sha256Hex::of(b"x"))});
        let completion =
            Completion::package(&id(), SuccessOutcome::Observed, output, vec![given]).unwrap();
        let kinds: Vec<_> = completion
            .attachments()
            .iter()
            .map(|a| a.kind().as_str())
            .collect();
        assert_eq!(kinds, ["machine.image", "screen.capture"]);
        let ids: Vec<_> = completion
            .response()
            .attachments
            .iter()
            .map(|d| d.attachment_id.as_str())
            .collect();
        assert_eq!(ids, ["attachment:1", "attachment:2"]);
        assert_eq!(completion.output()["shot"].get("dataBase64"), None);
    }

    #[test]
    fn a_wrong_screenshot_fails_with_the_outcome_of_the_operation() {
        let output = json!([screenshot(b"x", &Sha256Hex::of(b"y"))]);
        for (success, failure) in [
            (SuccessOutcome::Applied, FailureOutcome::Applied),
            (SuccessOutcome::Observed, FailureOutcome::NotSent),
        ] {
            let error = failure_of(success, output.clone());
            assert_eq!(*error.code(), codes::CONTROL_ATTACHMENT_INVALID);
            assert_eq!(error.outcome(), failure);
        }
    }

    #[test]
    fn the_limit_of_a_response_is_exact() {
        let length_of = |text: usize| {
            let output = json!("x".repeat(text));
            Completion::package(&id(), SuccessOutcome::Observed, output, Vec::new())
                .map(|completion| completion.line.len())
        };
        let overhead = length_of(0).unwrap();
        let most = limits::MAX_OUTBOUND_FRAME - overhead;
        assert_eq!(length_of(most).unwrap(), limits::MAX_OUTBOUND_FRAME);
        let error = length_of(most + 1).unwrap_err();
        assert_eq!(*error.code(), codes::CONTROL_FRAME_TOO_LARGE);
        assert_eq!(error.outcome(), FailureOutcome::NotSent);
    }

    #[test]
    fn bytes_that_leave_the_output_do_not_count_for_its_limit() {
        let bytes = vec![0_u8; 2_000_000];
        let output = screenshot(&bytes, &Sha256Hex::of(&bytes));
        let completion =
            Completion::package(&id(), SuccessOutcome::Observed, output, Vec::new()).unwrap();
        assert_eq!(completion.attachments()[0].bytes().len(), bytes.len());
    }

    #[test]
    fn output_of_depth_64_is_the_deepest() {
        let package =
            |output| Completion::package(&id(), SuccessOutcome::Applied, output, Vec::new());
        assert!(package(nested(64)).is_ok());
        let error = package(nested(65)).unwrap_err();
        assert_eq!(*error.code(), codes::PYPROC_INTERNAL);
        assert_eq!(error.outcome(), FailureOutcome::Applied);
    }

    #[test]
    fn a_large_error_loses_its_details_only() {
        let error = ControlError::not_sent(codes::CONTROL_TIMEOUT, "late")
            .with_retryable(true)
            .with_detail("completed", "x".repeat(1_100_000));
        let failure = Failure::package(&id(), error.clone());
        assert_eq!(*failure.error(), error.without_details());
        assert!(failure.line().len() < 1000);
    }

    #[test]
    fn the_longest_error_message_fits() {
        let message = "\u{1}".repeat(3000);
        let failure = Failure::package(
            &id(),
            ControlError::applied(codes::PYPROC_INTERNAL, message),
        );
        assert_eq!(failure.error().message().len(), 2000);
        assert!(Frame::decode(failure.line().as_bytes()).is_ok());
    }

    #[test]
    fn details_keep_references_without_bytes() {
        let shot = screenshot(b"x", &Sha256Hex::of(b"x"));
        let error = ControlError::applied(codes::CONTROL_TIMEOUT, "late")
            .with_detail("completed", json!([shot]));
        let failure = Failure::package(&id(), error);
        let kept = &failure.error().details().unwrap()["completed"][0];
        assert_eq!(kept.get("dataBase64"), None);
        assert_eq!(kept["artifactRef"], "artifact:a");
        assert!(!failure.line().contains("dataBase64"));
    }
}
