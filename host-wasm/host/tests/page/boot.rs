//! The first boot and what the host is told of it.

use pyproc_host::page::{MachinePage, PageInput, PageOutput};
use serde_json::json;

use crate::rig::{CAPABILITY, EPOCH, IMAGE_SLOTS, Rig, settings};

#[test]
fn a_booted_machine_shows_its_capability_and_nothing_else() {
    let mut rig = Rig::new(settings());
    rig.quiet();
    rig.tell(PageInput::Start);
    rig.boots(1);
    let ready = json!({
        "type": "ready", "protocol": "pyproc-control", "version": 1, "pageEpoch": EPOCH,
        "spaceId": "machine:primary", "token": CAPABILITY,
    });
    assert_eq!(rig.said(), ready);
    rig.tell(PageInput::Start);
    rig.quiet();
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_failed_boot_names_its_cause_and_ends_the_worker() {
    let mut rig = Rig::new(settings());
    rig.tell(PageInput::Start);
    rig.spawns(1);
    let failed = json!({
        "type": "failed", "code": "MACHINE_ENGINE_INCOMPATIBLE",
        "message": "an export is missing", "item": "_hiwire_get",
    });
    rig.says(1, &failed, None, None);
    let said = json!({
        "type": "bootFailed", "token": CAPABILITY, "message": "an export is missing",
        "details": {"cause": "MACHINE_ENGINE_INCOMPATIBLE", "item": "_hiwire_get"},
    });
    assert_eq!(rig.said(), said);
    assert_eq!(rig.work(), PageOutput::Kill(1));
    rig.quiet();
}

#[test]
fn a_cause_that_is_not_one_of_a_boot_is_the_general_one() {
    let mut rig = Rig::new(settings());
    rig.tell(PageInput::Start);
    let failed = json!({"type": "failed", "code": "MACHINE_KILLED", "message": "x"});
    rig.says(1, &failed, None, None);
    assert_eq!(rig.said()["details"]["cause"], "MACHINE_BOOT_FAILED");
}

#[test]
fn a_worker_that_is_late_is_a_failed_boot() {
    let mut rig = Rig::new(settings());
    rig.now = 500;
    rig.tell(PageInput::Start);
    rig.spawns(1);
    rig.wait_until(30_499);
    rig.quiet();
    assert_eq!(rig.deadline(), Some(30_500));
    rig.wait();
    assert_eq!(rig.said()["type"], "bootFailed");
    assert_eq!(rig.work(), PageOutput::Kill(1));
    rig.is_ready(1);
    rig.quiet();
}

#[test]
fn a_worker_that_dies_or_talks_nonsense_is_a_failed_boot() {
    let table = Some(vec![1, 2]);
    for (message, table) in [
        (json!({"type": "reply", "id": 1, "ok": true}), table.clone()),
        (json!({"type": "ready", "heapBytes": 1, "bootMs": 1}), None),
        (
            json!({"type": "ready", "heapBytes": -1, "bootMs": 1}),
            table,
        ),
        (
            json!({"type": "ready", "heapBytes": 1, "bootMs": 1}),
            Some(vec![u32::MAX]),
        ),
    ] {
        let mut rig = Rig::new(settings());
        rig.tell(PageInput::Start);
        rig.says(1, &message, table, None);
        assert_eq!(rig.said()["type"], "bootFailed", "{message}");
    }
    let mut rig = Rig::new(settings());
    rig.tell(PageInput::Start);
    rig.tell(PageInput::WorkerLost(1, "no memory".to_owned()));
    let said = rig.said();
    assert_eq!(said["message"], "no memory");
    assert_eq!(said["details"]["cause"], "MACHINE_BOOT_FAILED");
}

#[test]
fn the_longest_boot_failure_still_fits_a_handshake() {
    for unit in ["a", "\u{1}", "\u{2028}", "\u{1F600}"] {
        let mut rig = Rig::new(settings());
        rig.tell(PageInput::Start);
        let failed = json!({
            "type": "failed", "code": "MACHINE_ISOLATION_FAILED",
            "message": format!("{}end", unit.repeat(60_000)), "item": unit.repeat(60_000),
        });
        rig.says(1, &failed, None, None);
        let said = rig.said();
        assert!(said.to_string().len() <= 4096);
        assert!(said["message"].as_str().unwrap().ends_with("end"));
        assert_eq!(said["details"]["cause"], "MACHINE_ISOLATION_FAILED");
    }
}

#[test]
fn commands_that_came_during_the_boot_are_performed_in_order() {
    let mut rig = Rig::new(settings());
    rig.tell(PageInput::Start);
    rig.command("machine.run", json!({"code": "a"}));
    rig.command("machine.run", json!({"code": "b"}));
    rig.boots(1);
    rig.said();
    for code in ["a", "b"] {
        let run = rig.posted("run");
        assert_eq!(run.command["code"], code);
        rig.quiet();
        rig.reply(&run, json!({}));
        rig.answer().unwrap();
    }
}

#[test]
fn a_page_without_a_capability_or_an_epoch_cannot_be() {
    assert!(MachinePage::new("short", EPOCH, settings(), IMAGE_SLOTS).is_err());
    assert!(MachinePage::new(CAPABILITY, "", settings(), IMAGE_SLOTS).is_err());
}
