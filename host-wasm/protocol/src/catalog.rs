//! The operations: names, tools, order, outcomes and routing
//! (control protocol 3.9, 3.11, 5.1).

use std::fmt;

use serde_json::{Map, Value};

use crate::codes;
use crate::error::ControlError;
use crate::outcome::SuccessOutcome;
use crate::text::quote;
use crate::types::{OperationName, SpaceId};

/// An operation of the product. The order is the order of the server hello and
/// of the tool list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Execute Python code.
    MachineRun,
    /// Save a checkpoint.
    MachineCheckpointSave,
    /// Restore a checkpoint.
    MachineCheckpointRestore,
    /// Return to the boot state.
    MachineReset,
    /// Describe the automation space.
    AutomationSpaceInspect,
    /// List targets.
    AutomationTargetList,
    /// Open a target.
    AutomationTargetOpen,
    /// Attach a session to a target.
    AutomationSessionAttach,
    /// Send one raw command.
    AutomationCommand,
    /// Detach a session.
    AutomationSessionDetach,
    /// Observe a target.
    AutomationObserve,
    /// Perform actions.
    AutomationAct,
    /// Read an artifact.
    ArtifactRead,
    /// Delete an artifact.
    ArtifactDelete,
    /// Export a durable image. Only with the manifest's `machine.image.operations`.
    MachineImageExport,
    /// Import a durable image. Only with the manifest's `machine.image.operations`.
    MachineImageImport,
}

/// Who executes an operation, and so which `spaceId` it accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The machine page; the space is `machine:primary`.
    Machine,
    /// The automation provider; the space is the provider's.
    Automation,
}

use Operation::{
    ArtifactDelete, ArtifactRead, AutomationAct, AutomationCommand, AutomationObserve,
    AutomationSessionAttach, AutomationSessionDetach, AutomationSpaceInspect, AutomationTargetList,
    AutomationTargetOpen, MachineCheckpointRestore, MachineCheckpointSave, MachineImageExport,
    MachineImageImport, MachineReset, MachineRun,
};

impl Operation {
    /// The operations of every product, in catalog order.
    pub const CATALOG: [Self; 14] = [
        MachineRun,
        MachineCheckpointSave,
        MachineCheckpointRestore,
        MachineReset,
        AutomationSpaceInspect,
        AutomationTargetList,
        AutomationTargetOpen,
        AutomationSessionAttach,
        AutomationCommand,
        AutomationSessionDetach,
        AutomationObserve,
        AutomationAct,
        ArtifactRead,
        ArtifactDelete,
    ];

    /// The operations that the manifest may add behind the catalog.
    pub const IMAGE: [Self; 2] = [MachineImageExport, MachineImageImport];

    /// The four operations that are always present.
    pub const MACHINE: [Self; 4] = [
        MachineRun,
        MachineCheckpointSave,
        MachineCheckpointRestore,
        MachineReset,
    ];

    /// The operation called `name` on the wire.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::CATALOG
            .into_iter()
            .chain(Self::IMAGE)
            .find(|operation| operation.name() == name)
    }

    /// The operation behind the MCP tool called `tool`.
    #[must_use]
    pub fn from_tool(tool: &str) -> Option<Self> {
        Self::CATALOG
            .into_iter()
            .chain(Self::IMAGE)
            .find(|operation| operation.tool() == tool)
    }

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            MachineRun => "machine.run",
            MachineCheckpointSave => "machine.checkpoint.save",
            MachineCheckpointRestore => "machine.checkpoint.restore",
            MachineReset => "machine.reset",
            AutomationSpaceInspect => "automation.space.inspect",
            AutomationTargetList => "automation.target.list",
            AutomationTargetOpen => "automation.target.open",
            AutomationSessionAttach => "automation.session.attach",
            AutomationCommand => "automation.command",
            AutomationSessionDetach => "automation.session.detach",
            AutomationObserve => "automation.observe",
            AutomationAct => "automation.act",
            ArtifactRead => "artifact.read",
            ArtifactDelete => "artifact.delete",
            MachineImageExport => "machine.image.export",
            MachineImageImport => "machine.image.import",
        }
    }

    /// The name of the MCP tool.
    #[must_use]
    pub const fn tool(self) -> &'static str {
        match self {
            MachineRun => "pythonRun",
            MachineCheckpointSave => "checkpointSave",
            MachineCheckpointRestore => "checkpointRestore",
            MachineReset => "sandboxReset",
            AutomationSpaceInspect => "browserInspect",
            AutomationTargetList => "browserListTargets",
            AutomationTargetOpen => "browserOpen",
            AutomationSessionAttach => "browserAttach",
            AutomationCommand => "browserCommand",
            AutomationSessionDetach => "browserDetach",
            AutomationObserve => "browserObserve",
            AutomationAct => "browserAct",
            ArtifactRead => "browserArtifactRead",
            ArtifactDelete => "browserArtifactDelete",
            MachineImageExport => "imageExport",
            MachineImageImport => "imageImport",
        }
    }

    /// Who executes the operation.
    #[must_use]
    pub const fn route(self) -> Route {
        match self {
            MachineRun
            | MachineCheckpointSave
            | MachineCheckpointRestore
            | MachineReset
            | MachineImageExport
            | MachineImageImport => Route::Machine,
            _ => Route::Automation,
        }
    }

    /// The outcome of the operation with `input` when it succeeds (control
    /// protocol 3.11). Input that does not say plainly that it only reads
    /// counts as an effect.
    #[must_use]
    pub fn success_outcome(self, input: &Map<String, Value>) -> SuccessOutcome {
        let reads = match self {
            AutomationSpaceInspect
            | AutomationTargetList
            | AutomationObserve
            | ArtifactRead
            | MachineImageExport => true,
            AutomationCommand => has_read_risk(input),
            AutomationAct => match input.get("actions") {
                Some(Value::Array(actions)) => actions
                    .iter()
                    .all(|action| action.as_object().is_some_and(has_read_risk)),
                _ => false,
            },
            MachineRun
            | MachineCheckpointSave
            | MachineCheckpointRestore
            | MachineReset
            | AutomationTargetOpen
            | AutomationSessionAttach
            | AutomationSessionDetach
            | ArtifactDelete
            | MachineImageImport => false,
        };
        if reads {
            SuccessOutcome::Observed
        } else {
            SuccessOutcome::Applied
        }
    }
}

fn has_read_risk(members: &Map<String, Value>) -> bool {
    members.get("expectedRisk").and_then(Value::as_str) == Some("read")
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<Operation> for OperationName {
    fn from(operation: Operation) -> Self {
        Self::of(operation)
    }
}

/// The fence of control protocol 3.9.3: a `spaceId`, if given, must be that of
/// the operation's executor. It never selects one.
///
/// `automation` is the space id of the automation provider, if there is one.
///
/// # Errors
/// `CONTROL_SPACE_MISMATCH`, `notSent`, not retryable.
pub fn check_fence(
    operation: Operation,
    space_id: Option<&SpaceId>,
    automation: Option<&SpaceId>,
) -> Result<(), ControlError> {
    let Some(given) = space_id else { return Ok(()) };
    let matches = match operation.route() {
        Route::Machine => *given == SpaceId::machine(),
        Route::Automation => Some(given) == automation,
    };
    if matches {
        Ok(())
    } else {
        Err(ControlError::not_sent(
            codes::CONTROL_SPACE_MISMATCH,
            format!(
                "{operation} does not belong to the space {}",
                quote(given.as_str())
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::outcome::FailureOutcome;

    fn outcome(operation: Operation, input: Value) -> SuccessOutcome {
        let Value::Object(input) = input else {
            panic!("an object is wanted")
        };
        operation.success_outcome(&input)
    }

    #[test]
    fn names_and_tools_are_those_of_the_contract_in_order() {
        let expected = [
            ("machine.run", "pythonRun"),
            ("machine.checkpoint.save", "checkpointSave"),
            ("machine.checkpoint.restore", "checkpointRestore"),
            ("machine.reset", "sandboxReset"),
            ("automation.space.inspect", "browserInspect"),
            ("automation.target.list", "browserListTargets"),
            ("automation.target.open", "browserOpen"),
            ("automation.session.attach", "browserAttach"),
            ("automation.command", "browserCommand"),
            ("automation.session.detach", "browserDetach"),
            ("automation.observe", "browserObserve"),
            ("automation.act", "browserAct"),
            ("artifact.read", "browserArtifactRead"),
            ("artifact.delete", "browserArtifactDelete"),
        ];
        let listed = Operation::CATALOG.map(|operation| (operation.name(), operation.tool()));
        assert_eq!(listed, expected);
        assert!(Operation::CATALOG.is_sorted());
        for operation in Operation::CATALOG.into_iter().chain(Operation::IMAGE) {
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
            assert_eq!(Operation::from_tool(operation.tool()), Some(operation));
            assert_eq!(OperationName::from(operation).as_str(), operation.name());
            assert!(OperationName::parse(operation.name()).is_ok());
        }
        assert_eq!(Operation::from_name("nope.op"), None);
    }

    #[test]
    fn fixed_success_outcomes() {
        use SuccessOutcome::{Applied, Observed};
        let expected = [
            (MachineRun, Applied),
            (MachineCheckpointSave, Applied),
            (MachineCheckpointRestore, Applied),
            (MachineReset, Applied),
            (AutomationSpaceInspect, Observed),
            (AutomationTargetList, Observed),
            (AutomationTargetOpen, Applied),
            (AutomationSessionAttach, Applied),
            (AutomationSessionDetach, Applied),
            (AutomationObserve, Observed),
            (ArtifactRead, Observed),
            (ArtifactDelete, Applied),
        ];
        for (operation, wanted) in expected {
            assert_eq!(
                outcome(operation, json!({"expectedRisk":"read"})),
                wanted,
                "{operation}"
            );
        }
    }

    #[test]
    fn a_command_is_observed_only_with_read_risk() {
        let command = |input| outcome(AutomationCommand, input);
        assert_eq!(
            command(json!({"expectedRisk":"read"})),
            SuccessOutcome::Observed
        );
        assert_eq!(
            command(json!({"expectedRisk":"mutate"})),
            SuccessOutcome::Applied
        );
        assert_eq!(
            command(json!({"expectedRisk":null})),
            SuccessOutcome::Applied
        );
        assert_eq!(command(json!({})), SuccessOutcome::Applied);
    }

    #[test]
    fn actions_are_observed_only_when_all_of_them_read() {
        let act = |actions| outcome(AutomationAct, json!({"actions":actions}));
        let (read, effect) = (
            json!({"expectedRisk":"read"}),
            json!({"expectedRisk":"externalEffect"}),
        );
        assert_eq!(act(json!([read, read])), SuccessOutcome::Observed);
        assert_eq!(act(json!([read, effect])), SuccessOutcome::Applied);
        assert_eq!(act(json!([read, 5])), SuccessOutcome::Applied);
        assert_eq!(act(json!("read")), SuccessOutcome::Applied);
    }

    #[test]
    fn the_fence_accepts_only_the_space_of_the_operation() {
        let machine = SpaceId::machine();
        let native = SpaceId::parse("space:native").unwrap();
        let frame = SpaceId::parse("space:frame").unwrap();
        let check = |operation, given, automation| {
            check_fence(operation, given, automation).map_err(|error| {
                assert_eq!(*error.code(), codes::CONTROL_SPACE_MISMATCH);
                assert_eq!(error.outcome(), FailureOutcome::NotSent);
                assert!(!error.retryable());
            })
        };
        assert_eq!(check(MachineRun, None, None), Ok(()));
        assert_eq!(check(MachineRun, Some(&machine), None), Ok(()));
        assert_eq!(check(MachineRun, Some(&native), Some(&native)), Err(()));
        assert_eq!(check(ArtifactRead, Some(&native), Some(&native)), Ok(()));
        assert_eq!(check(ArtifactRead, Some(&frame), Some(&native)), Err(()));
        assert_eq!(check(ArtifactRead, Some(&machine), Some(&native)), Err(()));
        assert_eq!(check(ArtifactRead, Some(&native), None), Err(()));
        assert_eq!(check(ArtifactRead, None, None), Ok(()));
    }
}
