//! Manifest version 1, its validation, and the catalogs of actions and methods; no I/O.
//!
//! [`Manifest::parse`] turns the bytes of a manifest into a model that cannot
//! hold a wrong value (control protocol 1). Everything it must know about the
//! file system comes through the port [`ManifestFiles`], so validation is a
//! pure function of the text and of that port, and gives the same verdict in
//! the native shell, in a test and under `--check`.
//!
//! [`control_report`] and [`mcp_report`] print what was validated, and the
//! look-ups of [`Automation`] answer what the manifest allows.

mod action;
mod bounded;
mod manifest;
mod method;
mod origin;
mod report;
mod risk;
pub mod templates;

pub use action::Action;
pub use bounded::Bounded;
pub use manifest::{
    AbsolutePath, Approvals, ArtifactLimits, Automation, Browser, ControlLimits, ControlSettings,
    EngineSource, EntryKind, EnvironmentName, Fault, FileFault, GuestEnvironment, ImageSettings,
    IndexUrl, KeyPath, LaunchSettings, LiveProvider, MAX_MANIFEST_BYTES, MachineSettings, Manifest,
    ManifestError, ManifestFiles, NoFiles, PathStyle, Provider, Purpose, RecordTarget, RecordingId,
    RecordingMode, ReplaySource, SandboxPolicy, ScriptedFiles, TimeoutMs, Timezone, TlsFiles,
    TokenSource, UrlFault, Viewport, ViewportSide,
};
pub use method::RawMethod;
pub use origin::Origin;
pub use report::{ReplayFacts, ReportFacts, control_report, mcp_report};
pub use risk::Risk;
