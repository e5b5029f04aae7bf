//! The boot image of an engine: kept in the cache, made in a browser of its own
//! when it is not there.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::prepared::{Mode, Prepared};
use super::{PageError, PagePlan, open};
use crate::assets;
use crate::diagnostics;
use crate::engine::{BootImageKey, CacheDir, CachedImage, Sha256Digest};
use crate::loopback::{LinkEvent, Links, Loopback, Secret};
use crate::marks::Marks;

/// Making the boot image may take this long.
const MAKE_LIMIT: Duration = Duration::from_secs(120);

/// Largest boot image, bytes.
const IMAGE_LIMIT: usize = 256 << 20;

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

impl Prepared {
    fn image_key(&self) -> BootImageKey {
        BootImageKey {
            engine: self.release.engine_digest(),
            assets: Sha256Digest::from_hex(assets::ASSETS_DIGEST).unwrap_or(Sha256Digest([0; 32])),
        }
    }

    /// The cached boot image; made now when there is none for this engine and
    /// build. Without a cache directory it is made at every start.
    pub(super) async fn boot_image(&self, plan: &PagePlan) -> Result<Vec<u8>, PageError> {
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
