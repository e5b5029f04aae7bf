//! The canonical error of a request and the failure of a connection
//! (control protocol 3.10 to 3.12).

use serde::Serialize;
use serde_json::{Map, Value};

use crate::members::MemberError;
use crate::outcome::FailureOutcome;
use crate::types::Code;
use crate::{codes, json, limits, text};

const DEFAULT_MESSAGE: &str = "the operation failed without a message";

/// The canonical error object of the wire (control protocol 3.12).
///
/// Every value satisfies the rules of the wire: the message has 1 to 2000
/// characters, `retryable` is never true with `applied` or `outcomeUnknown`,
/// and `details` is not empty and not deeper than the Json limit.
#[derive(Clone, Debug, PartialEq, Serialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ControlError {
    code: Code,
    message: String,
    retryable: bool,
    outcome: FailureOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    /// Boxed so that a `Result` with this error stays small.
    details: Option<Box<Map<String, Value>>>,
}

/// A failure as some layer reported it, before normalisation. Absent and
/// unusable members are replaced by [`ControlError::normalise`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RawFailure<'a> {
    /// Reported code; anything that is not a code becomes `PYPROC_INTERNAL`.
    pub code: Option<&'a str>,
    /// Reported message; absent or empty becomes a default text.
    pub message: Option<&'a str>,
    /// Reported outcome; an unknown word becomes `notSent`.
    pub outcome: Option<&'a str>,
    /// Whether the layer called the failure retryable.
    pub retryable: bool,
    /// Reported details; anything that is not an object of valid Json is dropped.
    pub details: Option<Value>,
}

impl ControlError {
    /// A failure that is not retryable and has no details. The message is cut
    /// to its last 2000 UTF-16 code units.
    #[must_use]
    pub fn new(code: Code, outcome: FailureOutcome, message: impl AsRef<str>) -> Self {
        let message = match text::tail(message.as_ref(), limits::MAX_ERROR_MESSAGE) {
            "" => DEFAULT_MESSAGE,
            message => message,
        };
        Self {
            code,
            message: message.to_owned(),
            retryable: false,
            outcome,
            details: None,
        }
    }

    /// A failure before anything was sent.
    #[must_use]
    pub fn not_sent(code: Code, message: impl AsRef<str>) -> Self {
        Self::new(code, FailureOutcome::NotSent, message)
    }

    /// A refusal by the far side.
    #[must_use]
    pub fn rejected(code: Code, message: impl AsRef<str>) -> Self {
        Self::new(code, FailureOutcome::Rejected, message)
    }

    /// A failure after the effect happened.
    #[must_use]
    pub fn applied(code: Code, message: impl AsRef<str>) -> Self {
        Self::new(code, FailureOutcome::Applied, message)
    }

    /// A failure of which nobody can say whether the effect happened.
    #[must_use]
    pub fn outcome_unknown(code: Code, message: impl AsRef<str>) -> Self {
        Self::new(code, FailureOutcome::OutcomeUnknown, message)
    }

    /// The canonical form of an internal failure (control protocol 3.12).
    #[must_use]
    pub fn normalise(failure: RawFailure<'_>) -> Self {
        let code = failure
            .code
            .and_then(|code| Code::parse(code).ok())
            .unwrap_or(codes::PYPROC_INTERNAL);
        let outcome = failure
            .outcome
            .and_then(FailureOutcome::from_wire)
            .unwrap_or(FailureOutcome::NotSent);
        let error = Self::new(code, outcome, failure.message.unwrap_or_default())
            .with_retryable(failure.retryable);
        match failure.details {
            Some(Value::Object(details)) => error.with_details(details),
            _ => error,
        }
    }

    /// The same failure, retryable if `retryable` and the outcome allows it.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable && self.outcome.may_be_retryable();
        self
    }

    /// The same failure with another outcome. A retryable failure stays
    /// retryable only if the new outcome allows it.
    #[must_use]
    pub fn with_outcome(mut self, outcome: FailureOutcome) -> Self {
        self.outcome = outcome;
        self.retryable &= outcome.may_be_retryable();
        self
    }

    /// The same failure with these details in place of any others. Empty or
    /// too deep details leave the failure without details.
    #[must_use]
    pub fn with_details(mut self, details: Map<String, Value>) -> Self {
        let usable = !details.is_empty() && json::members_within(&details, limits::MAX_JSON_DEPTH);
        self.details = usable.then(|| Box::new(details));
        self
    }

    /// The same failure with one more member of `details`, replacing an equally
    /// named one. A value too deep for the wire is left out.
    #[must_use]
    pub fn with_detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if json::depth_within(&value, limits::MAX_JSON_DEPTH - 1) {
            self.details
                .get_or_insert_default()
                .insert(name.to_owned(), value);
        }
        self
    }

    /// The same failure without details, the first thing that an error too
    /// large for one frame loses (control protocol 3.14).
    #[must_use]
    pub fn without_details(mut self) -> Self {
        self.details = None;
        self
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The message for people, 1 to 2000 characters.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the caller may send the same operation again.
    #[must_use]
    pub fn retryable(&self) -> bool {
        self.retryable
    }

    /// What became of the effect.
    #[must_use]
    pub fn outcome(&self) -> FailureOutcome {
        self.outcome
    }

    /// Machine-readable particulars; never an empty object.
    #[must_use]
    pub fn details(&self) -> Option<&Map<String, Value>> {
        self.details.as_deref()
    }

    /// Mutable particulars, for the one change that keeps them valid.
    pub(crate) fn details_mut(&mut self) -> Option<&mut Map<String, Value>> {
        self.details.as_deref_mut()
    }

    /// The error with exactly these members, if the wire allows them together.
    pub(crate) fn from_wire(
        code: Code,
        message: String,
        retryable: bool,
        outcome: FailureOutcome,
        details: Option<Map<String, Value>>,
    ) -> Option<Self> {
        let length = message.chars().count();
        let valid = (1..=limits::MAX_ERROR_MESSAGE).contains(&length)
            && (!retryable || outcome.may_be_retryable());
        let details = details.filter(|details| !details.is_empty()).map(Box::new);
        valid.then_some(Self {
            code,
            message,
            retryable,
            outcome,
            details,
        })
    }
}

/// A failure that ends the connection (control protocol 3.10). As a frame its
/// outcome is `notSent` and it is not retryable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct FatalError {
    code: Code,
    message: String,
}

impl FatalError {
    /// A connection failure. The message is cut like that of a [`ControlError`].
    #[must_use]
    pub fn new(code: Code, message: impl AsRef<str>) -> Self {
        let ControlError { code, message, .. } = ControlError::not_sent(code, message);
        Self { code, message }
    }

    /// A malformed frame.
    #[must_use]
    pub fn invalid_frame(message: impl AsRef<str>) -> Self {
        Self::new(codes::CONTROL_INVALID_FRAME, message)
    }

    /// A line longer than `limit` bytes.
    #[must_use]
    pub fn frame_too_large(limit: usize) -> Self {
        Self::new(
            codes::CONTROL_FRAME_TOO_LARGE,
            format!("a line is longer than {limit} bytes"),
        )
    }

    /// A failure of the connection that no other code names.
    #[must_use]
    pub fn connection_failed(message: impl AsRef<str>) -> Self {
        Self::new(codes::CONTROL_CONNECTION_FAILED, message)
    }

    /// The error code.
    #[must_use]
    pub fn code(&self) -> &Code {
        &self.code
    }

    /// The message for people, 1 to 2000 characters.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The canonical error object of the fatal frame.
    #[must_use]
    pub fn to_control_error(&self) -> ControlError {
        ControlError::not_sent(self.code.clone(), &self.message)
    }
}

impl From<MemberError> for FatalError {
    fn from(error: MemberError) -> Self {
        Self::invalid_frame(error.to_string())
    }
}

impl From<json::JsonError> for FatalError {
    fn from(error: json::JsonError) -> Self {
        Self::invalid_frame(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other} is no object"),
        }
    }

    fn nested(levels: usize) -> Value {
        (0..levels).fold(json!(0), |inner, _| json!([inner]))
    }

    #[test]
    fn messages_are_tails_and_never_empty() {
        let message = |text: &str| {
            ControlError::not_sent(codes::CONTROL_TIMEOUT, text)
                .message()
                .to_owned()
        };
        assert_eq!(message("late"), "late");
        assert_eq!(message(""), DEFAULT_MESSAGE);
        let long = format!("cut{}", "y".repeat(2000));
        assert_eq!(message(&long), "y".repeat(2000));
        let astral = "\u{1f600}".repeat(1001);
        assert_eq!(message(&astral), "\u{1f600}".repeat(1000));
    }

    #[test]
    fn only_unsent_and_refused_failures_are_retryable() {
        let retryable = |outcome| {
            ControlError::new(codes::CONTROL_TIMEOUT, outcome, "late")
                .with_retryable(true)
                .retryable()
        };
        assert!(retryable(FailureOutcome::NotSent));
        assert!(retryable(FailureOutcome::Rejected));
        assert!(!retryable(FailureOutcome::Applied));
        assert!(!retryable(FailureOutcome::OutcomeUnknown));
        let error = ControlError::not_sent(codes::CONTROL_TIMEOUT, "late").with_retryable(true);
        assert!(
            !error
                .clone()
                .with_outcome(FailureOutcome::Applied)
                .retryable()
        );
        assert!(error.with_outcome(FailureOutcome::Rejected).retryable());
    }

    #[test]
    fn internal_failures_are_normalised() {
        let error = ControlError::normalise(RawFailure::default());
        assert_eq!(*error.code(), codes::PYPROC_INTERNAL);
        assert_eq!(error.outcome(), FailureOutcome::NotSent);
        assert_eq!(error.message(), DEFAULT_MESSAGE);
        let error = ControlError::normalise(RawFailure {
            code: Some("not a code"),
            message: Some("boom"),
            outcome: Some("maybe"),
            retryable: true,
            details: Some(json!([1])),
        });
        let plain = ControlError::not_sent(codes::PYPROC_INTERNAL, "boom").with_retryable(true);
        assert_eq!(error, plain);
        let error = ControlError::normalise(RawFailure {
            code: Some("MY_CODE"),
            message: Some("boom"),
            outcome: Some("applied"),
            retryable: true,
            details: Some(json!({"a": 1})),
        });
        assert_eq!(error.code().as_str(), "MY_CODE");
        assert_eq!(error.outcome(), FailureOutcome::Applied);
        assert!(!error.retryable());
        assert_eq!(error.details(), Some(&object(json!({"a": 1}))));
    }

    #[test]
    fn details_are_never_empty_and_never_too_deep() {
        let error = || ControlError::not_sent(codes::CONTROL_TIMEOUT, "late");
        assert_eq!(error().with_details(Map::new()).details(), None);
        let with = |levels| error().with_details(object(json!({"a": nested(levels)})));
        assert!(with(63).details().is_some());
        assert_eq!(with(64).details(), None);
        assert!(error().with_detail("a", nested(63)).details().is_some());
        assert_eq!(error().with_detail("a", nested(64)).details(), None);
        let both = error()
            .with_detail("a", 1)
            .with_detail("b", 2)
            .with_detail("a", 3);
        assert_eq!(both.details(), Some(&object(json!({"a": 3, "b": 2}))));
        assert_eq!(both.without_details(), error());
    }

    #[test]
    fn errors_are_serialised_as_the_canonical_object() {
        let error = ControlError::rejected(codes::MACHINE_CHECKPOINT_UNKNOWN, "no 9");
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"code":"MACHINE_CHECKPOINT_UNKNOWN","message":"no 9","retryable":false,"outcome":"rejected"}"#
        );
        let error = error.with_retryable(true).with_detail("index", 9);
        assert_eq!(
            serde_json::to_string(&error).unwrap(),
            r#"{"code":"MACHINE_CHECKPOINT_UNKNOWN","message":"no 9","retryable":true,"outcome":"rejected","details":{"index":9}}"#
        );
        assert_eq!(error.to_string(), "MACHINE_CHECKPOINT_UNKNOWN: no 9");
    }

    #[test]
    fn errors_stay_small_in_a_result() {
        assert!(size_of::<ControlError>() <= 64);
    }

    #[test]
    fn fatal_errors_are_unsent_and_final() {
        let error = FatalError::invalid_frame("x".repeat(3000));
        let canonical = error.to_control_error();
        assert_eq!(*canonical.code(), codes::CONTROL_INVALID_FRAME);
        assert_eq!(canonical.outcome(), FailureOutcome::NotSent);
        assert!(!canonical.retryable());
        assert_eq!(canonical.message().len(), 2000);
    }
}
