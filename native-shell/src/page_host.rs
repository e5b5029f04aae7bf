//! The machine page of one run: engine and boot image, loopback server and
//! browser. A failure anywhere is reported once; closing leaves nothing behind.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyproc_policy::MachineSettings;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::assets;
use crate::browser::{self, BrowserProcess, LaunchError, LaunchOptions};
use crate::diagnostics;
use crate::engine::wheels::IndexError;
use crate::engine::{
    BootImageKey, CacheDir, CachedImage, EngineError, Release, Sha256Digest, WheelIndex,
    provision_from_address, verify,
};
use crate::images::{self, SourceError};
use crate::loopback::{self, Bootstrap, LinkEvent, Links, Loopback, Secret, ServedFiles, Staged};
use crate::marks::{self, Marks};
use crate::progress::Progress;

/// Making the boot image may take this long.
const MAKE_LIMIT: Duration = Duration::from_secs(120);

/// Largest boot image, bytes.
const IMAGE_LIMIT: usize = 256 << 20;

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

/// Makes the boot image of the plan's engine unless the cache has it, so that
/// the first start is as fast as every other.
///
/// # Errors
///
/// [`PageError`].
pub async fn prepare_image(plan: &PagePlan) -> Result<(), PageError> {
    Prepared::load(plan).await?.boot_image(plan).await?;
    Ok(())
}

/// Where the boot image of the plan's engine is kept, if it is.
///
/// # Errors
///
/// The engine is absent or damaged, or the wheels conflict.
pub async fn cached_image(plan: &PagePlan) -> Result<Option<PathBuf>, PageError> {
    let key = Prepared::load(plan).await?.image_key();
    let path = CacheDir::from_env()?.boot_images().path(&key);
    Ok(path.is_file().then_some(path))
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

/// What the page is started for.
enum Mode {
    /// Serve the machine.
    Serve {
        /// Digest of the boot image, for durable images.
        boot: Option<Sha256Digest>,
        /// Address of the durable image that the machine starts from.
        load: Option<String>,
    },
    /// Make the boot image.
    Make,
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

/// Engine and wheels, verified.
struct Prepared {
    root: PathBuf,
    release: &'static Release,
    wheels: BTreeMap<String, (String, PathBuf)>,
}

impl EnginePlan {
    /// The directory with the engine; fetched now when it is not there yet.
    fn directory(self) -> Result<PathBuf, EngineError> {
        let address = match self {
            Self::Root(root) => return Ok(root),
            Self::Address(address) => address,
        };
        let root = CacheDir::from_env()?.engine_dir();
        let mut progress = Progress::start("fetching the Python engine, once");
        provision_from_address(&address, &root, &mut |phase| {
            progress.phase(&phase.to_string())
        })?;
        progress.finish();
        Ok(root)
    }
}

impl Prepared {
    async fn load(plan: &PagePlan) -> Result<Self, PageError> {
        let engine = plan.engine.clone();
        let wheels = plan
            .machine
            .wheels
            .as_ref()
            .map(|path| PathBuf::from(path.as_str()));
        tokio::task::spawn_blocking(move || {
            let root = engine.directory()?;
            let release = verify::verify_core(&root)?;
            let dirs: Vec<&Path> = std::iter::once(root.as_path())
                .chain(wheels.as_deref())
                .collect();
            let index = WheelIndex::scan(release, &dirs)?;
            for line in index.diagnostics() {
                diagnostics::line(line);
            }
            let wheels = index.names().filter_map(|(name, wheel)| {
                let file = wheel.path.file_name()?.to_str()?.to_owned();
                Some((name.to_owned(), (file, wheel.path.clone())))
            });
            Ok(Self {
                root,
                release,
                wheels: wheels.collect(),
            })
        })
        .await?
    }

    fn files(&self, image: Option<Vec<u8>>) -> ServedFiles {
        ServedFiles {
            engine_root: self.root.clone(),
            image: Mutex::new(image),
            wheels: self.wheels.values().cloned().collect(),
            staged: Arc::default(),
        }
    }

    /// What the page is told at its start.
    fn bootstrap(&self, plan: &PagePlan, capability: &Secret, mode: &Mode) -> Bootstrap {
        let machine = &plan.machine;
        let wheels: BTreeMap<_, _> = (self.wheels.iter())
            .map(|(name, (file, path))| {
                let bytes = path.metadata().map_or(0, |metadata| metadata.len());
                (
                    name,
                    json!({"url": format!("{}{file}", loopback::WHEELS), "bytes": bytes}),
                )
            })
            .collect();
        let page = |path: &str| format!("{}{path}", loopback::PAGE);
        let (name, image, boot, load) = match mode {
            Mode::Serve { boot, load } => ("serve", Some(loopback::IMAGE), boot.as_ref(), load),
            Mode::Make => ("make", None, None, &None),
        };
        let installation = boot.map(|boot| {
            json!({
                "engine": self.release.engine_digest().to_string(),
                "boot": boot.to_string(),
            })
        });
        Bootstrap::new(json!({
            "capability": capability.reveal(),
            "mode": name,
            "settings": {
                "heapLimitBytes": machine.heap_limit_bytes.value(),
                "storeLimitBytes": machine.store_limit_bytes.value(),
                "maxCheckpoints": machine.max_checkpoints.value(),
                "interruptGraceMs": machine.interrupt_grace_ms.value(),
                "guardIdleMs": machine.guard_idle_ms.value(),
                "bootTimeoutMs": machine.boot_timeout_ms.value(),
                "spare": machine.spare,
                "load": load,
            },
            "assets": {
                "engineBase": loopback::ENGINE,
                "imageUrl": image,
                "installation": installation,
                "kernelUrl": page("worker/kernel.wasm"),
                "preludeUrl": page("worker/prelude.py"),
                "workerUrl": page("worker/worker.js"),
                "wheels": wheels,
                "env": machine.env.iter().collect::<BTreeMap<_, _>>(),
                "timezone": machine.timezone.as_ref().map(|zone| zone.as_str()),
                "preload": machine.preload,
                "limits": {
                    "heapBytes": machine.heap_limit_bytes.value(),
                    "outputBytes": machine.output_bytes.value(),
                    "fileBytes": machine.file_limit_bytes.value(),
                    "storeBytes": machine.store_limit_bytes.value(),
                },
            },
        }))
    }

    fn image_key(&self) -> BootImageKey {
        BootImageKey {
            engine: self.release.engine_digest(),
            assets: Sha256Digest::from_hex(assets::ASSETS_DIGEST).unwrap_or(Sha256Digest([0; 32])),
        }
    }

    /// The cached boot image; made now when there is none for this engine and
    /// build. Without a cache directory it is made at every start.
    async fn boot_image(&self, plan: &PagePlan) -> Result<Vec<u8>, PageError> {
        let key = self.image_key();
        let cache = CacheDir::from_env().map(|cache| cache.boot_images());
        match cache.as_ref().map(|cache| cache.load(&key)) {
            Ok(Ok(CachedImage::Intact(image))) => return Ok(image),
            Ok(Ok(CachedImage::Absent)) => {}
            Ok(Ok(CachedImage::Damaged)) => {
                diagnostics::line("the cached boot image was damaged; it is made again");
            }
            Ok(Err(error)) => diagnostics::line(&error.to_string()),
            Err(error) => diagnostics::line(&error.to_string()),
        }
        diagnostics::line("preparing the Python boot image, once for this engine");
        let image = self.make_image(plan).await?;
        if let Ok(cache) = cache
            && let Err(error) = cache.store(&key, &image)
        {
            diagnostics::line(&format!("the boot image is not kept: {error}"));
        }
        Ok(image)
    }

    /// Makes the boot image in a browser of its own (machine 5.1).
    async fn make_image(&self, plan: &PagePlan) -> Result<Vec<u8>, PageError> {
        let capability = Secret::random()?;
        let (sender, mut events) = mpsc::channel(4);
        let bootstrap = self.bootstrap(plan, &capability, &Mode::Make);
        let files = self.files(None);
        let links = Links::new(sender);
        let loopback =
            Loopback::start(bootstrap, &capability, files, links, Marks::default()).await?;
        let mut browser = open(plan, loopback.launch_url()).await?;
        let made = tokio::select! {
            made = receive_image(&mut events, &capability) => made,
            ending = browser.wait() => Err(format!("the browser has ended: {ending}")),
            reason = loopback.page_lost() => Err(reason),
            () = tokio::time::sleep(MAKE_LIMIT) => {
                Err(format!("it was not there after {} s", MAKE_LIMIT.as_secs()))
            }
        };
        browser.kill().await;
        made.map_err(PageError::Image)
    }
}

/// Collects the image from the one connection that shows the capability.
async fn receive_image(
    events: &mut mpsc::Receiver<LinkEvent>,
    capability: &Secret,
) -> Result<Vec<u8>, String> {
    let mut maker = None;
    let mut image = Vec::new();
    let mut length = 0;
    while let Some(event) = events.recv().await {
        match event {
            LinkEvent::Text(link, text) if maker.is_none() => {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                let token = message["token"].as_str().unwrap_or_default();
                if !capability.matches(token) {
                    continue;
                }
                if message["type"] != "image" {
                    let reason = message["message"].as_str().unwrap_or("the page failed");
                    return Err(reason.to_owned());
                }
                maker = Some(link);
                length = message["byteLength"].as_u64().unwrap_or(u64::MAX);
                if length > IMAGE_LIMIT as u64 {
                    return Err(format!("it has more than {IMAGE_LIMIT} bytes"));
                }
            }
            LinkEvent::Binary(link, bytes) if maker == Some(link) => {
                image.extend_from_slice(&bytes);
                match (image.len() as u64).cmp(&length) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => return Ok(image),
                    std::cmp::Ordering::Greater => {
                        return Err("it is longer than announced".to_owned());
                    }
                }
            }
            LinkEvent::Closed(link) | LinkEvent::Broken(link) if maker == Some(link) => {
                return Err("the page's connection ended".to_owned());
            }
            _ => {}
        }
    }
    Err("the page's connection ended".to_owned())
}
