//! Lines of the control protocol: decoder, encoder, line reader, and the
//! server's conversation.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use pyproc_fuzz::{check_encoding, check_line};
use pyproc_protocol::server::ServerEvent;
use pyproc_protocol::{
    ControlError, Frame, LineReader, Operation, ServerConversation, SuccessOutcome, codes,
};
use serde_json::json;

/// Longest line of the reader under test; small, so that input passes it.
const LINE_LIMIT: usize = 4096;

fuzz_target!(|data: &[u8]| {
    let (choices, lines) = data.split_at(data.len().min(4));
    for line in lines.split(|byte| *byte == b'\n') {
        if let Ok(frame) = Frame::decode(line) {
            check_encoding(&frame);
        }
    }
    reader_gives_the_same_lines_in_any_pieces(choices, lines);
    every_request_has_at_most_one_terminal(choices, lines);
});

fn reader_gives_the_same_lines_in_any_pieces(choices: &[u8], bytes: &[u8]) {
    let whole = read(&[bytes]);
    let size = choices.first().map_or(1, |choice| usize::from(*choice) + 1);
    let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
    assert_eq!(read(&pieces), whole);
}

/// The lines, and whether reading ended with a line over the limit.
fn read(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, bool) {
    let mut reader = LineReader::new(LINE_LIMIT);
    let mut lines = Vec::new();
    for piece in pieces {
        let mut piece = *piece;
        loop {
            match reader.next_line(&mut piece) {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => break,
                Err(_) => return (lines, true),
            }
        }
    }
    match reader.finish() {
        Ok(last) => lines.extend(last),
        Err(_) => return (lines, true),
    }
    assert!(lines.iter().all(|line| line.len() <= LINE_LIMIT));
    (lines, false)
}

fn every_request_has_at_most_one_terminal(choices: &[u8], bytes: &[u8]) {
    let late = choices.get(1).is_some_and(|choice| choice % 2 == 1);
    let mut server = ServerConversation::new(Operation::MACHINE, None);
    let mut terminals: BTreeMap<String, u32> = BTreeMap::new();
    let mut active = Vec::new();
    let mut ended = false;
    for line in bytes.split(|byte| *byte == b'\n') {
        let event = server.handle_line(line);
        assert!(!ended || event == Ok(None), "a failed connection went on");
        match event {
            Ok(None) => {}
            Ok(Some(ServerEvent::Hello { line, .. })) => check_written(&line),
            Ok(Some(ServerEvent::Refused {
                request_id, line, ..
            })) => {
                check_written(&line);
                *terminals.entry(request_id.to_string()).or_default() += 1;
            }
            Ok(Some(ServerEvent::Request(request))) => {
                assert!(server.is_active(&request.request_id));
                active.push((request.request_id, request.input));
            }
            Ok(Some(ServerEvent::Cancel { request_id, reason })) => {
                assert!(server.is_active(&request_id) && !reason.is_empty());
            }
            Err(error) => {
                check_written(&error.to_line());
                ended = true;
            }
        }
        if !late {
            finish(&mut server, &mut terminals, &mut active);
        }
    }
    finish(&mut server, &mut terminals, &mut active);
    assert!(terminals.values().all(|count| *count <= 1), "{terminals:?}");
}

/// Ends what is active, half of it with a success that echoes the input.
fn finish(
    server: &mut ServerConversation,
    terminals: &mut BTreeMap<String, u32>,
    active: &mut Vec<(
        pyproc_protocol::RequestId,
        serde_json::Map<String, serde_json::Value>,
    )>,
) {
    for (index, (id, input)) in active.drain(..).enumerate() {
        let error = ControlError::not_sent(codes::CONTROL_TIMEOUT, "late")
            .with_detail("input", json!(input));
        let lines = match index % 2 {
            0 => server.respond(&id, SuccessOutcome::Applied, json!(input), Vec::new()),
            _ => server.fail(&id, error.clone()),
        };
        for line in lines.into_iter().flatten() {
            check_written(&line);
            if let Ok(Frame::Response(_) | Frame::Error(_)) = Frame::decode(line.as_bytes()) {
                *terminals.entry(id.to_string()).or_default() += 1;
            }
        }
        let again = server.fail(&id, error);
        assert!(again.is_err(), "a second terminal for {id}");
    }
}

fn check_written(line: &str) {
    check_line(line);
    Frame::decode(line.as_bytes()).expect("what the server writes is a frame");
}
