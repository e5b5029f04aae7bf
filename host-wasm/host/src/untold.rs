//! What a client that left before the answer must still learn: that its
//! machine went on at an earlier state (machine 14.3). It goes with the next
//! answer, as `recovered` of the output or of the error's details.

use pyproc_protocol::ControlError;
use serde_json::{Map, Value, json};

const MEMBER: &str = "recovered";

/// The last loss that no answer has told.
#[derive(Default)]
pub(crate) struct Untold(Option<Value>);

impl Untold {
    /// Keeps what an answer says of a loss, because nobody waits for it.
    pub(crate) fn keep(&mut self, answer: Result<&Map<String, Value>, &ControlError>) {
        let loss = match answer {
            Ok(output) => output.get(MEMBER).cloned(),
            Err(error) => error.details().and_then(|details| {
                let reason = error.code().as_str();
                let restored = details.get("restored");
                let own = restored.map(|restored| json!({"reason": reason, "restored": restored}));
                own.or_else(|| details.get(MEMBER).cloned())
            }),
        };
        if loss.is_some() {
            self.0 = loss;
        }
    }

    /// Adds the loss to an output, unless it tells a later one.
    pub(crate) fn tell(&mut self, output: &mut Map<String, Value>) {
        if let Some(loss) = self.0.take() {
            output.entry(MEMBER).or_insert(loss);
        }
    }

    /// Adds the loss to a failure, unless it tells a later one.
    pub(crate) fn tell_failure(&mut self, error: ControlError) -> ControlError {
        let told = (error.details()).is_some_and(|details| details.contains_key(MEMBER));
        match self.0.take() {
            Some(loss) if !told => error.with_detail(MEMBER, loss),
            _ => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pyproc_protocol::codes;

    fn killed() -> ControlError {
        ControlError::applied(codes::MACHINE_KILLED, "x").with_detail("restored", json!({"n": 1}))
    }

    fn loss() -> Value {
        json!({"reason": "MACHINE_KILLED", "restored": {"n": 1}})
    }

    #[test]
    fn a_loss_is_told_once_with_the_next_answer_of_either_kind() {
        let mut untold = Untold::default();
        let mut output = Map::new();
        untold.keep(Err(&killed()));
        untold.tell(&mut output);
        assert_eq!(output["recovered"], loss());
        untold.tell(&mut output);

        untold.keep(Err(&killed()));
        let error = ControlError::rejected(codes::MACHINE_CHECKPOINT_UNKNOWN, "x");
        let told = untold.tell_failure(error.clone());
        assert_eq!(told.details().unwrap()["recovered"], loss());
        assert_eq!(untold.tell_failure(error.clone()), error);
    }

    #[test]
    fn what_an_unheard_answer_told_is_told_again() {
        let mut untold = Untold::default();
        let mut output = Map::new();
        untold.keep(Err(&killed()));
        untold.tell(&mut output);
        untold.keep(Ok(&output));
        let mut next = Map::new();
        untold.tell(&mut next);
        assert_eq!(next["recovered"], loss());
    }

    #[test]
    fn a_later_loss_is_not_replaced_by_an_earlier_one() {
        let mut untold = Untold::default();
        untold.keep(Err(&killed()));
        let mut output = Map::from_iter([("recovered".to_owned(), json!("later"))]);
        untold.tell(&mut output);
        assert_eq!(output["recovered"], "later");
    }
}
