//! The interrupt ladder (machine 14.1) and what a kill means (14.3).

use serde_json::json;

use crate::rig::{Rig, restored, verdict};

/// A machine in the middle of a run; the result is the command's id.
fn running(input: serde_json::Value) -> (Rig, String) {
    let mut rig = Rig::booted();
    rig.now = 1000;
    let id = rig.command("machine.run", input);
    rig.posted("run");
    assert_eq!(rig.deadline(), None, "a run may take any time");
    (rig, id)
}

#[test]
fn interrupts_come_at_once_and_each_half_second_and_the_kill_after_the_grace() {
    let (mut rig, id) = running(json!({"code": "x"}));
    rig.interrupt(&id, None);
    for at in [1000, 1500, 2000, 2500] {
        assert_eq!(rig.now, at);
        rig.interrupts(1);
        rig.quiet();
        rig.wait();
    }
    assert_eq!(rig.now, 3000, "the default grace is 2000 ms");
    rig.ends(1, "partial");
    rig.boots(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_KILLED rejected true");
    assert_eq!(error["details"]["stdout"], "partial");
    assert_eq!(error["details"]["runSeq"], 1);
    assert_eq!(error["details"]["restored"], restored("base", None, 0));
    assert_eq!(rig.deadline(), None);
    rig.run("alive");
}

#[test]
fn the_grace_of_the_run_counts_and_that_of_the_interrupt_counts_more() {
    let (mut rig, id) = running(json!({"code": "x", "interruptGraceMs": 700}));
    rig.interrupt(&id, None);
    rig.wait();
    rig.wait();
    assert_eq!(rig.now, 1700);
    rig.interrupts(1);
    rig.interrupts(1);
    rig.ends(1, "");

    let (mut rig, id) = running(json!({"code": "x", "interruptGraceMs": 700}));
    rig.interrupt(&id, Some(100));
    rig.wait();
    assert_eq!(rig.now, 1100);
    rig.interrupts(1);
    rig.ends(1, "");
}

#[test]
fn no_grace_kills_at_once_without_an_interrupt() {
    let (mut rig, id) = running(json!({"code": "x"}));
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    let (mut rig, id) = running(json!({"code": "x", "interruptGraceMs": 0}));
    rig.interrupt(&id, None);
    rig.ends(1, "");
}

#[test]
fn a_second_interrupt_does_not_restart_the_ladder() {
    let (mut rig, id) = running(json!({"code": "x"}));
    rig.interrupt(&id, None);
    rig.wait_until(1400);
    rig.interrupt(&id, Some(60_000));
    rig.interrupts(1);
    rig.quiet();
    assert_eq!(rig.deadline(), Some(1500));
    rig.wait_until(3000);
    rig.ends(1, "");
}

#[test]
fn a_late_tick_does_not_repeat_what_was_missed() {
    let (mut rig, id) = running(json!({"code": "x"}));
    rig.interrupt(&id, None);
    rig.interrupts(1);
    rig.wait_until(2400);
    rig.interrupts(1);
    rig.quiet();
    rig.wait();
    assert_eq!(rig.now, 2900);
    rig.interrupts(1);
    rig.wait();
    assert_eq!(rig.now, 3000);
    rig.ends(1, "");
}

#[test]
fn code_that_finishes_in_its_grace_keeps_its_answer_and_its_worker() {
    let mut rig = Rig::booted();
    let id = rig.command("machine.run", json!({"code": "x"}));
    let run = rig.posted("run");
    rig.interrupt(&id, None);
    rig.interrupts(1);
    rig.reply(&run, json!({"value": "1"}));
    assert_eq!(rig.answer().unwrap()["value"], "1");
    rig.wait_until(5000);
    rig.saves(&[1, 5]);
}

#[test]
fn an_interrupt_means_the_command_it_names() {
    let mut rig = Rig::booted();
    let first = rig.command("machine.run", json!({"code": "a"}));
    let run = rig.posted("run");
    rig.interrupt("command:77", Some(0));
    rig.quiet();
    rig.reply(&run, json!({}));
    rig.answer().unwrap();
    rig.interrupt(&first, Some(0));
    rig.command("machine.run", json!({"code": "b"}));
    rig.posted("run");
    rig.interrupt(&first, Some(0));
    rig.quiet();
}

#[test]
fn an_interrupt_of_a_queued_run_waits_for_it() {
    let mut rig = Rig::booted();
    rig.command("machine.checkpoint.save", json!({}));
    let id = rig.command("machine.run", json!({"code": "b"}));
    rig.interrupt(&id, Some(100));
    rig.saves(&[1, 5]);
    rig.answer().unwrap();
    rig.posted("run");
    rig.interrupts(1);
    rig.wait();
    rig.ends(1, "");
}

#[test]
fn saves_and_restores_are_not_interrupted() {
    let mut rig = Rig::booted();
    let id = rig.command("machine.checkpoint.save", json!({}));
    rig.interrupt(&id, Some(0));
    rig.saves(&[1, 5]);
    rig.answer().unwrap();
    rig.quiet();
}
