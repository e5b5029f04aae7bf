//! What Python displayed, as the page's core hears and tells of it.

use pyproc_host::page::PageOutput;
use serde_json::{Value, json};

use crate::rig::{Posted, Rig, verdict};

fn run(rig: &mut Rig) -> Posted {
    rig.command("machine.run", json!({"code": "x"}));
    rig.posted("run")
}

fn png(bytes: u64) -> Value {
    json!({"mimeType": "image/png", "byteLength": bytes})
}

#[test]
fn displays_are_named_in_the_output_and_sent_after_it() {
    let mut rig = Rig::booted();
    let posted = run(&mut rig);
    rig.reply(&posted, json!({"value": "1", "displays": [png(3), png(4)]}));
    let output = rig.answer().unwrap();
    assert_eq!(output["displays"], json!([png(3), png(4)]));
    assert_eq!(output["value"], "1");
    assert_eq!(rig.work(), PageOutput::SendDisplays);
    rig.quiet();
}

#[test]
fn a_run_without_displays_does_not_mention_them() {
    let mut rig = Rig::booted();
    let posted = run(&mut rig);
    rig.reply(&posted, json!({"value": "1"}));
    assert_eq!(rig.answer().unwrap().get("displays"), None);
    rig.quiet();
}

#[test]
fn an_error_says_how_much_it_takes_away() {
    let mut rig = Rig::booted();
    let posted = run(&mut rig);
    let error = json!({
        "kind": "exception", "type": "E", "module": "", "message": "", "traceback": "E", "displaysDropped": 2,
    });
    rig.reply(&posted, json!({"ok": false, "error": error}));
    let error = rig.answer().unwrap_err();
    assert_eq!(error["details"]["displaysDropped"], 2);
    rig.quiet();

    let posted = run(&mut rig);
    let stdout = "a".repeat(1_048_000);
    let members = json!({"displays": [png(3)]});
    rig.reply_with(&posted, members, &stdout, None, None);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "CONTROL_FRAME_TOO_LARGE applied false");
    assert_eq!(error["details"]["displaysDropped"], 1);
    rig.quiet();
}

#[test]
fn displays_that_cannot_be_end_the_worker() {
    for displays in [
        json!([]),
        json!([png(0)]),
        json!([png((8 << 20) + 1)]),
        json!(vec![png(1); 17]),
        json!([{"mimeType": "text/plain", "byteLength": 1}]),
        json!([{"mimeType": "image/png"}]),
    ] {
        let mut rig = Rig::booted();
        let posted = run(&mut rig);
        rig.reply(&posted, json!({"displays": displays}));
        rig.ends(1, "");
        rig.boots(2);
        let error = rig.answer().unwrap_err();
        assert_eq!(
            error["details"]["restored"]["kind"], "base",
            "{displays}: {error}"
        );
        rig.quiet();
    }
}
