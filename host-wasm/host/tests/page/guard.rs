//! The guard: when it is taken, and when not (machine 14.3).

use pyproc_host::page::{PageOutput, PageSettings};
use serde_json::json;

use crate::rig::{Rig, settings};

const MIB: u64 = 1 << 20;

#[test]
fn a_guard_is_taken_ten_milliseconds_after_a_run_and_not_twice() {
    let mut rig = Rig::booted();
    assert_eq!(rig.deadline(), None, "nothing ran");
    rig.now = 100;
    rig.run("a");
    assert_eq!(rig.deadline(), Some(110));
    rig.wait_until(109);
    rig.quiet();
    rig.wait();
    rig.saves(&[1, 5]);
    assert_eq!(rig.work(), PageOutput::KeepContents(vec![]));
    rig.quiet();
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_command_in_time_puts_the_guard_off() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.wait_until(9);
    rig.command("machine.run", json!({"code": "b"}));
    let run = rig.posted("run");
    rig.wait_until(50);
    rig.quiet();
    rig.reply(&run, json!({}));
    rig.answer().unwrap();
    assert_eq!(rig.deadline(), Some(60));
}

#[test]
fn the_guard_waits_as_long_as_the_settings_say() {
    let mut rig = Rig::booted_with(PageSettings {
        guard_idle_ms: 1234,
        ..settings()
    });
    rig.run("a");
    assert_eq!(rig.deadline(), Some(1234));
}

#[test]
fn a_new_guard_replaces_the_old_one_in_the_worker_too() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&[1, 5]);
    rig.run("b");
    rig.wait();
    rig.saves(&[1, 6]);
    let forget = rig.posted("forget");
    assert_eq!(forget.command["seqs"], json!([1]));
    rig.reply(&forget, json!({}));
    assert_eq!(rig.work(), PageOutput::KeepContents(vec![]));
    rig.quiet();
}

#[test]
fn a_command_during_the_guard_waits_for_it() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.wait();
    rig.command("machine.run", json!({"code": "b"}));
    rig.saves(&[1, 5]);
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    assert_eq!(rig.posted("run").command["code"], "b");
}

#[test]
fn a_saved_restored_or_reset_state_needs_no_guard() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.save(&[1, 5]);
    assert_eq!(rig.deadline(), None);
    rig.run("b");
    rig.command("machine.checkpoint.restore", json!({}));
    let restore = rig.posted("restore");
    rig.reply(&restore, json!({}));
    rig.answer().unwrap();
    assert_eq!(rig.deadline(), None);
}

#[test]
fn a_refused_guard_is_tried_again_after_the_next_run_only() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.wait();
    let save = rig.posted("save");
    let refused = json!({"reason": "stream"});
    rig.reply(&save, json!({"ok": false, "refused": refused}));
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    assert_eq!(rig.deadline(), None);
    rig.run("b");
    assert_eq!(rig.deadline(), Some(20));
    rig.wait();
    rig.saves(&[1, 5]);
}

#[test]
fn no_guard_is_taken_of_more_than_128_mib() {
    for (bytes, guarded) in [(128 * MIB, true), (128 * MIB + 4096, false)] {
        let mut rig = Rig::booted();
        rig.command("machine.checkpoint.save", json!({}));
        let save = rig.posted("save");
        let members = json!({"heapBytes": bytes, "portable": true, "identities": []});
        rig.reply_with(&save, members, "", Some(vec![1, 5]), Some("{}"));
        rig.answer().unwrap();
        rig.run("a");
        assert_eq!(rig.deadline().is_some(), guarded, "{bytes}");
    }
}

#[test]
fn a_run_that_grew_the_heap_past_the_limit_is_not_guarded() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "bytearray(10**9)"}));
    let run = rig.posted("run");
    rig.reply(&run, json!({"heapBytes": 200 * MIB}));
    rig.answer().unwrap();
    assert_eq!(rig.deadline(), None);
}

#[test]
fn the_heap_of_an_adopted_state_counts() {
    let mut rig = Rig::booted();
    let pages = usize::try_from(200 * MIB / 4096).unwrap();
    rig.save(&vec![0; pages]);
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    rig.answer().unwrap_err();
    rig.run("a");
    assert_eq!(rig.deadline(), None);
}
