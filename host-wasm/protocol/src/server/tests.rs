use serde_json::json;

use super::*;
use crate::attachments::AttachmentContent;
use crate::frame::{AttachmentFrame, ErrorFrame, Response};
use crate::outcome::FailureOutcome;
use crate::types::{AttachmentKind, Mime, Sha256Hex};

fn hello(max_chunk: usize) -> String {
    json!({
        "protocol": "pyproc-control", "version": 1, "type": "hello", "requestId": "h:1",
        "role": "client", "peer": {"name": "test", "version": "1"},
        "capabilities": {
            "cancel": true, "events": true,
            "attachments": {"encoding": "base64", "maxChunkBytes": max_chunk},
        },
    })
    .to_string()
}

fn request(id: &str, operation: &str) -> String {
    json!({
        "protocol": "pyproc-control", "version": 1, "type": "request", "requestId": id,
        "operation": operation, "input": {"code": "1"},
    })
    .to_string()
}

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

/// An open connection with the active requests `r:1` and `r:2`.
fn open(max_chunk: usize) -> ServerConversation {
    let native = SpaceId::parse("space:native").unwrap();
    let mut server = ServerConversation::new(Operation::CATALOG, Some(native));
    server.handle_line(hello(max_chunk).as_bytes()).unwrap();
    for name in ["r:1", "r:2"] {
        let event = server
            .handle_line(request(name, "machine.run").as_bytes())
            .unwrap();
        assert!(matches!(event, Some(ServerEvent::Request(_))));
    }
    server
}

fn frames(lines: TerminalLines) -> Vec<Frame> {
    lines
        .map(|line| Frame::decode(line.as_bytes()).unwrap())
        .collect()
}

fn chunks(frames: &[Frame]) -> Vec<&AttachmentFrame> {
    fn chunk(frame: &Frame) -> &AttachmentFrame {
        match frame {
            Frame::Attachment(chunk) => chunk,
            frame => panic!("{} is no chunk", frame.kind()),
        }
    }
    frames.iter().map(chunk).collect()
}

fn png(bytes: &[u8]) -> AttachmentContent {
    let mime = Mime::parse("image/png").unwrap();
    AttachmentContent::new(AttachmentKind::screen_capture(), mime, bytes.to_vec()).unwrap()
}

#[test]
fn the_hello_is_answered_with_the_products_constants() {
    let listed = [
        Operation::MachineReset,
        Operation::MachineRun,
        Operation::MachineReset,
    ];
    let mut server = ServerConversation::new(listed, None);
    let event = server.handle_line(hello(64).as_bytes()).unwrap();
    let Some(ServerEvent::Hello { peer, line }) = event else {
        panic!("{event:?}")
    };
    assert_eq!(peer.name(), "test");
    assert_eq!(
        line,
        "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"hello\",\"requestId\":\"h:1\",\
         \"role\":\"server\",\"peer\":{\"name\":\"pyproc\",\"version\":\"1\"},\"capabilities\":\
         {\"cancel\":true,\"events\":false,\"attachments\":{\"encoding\":\"base64\",\
         \"maxChunkBytes\":262144}},\"operations\":[\"machine.run\",\"machine.reset\"]}"
    );
    assert_eq!(server.phase(), Phase::Open);
    assert_eq!(server.max_chunk().bytes(), 64);
}

#[test]
fn a_request_has_exactly_one_terminal() {
    let mut server = open(64);
    let response = |server: &mut ServerConversation| {
        server.respond(&id("r:1"), SuccessOutcome::Applied, json!({}), Vec::new())
    };
    let lines: Vec<String> = response(&mut server).unwrap().collect();
    assert_eq!(
        lines,
        [
            "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"response\",\
          \"requestId\":\"r:1\",\"outcome\":\"applied\",\"output\":{}}"
        ]
    );
    assert_eq!(response(&mut server).unwrap_err(), NotActive);
    let late = ControlError::applied(codes::PYPROC_INTERNAL, "late");
    assert_eq!(
        server.fail(&id("r:1"), late.clone()).unwrap_err(),
        NotActive
    );
    assert_eq!(
        server.fail(&id("r:9"), late.clone()).unwrap_err(),
        NotActive
    );
    assert_eq!(server.active().collect::<Vec<_>>(), [&id("r:2")]);
    let lines: Vec<String> = server.fail(&id("r:2"), late).unwrap().collect();
    assert_eq!(
        lines,
        [
            "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"error\",\
          \"requestId\":\"r:2\",\"error\":{\"code\":\"PYPROC_INTERNAL\",\"message\":\"late\",\
          \"retryable\":false,\"outcome\":\"applied\"}}"
        ]
    );
    assert!(!server.is_active(&id("r:2")));
}

#[test]
fn an_accepted_request_carries_its_input() {
    let mut server = open(64);
    let event = server
        .handle_line(request("r:3", "automation.observe").as_bytes())
        .unwrap();
    let Some(ServerEvent::Request(accepted)) = event else {
        panic!("{event:?}")
    };
    assert_eq!(accepted.request_id, "r:3");
    assert_eq!(accepted.operation, Operation::AutomationObserve);
    assert_eq!(Value::Object(accepted.input), json!({"code": "1"}));
}

#[test]
fn a_refused_request_is_over() {
    let mut server = open(64);
    let event = server
        .handle_line(request("r:3", "nope.op").as_bytes())
        .unwrap();
    let Some(ServerEvent::Refused {
        request_id,
        error,
        line,
    }) = event
    else {
        panic!("{event:?}")
    };
    assert_eq!(error.outcome(), FailureOutcome::NotSent);
    assert!(!error.retryable());
    let Ok(Frame::Error(ErrorFrame::Request {
        request_id: written,
        error: sent,
        ..
    })) = Frame::decode(line.as_bytes())
    else {
        panic!("{line}")
    };
    assert_eq!((written, sent), (request_id, error.clone()));
    assert!(!server.is_active(&id("r:3")));
    assert_eq!(server.fail(&id("r:3"), error).unwrap_err(), NotActive);
}

#[test]
fn attachments_are_sent_in_chunks_before_the_terminal() {
    let mut server = open(4);
    let attachments = vec![png(b"0123456789"), png(b""), png(b"abcd")];
    let output = json!({"ok": true});
    let lines = server
        .respond(
            &id("r:1"),
            SuccessOutcome::Observed,
            output.clone(),
            attachments,
        )
        .unwrap();
    let mut frames = frames(lines);
    let Some(Frame::Response(Response {
        request_id,
        outcome,
        output: sent,
        attachments,
    })) = frames.pop()
    else {
        panic!("the terminal is last")
    };
    assert_eq!(
        (request_id, outcome, sent),
        (id("r:1"), SuccessOutcome::Observed, output)
    );
    let seen: Vec<_> = chunks(&frames)
        .into_iter()
        .map(|chunk| {
            let id = chunk.attachment_id.as_str();
            (
                id,
                chunk.offset,
                chunk.data.as_slice(),
                chunk.end.as_ref().map(|e| e.byte_length),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("attachment:1", 0, &b"0123"[..], None),
            ("attachment:1", 4, b"4567", None),
            ("attachment:1", 8, b"89", Some(10)),
            ("attachment:2", 0, b"", Some(0)),
            ("attachment:3", 0, b"abcd", Some(4)),
        ]
    );
    for (position, chunk) in [(0, 2), (1, 3), (2, 4)] {
        let end = chunks(&frames)[chunk].end.clone().unwrap();
        assert_eq!(attachments[position].sha256, end.sha256);
        assert_eq!(attachments[position].byte_length, end.byte_length);
        assert_eq!(
            attachments[position].mime_type,
            chunks(&frames)[chunk].mime_type
        );
    }
    assert_eq!(attachments[0].sha256, Sha256Hex::of(b"0123456789"));
}

#[test]
fn the_largest_chunk_fits_a_frame() {
    let mut server = open(262_144);
    let content = vec![7_u8; 262_145];
    let lines = server.respond(
        &id("r:1"),
        SuccessOutcome::Observed,
        Value::Null,
        vec![png(&content)],
    );
    let frames = frames(lines.unwrap());
    let sizes: Vec<_> = chunks(&frames[..2])
        .into_iter()
        .map(|chunk| chunk.data.len())
        .collect();
    assert_eq!(sizes, [262_144, 1]);
}

#[test]
fn a_result_that_cannot_be_delivered_still_ends_the_request() {
    let mut server = open(64);
    let large = json!({"stdout": "x".repeat(2_000_000)});
    let mut lines = server
        .respond(&id("r:1"), SuccessOutcome::Applied, large, vec![png(b"x")])
        .unwrap();
    let Ok(Frame::Error(ErrorFrame::Request { error, .. })) =
        Frame::decode(lines.next().unwrap().as_bytes())
    else {
        panic!("an error is wanted")
    };
    assert_eq!(*error.code(), codes::CONTROL_FRAME_TOO_LARGE);
    assert_eq!(error.outcome(), FailureOutcome::Applied);
    assert_eq!(lines.next(), None);
    assert!(!server.is_active(&id("r:1")));
}

#[test]
fn closing_stops_reading_and_lets_active_requests_end() {
    let mut server = open(64);
    server.close();
    assert_eq!(server.handle_line(b"nonsense"), Ok(None));
    assert_eq!(
        server.handle_line(request("r:3", "machine.run").as_bytes()),
        Ok(None)
    );
    assert_eq!(server.active().count(), 2);
    let error = ControlError::not_sent(codes::CONTROL_CANCELLED, "shutdown");
    assert_eq!(server.fail(&id("r:1"), error).unwrap().count(), 1);
    server.close();
    assert_eq!(server.phase(), Phase::Closing);
}

#[test]
fn nothing_is_written_after_a_fatal_error() {
    let mut server = open(64);
    let error = server
        .handle_line(request("r:1", "machine.run").as_bytes())
        .unwrap_err();
    assert_eq!(
        error.to_line(),
        "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"error\",\"fatal\":true,\
         \"error\":{\"code\":\"CONTROL_REQUEST_DUPLICATE\",\"message\":\"the request id r:1 was \
         used before\",\"retryable\":false,\"outcome\":\"notSent\"}}"
    );
    assert_eq!(server.phase(), Phase::Failed);
    assert_eq!(
        server
            .respond(&id("r:1"), SuccessOutcome::Applied, json!({}), Vec::new())
            .unwrap_err(),
        NotActive
    );
    assert_eq!(
        server.fail_connection(&FatalError::frame_too_large(5)),
        None
    );
    server.close();
    assert_eq!(server.phase(), Phase::Failed);
}

#[test]
fn an_outside_failure_ends_the_connection_once() {
    let mut server = open(64);
    let line = server
        .fail_connection(&FatalError::frame_too_large(1_048_576))
        .unwrap();
    let Ok(Frame::Error(ErrorFrame::Fatal(error))) = Frame::decode(line.as_bytes()) else {
        panic!("{line}")
    };
    assert_eq!(*error.code(), codes::CONTROL_FRAME_TOO_LARGE);
    assert!(error.message().contains("1048576"));
    assert_eq!(server.active().count(), 0);
    assert_eq!(
        server.fail_connection(&FatalError::connection_failed("again")),
        None
    );
}
