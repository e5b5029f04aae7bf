//! Peers that do not keep to the contract: a worker out of schema or out of
//! turn, and commands that are not for this page (machine 3).

use pyproc_host::page::{PageInput, WorkerText};
use serde_json::{Value, json};

use crate::rig::{EPOCH, Rig, restored, verdict};

/// The next command finds worker 1 unusable and worker 2 goes on.
fn is_lost(rig: &mut Rig, what: &str) -> Value {
    rig.ends(1, "");
    rig.boots(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(
        verdict(&error),
        "MACHINE_WORKER_LOST outcomeUnknown false",
        "{what}"
    );
    assert_eq!(error["details"]["restored"]["kind"], "base", "{what}");
    rig.run("alive");
    error
}

#[test]
fn a_reply_that_does_not_fit_ends_the_worker() {
    let value = "v".repeat(262_145);
    let traceback = "t".repeat(65_537);
    for members in [
        json!({"id": 99}),
        json!({"ok": "yes"}),
        json!({"ok": false}),
        json!({"surprise": 1}),
        json!({"value": 5}),
        json!({"value": value}),
        json!({"durationMs": -1}),
        json!({"valueChars": 9_007_199_254_740_993_u64}),
        json!({"limit": true}),
        json!({"type": "ready", "heapBytes": 1, "bootMs": 1}),
        json!({"ok": false, "error": {
            "kind": "exception", "type": "E", "module": "m", "message": "m", "traceback": traceback,
        }}),
        json!({"ok": false, "error": {
            "kind": "other", "type": "E", "module": "m", "message": "m", "traceback": "t",
        }}),
    ] {
        let mut rig = Rig::booted();
        rig.command("machine.run", json!({"code": "a"}));
        let run = rig.posted("run");
        let what = members.to_string();
        rig.reply(&run, members);
        let error = is_lost(&mut rig, &what);
        assert_eq!(error["details"]["restored"], restored("base", None, 0));
    }
}

#[test]
fn a_failure_that_a_run_cannot_have_ends_the_worker() {
    for failure in [
        json!({"ok": false, "limit": true}),
        json!({"ok": false, "unsupported": "x"}),
        json!({"ok": false, "refused": {"reason": "running"}}),
    ] {
        let mut rig = Rig::booted();
        rig.command("machine.run", json!({"code": "a"}));
        let run = rig.posted("run");
        rig.reply(&run, failure.clone());
        let error = is_lost(&mut rig, &failure.to_string());
        assert_eq!(error["details"]["restored"], restored("base", None, 0));
    }
}

#[test]
fn a_save_without_its_bulk_data_ends_the_worker() {
    let store_slots = (1_u32 << 30) / 4096;
    for (table, record) in [
        (None, Some("{}")),
        (Some(vec![1, 5]), None),
        (Some(vec![store_slots]), Some("{}")),
        (Some(vec![0; (512 << 20) / 4096 + 1]), Some("{}")),
    ] {
        let mut rig = Rig::booted();
        rig.command("machine.checkpoint.save", json!({}));
        let save = rig.posted("save");
        rig.reply_with(&save, json!({}), "", table, record);
        is_lost(&mut rig, "save");
    }
}

#[test]
fn text_that_is_not_a_message_ends_the_worker() {
    for (message, printed) in [
        ("", None),
        ("null", None),
        ("{}", None),
        (
            r#"{"type":"reply","id":1,"ok":true}"#,
            Some(r#"{"stdout":1}"#),
        ),
    ] {
        let mut rig = Rig::booted();
        rig.command("machine.run", json!({"code": "a"}));
        rig.posted("run");
        let text = WorkerText {
            message: message.to_owned(),
            printed: printed.map(str::to_owned),
            ..WorkerText::default()
        };
        rig.tell(PageInput::WorkerSaid(1, text));
        is_lost(&mut rig, message);
    }
}

#[test]
fn what_a_worker_says_out_of_turn_shows_at_the_next_command() {
    let mut rig = Rig::booted();
    let reply = json!({"type": "reply", "id": 77, "ok": true});
    rig.says(1, &reply, None, None);
    rig.quiet();
    rig.command("machine.run", json!({"code": "a"}));
    rig.posted("run");
    is_lost(&mut rig, "out of turn");
}

#[test]
fn a_worker_that_floods_is_lost_and_its_messages_are_not_kept() {
    let mut rig = Rig::booted();
    let reply = json!({"type": "reply", "id": 77, "ok": true, "value": "v".repeat(1000)});
    for _ in 0..1000 {
        rig.says(1, &reply, None, None);
    }
    rig.command("machine.run", json!({"code": "a"}));
    rig.posted("run");
    is_lost(&mut rig, "flood");
}

#[test]
fn dead_workers_are_not_heard() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "a"}));
    rig.posted("run");
    rig.tell(PageInput::WorkerLost(1, "gone".to_owned()));
    is_lost(&mut rig, "lost");
    rig.says(
        1,
        &json!({"type": "reply", "id": 1, "ok": true}),
        None,
        None,
    );
    rig.tell(PageInput::WorkerLost(1, "again".to_owned()));
    rig.tell(PageInput::WorkerKilled(1, "x".to_owned()));
    rig.says(9, &json!({}), None, None);
    rig.quiet();
    rig.run("alive");
}

#[test]
fn a_command_for_another_epoch_is_refused_before_anything_runs() {
    let mut rig = Rig::booted();
    let message = json!({
        "type": "command", "requestId": "command:9", "pageEpoch": "epoch-0",
        "operation": "machine.run", "input": {"code": "x"},
    });
    rig.tell(PageInput::BridgeMessage(message.to_string()));
    let said = rig.said();
    assert_eq!(said["requestId"], "command:9");
    assert_eq!(said["pageEpoch"], EPOCH);
    assert_eq!(said["ok"], false);
    assert_eq!(said["error"]["outcome"], "notSent");
    rig.quiet();
}

#[test]
fn an_interrupt_for_another_epoch_interrupts_nothing() {
    let mut rig = Rig::booted();
    let id = rig.command("machine.run", json!({"code": "x"}));
    rig.posted("run");
    let message = json!({
        "type": "interrupt", "requestId": id, "pageEpoch": "epoch-0", "graceMs": 0,
    });
    rig.tell(PageInput::BridgeMessage(message.to_string()));
    rig.quiet();
}

#[test]
fn operations_that_are_not_the_machines_are_refused() {
    let mut rig = Rig::booted();
    for operation in ["automation.observe", "artifact.read", "machine.unknown"] {
        rig.command(operation, json!({}));
        let error = rig.answer().unwrap_err();
        assert_eq!(
            verdict(&error),
            "CONTROL_OPERATION_UNAVAILABLE notSent false",
            "{operation}"
        );
    }
    rig.quiet();
}

#[test]
fn messages_that_are_none_change_nothing() {
    let mut rig = Rig::booted();
    for text in ["", "[]", "{\"type\":\"x\"}", "{\"type\":\"interrupt\"}"] {
        rig.tell(PageInput::BridgeMessage(text.to_owned()));
    }
    rig.quiet();
}

#[test]
fn a_page_without_its_host_takes_nothing_more() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "a"}));
    let run = rig.posted("run");
    rig.tell(PageInput::BridgeClosed);
    rig.command("machine.run", json!({"code": "b"}));
    rig.reply(&run, json!({}));
    rig.answer().unwrap();
    rig.quiet();
    assert_eq!(rig.deadline(), None);
}
