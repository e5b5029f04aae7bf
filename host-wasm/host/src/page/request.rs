//! What the host asks of the page: the machine operations, with images as the
//! two of them move them.

use pyproc_protocol::{ControlError, Operation, codes};
use serde_json::{Map, Value};

use crate::machine::MachineRequest;

/// An operation with input that is known to be good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageRequest {
    /// Run guest code.
    Run { code: String, grace_ms: Option<u64> },
    /// Save a checkpoint.
    Save,
    /// Restore a checkpoint; `None` is the latest.
    Restore { index: Option<i64> },
    /// Return to base.
    Reset { hard: bool },
    /// Make a durable image of the present state, of at most `limit` bytes.
    Export { limit: u64 },
    /// Continue in the state of the durable image at an address of the host.
    Import { address: String },
}

impl PageRequest {
    /// The page decides again what the host decided: a command that is not a
    /// good request does not reach the worker.
    pub(crate) fn read(operation: &str, input: &Map<String, Value>) -> Result<Self, ControlError> {
        let refused = |message| {
            let code = codes::CONTROL_OPERATION_UNAVAILABLE;
            ControlError::not_sent(code, message)
        };
        let operation = Operation::from_name(operation);
        match operation {
            Some(Operation::MachineImageExport) => {
                let limit = input.get("limit").and_then(Value::as_u64);
                let limit = limit.ok_or_else(|| refused("the image has no limit"))?;
                return Ok(Self::Export { limit });
            }
            Some(Operation::MachineImageImport) => {
                let address = input.get("address").and_then(Value::as_str);
                let address = address.ok_or_else(|| refused("the image has no address"))?;
                let address = address.to_owned();
                return Ok(Self::Import { address });
            }
            _ => {}
        }
        let request = operation.and_then(|operation| MachineRequest::read(operation, input));
        match request.transpose()? {
            Some(MachineRequest::Run { code, grace_ms }) => Ok(Self::Run { code, grace_ms }),
            Some(MachineRequest::Save) => Ok(Self::Save),
            Some(MachineRequest::Restore { index }) => Ok(Self::Restore { index }),
            Some(MachineRequest::Reset { hard }) => Ok(Self::Reset { hard }),
            _ => Err(refused("the page does not perform this operation")),
        }
    }
}
