//! What the loopback server serves for one page: engine and wheels, verified,
//! and what the page is told at its start.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{EnginePlan, PageError, PagePlan};
use crate::diagnostics;
use crate::engine::{
    CacheDir, EngineError, Release, Sha256Digest, WheelIndex, first_time, provision_from_address,
    verify,
};
use crate::loopback::{self, Bootstrap, Secret, ServedFiles};
use crate::progress::Progress;

/// What the page is started for.
pub(super) enum Mode {
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

/// Engine and wheels, verified.
pub(super) struct Prepared {
    root: PathBuf,
    pub(super) release: &'static Release,
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
        let mut report = first_time(|phase| progress.phase(&phase.to_string()));
        provision_from_address(&address, &root, &mut report)?;
        drop(report);
        progress.finish();
        Ok(root)
    }
}

impl Prepared {
    pub(super) async fn load(plan: &PagePlan) -> Result<Self, PageError> {
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

    pub(super) fn files(&self, image: Option<Vec<u8>>) -> ServedFiles {
        ServedFiles {
            engine_root: self.root.clone(),
            image: Mutex::new(image),
            wheels: self.wheels.values().cloned().collect(),
            staged: Arc::default(),
        }
    }

    /// What the page is told at its start.
    pub(super) fn bootstrap(&self, plan: &PagePlan, capability: &Secret, mode: &Mode) -> Bootstrap {
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
}
