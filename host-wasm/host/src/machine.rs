//! The machine operations as requests: input is decided here, by the host
//! before anything is sent and by the page before anything runs.

use pyproc_protocol::{ControlError, Operation, codes, limits};
use serde_json::{Map, Value};

/// Longest source of one run, bytes of UTF-8 (machine 19).
pub const MAX_CODE_BYTES: usize = 524_288;

/// A machine operation with input that is known to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineRequest {
    /// `machine.run`.
    Run {
        /// Python source.
        code: String,
        /// Grace between the first interrupt and the kill, milliseconds.
        grace_ms: Option<u64>,
    },
    /// `machine.checkpoint.save`.
    Save,
    /// `machine.checkpoint.restore`.
    Restore {
        /// Index of a listed checkpoint; `None` is the latest.
        index: Option<i64>,
    },
    /// `machine.reset`.
    Reset {
        /// Reset by ending the worker.
        hard: bool,
    },
    /// `machine.image.export`.
    Export,
    /// `machine.image.import`.
    Import {
        /// Absolute path of the image.
        path: String,
        /// Take an image that another installation made.
        trusted: bool,
    },
}

impl MachineRequest {
    /// Reads the input of a machine operation; `None` for any other operation.
    ///
    /// # Errors
    ///
    /// `PYPROC_INPUT_INVALID` or `MACHINE_CODE_TOO_LARGE`, `notSent`, naming
    /// the member and its bound.
    pub fn read(
        operation: Operation,
        input: &Map<String, Value>,
    ) -> Option<Result<Self, ControlError>> {
        match operation {
            Operation::MachineRun => Some(read_run(input)),
            Operation::MachineCheckpointSave => Some(Ok(Self::Save)),
            Operation::MachineCheckpointRestore => Some(read_restore(input)),
            Operation::MachineReset => Some(read_reset(input)),
            Operation::MachineImageExport => Some(Ok(Self::Export)),
            Operation::MachineImageImport => Some(read_import(input)),
            _ => None,
        }
    }
}

fn read_run(input: &Map<String, Value>) -> Result<MachineRequest, ControlError> {
    let Some(Value::String(code)) = input.get("code") else {
        return Err(invalid("code must be a string of Python source"));
    };
    if code.len() > MAX_CODE_BYTES {
        let message = format!(
            "code has {} bytes, more than {MAX_CODE_BYTES}; send it in parts",
            code.len()
        );
        return Err(ControlError::not_sent(
            codes::MACHINE_CODE_TOO_LARGE,
            message,
        ));
    }
    let limit = i64::from(limits::MAX_INTERRUPT_GRACE_MS);
    let grace_ms = match input.get("interruptGraceMs") {
        None => None,
        Some(value) => match integer(value) {
            Some(grace) if (0..=limit).contains(&grace) => Some(grace.unsigned_abs()),
            _ => {
                let message = format!("interruptGraceMs must be an integer from 0 to {limit}");
                return Err(invalid(&message));
            }
        },
    };
    Ok(MachineRequest::Run {
        code: code.clone(),
        grace_ms,
    })
}

fn read_restore(input: &Map<String, Value>) -> Result<MachineRequest, ControlError> {
    let index = match input.get("index") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let index = integer(value);
            Some(index.ok_or_else(|| invalid("index must be an integer or null"))?)
        }
    };
    Ok(MachineRequest::Restore { index })
}

fn read_reset(input: &Map<String, Value>) -> Result<MachineRequest, ControlError> {
    match input.get("hard") {
        None => Ok(MachineRequest::Reset { hard: false }),
        Some(Value::Bool(hard)) => Ok(MachineRequest::Reset { hard: *hard }),
        Some(_) => Err(invalid("hard must be true or false")),
    }
}

fn read_import(input: &Map<String, Value>) -> Result<MachineRequest, ControlError> {
    let Some(Value::String(path)) = input.get("path") else {
        return Err(invalid("path must be the absolute path of an image"));
    };
    let trusted = match input.get("trusted") {
        None => false,
        Some(Value::Bool(trusted)) => *trusted,
        Some(_) => return Err(invalid("trusted must be true or false")),
    };
    Ok(MachineRequest::Import {
        path: path.clone(),
        trusted,
    })
}

fn invalid(message: &str) -> ControlError {
    ControlError::not_sent(codes::PYPROC_INPUT_INVALID, message)
}

/// An integer of the wire: `1`, `1.0` and `1e0` are the same.
fn integer(value: &Value) -> Option<i64> {
    let number = match value {
        Value::Number(number) => number,
        _ => return None,
    };
    let limit = limits::MAX_SAFE_INTEGER;
    let integer = match number.as_i64() {
        Some(integer) => integer,
        None => {
            let float = number.as_f64()?;
            // Exact: both bounds are below 2^53.
            if float.fract() != 0.0 || float.abs() > limit as f64 {
                return None;
            }
            float as i64
        }
    };
    (-limit..=limit).contains(&integer).then_some(integer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(operation: Operation, input: Value) -> Result<MachineRequest, String> {
        let Value::Object(input) = input else {
            panic!("input is an object")
        };
        let request = MachineRequest::read(operation, &input).unwrap();
        request.map_err(|error| error.code().as_str().to_owned())
    }

    #[test]
    fn run_needs_code_and_bounds_its_grace() {
        let run = |input| read(Operation::MachineRun, input);
        for input in [
            json!({}),
            json!({"code": 5}),
            json!({"code": null}),
            json!({"code": "", "interruptGraceMs": -1}),
            json!({"code": "", "interruptGraceMs": 60001}),
            json!({"code": "", "interruptGraceMs": true}),
        ] {
            assert_eq!(run(input), Err("PYPROC_INPUT_INVALID".to_owned()));
        }
        let large = json!({"code": "x".repeat(524_289)});
        assert_eq!(run(large), Err("MACHINE_CODE_TOO_LARGE".to_owned()));
        let most = json!({"code": "x".repeat(524_288), "interruptGraceMs": 60000, "other": 1});
        assert!(run(most).is_ok());
    }

    #[test]
    fn import_names_a_path_and_trusts_only_when_told_to() {
        let import = |input| read(Operation::MachineImageImport, input);
        let of = |trusted| {
            let path = "/images/a".to_owned();
            Ok(MachineRequest::Import { path, trusted })
        };
        assert_eq!(import(json!({"path": "/images/a"})), of(false));
        assert_eq!(
            import(json!({"path": "/images/a", "trusted": true})),
            of(true)
        );
        for input in [
            json!({}),
            json!({"path": 1}),
            json!({"path": "/images/a", "trusted": 1}),
        ] {
            assert_eq!(import(input), Err("PYPROC_INPUT_INVALID".to_owned()));
        }
    }

    #[test]
    fn restore_takes_integers_by_value_and_nothing_else() {
        let restore = |index| read(Operation::MachineCheckpointRestore, json!({"index": index}));
        let to = |index| Ok(MachineRequest::Restore { index });
        assert_eq!(restore(json!(1)), to(Some(1)));
        assert_eq!(restore(json!(1.0)), to(Some(1)));
        assert_eq!(restore(json!(-1)), to(Some(-1)));
        assert_eq!(restore(json!(null)), to(None));
        for index in [json!("1"), json!(1.5), json!(true), json!(1e300), json!([])] {
            assert!(restore(index).is_err());
        }
    }
}
