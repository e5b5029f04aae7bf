use serde_json::{Map, json};

use super::*;
use crate::frame::{AttachmentFrame, ChunkLimit, Response, StreamEnd};
use crate::outcome::FailureOutcome;
use crate::types::{AttachmentId, AttachmentKind, Code, Mime, Sha256Hex, SpaceId};

fn id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

fn config() -> ClientConfig {
    let mut config = ClientConfig::new(id("h:1"), Peer::new("test", "1").unwrap());
    config.capabilities.max_chunk = ChunkLimit::new(4).unwrap();
    config
}

fn server_hello(hello_id: &str, events: bool) -> Frame {
    let operations = vec![OperationName::parse("machine.run").unwrap()];
    Frame::Hello(Hello {
        request_id: id(hello_id),
        role: Role::Server { operations },
        peer: Peer::product(),
        capabilities: Capabilities {
            events,
            ..Capabilities::PRODUCT
        },
    })
}

fn request(name: &str) -> Request {
    Request {
        request_id: id(name),
        operation: OperationName::parse("machine.run").unwrap(),
        input: Map::from_iter([("code".to_owned(), json!("1"))]),
        space_id: None,
    }
}

fn say(
    client: &mut ClientConversation,
    frame: &Frame,
) -> Result<Option<ClientEvent>, ConnectionFailure> {
    client.handle_line(frame.encode().unwrap().as_bytes())
}

/// An open connection on which `r:1` and `r:2` are pending.
fn open_with(config: ClientConfig, events: bool) -> ClientConversation {
    let (mut client, _) = ClientConversation::new(config).unwrap();
    say(&mut client, &server_hello("h:1", events)).unwrap();
    for name in ["r:1", "r:2"] {
        client.request(request(name)).unwrap();
    }
    client
}

fn open() -> ClientConversation {
    open_with(config(), false)
}

fn response(name: &str, attachments: Vec<Descriptor>) -> Frame {
    Frame::Response(Response {
        request_id: id(name),
        outcome: SuccessOutcome::Applied,
        output: json!({"value": "2"}),
        attachments,
    })
}

fn mime(text: &str) -> Mime {
    Mime::parse(text).unwrap()
}

fn chunk(stream: usize, offset: u64, data: &[u8]) -> AttachmentFrame {
    AttachmentFrame {
        request_id: id("r:1"),
        attachment_id: AttachmentId::numbered(stream),
        mime_type: mime("image/png"),
        offset,
        data: data.to_vec(),
        end: None,
    }
}

fn last(stream: usize, offset: u64, data: &[u8], whole: &[u8]) -> AttachmentFrame {
    let end = StreamEnd {
        byte_length: whole.len() as u64,
        sha256: Sha256Hex::of(whole),
    };
    AttachmentFrame {
        end: Some(end),
        ..chunk(stream, offset, data)
    }
}

fn descriptor(stream: usize, whole: &[u8]) -> Descriptor {
    Descriptor {
        attachment_id: AttachmentId::numbered(stream),
        kind: AttachmentKind::screen_capture(),
        mime_type: mime("image/png"),
        byte_length: whole.len() as u64,
        sha256: Sha256Hex::of(whole),
    }
}

/// Says all frames but the last one without trouble; the last one must break
/// the connection with `code`.
fn assert_violation(mut client: ClientConversation, frames: &[Frame], code: &Code) {
    let (breaking, harmless) = frames.split_last().unwrap();
    for frame in harmless {
        say(&mut client, frame).unwrap();
    }
    let failure = say(&mut client, breaking).unwrap_err();
    let Cause::Violation(error) = &failure.cause else {
        panic!("{failure}")
    };
    assert_eq!(error.code(), code, "{failure}");
    let lost = failure.request_error();
    assert_eq!(*lost.code(), codes::CONTROL_CONNECTION_LOST);
    assert_eq!(lost.outcome(), FailureOutcome::OutcomeUnknown);
    assert!(!lost.retryable());
    assert!(failure.pending.contains(&id("r:2")));
    assert!(!client.is_open());
    assert_eq!(client.handle_line(b"anything"), Ok(None));
}

#[test]
fn startup_sends_hello_and_takes_the_matching_server_hello() {
    let (mut client, line) = ClientConversation::new(config()).unwrap();
    assert_eq!(
        line,
        "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"hello\",\"requestId\":\"h:1\",\
         \"role\":\"client\",\"peer\":{\"name\":\"test\",\"version\":\"1\"},\"capabilities\":\
         {\"cancel\":true,\"events\":false,\"attachments\":{\"encoding\":\"base64\",\
         \"maxChunkBytes\":4}}}"
    );
    assert!(!client.is_open());
    let early = client.request(request("r:1")).unwrap_err();
    assert_eq!(*early.code(), codes::CONTROL_HELLO_REQUIRED);
    assert_eq!(early.outcome(), FailureOutcome::NotSent);
    let Ok(Some(ClientEvent::Opened {
        peer, operations, ..
    })) = say(&mut client, &server_hello("h:1", false))
    else {
        panic!("the connection must open")
    };
    assert_eq!(peer.name(), "pyproc");
    assert_eq!(operations[0].as_str(), "machine.run");
    assert!(client.request(request("r:1")).is_ok());
}

#[test]
fn anything_but_the_matching_server_hello_fails_startup() {
    let (fresh, client_hello) = ClientConversation::new(config()).unwrap();
    drop(fresh);
    let lines = [
        server_hello("h:2", false).encode().unwrap(),
        client_hello,
        response("r:1", Vec::new()).encode().unwrap(),
        "nonsense".to_owned(),
    ];
    for line in lines {
        let (mut client, _) = ClientConversation::new(config()).unwrap();
        let failure = client.handle_line(line.as_bytes()).unwrap_err();
        assert!(matches!(failure.cause, Cause::Violation(_)), "{line}");
        assert!(failure.pending.is_empty());
    }
}

#[test]
fn a_fatal_error_ends_the_connection_at_any_time() {
    let fatal = FatalError::new(codes::CONTROL_VERSION_UNSUPPORTED, "no");
    let (client, _) = ClientConversation::new(config()).unwrap();
    for (mut client, pending) in [(client, vec![]), (open(), vec![id("r:1"), id("r:2")])] {
        let failure = client.handle_line(fatal.to_line().as_bytes()).unwrap_err();
        assert_eq!(failure.cause, Cause::Fatal(fatal.to_control_error()));
        assert_eq!(failure.pending, pending);
    }
}

#[test]
fn a_request_is_one_line_and_ends_once() {
    let mut client = open();
    let fenced = Request {
        space_id: Some(SpaceId::machine()),
        ..request("r:3")
    };
    assert_eq!(
        client.request(fenced).unwrap(),
        "{\"protocol\":\"pyproc-control\",\"version\":1,\"type\":\"request\",\
         \"requestId\":\"r:3\",\"operation\":\"machine.run\",\"input\":{\"code\":\"1\"},\
         \"spaceId\":\"machine:primary\"}"
    );
    assert!(client.is_pending(&id("r:3")));
    let event = say(&mut client, &response("r:3", Vec::new())).unwrap();
    assert_eq!(
        event,
        Some(ClientEvent::Finished {
            request_id: id("r:3"),
            result: Ok((SuccessOutcome::Applied, json!({"value": "2"}))),
            attachments: Vec::new(),
        })
    );
    assert!(!client.is_pending(&id("r:3")));
}

#[test]
fn an_error_terminal_ends_its_request_only() {
    let mut client = open();
    let error = ControlError::not_sent(codes::CONTROL_TIMEOUT, "late").with_retryable(true);
    let frame = Frame::Error(ErrorFrame::Request {
        request_id: id("r:1"),
        error: error.clone(),
        attachments: Vec::new(),
    });
    let Ok(Some(ClientEvent::Finished { result, .. })) = say(&mut client, &frame) else {
        panic!("the request must end")
    };
    assert_eq!(result, Err(error));
    assert!(client.is_pending(&id("r:2")));
}

#[test]
fn a_used_id_is_refused_before_anything_is_written() {
    let mut client = open();
    say(&mut client, &response("r:1", Vec::new())).unwrap();
    for used in ["r:1", "r:2"] {
        let error = client.request(request(used)).unwrap_err();
        assert_eq!(*error.code(), codes::CONTROL_REQUEST_DUPLICATE);
        assert_eq!(error.outcome(), FailureOutcome::NotSent);
    }
    assert!(client.request(request("h:1")).is_ok());
}

#[test]
fn an_id_is_burnt_by_a_frame_that_cannot_be_encoded() {
    let mut client = open();
    let mut large = request("r:3");
    large
        .input
        .insert("code".to_owned(), json!("x".repeat(1_048_576)));
    let mut deep = request("r:4");
    deep.input.insert(
        "a".to_owned(),
        (0..64).fold(json!(0), |inner, _| json!([inner])),
    );
    for (request_of, code) in [
        (large, codes::CONTROL_FRAME_TOO_LARGE),
        (deep, codes::CONTROL_INVALID_FRAME),
    ] {
        let used = request_of.request_id.clone();
        let error = client.request(request_of).unwrap_err();
        assert_eq!(
            (error.code(), error.outcome()),
            (&code, FailureOutcome::NotSent)
        );
        assert!(!client.is_pending(&used));
        let again = client.request(request(used.as_str())).unwrap_err();
        assert_eq!(*again.code(), codes::CONTROL_REQUEST_DUPLICATE);
    }
    assert!(client.is_open());
    assert_violation(
        client,
        &[response("r:3", Vec::new())],
        &codes::CONTROL_REQUEST_UNKNOWN,
    );
}

#[test]
fn a_cancel_is_not_a_terminal() {
    let mut client = open();
    let line = client.cancel(&id("r:1"), Some("enough")).unwrap().unwrap();
    assert!(
        line.ends_with("\"requestId\":\"r:1\",\"reason\":\"enough\"}"),
        "{line}"
    );
    assert!(client.is_pending(&id("r:1")));
    assert!(client.cancel(&id("r:1"), None).unwrap().is_some());
    assert_eq!(client.cancel(&id("r:9"), None), Ok(None));
    let long = "\u{1f600}".repeat(101);
    let error = client.cancel(&id("r:1"), Some(&long)).unwrap_err();
    assert_eq!(*error.code(), codes::CONTROL_INVALID_FRAME);
    say(&mut client, &response("r:1", Vec::new())).unwrap();
    assert_eq!(client.cancel(&id("r:1"), None), Ok(None));
}

#[test]
fn attachments_are_held_back_until_the_terminal() {
    let mut client = open();
    for frame in [
        chunk(2, 0, b"ab"),
        last(1, 0, b"xyz", b"xyz"),
        chunk(2, 2, b""),
        last(2, 2, b"cdef", b"abcdef"),
        last(3, 0, b"", b""),
    ] {
        assert_eq!(say(&mut client, &Frame::Attachment(frame)), Ok(None));
    }
    let declared = vec![
        descriptor(1, b"xyz"),
        descriptor(2, b"abcdef"),
        descriptor(3, b""),
    ];
    let Ok(Some(ClientEvent::Finished { attachments, .. })) =
        say(&mut client, &response("r:1", declared))
    else {
        panic!("the request must end")
    };
    let received: Vec<_> = attachments.iter().map(|a| a.bytes.as_slice()).collect();
    assert_eq!(received, [&b"xyz"[..], b"abcdef", b""]);
    assert_eq!(attachments[1].kind, AttachmentKind::screen_capture());
}

#[test]
fn streams_that_break_the_rules_end_the_connection() {
    let other_type = AttachmentFrame {
        mime_type: mime("image/jpeg"),
        ..chunk(1, 2, b"c")
    };
    let wrong_length = AttachmentFrame {
        end: Some(StreamEnd {
            byte_length: 3,
            sha256: Sha256Hex::of(b"ab"),
        }),
        ..chunk(1, 0, b"ab")
    };
    let cases: Vec<Vec<AttachmentFrame>> = vec![
        vec![chunk(1, 1, b"ab")],
        vec![chunk(1, 0, b"ab"), chunk(1, 3, b"c")],
        vec![chunk(1, 0, b"ab"), chunk(1, 1, b"c")],
        vec![chunk(1, 0, b"ab"), other_type],
        vec![chunk(1, 0, b"abcde")],
        vec![last(1, 0, b"ab", b"ab"), chunk(1, 2, b"c")],
        vec![last(1, 0, b"ab", b"ab"), last(1, 0, b"ab", b"ab")],
        vec![last(1, 0, b"ab", b"ax")],
        vec![wrong_length],
    ];
    for frames in cases {
        let frames: Vec<Frame> = frames.into_iter().map(Frame::Attachment).collect();
        assert_violation(open(), &frames, &codes::CONTROL_ATTACHMENT_INVALID);
    }
}

#[test]
fn terminals_must_declare_exactly_the_complete_streams() {
    let whole = Frame::Attachment(last(1, 0, b"ab", b"ab"));
    let unfinished = Frame::Attachment(chunk(1, 0, b"ab"));
    let right = || descriptor(1, b"ab");
    let cases = [
        vec![whole.clone(), response("r:1", vec![])],
        vec![
            whole.clone(),
            response("r:1", vec![right(), descriptor(2, b"")]),
        ],
        vec![response("r:1", vec![right()])],
        vec![unfinished, response("r:1", vec![right()])],
        vec![
            whole.clone(),
            response(
                "r:1",
                vec![Descriptor {
                    mime_type: mime("image/jpeg"),
                    ..right()
                }],
            ),
        ],
        vec![
            whole.clone(),
            response(
                "r:1",
                vec![Descriptor {
                    byte_length: 3,
                    ..right()
                }],
            ),
        ],
        vec![
            whole.clone(),
            response(
                "r:1",
                vec![Descriptor {
                    sha256: Sha256Hex::of(b""),
                    ..right()
                }],
            ),
        ],
        vec![
            whole,
            Frame::Error(ErrorFrame::Request {
                request_id: id("r:1"),
                error: ControlError::applied(codes::PYPROC_INTERNAL, "boom"),
                attachments: vec![],
            }),
        ],
    ];
    for frames in cases {
        assert_violation(open(), &frames, &codes::CONTROL_ATTACHMENT_INVALID);
    }
}

#[test]
fn attachments_over_the_buffer_end_the_connection() {
    let limited = || {
        open_with(
            ClientConfig {
                max_buffered: 6,
                ..config()
            },
            false,
        )
    };
    let frames = [chunk(1, 0, b"abcd"), chunk(2, 0, b"abc")].map(Frame::Attachment);
    assert_violation(limited(), &frames, &codes::CONTROL_ATTACHMENT_INVALID);
    let mut client = limited();
    for name in ["r:1", "r:2"] {
        let frame = AttachmentFrame {
            request_id: id(name),
            ..last(1, 0, b"abcd", b"abcd")
        };
        say(&mut client, &Frame::Attachment(frame)).unwrap();
        say(&mut client, &response(name, vec![descriptor(1, b"abcd")])).unwrap();
    }
}

#[test]
fn frames_for_inactive_requests_end_the_connection() {
    let stray = AttachmentFrame {
        request_id: id("r:9"),
        ..chunk(1, 0, b"a")
    };
    let unknown = [Frame::Attachment(stray), response("r:9", Vec::new())];
    for frame in unknown {
        assert_violation(open(), &[frame], &codes::CONTROL_REQUEST_UNKNOWN);
    }
    let late = Frame::Attachment(chunk(1, 0, b"a"));
    let frames = [response("r:1", Vec::new()), late];
    assert_violation(open(), &frames, &codes::CONTROL_REQUEST_UNKNOWN);
    let frames = [response("r:1", Vec::new()), response("r:1", Vec::new())];
    assert_violation(open(), &frames, &codes::CONTROL_TERMINAL_DUPLICATE);
}

fn event(name: &str, about: Option<&str>) -> Frame {
    Frame::Event(Event {
        event_id: EventId::parse(name).unwrap(),
        request_id: about.map(id),
        name: crate::types::EventName::parse("space.changed").unwrap(),
        data: json!(1),
    })
}

#[test]
fn events_are_taken_only_from_servers_that_announced_them() {
    assert_violation(
        open(),
        &[event("e:1", None)],
        &codes::CONTROL_FRAME_DIRECTION,
    );
    let mut client = open_with(config(), true);
    for frame in [event("e:1", None), event("e:2", Some("r:1"))] {
        assert!(matches!(
            say(&mut client, &frame),
            Ok(Some(ClientEvent::Event(_)))
        ));
    }
    assert_violation(
        client,
        &[event("e:1", None)],
        &codes::CONTROL_EVENT_DUPLICATE,
    );
    let stray = [event("e:1", Some("r:9"))];
    assert_violation(
        open_with(config(), true),
        &stray,
        &codes::CONTROL_REQUEST_UNKNOWN,
    );
}

#[test]
fn client_frames_from_the_server_end_the_connection() {
    let frames = [
        Frame::Request(request("r:7")),
        Frame::Cancel(Cancel {
            request_id: id("r:1"),
            reason: None,
        }),
        server_hello("h:1", false),
    ];
    for frame in frames {
        assert_violation(open(), &[frame], &codes::CONTROL_FRAME_DIRECTION);
    }
}

#[test]
fn a_malformed_line_ends_the_connection_with_its_code() {
    let mut client = open();
    let failure = client
        .handle_line(b"{\"protocol\":\"pyproc-control\",\"version\":2}")
        .unwrap_err();
    let Cause::Violation(error) = failure.cause else {
        panic!("{failure}")
    };
    assert_eq!(*error.code(), codes::CONTROL_VERSION_UNSUPPORTED);
}

#[test]
fn a_lost_connection_fails_what_is_pending_and_refuses_the_rest() {
    let mut client = open();
    say(&mut client, &response("r:1", Vec::new())).unwrap();
    let failure = client.connection_lost("end of file");
    assert_eq!(failure.pending, [id("r:2")]);
    let lost = failure.request_error();
    assert_eq!(*lost.code(), codes::CONTROL_CONNECTION_LOST);
    assert_eq!(lost.outcome(), FailureOutcome::OutcomeUnknown);
    assert!(lost.message().contains("end of file"));
    let refused = client.request(request("r:3")).unwrap_err();
    assert_eq!(*refused.code(), codes::CONTROL_CONNECTION_LOST);
    assert_eq!(refused.outcome(), FailureOutcome::NotSent);
    assert!(!client.is_pending(&id("r:2")));
    assert_eq!(client.cancel(&id("r:2"), None), Ok(None));
    assert!(client.connection_lost("again").pending.is_empty());
    assert!(
        client
            .violated(FatalError::frame_too_large(5))
            .pending
            .is_empty()
    );
}
