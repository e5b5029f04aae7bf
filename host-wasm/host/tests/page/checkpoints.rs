//! Save, restore and reset (machine 2, 9).

use pyproc_host::page::{PageOutput, PageSettings};
use serde_json::{Value, json};

use crate::rig::{Rig, restored, settings, verdict, without};

fn moved(index: u64, pages: u64, rehashed: bool, recycled: bool) -> Value {
    json!({
        "index": index, "pagesWritten": pages, "rehashed": rehashed, "pageBytes": 4096,
        "recycled": recycled,
    })
}

fn restore(rig: &mut Rig, index: Value) {
    rig.command("machine.checkpoint.restore", json!({"index": index}));
}

/// The output of the command that was just performed, without its duration.
fn output(rig: &mut Rig) -> Value {
    without(&rig.answer().unwrap(), &["durationMs"])
}

/// Two checkpoints made in worker 1; the machine stands on the second, which
/// worker 2 adopted.
fn after_a_kill() -> Rig {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.save(&[1, 6]);
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    rig.answer().unwrap_err();
    rig
}

fn in_place(rig: &mut Rig, seq: u64, pages: u64) {
    let posted = rig.posted("restore");
    assert_eq!(posted.command["seq"], seq);
    rig.reply(&posted, json!({"pagesWritten": pages}));
}

#[test]
fn a_save_says_its_index_and_what_changed_since_the_last_known_state() {
    let mut rig = Rig::booted();
    let first = without(&rig.save(&[1, 5, 6]), &["durationMs"]);
    let expected = json!({
        "index": 1, "changedPages": 2, "kind": "delta", "pageBytes": 4096, "heapBytes": 12288,
        "storeBytes": 101 * 4096, "portable": true,
    });
    assert_eq!(first, expected);
    assert_eq!(rig.save(&[1, 5, 6])["changedPages"], 0);
    rig.run("a");
    rig.takes_guard(&[1, 5, 7]);
    assert_eq!(
        rig.save(&[1, 5, 7])["changedPages"],
        1,
        "a guard is no save"
    );
}

#[test]
fn what_a_recovered_guard_holds_still_counts_as_changed() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    rig.takes_guard(&[1, 6]);
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    rig.answer().unwrap_err();
    assert_eq!(rig.save(&[1, 6])["changedPages"], 1);
}

#[test]
fn a_save_that_shares_nothing_is_full() {
    let mut rig = Rig::booted();
    rig.command("machine.checkpoint.save", json!({}));
    let save = rig.posted("save");
    let members = json!({"fresh": true, "portable": false, "identities": [1]});
    rig.reply_with(&save, members, "", Some(vec![7]), Some("{}"));
    let output = output(&mut rig);
    assert_eq!(output["kind"], "full");
    assert_eq!(output["portable"], false);
}

#[test]
fn restore_goes_to_the_last_saved_or_to_the_named_one() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.save(&[1, 6]);
    rig.run("a");
    restore(&mut rig, json!(1));
    in_place(&mut rig, 1, 3);
    assert_eq!(output(&mut rig), moved(1, 3, true, false));
    restore(&mut rig, Value::Null);
    in_place(&mut rig, 2, 4);
    assert_eq!(output(&mut rig), moved(2, 4, true, false));
    rig.command("machine.checkpoint.restore", json!({}));
    assert_eq!(output(&mut rig), moved(2, 0, false, false));
    rig.quiet();
}

#[test]
fn only_a_state_that_nothing_ran_on_needs_no_rewriting() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    restore(&mut rig, json!(1));
    assert_eq!(output(&mut rig), moved(1, 0, false, false));
    rig.run("a");
    restore(&mut rig, json!(1));
    in_place(&mut rig, 1, 2);
    assert_eq!(output(&mut rig), moved(1, 2, true, false));
    restore(&mut rig, json!(1));
    assert_eq!(output(&mut rig), moved(1, 0, false, false));
}

#[test]
fn an_index_that_names_nothing_is_rejected_without_the_worker() {
    let mut rig = Rig::booted();
    for index in [Value::Null, json!(1), json!(0), json!(-1)] {
        restore(&mut rig, index);
        let error = rig.answer().unwrap_err();
        assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_UNKNOWN rejected false");
    }
    rig.quiet();
    rig.save(&[1, 5]);
    restore(&mut rig, json!(0));
    rig.answer().unwrap_err();
}

#[test]
fn a_state_of_a_dead_worker_is_adopted_by_the_next_and_then_restored_in_place() {
    let mut rig = after_a_kill();

    restore(&mut rig, json!(1));
    rig.boots(3);
    let adopt = rig.adopts(3);
    assert_eq!(adopt.command["seq"], 1);
    rig.ends(2, "");
    assert_eq!(output(&mut rig), moved(1, 9, true, true));
    rig.run("a");
    restore(&mut rig, json!(1));
    in_place(&mut rig, 1, 2);
    assert_eq!(output(&mut rig), moved(1, 2, true, false));
}

#[test]
fn a_restore_that_fails_in_place_is_done_in_a_fresh_worker() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    restore(&mut rig, json!(1));
    let posted = rig.posted("restore");
    rig.reply(&posted, json!({"ok": false, "failed": "trap"}));
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    assert_eq!(output(&mut rig), moved(1, 9, true, true));
}

#[test]
fn a_restore_that_fails_everywhere_says_where_the_machine_is() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    rig.takes_guard(&[1, 6]);
    rig.run("b");
    restore(&mut rig, json!(1));
    let posted = rig.posted("restore");
    rig.reply(&posted, json!({"ok": false, "failed": "trap"}));
    rig.ends(1, "");
    rig.boots(2);
    let adopt = rig.posted("adopt");
    rig.reply(&adopt, json!({"ok": false, "unsupported": "slots differ"}));
    rig.ends(2, "");
    rig.boots(3);
    let adopt = rig.adopts(3);
    assert_eq!(adopt.command["seq"], 2, "back to where it stood");
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_RESTORE_FAILED applied false");
    assert_eq!(error["details"]["restored"], restored("guard", None, 1));
}

#[test]
fn a_state_that_no_fresh_worker_takes_leaves_the_machine_as_it_was() {
    for (reply, expected) in [
        (
            json!({"ok": false, "unsupported": "slots differ"}),
            "MACHINE_IMAGE_UNSUPPORTED rejected false",
        ),
        (
            json!({"ok": false, "failed": "trap"}),
            "MACHINE_ENGINE_FAILED rejected true",
        ),
        (json!({"id": 99}), "MACHINE_ENGINE_FAILED rejected true"),
    ] {
        let mut rig = after_a_kill();
        rig.run("x = 1");
        restore(&mut rig, json!(1));
        rig.boots(3);
        let adopt = rig.posted("adopt");
        rig.reply(&adopt, reply);
        rig.ends(3, "");
        let error = rig.answer().unwrap_err();
        assert_eq!(verdict(&error), expected);
        rig.command("machine.run", json!({"code": "x"}));
        let run = rig.posted("run");
        assert_eq!(run.worker, 2, "the same worker goes on");
        rig.reply(&run, json!({}));
        assert_eq!(rig.answer().unwrap().get("recovered"), None);
    }
}

#[test]
fn a_restore_that_finds_no_fresh_worker_leaves_the_machine_as_it_was() {
    let mut rig = after_a_kill();
    for (operation, input) in [
        ("machine.checkpoint.restore", json!({"index": 1})),
        ("machine.reset", json!({"hard": true})),
    ] {
        rig.run("x = 1");
        rig.command(operation, input);
        let PageOutput::Spawn(worker, _) = rig.work() else {
            panic!("no worker was started")
        };
        let failed = json!({"type": "failed", "code": "MACHINE_BOOT_FAILED", "message": "full"});
        rig.says(worker, &failed, None, None);
        rig.ends(worker, "");
        let error = rig.answer().unwrap_err();
        assert_eq!(verdict(&error), "PYPROC_BOOT_FAILED notSent false");
        rig.command("machine.run", json!({"code": "x"}));
        let run = rig.posted("run");
        assert_eq!(run.worker, 2, "the same worker goes on");
        rig.reply(&run, json!({}));
        assert_eq!(rig.answer().unwrap().get("recovered"), None);
    }
}

#[test]
fn reset_goes_to_base_empties_the_list_and_keeps_counting() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    rig.takes_guard(&[1, 6]);
    rig.command("machine.reset", json!({}));
    in_place(&mut rig, 0, 2);
    let forget = rig.posted("forget");
    assert_eq!(forget.command["seqs"], json!([1, 2]));
    rig.reply(&forget, json!({}));
    assert_eq!(rig.work(), PageOutput::KeepContents(vec![]));
    assert_eq!(output(&mut rig), moved(0, 2, true, false));
    restore(&mut rig, json!(1));
    rig.answer().unwrap_err();
    assert_eq!(rig.save(&[1, 5])["index"], 2);
}

#[test]
fn a_hard_reset_replaces_the_worker() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.command("machine.reset", json!({"hard": true}));
    rig.boots(2);
    rig.ends(1, "");
    let forget = rig.posted("forget");
    assert_eq!(forget.worker, 2);
    rig.reply(&forget, json!({}));
    assert_eq!(rig.work(), PageOutput::KeepContents(vec![]));
    assert_eq!(output(&mut rig), moved(0, 0, true, true));
    assert_eq!(rig.save(&[1, 200])["index"], 2);
}

#[test]
fn the_list_is_bounded_and_a_reset_empties_it() {
    let mut rig = Rig::booted_with(PageSettings {
        max_checkpoints: 2,
        ..settings()
    });
    rig.save(&[1, 5]);
    rig.save(&[1, 6]);
    rig.command("machine.checkpoint.save", json!({}));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_LIMIT rejected true");
    rig.quiet();
}

#[test]
fn a_refused_save_says_what_is_in_the_way() {
    let mut rig = Rig::booted();
    rig.command("machine.checkpoint.save", json!({}));
    let save = rig.posted("save");
    let refused = json!({"reason": "hostObjects", "count": 2, "kinds": ["Array"]});
    rig.reply(&save, json!({"ok": false, "refused": refused}));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_REFUSED rejected true");
    assert_eq!(error["details"], refused);
    assert_eq!(rig.save(&[1, 5])["index"], 1, "a refusal takes no index");
}
