//! The machine page of one run: engine and boot image, loopback server and
//! browser. A failure anywhere is reported once; closing leaves nothing behind.

mod boot_image;
mod prepared;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use pyproc_policy::MachineSettings;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

pub use boot_image::{cached_image, prepare_image};
use prepared::{Mode, Prepared};

use crate::browser::{self, BrowserProcess, LaunchError, LaunchOptions};
use crate::diagnostics;
use crate::engine::wheels::IndexError;
use crate::engine::{EngineError, Sha256Digest};
use crate::images::{self, SourceError};
use crate::loopback::{Links, Loopback, Secret, Staged};
use crate::marks::{self, Marks};

/// How the browser of the machine page is started.
#[derive(Clone, Debug)]
pub struct BrowserPlan {
    /// The browser binary.
    pub executable: PathBuf,
    /// Show a window.
    pub headed: bool,
    /// Render with the software GPU.
    pub gpu: bool,
    /// Refuse to start without the browser's sandbox.
    pub sandbox_required: bool,
}

/// What the machine page needs.
#[derive(Clone, Debug)]
pub struct PagePlan {
    /// The browser.
    pub browser: BrowserPlan,
    /// The engine.
    pub engine: EnginePlan,
    /// Settings of the machine.
    pub machine: MachineSettings,
    /// Moments of the start.
    pub marks: Marks,
}

/// Where the engine is.
#[derive(Clone, Debug)]
pub enum EnginePlan {
    /// A prepared directory.
    Root(PathBuf),
    /// Files below an address. They are kept in the cache: the digest table
    /// says what they are, so the address is asked once.
    Address(String),
}

/// The page cannot come up.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// The engine is absent or damaged.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The wheels cannot be served together.
    #[error(transparent)]
    Wheels(#[from] IndexError),
    /// The durable image that the manifest names.
    #[error("machine.image.load: {0}")]
    Load(#[from] SourceError),
    /// The browser does not start.
    #[error(transparent)]
    Browser(#[from] LaunchError),
    /// There is no port or no randomness.
    #[error("the loopback server cannot start: {0}")]
    Loopback(#[from] std::io::Error),
    /// The page did not deliver an image.
    #[error("the boot image could not be made: {0}")]
    Image(String),
    /// A thread of this process ended early.
    #[error("an internal task ended early: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Why there is no page, or no page any more, for people.
#[derive(Debug, PartialEq, Eq)]
pub enum PageFailure {
    /// The page cannot come up, or its browser has ended.
    Page(String),
    /// The image that the machine was to start from cannot be read.
    Load(String),
}

/// The running page; closing it ends the browser and the server.
pub struct PageHost {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl PageHost {
    /// Starts everything in the background. If the page cannot come up, or its
    /// browser ends by itself, the reason is sent to `failed`.
    pub fn start(
        plan: PagePlan,
        links: Links,
        staged: Arc<Staged>,
        capability: Secret,
        failed: mpsc::Sender<PageFailure>,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let failure = tokio::select! {
                biased;
                // Stopped, or the run is gone: nobody needs a reason.
                _ = stopped => return,
                result = host(&plan, links, staged, &capability) => match result {
                    Ok(reason) => PageFailure::Page(reason),
                    Err(error @ PageError::Load(_)) => PageFailure::Load(error.to_string()),
                    Err(error) => PageFailure::Page(error.to_string()),
                },
            };
            let (PageFailure::Page(reason) | PageFailure::Load(reason)) = &failure;
            diagnostics::line(reason);
            // The run may be ending.
            let _ = failed.send(failure).await;
        });
        Self { stop, task }
    }

    /// Ends the browser, removes its profile and stops the server.
    pub async fn close(self) {
        // A task that has ended already has nothing left to stop.
        let _ = self.stop.send(());
        let _ = self.task.await;
    }
}

/// Hosts the page until it or its browser ends; the result says how it ended.
async fn host(
    plan: &PagePlan,
    links: Links,
    staged: Arc<Staged>,
    capability: &Secret,
) -> Result<String, PageError> {
    let prepared = Prepared::load(plan).await?;
    plan.marks.note(marks::ENGINE_VERIFIED);
    let image = prepared.boot_image(plan).await?;
    plan.marks.note(marks::IMAGE_READ);
    let mode = Mode::Serve {
        boot: uses_images(plan).then(|| Sha256Digest::of(&image)),
        load: stage_load(plan, &staged).await?,
    };
    let bootstrap = prepared.bootstrap(plan, capability, &mode);
    let mut files = prepared.files(Some(image));
    files.staged = staged;
    let loopback = Loopback::start(bootstrap, capability, files, links, plan.marks.clone()).await?;
    let mut browser = open(plan, loopback.launch_url()).await?;
    plan.marks.note(marks::BROWSER_STARTED);
    let executable = plan.browser.executable.display();
    let sandbox = browser.sandbox();
    diagnostics::line(&format!(
        "browser {executable}, sandbox {sandbox}, page {}",
        loopback.page_address()
    ));
    let reason = tokio::select! {
        biased;
        ending = browser.wait() => format!("the browser has ended: {ending}"),
        reason = loopback.page_lost() => reason,
    };
    browser.kill().await;
    Ok(reason)
}

fn uses_images(plan: &PagePlan) -> bool {
    let images = &plan.machine.image;
    images.operations || images.load.is_some() || images.save_on_exit.is_some()
}

/// Stages the image that the machine starts from. One that the machine itself
/// stores at its end is not there before the first time.
async fn stage_load(plan: &PagePlan, staged: &Staged) -> Result<Option<String>, PageError> {
    let settings = &plan.machine.image;
    let Some(load) = &settings.load else {
        return Ok(None);
    };
    let own = settings.save_on_exit.as_ref() == Some(load);
    let load = PathBuf::from(load.as_str());
    match tokio::task::spawn_blocking(move || images::read_trusted(&load)).await? {
        Ok(image) => Ok(Some(staged.stage(image)?)),
        Err(SourceError::Read(error)) if own && error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn open(plan: &PagePlan, url: &str) -> Result<BrowserProcess, LaunchError> {
    let options = LaunchOptions {
        executable: plan.browser.executable.clone(),
        url: url.to_owned(),
        headed: plan.browser.headed,
        gpu: plan.browser.gpu,
        sandbox_required: plan.browser.sandbox_required,
        timezone: plan
            .machine
            .timezone
            .as_ref()
            .map(|zone| zone.as_str().to_owned()),
    };
    browser::launch(&options).await
}
