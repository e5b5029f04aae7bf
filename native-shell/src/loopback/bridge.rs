//! Bridge connections: text messages in and out of one WebSocket each. What
//! they mean is decided by the core.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use futures_util::{SinkExt, StreamExt};
use tokio::sync::mpsc;

use super::{Shared, plain};
use crate::marks::{self, Marks};

pub(super) const PATH: &str = "/bridge";

/// Longest message of the page, bytes (control protocol 6.3).
const MAX_MESSAGE: usize = 8 << 20;

/// Messages for one page that are not written yet.
const OUTBOX: usize = 64;

/// Connections at one time.
const MAX_LINKS: usize = 16;

/// What a connection did.
#[derive(Debug)]
pub enum LinkEvent {
    /// It was accepted.
    Opened(u32),
    /// It sent a text message.
    Text(u32, String),
    /// It sent a binary message (the boot image, in parts).
    Binary(u32, Vec<u8>),
    /// It sent something that is not acceptable.
    Broken(u32),
    /// It ended.
    Closed(u32),
}

/// What a connection must do.
#[derive(Debug)]
pub enum LinkCommand {
    /// Send a text message.
    Text(String),
    /// Close with a code and a reason.
    Close(u16, String),
}

/// All bridge connections.
#[derive(Clone)]
pub struct Links {
    inner: Arc<Mutex<Inner>>,
    events: mpsc::Sender<LinkEvent>,
}

#[derive(Default)]
struct Inner {
    next: u32,
    open: BTreeMap<u32, mpsc::Sender<LinkCommand>>,
}

impl Links {
    /// No connection yet; what they will do arrives at `events`.
    pub fn new(events: mpsc::Sender<LinkEvent>) -> Self {
        Self {
            inner: Arc::default(),
            events,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a connection something to do. A page that does not read what it
    /// is sent loses its connection.
    pub fn command(&self, link: u32, command: LinkCommand) {
        let mut inner = self.lock();
        if let Some(outbox) = inner.open.get(&link)
            && outbox.try_send(command).is_err()
        {
            inner.open.remove(&link);
        }
    }

    fn accept(&self) -> Option<(u32, mpsc::Receiver<LinkCommand>)> {
        let mut inner = self.lock();
        if inner.open.len() >= MAX_LINKS {
            return None;
        }
        let (outbox, commands) = mpsc::channel(OUTBOX);
        inner.next += 1;
        let link = inner.next;
        inner.open.insert(link, outbox);
        Some((link, commands))
    }

    fn remove(&self, link: u32) {
        self.lock().open.remove(&link);
    }
}

/// A WebSocket of the page of this server (control protocol 6.3), or the refusal.
pub(super) fn of_the_page(
    shared: &Shared,
    headers: &HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<WebSocketUpgrade, Box<Response>> {
    let origin = headers.get(header::ORIGIN);
    if origin.is_none_or(|origin| *origin != *shared.origin()) {
        let refusal = plain(
            StatusCode::FORBIDDEN,
            "this connection is for the machine page",
        );
        return Err(Box::new(refusal));
    }
    upgrade.map_err(|_| {
        Box::new(plain(
            StatusCode::BAD_REQUEST,
            "this address is for a WebSocket",
        ))
    })
}

/// Accepts only the page of this server.
pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let upgrade = match of_the_page(&shared, &headers, upgrade) {
        Ok(upgrade) => upgrade,
        Err(refusal) => return *refusal,
    };
    let links = shared.links.clone();
    let marks = shared.marks.clone();
    let Some((link, commands)) = links.accept() else {
        return plain(StatusCode::TOO_MANY_REQUESTS, "too many bridge connections");
    };
    upgrade
        .max_message_size(MAX_MESSAGE)
        .max_frame_size(MAX_MESSAGE)
        .on_failed_upgrade({
            let links = links.clone();
            move |_| links.remove(link)
        })
        .on_upgrade(move |socket| async move {
            converse(&links, &marks, link, socket, commands).await;
            links.remove(link);
            // Nobody listens any more when the product is closing.
            let _ = links.events.send(LinkEvent::Closed(link)).await;
        })
}

async fn converse(
    links: &Links,
    marks: &Marks,
    link: u32,
    socket: WebSocket,
    mut commands: mpsc::Receiver<LinkCommand>,
) {
    if links.events.send(LinkEvent::Opened(link)).await.is_err() {
        return;
    }
    marks.note(marks::BRIDGE_OPENED);
    let (mut sink, mut stream) = socket.split();
    loop {
        tokio::select! {
            command = commands.recv() => match command {
                Some(LinkCommand::Text(text)) => {
                    if sink.send(Message::Text(text.into())).await.is_err() {
                        return;
                    }
                }
                Some(LinkCommand::Close(code, reason)) => {
                    let frame = CloseFrame { code, reason: reason.into() };
                    // The connection ends either way.
                    let _ = sink.send(Message::Close(Some(frame))).await;
                    return;
                }
                None => return,
            },
            message = stream.next() => {
                let event = match message {
                    Some(Ok(Message::Text(text))) => {
                        // The first text of a page is its handshake.
                        marks.note(marks::READY);
                        LinkEvent::Text(link, text.to_string())
                    }
                    Some(Ok(Message::Binary(bytes))) => LinkEvent::Binary(link, bytes.to_vec()),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                    Some(Ok(Message::Close(_))) | None => return,
                    Some(Err(_)) => LinkEvent::Broken(link),
                };
                let broken = matches!(event, LinkEvent::Broken(_));
                if links.events.send(event).await.is_err() || broken {
                    return;
                }
            }
        }
    }
}
