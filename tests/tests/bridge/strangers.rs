//! Bridge connections that are not the page (control protocol 6.3).

use futures_util::{SinkExt, StreamExt};
use pyproc_tests::{Home, http, run};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::{authority, booted, still_serves};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Connects with headers of its own; the error is the status of a refusal.
async fn connect(authority: &str, headers: &[(&'static str, String)]) -> Result<Socket, u16> {
    let request = format!("ws://{authority}/bridge").into_client_request();
    let mut request = request.expect("an address");
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).expect("a value");
        request.headers_mut().insert(*name, value);
    }
    match connect_async(request).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// Connects as the page does.
async fn socket(authority: &str) -> Socket {
    let origin = format!("http://{authority}");
    connect(authority, &[("origin", origin)])
        .await
        .expect("a connection")
}

/// The close code and reason that a first message earns.
async fn close_of(authority: &str, first: Message) -> (u16, String) {
    let mut socket = socket(authority).await;
    socket.send(first).await.expect("a message");
    close(&mut socket).await
}

async fn close(socket: &mut Socket) -> (u16, String) {
    loop {
        let message = timeout(pyproc_tests::PATIENCE, socket.next())
            .await
            .expect("a close");
        match message {
            Some(Ok(Message::Close(Some(frame)))) => {
                return (frame.code.into(), frame.reason.to_string());
            }
            Some(Ok(Message::Close(None)) | Err(_)) | None => return (0, String::new()),
            Some(Ok(Message::Text(text))) => panic!("a stranger was told {text}"),
            Some(Ok(_)) => {}
        }
    }
}

fn ready(token: &str) -> Value {
    json!({"type": "ready", "protocol": "pyproc-control", "version": 1,
        "pageEpoch": "stranger", "spaceId": "machine:primary", "token": token})
}

fn text(value: &Value) -> Message {
    Message::text(value.to_string())
}

#[tokio::test]
async fn foreign_origins_and_hosts_are_refused() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let port = authority.split_once(':').expect("a port").1;
    let origins = [
        "null".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("https://{authority}"),
        format!("http://localhost:{port}"),
        format!("http://{authority}/"),
        "http://evil.test".to_owned(),
    ];
    for origin in origins {
        let refused = connect(&authority, &[("origin", origin.clone())]).await;
        assert_eq!(refused.err(), Some(403), "{origin}");
    }
    assert_eq!(connect(&authority, &[]).await.err(), Some(403), "no origin");
    let own = ("origin", format!("http://{authority}"));
    for host in [format!("localhost:{port}"), "evil.test".to_owned()] {
        let refused = connect(&authority, &[own.clone(), ("host", host.clone())]).await;
        assert_eq!(refused.err(), Some(403), "{host}");
    }
    // A request that is no upgrade.
    let head = format!("GET /bridge HTTP/1.1\r\nHost: {authority}\r\nOrigin: http://{authority}");
    assert_eq!(http::raw(&authority, &head).await.status, 400);
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn a_first_message_without_the_capability_closes() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let unauthorized = (4403, "CONTROL_BRIDGE_UNAUTHORIZED".to_owned());
    let handshake = (4400, "CONTROL_BRIDGE_HANDSHAKE".to_owned());
    let mut without = ready("x");
    without.as_object_mut().expect("an object").remove("token");
    for first in [ready("wrong"), ready(&"A".repeat(43)), ready(""), without] {
        assert_eq!(
            close_of(&authority, text(&first)).await,
            unauthorized,
            "{first}"
        );
    }
    let failed = json!({"type": "bootFailed", "token": "wrong", "message": "m"});
    assert_eq!(close_of(&authority, text(&failed)).await, unauthorized);
    for garbage in ["", "{", "[]", "\u{0}"] {
        let (code, _) = close_of(&authority, Message::text(garbage)).await;
        assert!([4400, 4403].contains(&code), "{garbage:?} {code}");
    }
    let long = text(&ready(&"x".repeat(4096)));
    assert_eq!(close_of(&authority, long).await, handshake);
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn a_binary_first_message_closes() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let closed = close_of(&authority, Message::binary(vec![0; 16])).await;
    assert_eq!(closed, (4400, "CONTROL_BRIDGE_HANDSHAKE".to_owned()));
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn strangers_do_not_disturb_a_running_request() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    product
        .send(&run("r:1", "import time; time.sleep(1); 'done'"))
        .await;
    let mut silent = socket(&authority).await;
    for number in 1..=8 {
        let forged = json!({"type": "result", "requestId": format!("command:{number}"),
            "pageEpoch": "stranger", "ok": true, "value": {"stdout": "forged"}});
        let (code, _) = close_of(&authority, text(&forged)).await;
        assert!([4400, 4403].contains(&code), "{code}");
    }
    silent
        .send(Message::Ping(Vec::new().into()))
        .await
        .expect("still open");
    assert_eq!(product.frame().await["output"]["value"], "'done'");
    still_serves(&mut product, "r:2").await;
}

#[tokio::test]
async fn more_connections_than_there_can_be_are_refused_and_the_page_stays() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let mut open = Vec::new();
    let mut refused = 0;
    for _ in 0..40 {
        match connect(&authority, &[("origin", format!("http://{authority}"))]).await {
            Ok(socket) => open.push(socket),
            Err(status) => {
                assert_eq!(status, 429);
                refused += 1;
            }
        }
    }
    assert!(refused >= 20, "{refused}");
    still_serves(&mut product, "r:1").await;
    drop(open);
    product.end_input();
    assert_eq!(product.exited().await.0.code(), Some(0));
    home.is_left_clean().await;
}

#[tokio::test]
async fn a_message_over_the_limit_ends_its_connection_only() {
    let home = Home::default();
    let (mut product, authority) = booted(&home).await;
    let mut socket = socket(&authority).await;
    let large = Message::text("x".repeat((8 << 20) + 1));
    // The server may close before it has read everything.
    let _ = socket.send(large).await;
    close(&mut socket).await;
    still_serves(&mut product, "r:1").await;
}

#[tokio::test]
async fn a_stranger_before_the_page_changes_nothing() {
    let home = Home::pageless();
    let mut product = home.open().await;
    let authority = authority(&product).await;
    let (code, _) = close_of(&authority, text(&ready("wrong"))).await;
    assert_eq!(code, 4403);
    product.send(&run("r:1", "1")).await;
    product.end_input();
    assert_eq!(product.frame().await["error"]["code"], "CONTROL_CANCELLED");
}
