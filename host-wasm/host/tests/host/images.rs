//! Durable images between the page, the shell and the client (machine 18).

use pyproc_host::{ImageOpened, Input, Output, Purpose};
use serde_json::{Value, json};

use crate::rig::Rig;

const ROOM: u64 = (64 << 20) - 64;

impl Rig {
    /// The image that the shell is to open: its ticket.
    fn opening(&mut self, path: &str, trusted: bool) -> u64 {
        assert_eq!(self.images.len(), 1, "{:?}", self.images);
        match self.images.remove(0) {
            Output::ImageOpen {
                ticket,
                path: named,
                trusted: marked,
            } => {
                assert_eq!((named.as_str(), marked), (path, trusted));
                ticket
            }
            other => panic!("{other:?}"),
        }
    }

    /// The page's answer to the export that it must be working on.
    fn exports(&mut self, limit: u64, byte_length: u64) {
        let command = self.command();
        assert_eq!(command["operation"], "machine.image.export");
        assert_eq!(command["input"], json!({"limit": limit}));
        self.answer(&command, json!({"byteLength": byte_length}));
    }

    fn import(&mut self, id: &str, input: Value) {
        self.request(id, "machine.image.import", input);
    }
}

#[test]
fn an_export_ends_with_the_image_as_its_attachment() {
    let mut rig = Rig::ready();
    rig.request("x", "machine.image.export", json!({}));
    rig.exports(ROOM, 3);
    let ticket = rig.receiving(3, Purpose::Export);
    assert!(rig.agent.is_empty());
    // Nothing goes to the page until the image is there.
    rig.run("next");
    assert!(rig.page.is_empty());
    rig.tell(Input::Received(ticket, Ok(vec![7; 5])));
    let said = std::mem::take(&mut rig.agent);
    let chunks: Vec<_> = (said.iter())
        .filter(|frame| frame["type"] == "attachment")
        .collect();
    assert_eq!(chunks.len(), 1);
    assert_eq!(chunks[0]["dataBase64"], "BwcHBwc=");
    let response = said
        .iter()
        .find(|frame| frame["type"] == "response")
        .unwrap();
    let descriptor = &response["attachments"][0];
    assert_eq!(descriptor["kind"], "machine.image");
    assert_eq!(response["output"]["byteLength"], 5);
    assert_eq!(response["output"]["sha256"], descriptor["sha256"]);
    assert_eq!(rig.command()["input"], json!({"code": "next"}));
}

#[test]
fn an_image_that_the_shell_cannot_deliver_fails_its_request_only() {
    let mut rig = Rig::ready();
    rig.request("x", "machine.image.export", json!({}));
    rig.exports(ROOM, 3);
    let ticket = rig.receiving(3, Purpose::Export);
    rig.tell(Input::Received(ticket, Err("no space".to_owned())));
    assert_eq!(rig.terminals(), ["x PYPROC_INTERNAL rejected false"]);
    rig.run("next");
    let command = rig.command();
    rig.answer(&command, json!({"stdout": ""}));
    assert_eq!(rig.terminals(), [r#"next ok {"stdout":""}"#]);
    assert!(rig.closed.is_empty());
}

#[test]
fn a_page_that_announces_more_than_it_may_send_is_lost() {
    for length in [json!(0), json!(ROOM + 1), json!("3"), json!(null)] {
        let mut rig = Rig::ready();
        rig.request("x", "machine.image.export", json!({}));
        let command = rig.command();
        rig.answer(&command, json!({"byteLength": length}));
        assert!(rig.images.is_empty());
        assert_eq!(rig.closed.len(), 1);
        assert_eq!(
            rig.terminals(),
            ["x CONTROL_PAGE_REPLACED outcomeUnknown false"]
        );
    }
}

#[test]
fn a_page_that_is_lost_while_it_sends_leaves_the_outcome_unknown() {
    let mut rig = Rig::ready();
    rig.request("x", "machine.image.export", json!({}));
    rig.exports(ROOM, 3);
    let ticket = rig.receiving(3, Purpose::Export);
    rig.tell(Input::PageClosed(1));
    let lost = ["x CONTROL_PAGE_REPLACED outcomeUnknown false"];
    assert_eq!(rig.terminals(), lost);
    rig.tell(Input::Received(ticket, Ok(vec![1, 2, 3])));
    assert!(rig.agent.is_empty());
}

#[test]
fn an_export_that_was_cancelled_holds_the_machine_until_its_image_is_here() {
    let mut rig = Rig::ready();
    rig.request("x", "machine.image.export", json!({}));
    rig.exports(ROOM, 3);
    let ticket = rig.receiving(3, Purpose::Export);
    rig.cancel("x", "enough");
    assert_eq!(
        rig.terminals(),
        ["x CONTROL_CANCELLED outcomeUnknown false"]
    );
    rig.page.clear();
    rig.run("next");
    assert!(rig.page.is_empty());
    rig.tell(Input::Received(ticket, Ok(vec![1, 2, 3])));
    assert_eq!(rig.command()["input"], json!({"code": "next"}));
    assert!(rig.agent.is_empty());
}

#[test]
fn an_import_reaches_the_page_when_its_file_is_good() {
    let mut rig = Rig::ready();
    rig.import("i", json!({"path": "/images/a", "trusted": true}));
    let ticket = rig.opening("/images/a", true);
    assert!(rig.page.is_empty());
    let staged = ImageOpened::Staged("/durable/1".to_owned());
    rig.tell(Input::ImageOpened(ticket, staged.clone()));
    let command = rig.command();
    assert_eq!(command["operation"], "machine.image.import");
    // The page learns where the image is, not where it was.
    assert_eq!(command["input"], json!({"address": "/durable/1"}));
    rig.answer(&command, json!({"index": 1}));
    assert_eq!(rig.terminals(), [r#"i ok {"index":1}"#]);
    rig.tell(Input::ImageOpened(ticket, staged));
    assert!(rig.page.is_empty() && rig.agent.is_empty());
}

#[test]
fn a_file_that_may_not_be_imported_never_reaches_the_page() {
    let mut rig = Rig::ready();
    for (opened, verdict) in [
        (
            ImageOpened::Refused("not absolute".to_owned()),
            "i PYPROC_INPUT_INVALID notSent false",
        ),
        (
            ImageOpened::Invalid("no seal".to_owned()),
            "i MACHINE_IMAGE_INVALID rejected false",
        ),
    ] {
        let mut again = Rig::ready();
        again.import("i", json!({"path": "/images/a"}));
        let ticket = again.opening("/images/a", false);
        again.run("next");
        again.tell(Input::ImageOpened(ticket, opened));
        assert_eq!(again.terminals(), [verdict]);
        assert_eq!(again.command()["input"], json!({"code": "next"}));
    }
    for (id, input) in [
        ("none", json!({})),
        ("number", json!({"path": 1})),
        ("text", json!({"path": "/a", "trusted": "yes"})),
    ] {
        rig.import(id, input);
        let refused = format!("{id} PYPROC_INPUT_INVALID notSent false");
        assert_eq!(rig.terminals(), [refused]);
        assert!(rig.images.is_empty());
    }
}

#[test]
fn an_import_that_is_cancelled_before_its_file_is_open_was_never_sent() {
    let mut rig = Rig::ready();
    rig.import("i", json!({"path": "/images/a"}));
    let ticket = rig.opening("/images/a", false);
    rig.run("next");
    rig.cancel("i", "enough");
    assert_eq!(rig.terminals(), ["i CONTROL_CANCELLED notSent false"]);
    let next = rig.command();
    assert_eq!(next["input"], json!({"code": "next"}));
    rig.tell(Input::ImageOpened(
        ticket,
        ImageOpened::Staged("/durable/1".to_owned()),
    ));
    assert!(rig.page.is_empty());
    rig.answer(&next, json!({"stdout": ""}));
    assert_eq!(rig.terminals(), [r#"next ok {"stdout":""}"#]);
}

#[test]
fn a_file_that_the_machine_cannot_start_from_is_the_cause_of_the_failed_boot() {
    let mut rig = Rig::new();
    rig.run("a");
    rig.tell(Input::LoadFailed("no such file".to_owned()));
    let said = rig.agent.remove(0);
    assert_eq!(said["error"]["code"], "PYPROC_BOOT_FAILED");
    assert_eq!(said["error"]["outcome"], "notSent");
    let cause = &said["error"]["details"]["cause"];
    assert_eq!(cause, "MACHINE_IMAGE_INVALID");
}

#[test]
fn an_orderly_end_saves_after_what_is_left_and_then_exits() {
    let mut rig = Rig::with_save_on_exit(true);
    rig.page_ready(1, "epoch-1");
    rig.run("a");
    let run = rig.command();
    rig.tell(Input::AgentEof);
    assert_eq!(
        rig.terminals(),
        ["a CONTROL_CANCELLED outcomeUnknown false"]
    );
    assert_eq!(rig.page.remove(0).1["type"], "interrupt");
    assert!(rig.page.is_empty());
    rig.answer(&run, json!({"stdout": ""}));
    rig.exports(1 << 30, 900 << 20);
    let ticket = rig.receiving(900 << 20, Purpose::Save);
    assert_eq!(rig.exit, None);
    rig.tell(Input::Received(ticket, Ok(Vec::new())));
    assert_eq!(rig.exit, Some(0));
    assert_eq!(rig.diagnostics, Vec::<String>::new());
    assert!(rig.agent.is_empty());
}

#[test]
fn a_save_that_fails_or_takes_too_long_is_told_and_ends_too() {
    let told = |rig: &Rig, code: u8, reason: &str| {
        assert_eq!(rig.exit, Some(code), "{reason}");
        assert_eq!(rig.diagnostics.len(), 1);
        let text = &rig.diagnostics[0];
        assert!(
            text.contains("was not saved") && text.contains(reason),
            "{text}"
        );
    };
    let ending = || {
        let mut rig = Rig::with_save_on_exit(true);
        rig.page_ready(1, "epoch-1");
        rig.tell(Input::AgentEof);
        rig
    };
    let mut refused = ending();
    let command = refused.command();
    let error = json!({
        "code": "MACHINE_CHECKPOINT_REFUSED", "message": "close the pipes", "outcome": "rejected",
        "retryable": true,
    });
    refused.refuse(&command, error);
    told(&refused, 1, "close the pipes");

    let mut unwritable = ending();
    unwritable.exports(1 << 30, 3);
    let ticket = unwritable.receiving(3, Purpose::Save);
    unwritable.tell(Input::Received(ticket, Err("no space".to_owned())));
    told(&unwritable, 1, "no space");

    let mut late = ending();
    late.wait(6_999);
    assert_eq!(late.exit, None);
    late.wait(7_000);
    told(&late, 1, "time");

    let mut lost = ending();
    lost.tell(Input::PageClosed(1));
    told(&lost, 1, "lost");

    let mut early = Rig::with_save_on_exit(true);
    early.tell(Input::AgentEof);
    told(&early, 0, "had not started");
}

#[test]
fn a_broken_conversation_saves_nothing() {
    let mut rig = Rig::with_save_on_exit(true);
    rig.page_ready(1, "epoch-1");
    rig.tell(Input::AgentBytes(b"not a frame\n".to_vec()));
    assert_eq!(rig.exit, Some(1));
    assert!(rig.page.is_empty());
}
