//! The automation authority of an enabled browser: what it may do and the
//! rules that tie its members together (control protocol 1.4, 1.11).

use serde_json::{Value, json};

use super::read::{At, Members};
use super::{
    AbsolutePath, ArtifactLimits, Fault, KeyPath, LiveProvider, ManifestError, PathStyle, Provider,
    Purpose, RecordTarget, RecordingMode, ReplaySource, Viewport, json_names, path, recording,
};
use crate::{Action, Origin, RawMethod, Risk};

/// What automation may do. Its members agree with each other by the rules C2 to
/// C8; only validation makes one.
#[derive(Clone, Debug, PartialEq)]
pub struct Automation {
    source: Source,
    allowed_origins: Vec<Origin>,
    max_risk: Risk,
    actions: Vec<Action>,
    methods: Vec<RawMethod>,
    file_roots: Vec<AbsolutePath>,
    purpose: Option<Purpose>,
    artifacts: ArtifactLimits,
    viewport: Option<Viewport>,
}

/// The provider together with the only recording settings that fit it (C2).
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Live(LiveProvider, Option<RecordTarget>),
    Replay(ReplaySource),
}

impl Automation {
    /// The selected provider.
    pub fn provider(&self) -> Provider {
        match self.source {
            Source::Live(LiveProvider::NativeCdp, _) => Provider::NativeCdp,
            Source::Live(LiveProvider::Frame, _) => Provider::Frame,
            Source::Replay(_) => Provider::Replay,
        }
    }

    /// The selected provider unless it is replay.
    pub fn live_provider(&self) -> Option<LiveProvider> {
        match self.source {
            Source::Live(provider, _) => Some(provider),
            Source::Replay(_) => None,
        }
    }

    /// Where a live provider is recorded, when it is.
    pub fn record(&self) -> Option<&RecordTarget> {
        match &self.source {
            Source::Live(_, record) => record.as_ref(),
            Source::Replay(_) => None,
        }
    }

    /// What is replayed, with the replay provider. Nothing of the recording has
    /// been read: whoever loads it checks the pins and
    /// [`Self::recorded_policy`] (C9), then [`Self::check_replay_source`] (C8).
    pub fn replay(&self) -> Option<&ReplaySource> {
        match &self.source {
            Source::Live(..) => None,
            Source::Replay(replay) => Some(replay),
        }
    }

    /// The allowed origins in the manifest's order; at least one.
    pub fn allowed_origins(&self) -> &[Origin] {
        &self.allowed_origins
    }

    /// The risk ceiling.
    pub fn max_risk(&self) -> Risk {
        self.max_risk
    }

    /// The allowed actions in the manifest's order; at least one.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The allowed raw methods in the manifest's order.
    pub fn methods(&self) -> &[RawMethod] {
        &self.methods
    }

    /// The directories that files may be uploaded from, symlink-free.
    pub fn file_roots(&self) -> &[AbsolutePath] {
        &self.file_roots
    }

    /// The operator's stated purpose; present whenever [`Self::max_risk`] is
    /// [`Risk::ExternalEffect`].
    pub fn purpose(&self) -> Option<&Purpose> {
        self.purpose.as_ref()
    }

    /// The limits of the artifact store.
    pub fn artifacts(&self) -> &ArtifactLimits {
        &self.artifacts
    }

    /// The device metrics, which only the native provider applies.
    pub fn viewport(&self) -> Option<&Viewport> {
        self.viewport.as_ref()
    }

    /// Whether pages of this origin may be worked on.
    pub fn allows_origin(&self, origin: &Origin) -> bool {
        self.allowed_origins.contains(origin)
    }

    /// The allowed origin of an absolute `http`/`https` URL without user
    /// information; `None` for every other URL.
    pub fn allowed_origin_of(&self, url: &str) -> Option<Origin> {
        Origin::of_url(url).filter(|origin| self.allows_origin(origin))
    }

    /// Whether the high-level action may be used.
    pub fn allows_action(&self, action: Action) -> bool {
        self.actions.contains(&action)
    }

    /// Whether the method may be used as a raw command.
    pub fn allows_method(&self, method: RawMethod) -> bool {
        self.methods.contains(&method)
    }

    /// Whether the risk is within the ceiling.
    pub fn allows_risk(&self, risk: Risk) -> bool {
        risk <= self.max_risk
    }

    /// Whether a symlink-free path lies below one of the file roots.
    pub fn allows_file(&self, canonical: &str, style: PathStyle) -> bool {
        self.file_roots
            .iter()
            .any(|root| path::is_below(canonical, root.as_str(), style))
    }

    /// The policy as a recording states it (recording 10); a replay must be made
    /// with exactly this value, order included.
    pub fn recorded_policy(&self) -> Value {
        json!({
            "targetOrigins": json_names(&self.allowed_origins),
            "actions": json_names(&self.actions),
            "rawMethods": json_names(&self.methods),
            "maxRisk": self.max_risk.name(),
        })
    }

    /// The rules of the recorded provider, which bind its replay too (C8).
    ///
    /// # Errors
    ///
    /// The first action or the methods that the recorded provider cannot have.
    pub fn check_replay_source(&self, source: LiveProvider) -> Result<(), ManifestError> {
        let at = |key: &str| KeyPath::root().key("browser").key(key);
        if source != LiveProvider::Frame {
            return Ok(());
        }
        let mut actions = self.actions.iter().enumerate();
        if let Some((position, action)) = actions.find(|(_, action)| !action.is_frame_supported()) {
            let name = action.name();
            return Err(ManifestError {
                path: at("actions").index(position),
                fault: Fault::FrameAction { name },
            });
        }
        if self.methods.is_empty() {
            return Ok(());
        }
        Err(ManifestError {
            path: at("methods"),
            fault: Fault::FrameMethods,
        })
    }

    /// Reads the members of an enabled `browser`.
    pub(super) fn read(members: &Members<'_>) -> Result<Self, ManifestError> {
        let provider = match members.optional("provider") {
            Some(at) => at.choice(Provider::NAMES, Provider::from_name)?,
            None => Provider::default(),
        };
        let allowed_origins = origins(&members.required("allowedOrigins")?)?;
        let max_risk = match members.optional("maxRisk") {
            Some(at) => at.choice(&["read", "mutate", "externalEffect"], Risk::from_name)?,
            None => Risk::default(),
        };
        let ceiling = Ceiling { provider, max_risk };
        let actions = ceiling.actions(&members.required("actions")?)?;
        let methods = match members.optional("methods") {
            Some(at) => ceiling.methods(&at)?,
            None => Vec::new(),
        };
        let file_roots = match members.optional("fileRoots") {
            Some(at) => file_roots(&at)?,
            None => Vec::new(),
        };
        if file_roots.is_empty()
            && let Some(name) = upload_name(&actions, &methods)
        {
            return Err(members.fault("fileRoots", Fault::FileRootMissing { name }));
        }
        let purpose = read_purpose(members, max_risk)?;
        let artifacts = match members.optional("artifacts") {
            Some(at) => ArtifactLimits::read(&at)?,
            None => ArtifactLimits::default(),
        };
        let viewport = members
            .optional("viewport")
            .map(|at| Viewport::read(&at))
            .transpose()?;
        let source = read_source(provider, members, &artifacts)?;
        Ok(Self {
            source,
            allowed_origins,
            max_risk,
            actions,
            methods,
            file_roots,
            purpose,
            artifacts,
            viewport,
        })
    }
}

fn values<T>(entries: Vec<(At<'_>, T)>) -> Vec<T> {
    entries.into_iter().map(|(_, value)| value).collect()
}

fn origins(at: &At<'_>) -> Result<Vec<Origin>, ManifestError> {
    let origins = at.distinct(|at, text| Origin::parse(text).map_err(|fault| at.fault(fault)))?;
    if origins.is_empty() {
        return Err(at.fault(Fault::Empty));
    }
    Ok(values(origins))
}

fn file_roots(at: &At<'_>) -> Result<Vec<AbsolutePath>, ManifestError> {
    let files = at.files();
    let style = files.path_style();
    let roots = at.distinct(|at, text| {
        if path::is_path_list(text, style) {
            return Err(at.fault(Fault::SeveralValues));
        }
        AbsolutePath::parse(text, style)
            .and_then(|path| path.directory(files))
            .map_err(|fault| at.fault(fault))
    })?;
    Ok(values(roots))
}

/// The first allowed name that needs a file root (C5).
fn upload_name(actions: &[Action], methods: &[RawMethod]) -> Option<&'static str> {
    let action = actions.contains(&Action::Upload);
    let method = methods.contains(&RawMethod::DomSetFileInputFiles);
    if action {
        Some(Action::Upload.name())
    } else {
        method.then(|| RawMethod::DomSetFileInputFiles.name())
    }
}

/// What bounds the catalogs' entries.
#[derive(Clone, Copy)]
struct Ceiling {
    provider: Provider,
    max_risk: Risk,
}

impl Ceiling {
    fn actions(self, at: &At<'_>) -> Result<Vec<Action>, ManifestError> {
        let actions = at.distinct(|at, text| {
            one_name(at, text)?;
            let action = Action::from_name(text).ok_or_else(|| at.fault(Fault::UnknownAction))?;
            self.check_risk(at, action.name(), action.risk())?;
            if self.provider == Provider::Frame && !action.is_frame_supported() {
                let name = action.name();
                return Err(at.fault(Fault::FrameAction { name }));
            }
            Ok(action)
        })?;
        if actions.is_empty() {
            return Err(at.fault(Fault::Empty));
        }
        Ok(values(actions))
    }

    fn methods(self, at: &At<'_>) -> Result<Vec<RawMethod>, ManifestError> {
        let methods = at.distinct(|at, text| {
            one_name(at, text)?;
            let method =
                RawMethod::from_name(text).ok_or_else(|| at.fault(Fault::UnknownMethod))?;
            self.check_risk(at, method.name(), method.risk())?;
            Ok(method)
        })?;
        if self.provider == Provider::Frame && !methods.is_empty() {
            return Err(at.fault(Fault::FrameMethods));
        }
        Ok(values(methods))
    }

    fn check_risk(self, at: &At<'_>, name: &'static str, risk: Risk) -> Result<(), ManifestError> {
        if risk <= self.max_risk {
            return Ok(());
        }
        Err(at.fault(Fault::RiskCeiling {
            name,
            risk,
            ceiling: self.max_risk,
        }))
    }
}

fn one_name(at: &At<'_>, text: &str) -> Result<(), ManifestError> {
    if text.contains(',') {
        return Err(at.fault(Fault::SeveralValues));
    }
    Ok(())
}

/// Reads the acknowledgement and the purpose, which external effects need (C4).
fn read_purpose(members: &Members<'_>, max_risk: Risk) -> Result<Option<Purpose>, ManifestError> {
    let acknowledged = match members.optional("externalEffects") {
        Some(at) => at.string()? == "acknowledged",
        None => false,
    };
    let purpose = match members.optional("purpose") {
        Some(at) => Purpose::read(&at)?,
        None => None,
    };
    if max_risk == Risk::ExternalEffect {
        if !acknowledged {
            return Err(members.fault("externalEffects", Fault::NotAcknowledged));
        }
        if purpose.is_none() {
            return Err(members.fault("purpose", Fault::PurposeMissing));
        }
    }
    Ok(purpose)
}

/// Reads `recording` as the provider wants it (C2) and bounds the artifacts
/// that it must be able to hold (C7).
fn read_source(
    provider: Provider,
    members: &Members<'_>,
    artifacts: &ArtifactLimits,
) -> Result<Source, ManifestError> {
    let recording = members.optional("recording");
    if recording.is_some()
        && let Some(artifacts_at) = members.optional("artifacts")
    {
        artifacts.check_recordable(&artifacts_at)?;
    }
    let live = match provider {
        Provider::NativeCdp => LiveProvider::NativeCdp,
        Provider::Frame => LiveProvider::Frame,
        Provider::Replay => {
            let at =
                recording.ok_or_else(|| members.fault("recording", Fault::RecordingMissing))?;
            recording::check_mode(&at, RecordingMode::Replay)?;
            return ReplaySource::read(&at).map(Source::Replay);
        }
    };
    let record = match recording {
        Some(at) => {
            recording::check_mode(&at, RecordingMode::Record)?;
            Some(RecordTarget::read(&at)?)
        }
        None => None,
    };
    Ok(Source::Live(live, record))
}
