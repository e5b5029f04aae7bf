//! From a manifest, or the default profile, to the plan of a run.

use std::io;
use std::path::{Path, PathBuf, absolute};

use pyproc_policy::{
    EngineSource, LaunchSettings, MAX_MANIFEST_BYTES, Manifest, ManifestError, SandboxPolicy,
};

use super::files::RealFiles;
use crate::browser::{self, BrowserNotFound};
use crate::engine::{CacheDir, EngineError, first_time};
use crate::marks::Marks;
use crate::page_host::{BrowserPlan, EnginePlan, PagePlan};
use crate::progress::Progress;
use crate::serve::HostPlan;

/// A run cannot be planned.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The manifest cannot be read.
    #[error("cannot read the manifest {}: {reason}", path.display())]
    Read {
        /// The manifest.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// The manifest is not valid.
    #[error("the manifest {} is not valid: {reason}", path.display())]
    Invalid {
        /// The manifest.
        path: PathBuf,
        /// The rule that it breaks.
        reason: Box<ManifestError>,
    },
    /// There is no browser.
    #[error(transparent)]
    Browser(#[from] BrowserNotFound),
    /// The engine of the default profile cannot be prepared.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// A validated manifest and where it came from.
pub struct Profile {
    /// Absolute path of the manifest; `None` for the default profile.
    pub path: Option<PathBuf>,
    /// The manifest.
    pub manifest: Manifest,
}

impl Profile {
    /// Reads and validates a manifest, or makes the default profile; its
    /// engine is prepared on first use.
    ///
    /// # Errors
    ///
    /// [`ProfileError`].
    pub fn load(config: Option<&Path>) -> Result<Self, ProfileError> {
        match config {
            Some(config) => Self::read(config),
            None => Self::default_profile(),
        }
    }

    fn read(config: &Path) -> Result<Self, ProfileError> {
        let failed = |path: &Path, reason| ProfileError::Read {
            path: path.to_owned(),
            reason,
        };
        let path = absolute(config).map_err(|reason| failed(config, reason))?;
        let text = read_bounded(&path).map_err(|reason| failed(&path, reason))?;
        let manifest =
            Manifest::parse(&text, &RealFiles).map_err(|reason| ProfileError::Invalid {
                path: path.clone(),
                reason: Box::new(reason),
            })?;
        Ok(Self {
            path: Some(path),
            manifest,
        })
    }

    fn default_profile() -> Result<Self, ProfileError> {
        let root = CacheDir::from_env()?.engine_dir();
        let mut progress = Progress::start("preparing the Python engine, once");
        let mut report = first_time(|phase| progress.phase(&phase.to_string()));
        crate::engine::provision(&root, &mut report)?;
        drop(report);
        progress.finish();
        let root = root.display().to_string();
        let manifest =
            Manifest::machine_only(EngineSource::root(&root, &RealFiles).map_err(|reason| {
                ProfileError::Invalid {
                    path: PathBuf::from("(default profile)"),
                    reason: Box::new(reason),
                }
            })?);
        Ok(Self {
            path: None,
            manifest,
        })
    }

    /// Finds the browser of the machine page.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn browser(&self) -> Result<PathBuf, ProfileError> {
        let configured = self.launch().executable.as_ref();
        let configured = configured.map(|path| Path::new(path.as_str()));
        Ok(browser::find_browser(configured)?)
    }

    fn launch(&self) -> &LaunchSettings {
        &self.manifest.browser.launch
    }

    /// Plans a run.
    ///
    /// # Errors
    ///
    /// When there is no browser.
    pub fn plan(&self) -> Result<(HostPlan, PagePlan), ProfileError> {
        let engine = match &self.manifest.engine {
            EngineSource::Root(root) => EnginePlan::Root(PathBuf::from(root.as_str())),
            EngineSource::IndexUrl(url) => EnginePlan::Address(url.as_str().to_owned()),
        };
        let launch = self.launch();
        let host = HostPlan {
            operations: (self.manifest.operations(None).iter())
                .map(|operation| operation.name().to_owned())
                .collect(),
            automation_space: None,
            timeout_ms: self.manifest.timeout_ms.value(),
        };
        let page = PagePlan {
            browser: BrowserPlan {
                executable: self.browser()?,
                headed: launch.headed,
                gpu: launch.gpu,
                sandbox_required: launch.sandbox == SandboxPolicy::Required,
            },
            engine,
            machine: self.manifest.machine.clone(),
            marks: Marks::default(),
        };
        Ok((host, page))
    }
}

/// One byte more than a manifest may have is enough to refuse it.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let limit = MAX_MANIFEST_BYTES as u64 + 1;
    let mut text = Vec::new();
    std::fs::File::open(path)?
        .take(limit)
        .read_to_end(&mut text)?;
    Ok(text)
}
