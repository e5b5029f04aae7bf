//! Where the machine goes on after its worker ended, and what the client is
//! told of it (machine 9.5, 14.3, 15, 20).

use pyproc_host::page::{PageInput, PageOutput};
use serde_json::{Value, json};

use crate::rig::{Rig, restored, verdict};

/// A run that is killed at once; the machine has no worker then.
fn killed_run(rig: &mut Rig, worker: u64) {
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(worker, "");
}

fn boot_fails(rig: &mut Rig, worker: u64) {
    rig.spawns(worker);
    let failed = json!({"type": "failed", "code": "MACHINE_BOOT_FAILED", "message": "no memory"});
    rig.says(worker, &failed, None, None);
    rig.ends(worker, "");
}

fn adoption_fails(rig: &mut Rig, worker: u64) {
    let adopt = rig.posted("adopt");
    assert_eq!(adopt.worker, worker);
    rig.reply(&adopt, json!({"ok": false, "unsupported": "slots differ"}));
    rig.ends(worker, "");
}

fn details(error: &Value) -> &Value {
    &error["details"]
}

#[test]
fn a_killed_run_continues_at_the_guard_and_lost_nothing() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&[1, 5]);
    killed_run(&mut rig, 1);
    rig.boots(2);
    let adopt = rig.adopts(2);
    assert_eq!(adopt.command["seq"], 1);
    assert_eq!(adopt.table, Some(vec![1, 5]));
    assert_eq!(adopt.record.as_deref(), Some(r#"{"seq":1}"#));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED rejected true");
    assert_eq!(details(&error)["restored"], restored("guard", None, 0));
}

#[test]
fn runs_after_the_last_checkpoint_are_lost_and_counted() {
    let mut rig = Rig::booted();
    assert_eq!(rig.save(&[1, 5])["index"], 1);
    rig.run("a");
    rig.run("b");
    killed_run(&mut rig, 1);
    rig.boots(2);
    rig.adopts(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED applied false");
    assert_eq!(
        details(&error)["restored"],
        restored("checkpoint", Some(1), 2)
    );
    // The runs of the past are gone: the next loss counts from here.
    killed_run(&mut rig, 2);
    rig.boots(3);
    rig.adopts(3);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED rejected true");
    assert_eq!(
        details(&error)["restored"],
        restored("checkpoint", Some(1), 0)
    );
}

#[test]
fn without_a_saved_state_the_machine_continues_at_base() {
    let mut rig = Rig::booted();
    rig.run("a");
    killed_run(&mut rig, 1);
    rig.boots(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED applied false");
    assert_eq!(details(&error)["restored"], restored("base", None, 1));
    rig.run("alive");
}

#[test]
fn a_state_that_no_worker_takes_is_given_up_for_base_with_all_its_runs() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.run("b");
    for slot in 5..12 {
        rig.save(&[1, slot]);
    }
    rig.run("c");
    killed_run(&mut rig, 1);
    for worker in 2..6 {
        rig.boots(worker);
        adoption_fails(&mut rig, worker);
    }
    rig.boots(6);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED applied false");
    assert_eq!(details(&error)["restored"], restored("base", None, 3));
}

#[test]
fn a_state_that_no_worker_takes_is_given_up_for_the_one_before() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.save(&[1, 5]);
    rig.run("b");
    rig.save(&[1, 6]);
    rig.run("c");
    rig.takes_guard(&[1, 7]);
    rig.run("d");
    killed_run(&mut rig, 1);
    rig.boots(2);
    adoption_fails(&mut rig, 2);
    rig.boots(3);
    adoption_fails(&mut rig, 3);
    rig.boots(4);
    assert_eq!(rig.adopts(4).table, Some(vec![1, 5]));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED applied false");
    let first = restored("checkpoint", Some(1), 3);
    assert_eq!(details(&error)["restored"], first);
}

#[test]
fn runs_before_a_reset_are_not_lost_again() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.run("b");
    rig.command("machine.reset", json!({}));
    let restore = rig.posted("restore");
    rig.reply(&restore, json!({"pagesWritten": 1}));
    rig.answer().unwrap();
    rig.work();
    rig.run("c");
    rig.takes_guard(&[1, 5]);
    killed_run(&mut rig, 1);
    rig.boots(2);
    adoption_fails(&mut rig, 2);
    rig.boots(3);
    let error = rig.answer().unwrap_err();
    assert_eq!(details(&error)["restored"], restored("base", None, 1));
}

#[test]
fn a_machine_that_gets_no_worker_says_so_and_tries_again_for_the_next_command() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&[1, 5]);
    rig.run("b");
    killed_run(&mut rig, 1);
    boot_fails(&mut rig, 2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED applied false");
    assert_eq!(details(&error)["bootFailure"], "no memory");
    assert_eq!(details(&error)["restored"], Value::Null);

    rig.command("machine.run", json!({"code": "c"}));
    boot_fails(&mut rig, 3);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "PYPROC_BOOT_FAILED notSent false");

    rig.command("machine.run", json!({"code": "d"}));
    rig.boots(4);
    rig.adopts(4);
    let run = rig.posted("run");
    rig.reply(&run, json!({}));
    let recovered = json!({
        "reason": "MACHINE_WORKER_LOST", "restored": restored("guard", None, 1),
    });
    assert_eq!(rig.answer().unwrap()["recovered"], recovered);
    rig.command("machine.run", json!({"code": "e"}));
    let run = rig.posted("run");
    rig.reply(&run, json!({}));
    assert_eq!(rig.answer().unwrap().get("recovered"), None, "told once");
}

#[test]
fn a_state_lost_while_nobody_waited_is_told_with_the_next_output() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.wait_until(10);
    let save = rig.posted("save");
    rig.reply(&save, json!({"ok": false, "failed": "trap"}));
    rig.ends(1, "");
    rig.boots(2);
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    rig.quiet();
    rig.command("machine.checkpoint.save", json!({}));
    rig.saves(&[1, 6]);
    let recovered = json!({
        "reason": "MACHINE_ENGINE_FAILED", "restored": restored("base", None, 1),
    });
    assert_eq!(rig.answer().unwrap()["recovered"], recovered);
}

#[test]
fn a_failure_tells_an_untold_loss_too() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.wait_until(10);
    rig.posted("save");
    rig.tell(PageInput::WorkerLost(1, "crashed".to_owned()));
    rig.ends(1, "");
    rig.boots(2);
    rig.work();
    rig.command("machine.checkpoint.restore", json!({"index": 1}));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_UNKNOWN rejected false");
    let recovered = json!({
        "reason": "MACHINE_WORKER_LOST", "restored": restored("base", None, 1),
    });
    assert_eq!(details(&error)["recovered"], recovered);
    rig.run("b");
}

#[test]
fn a_state_that_cannot_be_brought_back_for_the_next_command_is_told_too() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&[1, 5]);
    rig.run("b");
    rig.wait_until(rig.now + 10);
    rig.saves(&[1, 6]);
    // The old guard is dropped, and the worker dies over it.
    rig.posted("forget");
    rig.tell(PageInput::WorkerLost(1, "gone".to_owned()));
    rig.ends(1, "");
    rig.work();
    rig.command("machine.run", json!({"code": "c"}));
    rig.boots(2);
    adoption_fails(&mut rig, 2);
    rig.boots(3);
    let run = rig.posted("run");
    rig.reply(&run, json!({}));
    let recovered = json!({
        "reason": "MACHINE_WORKER_LOST", "restored": restored("base", None, 2),
    });
    assert_eq!(rig.answer().unwrap()["recovered"], recovered);
}

#[test]
fn an_engine_that_fails_in_a_run_is_replaced_and_its_output_kept() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&[1, 5]);
    rig.command("machine.run", json!({"code": "os.abort()"}));
    let run = rig.posted("run");
    let failed = json!({"ok": false, "failed": "unreachable"});
    rig.reply_with(&run, failed, "last words", None, None);
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_ENGINE_FAILED rejected true");
    assert!(error["message"].as_str().unwrap().contains("unreachable"));
    assert_eq!(details(&error)["stdout"], "last words");
    assert_eq!(details(&error)["runSeq"], 2);
    assert_eq!(details(&error)["restored"], restored("guard", None, 0));
}

#[test]
fn a_worker_that_vanishes_leaves_the_outcome_unknown() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.command("machine.run", json!({"code": "b"}));
    rig.posted("run");
    rig.tell(PageInput::WorkerLost(1, "error event".to_owned()));
    rig.ends(1, "so far");
    rig.boots(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_WORKER_LOST outcomeUnknown false");
    assert_eq!(details(&error)["restored"], restored("base", None, 1));
    assert_eq!(details(&error)["stdout"], "so far");
}

#[test]
fn a_save_or_restore_over_ten_seconds_is_an_engine_failure() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    rig.command("machine.checkpoint.save", json!({}));
    rig.posted("save");
    assert_eq!(rig.deadline(), Some(10_000));
    rig.wait_until(9_999);
    rig.quiet();
    rig.wait();
    rig.ends(1, "");
    rig.boots(2);
    rig.adopts(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_ENGINE_FAILED applied false");
    assert_eq!(
        details(&error)["restored"],
        restored("checkpoint", Some(1), 1)
    );
}
