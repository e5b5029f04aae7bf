//! The loopback server of one run: the machine page, its files, the engine,
//! and the bridge (control protocol 6.1, 6.3).

mod bridge;
mod files;
mod page;
mod presence;
mod secret;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub use bridge::{LinkCommand, LinkEvent, Links};
pub use files::{ENGINE, IMAGE, PAGE, ServedFiles, Staged, WHEELS};
pub use page::Bootstrap;
pub use secret::Secret;

use page::PageDoor;
use presence::Presence;

use crate::marks::Marks;

/// Headers of every answer.
const COMMON: [(HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-embedder-policy"),
        "require-corp",
    ),
];

/// What every handler can reach.
struct Shared {
    address: SocketAddr,
    door: PageDoor,
    files: ServedFiles,
    links: Links,
    presence: Presence,
    marks: Marks,
}

impl Shared {
    fn authority(&self) -> String {
        self.address.to_string()
    }

    fn origin(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// A running loopback server; it stops when this is dropped.
pub struct Loopback {
    address: SocketAddr,
    launch_url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Loopback {
    /// Binds an ephemeral port of 127.0.0.1 and starts to serve. Bridge
    /// connections appear in `links`, what the page asks for in `marks`. The
    /// page shows `capability` to be known.
    ///
    /// # Errors
    ///
    /// When the port cannot be bound or the system has no randomness.
    pub async fn start(
        bootstrap: Bootstrap,
        capability: &Secret,
        files: ServedFiles,
        links: Links,
        marks: Marks,
    ) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let nonce = Secret::random()?;
        let launch_url = format!(
            "http://{address}{}?{}={}",
            page::PATH,
            page::NONCE_MEMBER,
            nonce.reveal()
        );
        let shared = Arc::new(Shared {
            address,
            door: PageDoor::new(nonce, &bootstrap),
            files,
            links,
            presence: Presence::new(capability.clone()),
            marks,
        });
        let app = Router::new()
            .route(page::PATH, get(page::open))
            .route(bridge::PATH, get(bridge::upgrade))
            .route(presence::PATH, get(presence::upgrade))
            .fallback(files::serve)
            .layer(middleware::from_fn_with_state(shared.clone(), guard))
            .with_state(shared.clone());
        let task = tokio::spawn(async move {
            // It ends only with the task: accept errors are retried inside.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Self {
            address,
            launch_url,
            shared,
            task,
        })
    }

    /// The page's address without the nonce, for people.
    pub fn page_address(&self) -> String {
        format!("http://{}{}", self.address, page::PATH)
    }

    /// Resolves with a reason when the page has ended, or when it did not
    /// begin in time; the time counts from the call.
    pub fn page_lost(&self) -> impl Future<Output = String> + use<> {
        self.shared.presence.lost()
    }

    /// The address that opens the page once. Never print it.
    pub fn launch_url(&self) -> &str {
        &self.launch_url
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Refuses foreign hosts and methods, and adds the headers of every answer.
async fn guard(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let mut response = if !host_is(request.headers(), &shared.authority()) {
        plain(
            StatusCode::FORBIDDEN,
            "this server answers its own address only",
        )
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET and HEAD are answered",
        )
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    for (name, value) in COMMON {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let policy = HeaderName::from_static("cross-origin-resource-policy");
    if !headers.contains_key(&policy) {
        headers.insert(policy, HeaderValue::from_static("same-origin"));
    }
    response
}

fn host_is(headers: &HeaderMap, authority: &str) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    hosts.next().is_some_and(|host| host == authority) && hosts.next().is_none()
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    let content_type = (header::CONTENT_TYPE, "text/plain; charset=utf-8");
    (status, [content_type], text).into_response()
}
