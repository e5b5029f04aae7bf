//! What does not fit one reply (machine 13).

use pyproc_host::page::{PageInput, WorkerText};
use serde_json::{Value, json};

use crate::rig::{Posted, Rig, verdict};

/// Longest serialized reply, bytes.
const REPLY: usize = 983_040;

fn run(rig: &mut Rig) -> Posted {
    rig.command("machine.run", json!({"code": "x"}));
    rig.posted("run")
}

/// The serialized length as the protocol writes it.
fn wire(value: &Value) -> usize {
    pyproc_protocol::json::encode(value, usize::MAX >> 1)
        .unwrap()
        .len()
}

#[test]
fn printed_text_that_does_not_fit_is_an_error_that_carries_what_fits() {
    for unit in ["a", "\u{2028}", "\u{7}", "\u{1F600}"] {
        let mut rig = Rig::booted();
        let posted = run(&mut rig);
        let stdout = format!("first{}last", unit.repeat(1_048_000 / unit.len()));
        rig.reply_with(&posted, json!({"value": "42"}), &stdout, None, None);
        let error = rig.answer().unwrap_err();
        assert_eq!(verdict(&error), "CONTROL_FRAME_TOO_LARGE applied false");
        let details = &error["details"];
        let kept = details["stdout"].as_str().unwrap();
        assert!(kept.starts_with("first") && kept.ends_with("last"));
        assert_eq!(details["value"], "42");
        assert_eq!(details["runSeq"], 1);
        assert!(wire(&error) <= REPLY, "{}", wire(&error));
    }
}

#[test]
fn output_that_the_block_dropped_is_an_error_with_its_size() {
    let mut rig = Rig::booted();
    let posted = run(&mut rig);
    let printed = json!({
        "stdout": "head tail", "stdoutBytes": 5_000_009, "stderrBytes": 0, "stdoutDropped": 5_000_000,
    });
    let message = json!({"type": "reply", "id": posted.command["id"], "ok": true});
    let text = WorkerText {
        message: message.to_string(),
        printed: Some(printed.to_string()),
        ..WorkerText::default()
    };
    rig.tell(PageInput::WorkerSaid(1, text));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "CONTROL_FRAME_TOO_LARGE applied false");
    let expected = json!({
        "stdout": "head tail", "runSeq": 1, "stdoutBytes": 5_000_009, "stdoutDropped": 5_000_000,
    });
    assert_eq!(error["details"], expected);
}

#[test]
fn a_value_is_cut_where_the_reply_ends_whatever_it_is_made_of() {
    for unit in ["\u{2029}", "\u{1}", "\u{1F600}"] {
        let mut rig = Rig::booted();
        let posted = run(&mut rig);
        let value = unit.repeat(262_144);
        rig.reply(&posted, json!({"value": value}));
        let output = rig.answer().unwrap();
        assert_eq!(output["valueChars"], 262_144);
        let kept = output["value"].as_str().unwrap();
        assert!(value.starts_with(kept));
        assert!(
            (900_000..=REPLY).contains(&wire(&output)),
            "{}",
            wire(&output)
        );
    }
}

#[test]
fn a_python_error_beside_much_output_keeps_both() {
    let mut rig = Rig::booted();
    let posted = run(&mut rig);
    let error = json!({"ok": false, "error": {
        "kind": "exception", "type": "E", "module": "m", "message": "m".repeat(8192),
        "traceback": "t".repeat(65_536), "exitCode": null,
    }});
    rig.reply_with(&posted, error, &"\u{2028}".repeat(349_000), None, None);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_PYTHON_ERROR applied false");
    let details = &error["details"];
    assert_eq!(details["traceback"].as_str().unwrap().len(), 65_536);
    assert!(details["stdout"].as_str().unwrap().contains("left out"));
    assert!(wire(&error) <= REPLY, "{}", wire(&error));
}

#[test]
fn a_killed_run_keeps_what_fits_of_its_output() {
    let mut rig = Rig::booted();
    let id = rig.command("machine.run", json!({"code": "x"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, &"\u{1b}".repeat(1_048_576));
    rig.boots(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED rejected true");
    assert!(wire(&error) <= REPLY);
    assert!(error["details"]["stdout"].as_str().unwrap().len() > 100_000);
}
