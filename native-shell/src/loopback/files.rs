//! Static files: the page's own assets, the engine, the boot image, wheels.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use super::{Secret, Shared, plain};
use crate::assets::{self, Asset};
use crate::marks::{self, Marks};

/// The page's own files.
pub const PAGE: &str = "/page/";
/// The engine's files, beside the worker's: its modules import them relatively.
pub const ENGINE: &str = "/page/engine/";
/// Wheels by file name.
pub const WHEELS: &str = "/wheels/";
/// The boot image.
pub const IMAGE: &str = "/image";
/// Durable images, each at an address that is used once.
const STAGED: &str = "/durable/";

/// The engine's modules that the worker imports.
const ENGINE_MODULES: [&str; 2] = ["pyodide.mjs", "pyodide.asm.mjs"];

/// Files of this run that are not embedded.
#[derive(Default)]
pub struct ServedFiles {
    /// Canonical engine directory.
    pub engine_root: PathBuf,
    /// The boot image, served once: the page keeps it for all workers.
    pub image: Mutex<Option<Vec<u8>>>,
    /// Wheels by served name.
    pub wheels: BTreeMap<String, PathBuf>,
    /// A durable image for the page.
    pub staged: Arc<Staged>,
}

/// The durable image that waits for the page, one at a time.
#[derive(Default)]
pub struct Staged(Mutex<Option<(Secret, Vec<u8>)>>);

impl Staged {
    /// Makes an image available once; the result is its address. An image that
    /// was not fetched is dropped for the next one.
    ///
    /// # Errors
    ///
    /// When the system has no randomness to give.
    pub fn stage(&self, image: Vec<u8>) -> std::io::Result<String> {
        let name = Secret::random()?;
        let address = format!("{STAGED}{}", name.reveal());
        *self.lock() = Some((name, image));
        Ok(address)
    }

    fn take(&self, name: &str) -> Option<Vec<u8>> {
        let mut staged = self.lock();
        let staged = staged.take_if(|(secret, _)| secret.matches(name));
        staged.map(|(_, image)| image)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Secret, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Anything below the engine or worker prefix is loaded by a worker with an
/// opaque origin and says so; nothing else does.
enum Audience {
    Page,
    Worker,
}

pub(super) async fn serve(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let path = uri.path();
    note(&shared.marks, path);
    if let Some(name) = path.strip_prefix(ENGINE) {
        return engine_file(&shared.files.engine_root, name).await;
    }
    if let Some(name) = path.strip_prefix(PAGE) {
        return match assets::asset(name) {
            Some(asset) => embedded(asset, &shared.origin()),
            None => missing(),
        };
    }
    if let Some(name) = path.strip_prefix(WHEELS) {
        return match shared.files.wheels.get(name) {
            Some(file) => disk(file, "application/zip", Audience::Page).await,
            None => missing(),
        };
    }
    if let Some(name) = path.strip_prefix(STAGED) {
        return match shared.files.staged.take(name) {
            Some(image) => content("application/octet-stream", image, Audience::Page),
            None => missing(),
        };
    }
    if path == IMAGE {
        let image = shared
            .files
            .image
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(image) = image {
            return content("application/octet-stream", image, Audience::Page);
        }
    }
    missing()
}

/// Notes the requests that a start waits for.
fn note(marks: &Marks, path: &str) {
    let mark = match path {
        "/page/engine/pyodide.asm.wasm" => marks::WASM_REQUESTED,
        "/page/worker/worker.js" => marks::WORKER_REQUESTED,
        IMAGE => marks::IMAGE_REQUESTED,
        _ => return,
    };
    marks.note(mark);
}

fn missing() -> Response {
    plain(StatusCode::NOT_FOUND, "there is nothing at this address")
}

fn embedded(asset: &'static Asset, origin: &str) -> Response {
    let worker = asset.path.starts_with("worker/") && asset.media_type == "text/javascript";
    let audience = if worker {
        Audience::Worker
    } else {
        Audience::Page
    };
    let mut response = content(asset.media_type, asset.bytes, audience);
    if worker && let Ok(policy) = worker_policy(origin).parse() {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

/// The policy of the Python worker: an opaque origin, no connections, no eval,
/// no nested workers, scripts from exactly these addresses (machine 16.1).
fn worker_policy(origin: &str) -> String {
    let own = (assets::ASSETS.iter())
        .filter(|asset| asset.path.starts_with("worker/") && asset.media_type == "text/javascript")
        .map(|asset| format!("{origin}{PAGE}{}", asset.path));
    let engine = ENGINE_MODULES.map(|name| format!("{origin}{ENGINE}{name}"));
    let scripts: Vec<_> = own.chain(engine).collect();
    format!(
        "sandbox allow-scripts; default-src 'none'; script-src {} 'wasm-unsafe-eval'; \
         connect-src 'none'; worker-src 'none'",
        scripts.join(" ")
    )
}

async fn engine_file(root: &Path, name: &str) -> Response {
    let joined = root.join(name);
    let Ok(file) = tokio::fs::canonicalize(&joined).await else {
        return missing();
    };
    if !file.starts_with(root) {
        return plain(
            StatusCode::FORBIDDEN,
            "this address leaves the engine directory",
        );
    }
    let media_type = match file.extension().and_then(|extension| extension.to_str()) {
        Some("wasm") => "application/wasm",
        Some("js" | "mjs") => "text/javascript",
        Some("json") => "application/json",
        Some("zip" | "whl") => "application/zip",
        _ => "application/octet-stream",
    };
    disk(&file, media_type, Audience::Worker).await
}

/// A whole file: the page sizes shared buffers by the exact length.
async fn disk(file: &Path, media_type: &'static str, audience: Audience) -> Response {
    match tokio::fs::read(file).await {
        Ok(bytes) => content(media_type, bytes, audience),
        Err(_) => missing(),
    }
}

fn content(
    media_type: &'static str,
    bytes: impl Into<axum::body::Body>,
    audience: Audience,
) -> Response {
    let content_type = [(header::CONTENT_TYPE, media_type)];
    match audience {
        Audience::Page => (content_type, bytes.into()).into_response(),
        Audience::Worker => {
            let policy = HeaderName::from_static("cross-origin-resource-policy");
            let shared = [
                (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
                (policy, "cross-origin"),
            ];
            (content_type, shared, bytes.into()).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_staged_image_is_there_once_and_only_under_its_name() {
        let staged = Staged::default();
        let first = staged.stage(vec![1]).unwrap();
        let second = staged.stage(vec![2]).unwrap();
        let name = |address: &str| address.strip_prefix(STAGED).unwrap().to_owned();
        assert_eq!(staged.take(&name(&first)), None);
        assert_eq!(staged.take(&name(&second)), Some(vec![2]));
        assert_eq!(staged.take(&name(&second)), None);
    }

    #[test]
    fn worker_policy_names_every_worker_module_and_the_two_engine_modules() {
        let policy = worker_policy("http://127.0.0.1:1");
        assert!(policy.contains("http://127.0.0.1:1/page/worker/worker.js "));
        assert!(policy.contains("http://127.0.0.1:1/page/engine/pyodide.asm.mjs "));
        assert!(policy.contains("connect-src 'none'"));
        assert!(!policy.contains("'self'") && !policy.contains("machine/"));
    }
}
