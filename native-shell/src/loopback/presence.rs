//! Whether the machine page is there at all. A page opens its bridge only when the machine is
//! ready; until then, the end of its renderer would be noticed by nobody. So its first act is a
//! connection on which it shows the capability and then says nothing more.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::Response;
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Secret, Shared, bridge};

pub(super) const PATH: &str = "/presence";

/// Time that a started browser has to ask for the page.
const ASK_LIMIT: Duration = Duration::from_secs(60);

/// Time that a page that was sent has to run its script.
const SCRIPT_LIMIT: Duration = Duration::from_secs(20);

/// Time that a connection has to show the capability.
const SHOW_LIMIT: Duration = Duration::from_secs(10);

/// Longest message, bytes: the capability is shorter.
const MAX_MESSAGE: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Page {
    Awaited,
    Sent,
    There,
    Gone,
}

/// The server's side of it.
pub(super) struct Presence {
    capability: Secret,
    page: watch::Sender<Page>,
}

impl Presence {
    pub(super) fn new(capability: Secret) -> Self {
        let page = watch::Sender::new(Page::Awaited);
        Self { capability, page }
    }

    /// The page was sent to the browser.
    pub(super) fn sent(&self) {
        self.reached(Page::Sent);
    }

    /// Notes a step; the result is whether it is a new one.
    fn reached(&self, step: Page) -> bool {
        let advance = |page: &mut Page| step > std::mem::replace(page, step.max(*page));
        self.page.send_if_modified(advance)
    }

    /// Resolves with a reason when the page has ended, or does not begin within its limits, which
    /// count from the call.
    pub(super) fn lost(&self) -> impl Future<Output = String> + use<> {
        self.lost_after(ASK_LIMIT, SCRIPT_LIMIT)
    }

    fn lost_after(&self, ask: Duration, script: Duration) -> impl Future<Output = String> + use<> {
        let mut page = self.page.subscribe();
        async move {
            let steps = [(Page::Sent, ask, "ask for"), (Page::There, script, "run")];
            for (step, limit, what) in steps {
                let reached = timeout(limit, page.wait_for(|page| *page >= step)).await;
                if reached.is_err() {
                    return format!("the browser did not {what} the machine page within {limit:?}");
                }
            }
            // The sender lives as long as the server.
            let _ = page.wait_for(|page| *page == Page::Gone).await;
            "the machine page has ended; its process may have crashed or run out of memory"
                .to_owned()
        }
    }

    /// Holds a connection until it ends. Only the first page counts.
    async fn hold(&self, mut socket: WebSocket) {
        let shown = timeout(SHOW_LIMIT, socket.recv()).await;
        let Ok(Some(Ok(Message::Text(token)))) = shown else {
            return;
        };
        if !self.capability.matches(&token) {
            return;
        }
        let first = self.reached(Page::There);
        // Whatever it says is not listened to.
        while let Some(Ok(_)) = socket.recv().await {}
        if first {
            self.reached(Page::Gone);
        }
    }
}

pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match bridge::of_the_page(&shared, &headers, upgrade) {
        Ok(upgrade) => upgrade,
        Err(refusal) => return *refusal,
    };
    upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_upgrade(async move |socket| shared.presence.hold(socket).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> Presence {
        Presence::new(Secret::random().unwrap())
    }

    #[tokio::test]
    async fn a_page_that_does_not_begin_is_lost_after_its_limits() {
        let (soon, long) = (Duration::from_millis(1), Duration::from_secs(3600));
        let never = presence().lost_after(soon, long).await;
        assert!(
            never.contains("ask for the machine page within 1ms"),
            "{never}"
        );
        let sent = presence();
        sent.sent();
        let silent = sent.lost_after(long, soon).await;
        assert!(
            silent.contains("run the machine page within 1ms"),
            "{silent}"
        );
    }

    #[tokio::test]
    async fn a_page_is_lost_when_it_ends_and_steps_never_go_back() {
        let presence = presence();
        let mut lost = Box::pin(presence.lost());
        assert!(presence.reached(Page::There));
        presence.sent();
        assert!(
            !presence.reached(Page::There),
            "a second page does not count"
        );
        assert!(timeout(Duration::from_millis(20), &mut lost).await.is_err());
        assert!(presence.reached(Page::Gone));
        assert!(lost.await.contains("has ended"));
    }
}
