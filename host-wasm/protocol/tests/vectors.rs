//! Golden vectors: lines and what becomes of them.
//!
//! A frame vector has a `line` (or `parts`, repeated texts that are joined, or
//! `base64`, raw bytes) and one of `encoded` (the exact line that the decoded
//! frame encodes to), `accepted`, or `error` (the code that refuses it). A
//! conversation vector is a list of lines and what the server makes of each.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test reports through panics"
)]

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use pyproc_protocol::catalog::Operation;
use pyproc_protocol::server::ServerEvent;
use pyproc_protocol::{Frame, ServerConversation};
use serde_json::{Value, json};

fn vectors(text: &str) -> Vec<Value> {
    let vectors: Vec<Value> = serde_json::from_str(text).expect("a list of vectors");
    assert!(!vectors.is_empty());
    vectors
}

fn line_of(vector: &Value) -> Vec<u8> {
    if let Some(line) = vector["line"].as_str() {
        return line.as_bytes().to_vec();
    }
    if let Some(bytes) = vector["base64"].as_str() {
        return STANDARD.decode(bytes).expect("base64");
    }
    let parts = vector["parts"].as_array().expect("line, base64 or parts");
    let repeated = parts.iter().map(|part| {
        let times = usize::try_from(part[1].as_u64().expect("a count")).expect("a small count");
        part[0].as_str().expect("a text").repeat(times)
    });
    repeated.collect::<String>().into_bytes()
}

fn check_frames(kind: &str, text: &str) {
    for vector in vectors(text) {
        let name = format!("{kind}: {}", vector["name"]);
        let decoded = Frame::decode(&line_of(&vector));
        if let Some(code) = vector["error"].as_str() {
            let error = decoded.expect_err(&name);
            assert_eq!(error.code().as_str(), code, "{name}: {error}");
            continue;
        }
        let frame = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
        if kind != "framing" {
            assert_eq!(frame.kind(), kind, "{name}");
        }
        match vector["encoded"].as_str() {
            Some(line) => assert_eq!(frame.encode().as_deref(), Ok(line), "{name}"),
            None => assert_eq!(vector["accepted"], json!(true), "{name} expects nothing"),
        }
    }
}

macro_rules! frame_vectors {
    ($($kind:ident),+) => {$(
        #[test]
        fn $kind() {
            let text = include_str!(concat!("vectors/", stringify!($kind), ".json"));
            check_frames(stringify!($kind), text);
        }
    )+};
}
frame_vectors!(
    framing, hello, request, cancel, response, error, attachment, event
);

#[test]
fn conversation() {
    for vector in vectors(include_str!("vectors/conversation.json")) {
        let name = &vector["name"];
        let mut server = ServerConversation::new(Operation::MACHINE, None);
        for step in vector["steps"].as_array().expect("steps") {
            let line = step["send"].as_str().expect("a line");
            let seen = match server.handle_line(line.as_bytes()) {
                Ok(event) => event.map_or(Value::Null, describe),
                Err(error) => json!({"fatal": error.code()}),
            };
            assert_eq!(seen, step["expect"], "{name} at {line}");
        }
    }
}

fn describe(event: ServerEvent) -> Value {
    let id_of = |line: &str| match Frame::decode(line.as_bytes()).expect("a frame") {
        Frame::Hello(hello) => hello.request_id,
        frame => panic!("{frame:?} is no hello"),
    };
    match event {
        ServerEvent::Hello { line, .. } => json!({"hello": id_of(&line)}),
        ServerEvent::Request(request) => json!({"request": request.request_id}),
        ServerEvent::Refused {
            request_id, error, ..
        } => {
            json!({"refused": [request_id, error.code()]})
        }
        ServerEvent::Cancel { request_id, reason } => json!({"cancel": [request_id, reason]}),
    }
}
