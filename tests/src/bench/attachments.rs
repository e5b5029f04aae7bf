//! How fast a server turns an attachment into lines.

use std::time::{Duration, Instant};

use pyproc_protocol::server::ServerEvent;
use pyproc_protocol::{
    AttachmentContent, AttachmentKind, Mime, Operation, ServerConversation, SuccessOutcome,
};
use serde_json::json;

use super::Effort;
use super::report::{Budget, Measure, Report};
use super::samples::Samples;
use crate::{hello, request};

/// The largest attachment.
const BYTES: usize = 64 << 20;

pub(super) fn measure(effort: Effort, report: &mut Report) {
    let samples: Samples = (0..effort.interrupts).map(|_| once()).collect();
    let rate = BYTES as f64 / 1e6 / (samples.median() / 1e3);
    report.add(
        Measure::of(
            "attachment of 64 MiB into lines",
            "MB/s",
            rate,
            samples.len(),
        )
        .budget(Budget::AtLeast(200.0)),
    );
}

/// From bytes to the last line, digest and encoding included.
fn once() -> Duration {
    let mut server = ServerConversation::new(Operation::MACHINE, None);
    let hello = server.handle_line(hello().to_string().as_bytes());
    assert!(matches!(hello, Ok(Some(ServerEvent::Hello { .. }))));
    let line = request("r:1", "machine.run", json!({"code": "1"})).to_string();
    let Ok(Some(ServerEvent::Request(accepted))) = server.handle_line(line.as_bytes()) else {
        panic!("the request is accepted");
    };
    let bytes = vec![7; BYTES];
    let mime = Mime::parse("application/octet-stream").expect("a type");
    let begun = Instant::now();
    let content = AttachmentContent::new(AttachmentKind::machine_image(), mime, bytes);
    let content = content.expect("it is not too large");
    let lines = server.respond(
        &accepted.request_id,
        SuccessOutcome::Observed,
        json!({}),
        vec![content],
    );
    let written: usize = lines.expect("active").map(|line| line.len()).sum();
    let time = begun.elapsed();
    assert!(written > BYTES / 3 * 4, "{written}");
    time
}
