//! What became of a request's effect (control protocol 3.11).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Outcome of a request that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SuccessOutcome {
    /// A read completed.
    Observed,
    /// A mutation or an effect completed.
    Applied,
}

/// Outcome of a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureOutcome {
    /// Nothing of the failing effect crossed the transport boundary.
    NotSent,
    /// The far side received it and refused it.
    Rejected,
    /// The effect happened, or earlier parts of the request did, and then
    /// something failed.
    Applied,
    /// It may or may not have happened.
    OutcomeUnknown,
}

/// Any outcome word of the wire, for logs and journals that hold both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// A read completed.
    Observed,
    /// The effect happened.
    Applied,
    /// Nothing was sent.
    NotSent,
    /// The far side refused.
    Rejected,
    /// Nobody can say.
    OutcomeUnknown,
}

impl SuccessOutcome {
    /// The wire word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Applied => "applied",
        }
    }

    /// The outcome whose wire word is `word`.
    #[must_use]
    pub fn from_wire(word: &str) -> Option<Self> {
        match word {
            "observed" => Some(Self::Observed),
            "applied" => Some(Self::Applied),
            _ => None,
        }
    }

    /// Outcome of a request whose operation succeeded but whose result could
    /// not be delivered (control protocol 3.13, 3.14): a completed effect stays
    /// `applied`, a completed read is as if it had not been sent.
    #[must_use]
    pub const fn when_undeliverable(self) -> FailureOutcome {
        match self {
            Self::Observed => FailureOutcome::NotSent,
            Self::Applied => FailureOutcome::Applied,
        }
    }
}

impl FailureOutcome {
    /// The wire word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotSent => "notSent",
            Self::Rejected => "rejected",
            Self::Applied => "applied",
            Self::OutcomeUnknown => "outcomeUnknown",
        }
    }

    /// The outcome whose wire word is `word`.
    #[must_use]
    pub fn from_wire(word: &str) -> Option<Self> {
        match word {
            "notSent" => Some(Self::NotSent),
            "rejected" => Some(Self::Rejected),
            "applied" => Some(Self::Applied),
            "outcomeUnknown" => Some(Self::OutcomeUnknown),
            _ => None,
        }
    }

    /// Whether an error with this outcome may be marked retryable.
    #[must_use]
    pub const fn may_be_retryable(self) -> bool {
        matches!(self, Self::NotSent | Self::Rejected)
    }
}

impl Outcome {
    /// The wire word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Applied => "applied",
            Self::NotSent => "notSent",
            Self::Rejected => "rejected",
            Self::OutcomeUnknown => "outcomeUnknown",
        }
    }
}

impl From<SuccessOutcome> for Outcome {
    fn from(outcome: SuccessOutcome) -> Self {
        match outcome {
            SuccessOutcome::Observed => Self::Observed,
            SuccessOutcome::Applied => Self::Applied,
        }
    }
}

impl From<FailureOutcome> for Outcome {
    fn from(outcome: FailureOutcome) -> Self {
        match outcome {
            FailureOutcome::NotSent => Self::NotSent,
            FailureOutcome::Rejected => Self::Rejected,
            FailureOutcome::Applied => Self::Applied,
            FailureOutcome::OutcomeUnknown => Self::OutcomeUnknown,
        }
    }
}

macro_rules! display_wire_word {
    ($($outcome:ty),+) => {$(
        impl fmt::Display for $outcome {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    )+};
}
display_wire_word!(SuccessOutcome, FailureOutcome, Outcome);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wire_words_are_those_of_the_contract() {
        let failures = [
            (FailureOutcome::NotSent, "notSent", true),
            (FailureOutcome::Rejected, "rejected", true),
            (FailureOutcome::Applied, "applied", false),
            (FailureOutcome::OutcomeUnknown, "outcomeUnknown", false),
        ];
        for (outcome, word, retryable) in failures {
            assert_eq!(outcome.as_str(), word);
            assert_eq!(FailureOutcome::from_wire(word), Some(outcome));
            assert_eq!(serde_json::to_value(outcome).unwrap(), word);
            assert_eq!(Outcome::from(outcome).to_string(), word);
            assert_eq!(outcome.may_be_retryable(), retryable);
        }
        for (outcome, word) in [
            (SuccessOutcome::Observed, "observed"),
            (SuccessOutcome::Applied, "applied"),
        ] {
            assert_eq!(outcome.as_str(), word);
            assert_eq!(SuccessOutcome::from_wire(word), Some(outcome));
            assert_eq!(serde_json::to_value(outcome).unwrap(), word);
            assert_eq!(Outcome::from(outcome).as_str(), word);
        }
        assert_eq!(SuccessOutcome::from_wire("notSent"), None);
        assert_eq!(FailureOutcome::from_wire("observed"), None);
    }

    #[test]
    fn an_undeliverable_effect_stays_applied() {
        assert_eq!(
            SuccessOutcome::Applied.when_undeliverable(),
            FailureOutcome::Applied
        );
        assert_eq!(
            SuccessOutcome::Observed.when_undeliverable(),
            FailureOutcome::NotSent
        );
    }
}
