//! Properties of decoders and encoders over generated input.

#![expect(clippy::expect_used, reason = "a test reports through panics")]

use proptest::collection::vec;
use proptest::prelude::*;
use pyproc_protocol::bridge::{BridgeToken, Handshake, HostMessage, PageResult};
use pyproc_protocol::catalog::Operation;
use pyproc_protocol::client::{ClientConfig, ClientEvent};
use pyproc_protocol::frame::{
    AttachmentFrame, Cancel, Capabilities, ChunkLimit, Descriptor, ErrorFrame, Event, Hello, Peer,
    Request, Response, Role, StreamEnd,
};
use pyproc_protocol::server::ServerEvent;
use pyproc_protocol::types::{
    AttachmentId, AttachmentKind, Code, EventId, EventName, Mime, OperationName, RequestId,
    Sha256Hex, SpaceId,
};
use pyproc_protocol::{
    AttachmentContent, ClientConversation, ControlError, FailureOutcome, Frame, LineReader,
    ServerConversation, SuccessOutcome, json, limits, text,
};
use serde_json::{Map, Number, Value};

const ID: &str = "[A-Za-z0-9][A-Za-z0-9._:-]{0,20}";
const NAME: &str = "[a-z][a-z0-9]{0,5}(\\.[a-z0-9]{1,5}){1,3}";
const MIME: &str = "[a-z0-9][a-z0-9.+-]{0,8}/[a-z0-9][a-z0-9.+-]{0,8}";

macro_rules! parsed {
    ($pattern:expr, $type:ty) => {
        $pattern.prop_map(|text| <$type>::parse(&text).expect("the pattern makes valid text"))
    };
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|float| Number::from_f64(float).map_or(Value::Null, Value::Number)),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec((any::<String>(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_object() -> impl Strategy<Value = Map<String, Value>> {
    vec((any::<String>(), any_json()), 0..4).prop_map(|members| members.into_iter().collect())
}

fn any_hello() -> impl Strategy<Value = Hello> {
    let role = prop_oneof![
        Just(Role::Client),
        proptest::collection::btree_set(parsed!(NAME, OperationName), 0..4).prop_map(|names| {
            Role::Server {
                operations: names.into_iter().collect(),
            }
        }),
    ];
    let peer = ("[ -~]{1,80}", "[ -~]{1,40}")
        .prop_map(|(name, version)| Peer::new(name, version).expect("short enough"));
    let capabilities =
        (any::<bool>(), any::<bool>(), 1_u32..=262_144).prop_map(|(cancel, events, bytes)| {
            Capabilities {
                cancel,
                events,
                max_chunk: ChunkLimit::new(bytes).expect("in range"),
            }
        });
    (parsed!(ID, RequestId), role, peer, capabilities).prop_map(
        |(request_id, role, peer, capabilities)| Hello {
            request_id,
            role,
            peer,
            capabilities,
        },
    )
}

fn any_descriptor() -> impl Strategy<Value = Descriptor> {
    (
        parsed!(ID, AttachmentId),
        parsed!(NAME, AttachmentKind),
        parsed!(MIME, Mime),
        0..=limits::MAX_SAFE_UNSIGNED,
        any::<[u8; 32]>(),
    )
        .prop_map(
            |(attachment_id, kind, mime_type, byte_length, digest)| Descriptor {
                attachment_id,
                kind,
                mime_type,
                byte_length,
                sha256: Sha256Hex::from_digest(&digest),
            },
        )
}

fn any_descriptors() -> impl Strategy<Value = Vec<Descriptor>> {
    vec(any_descriptor(), 0..3).prop_map(|mut descriptors| {
        for (index, descriptor) in descriptors.iter_mut().enumerate() {
            descriptor.attachment_id = AttachmentId::numbered(index + 1);
        }
        descriptors
    })
}

fn any_error() -> impl Strategy<Value = ControlError> {
    let outcome = prop_oneof![
        Just(FailureOutcome::NotSent),
        Just(FailureOutcome::Rejected),
        Just(FailureOutcome::Applied),
        Just(FailureOutcome::OutcomeUnknown),
    ];
    let code = parsed!("[A-Z][A-Z0-9_]{2,20}", Code);
    (code, outcome, any::<String>(), any::<bool>(), any_object()).prop_map(
        |(code, outcome, message, retryable, details)| {
            ControlError::new(code, outcome, message)
                .with_retryable(retryable)
                .with_details(details)
        },
    )
}

fn any_attachment() -> impl Strategy<Value = AttachmentFrame> {
    (
        parsed!(ID, RequestId),
        parsed!(ID, AttachmentId),
        parsed!(MIME, Mime),
        0..=limits::MAX_SAFE_UNSIGNED,
        vec(any::<u8>(), 0..200),
        any::<bool>(),
    )
        .prop_map(
            |(request_id, attachment_id, mime_type, offset, data, is_last)| {
                let end = is_last.then(|| StreamEnd {
                    byte_length: offset,
                    sha256: Sha256Hex::of(&data),
                });
                AttachmentFrame {
                    request_id,
                    attachment_id,
                    mime_type,
                    offset,
                    data,
                    end,
                }
            },
        )
}

fn any_outcome() -> impl Strategy<Value = SuccessOutcome> {
    prop_oneof![
        Just(SuccessOutcome::Observed),
        Just(SuccessOutcome::Applied)
    ]
}

fn any_frame() -> impl Strategy<Value = Frame> {
    let request = (
        parsed!(ID, RequestId),
        parsed!(NAME, OperationName),
        any_object(),
        proptest::option::of(parsed!(ID, SpaceId)),
    )
        .prop_map(|(request_id, operation, input, space_id)| {
            Frame::Request(Request {
                request_id,
                operation,
                input,
                space_id,
            })
        });
    let cancel = (parsed!(ID, RequestId), proptest::option::of("\\PC{1,100}"))
        .prop_map(|(request_id, reason)| Frame::Cancel(Cancel { request_id, reason }));
    let response = (
        parsed!(ID, RequestId),
        any_outcome(),
        any_json(),
        any_descriptors(),
    )
        .prop_map(|(request_id, outcome, output, attachments)| {
            Frame::Response(Response {
                request_id,
                outcome,
                output,
                attachments,
            })
        });
    let error = (
        proptest::option::of(parsed!(ID, RequestId)),
        any_error(),
        any_descriptors(),
    )
        .prop_map(|(request_id, error, attachments)| {
            Frame::Error(match request_id {
                Some(request_id) => ErrorFrame::Request {
                    request_id,
                    error,
                    attachments,
                },
                None => ErrorFrame::Fatal(error),
            })
        });
    let event = (
        parsed!(ID, EventId),
        proptest::option::of(parsed!(ID, RequestId)),
        parsed!(NAME, EventName),
        any_json(),
    )
        .prop_map(|(event_id, request_id, name, data)| {
            Frame::Event(Event {
                event_id,
                request_id,
                name,
                data,
            })
        });
    prop_oneof![
        any_hello().prop_map(Frame::Hello),
        request,
        cancel,
        response,
        error,
        any_attachment().prop_map(Frame::Attachment),
        event,
    ]
}

/// A valid line with a few bytes changed, so that decoders get past the start.
fn damaged_line() -> impl Strategy<Value = Vec<u8>> {
    (
        any_frame(),
        vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    )
        .prop_map(|(frame, changes)| {
            let mut line = frame.encode().expect("small").into_bytes();
            for (index, byte) in changes {
                let index = index.index(line.len());
                line[index] = byte;
            }
            line
        })
}

fn decode_everything(bytes: &[u8]) {
    let token = BridgeToken::parse(&"t".repeat(43)).expect("a token");
    let _ = Frame::decode(bytes);
    let _ = json::parse(bytes, 8);
    let _ = Handshake::decode(bytes, &token);
    let _ = HostMessage::decode(bytes);
    let _ = PageResult::decode(bytes);
    let mut server = ServerConversation::new(Operation::CATALOG, None);
    let _ = server.handle_line(bytes);
}

proptest! {
    #[test]
    fn frames_survive_the_wire(frame in any_frame()) {
        let line = frame.encode().expect("small");
        prop_assert_eq!(Frame::decode(line.as_bytes()), Ok(frame));
    }

    #[test]
    fn lines_hold_no_line_separator(frame in any_frame()) {
        let line = frame.encode().expect("small");
        let splits = |c: char| c < ' ' || c == '\u{2028}' || c == '\u{2029}';
        prop_assert_eq!(line.find(splits), None);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        decode_everything(&bytes);
    }

    #[test]
    fn json_like_text_never_panics(text in "[\\[\\]{}\",:\\\\uUdDcC0-9a-f ]{0,120}") {
        decode_everything(text.as_bytes());
    }

    #[test]
    fn damaged_frames_never_panic(line in damaged_line()) {
        decode_everything(&line);
    }

    #[test]
    fn whatever_is_accepted_is_encoded_to_an_equal_frame(line in damaged_line()) {
        if let Ok(frame) = Frame::decode(&line) {
            let again = frame.encode().expect("small");
            prop_assert_eq!(Frame::decode(again.as_bytes()), Ok(frame));
        }
    }

    #[test]
    fn pieces_do_not_change_lines(
        bytes in vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
        size in 1_usize..20,
    ) {
        let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut reader = LineReader::new(12);
            let mut lines = Vec::new();
            for piece in pieces {
                let mut input = piece;
                loop {
                    match reader.next_line(&mut input) {
                        Ok(Some(line)) => lines.push(Ok(line)),
                        Ok(None) => break,
                        Err(error) => {
                            lines.push(Err(error));
                            return lines;
                        }
                    }
                }
            }
            lines.extend(reader.finish().transpose());
            lines
        };
        let whole = read(&mut std::iter::once(&bytes[..]));
        prop_assert_eq!(read(&mut bytes.chunks(size)), whole);
    }

    #[test]
    fn tails_are_the_longest_that_fit(text in any::<String>(), units in 0_usize..20) {
        let tail = text::tail(&text, units);
        prop_assert!(text.ends_with(tail));
        prop_assert!(text::utf16_len(tail) <= units);
        if let Some(next) = text[..text.len() - tail.len()].chars().next_back() {
            prop_assert!(text::utf16_len(tail) + next.len_utf16() > units);
        }
    }

    #[test]
    fn attachments_arrive_whole(
        contents in vec(vec(any::<u8>(), 0..50), 0..4),
        bytes in 1_u32..20,
        output in any_json(),
        outcome in any_outcome(),
    ) {
        let mut config = ClientConfig::new(
            RequestId::parse("h:1").expect("an id"),
            Peer::new("test", "1").expect("a peer"),
        );
        config.capabilities.max_chunk = ChunkLimit::new(bytes).expect("in range");
        let (mut client, hello) = ClientConversation::new(config).expect("a hello");
        let mut server = ServerConversation::new(Operation::MACHINE, None);
        let Ok(Some(ServerEvent::Hello { line, .. })) = server.handle_line(hello.as_bytes()) else {
            panic!("no hello")
        };
        client.handle_line(line.as_bytes()).expect("open");
        let request_id = RequestId::parse("r:1").expect("an id");
        let line = client.request(Request {
            request_id: request_id.clone(),
            operation: Operation::MachineReset.into(),
            input: Map::new(),
            space_id: Some(SpaceId::machine()),
        }).expect("a request");
        prop_assert!(matches!(
            server.handle_line(line.as_bytes()), Ok(Some(ServerEvent::Request(_)))
        ));
        let attachments = contents.iter().map(|bytes| AttachmentContent::new(
            AttachmentKind::machine_image(),
            Mime::parse("application/octet-stream").expect("a type"),
            bytes.clone(),
        ).expect("small")).collect();
        let lines = server.respond(&request_id, outcome, output.clone(), attachments);
        let mut finished = None;
        for line in lines.expect("active") {
            prop_assert!(finished.is_none());
            finished = client.handle_line(line.as_bytes()).expect("no violation");
        }
        let Some(ClientEvent::Finished { result, attachments, .. }) = finished else {
            panic!("no terminal")
        };
        prop_assert_eq!(result, Ok((outcome, output)));
        let received: Vec<_> = attachments.into_iter().map(|received| received.bytes).collect();
        prop_assert_eq!(received, contents);
    }
}
