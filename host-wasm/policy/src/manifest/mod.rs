//! The manifest: its model and the way from text to model (control protocol 1).

mod artifacts;
mod automation;
mod browser;
mod control;
mod control_limits;
mod engine;
mod error;
mod fault;
mod files;
mod json;
mod machine;
mod path;
mod place_fault;
mod provider;
mod purpose;
mod read;
mod recording;
mod timezone;
mod viewport;

use serde_json::Value;

pub use artifacts::ArtifactLimits;
pub use automation::Automation;
pub use browser::{Browser, LaunchSettings, SandboxPolicy};
pub use control::{Approvals, ControlSettings, EnvironmentName, TlsFiles, TokenSource};
pub use control_limits::ControlLimits;
pub use engine::{EngineSource, IndexUrl};
pub use error::{KeyPath, ManifestError};
pub use fault::Fault;
pub use files::{EntryKind, ManifestFiles, NoFiles, PathStyle, ScriptedFiles};
pub use machine::{GuestEnvironment, ImageSettings, MachineSettings};
pub use path::AbsolutePath;
pub use place_fault::{FileFault, UrlFault};
pub use provider::{LiveProvider, Provider};
pub use purpose::Purpose;
pub use recording::{RecordTarget, RecordingId, RecordingMode, ReplaySource};
pub use timezone::Timezone;
pub use viewport::{Viewport, ViewportSide};

use crate::{Action, Bounded};
use pyproc_protocol::Operation;
use pyproc_protocol::catalog::Route;
use read::{At, Reader};

/// The largest manifest, in bytes of text.
pub const MAX_MANIFEST_BYTES: usize = 1_048_576;

/// A deadline of a machine page command and of the native provider, in milliseconds.
pub type TimeoutMs = Bounded<1, 900_000>;

/// A validated manifest of version 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Where the Python engine comes from.
    pub engine: EngineSource,
    /// How the browser is launched and what automation may do.
    pub browser: Browser,
    /// The Python machine.
    pub machine: MachineSettings,
    /// The operator plane's listener; absent means in-process clients only.
    pub control: Option<ControlSettings>,
    /// Deadline of a machine page command and bound of the native provider's
    /// commands and waits; 180,000 ms by default.
    pub timeout_ms: TimeoutMs,
}

impl Manifest {
    /// Validates the text of a manifest completely (control protocol 1.1 to
    /// 1.11, all rules but C9, which needs the loaded recording).
    ///
    /// # Errors
    ///
    /// The first rule that the text breaks, with the key path it is about.
    pub fn parse(text: &[u8], files: &dyn ManifestFiles) -> Result<Self, ManifestError> {
        let root = json::parse(text)?;
        let at = At::root(&root, Reader { files });
        let members = at.closed(&[
            "schemaVersion",
            "engine",
            "browser",
            "machine",
            "control",
            "timeoutMs",
        ])?;
        members
            .required("schemaVersion")?
            .bounded::<1, 1>()
            .map_err(ManifestError::about_version)?;
        Ok(Self {
            engine: EngineSource::read(&members.required("engine")?)?,
            browser: match members.optional("browser") {
                Some(at) => Browser::read(&at)?,
                None => Browser::default(),
            },
            machine: match members.optional("machine") {
                Some(at) => MachineSettings::read(&at)?,
                None => MachineSettings::default(),
            },
            control: members
                .optional("control")
                .map(|at| ControlSettings::read(&at))
                .transpose()?,
            timeout_ms: match members.optional("timeoutMs") {
                Some(at) => at.bounded()?,
                None => Self::DEFAULT_TIMEOUT_MS,
            },
        })
    }

    /// The deadline when `timeoutMs` is absent.
    pub const DEFAULT_TIMEOUT_MS: TimeoutMs = TimeoutMs::constant::<180_000>();

    /// The model of a host that runs without a manifest: the machine alone,
    /// everything at its default, no automation and no listener.
    pub fn machine_only(engine: EngineSource) -> Self {
        Self {
            engine,
            browser: Browser::default(),
            machine: MachineSettings::default(),
            control: None,
            timeout_ms: Self::DEFAULT_TIMEOUT_MS,
        }
    }

    /// The automation authority, when automation is enabled.
    pub fn automation(&self) -> Option<&Automation> {
        self.browser.automation.as_ref()
    }

    /// The operations that a host with this manifest offers, in catalog order
    /// (control protocol 5.1), then the image operations when
    /// `machine.image.operations` is set.
    ///
    /// `replay_source` is the provider that the recording was made with; it is
    /// consulted only for a replay manifest, where `None` counts as native.
    pub fn operations(&self, replay_source: Option<LiveProvider>) -> Vec<Operation> {
        let enabled = self.automation().is_some();
        let offered = |operation: &Operation| match operation {
            Operation::MachineImageExport | Operation::MachineImageImport => {
                self.machine.image.operations
            }
            Operation::AutomationObserve => self
                .automation()
                .is_some_and(|automation| automation.allows_action(Action::Snapshot)),
            Operation::AutomationCommand => self.automation().is_some_and(|automation| {
                let live = automation.live_provider().or(replay_source);
                live != Some(LiveProvider::Frame)
            }),
            operation => enabled || operation.route() == Route::Machine,
        };
        let all = Operation::CATALOG.into_iter().chain(Operation::IMAGE);
        all.filter(offered).collect()
    }
}

/// A JSON array of the names or normal forms of `items`.
fn json_names<T: ToString>(items: &[T]) -> Value {
    items.iter().map(T::to_string).collect()
}
