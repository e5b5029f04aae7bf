//! The spare worker (machine 9.5, 14.4).

use pyproc_host::page::{PageInput, PageSettings};
use serde_json::json;

use crate::rig::{Rig, restored};

/// A machine whose spare, worker 2, was started but has not said anything.
fn with_spare() -> Rig {
    let mut rig = Rig::booted_with(PageSettings::default());
    assert_eq!(rig.deadline(), Some(500));
    rig.wait();
    rig.spawns(2);
    rig.quiet();
    assert_eq!(rig.deadline(), None);
    rig
}

fn kill(rig: &mut Rig, worker: u64) {
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(worker, "");
}

fn goes_on_at_base(rig: &mut Rig) {
    let error = rig.answer().unwrap_err();
    assert_eq!(error["details"]["restored"], restored("base", None, 0));
}

#[test]
fn a_spare_is_started_when_the_machine_was_idle_for_half_a_second() {
    let mut rig = Rig::booted_with(PageSettings::default());
    rig.now = 400;
    rig.run("a");
    rig.wait_until(410);
    rig.saves(&[1, 5]);
    rig.work();
    assert_eq!(rig.deadline(), Some(900));
}

#[test]
fn a_ready_spare_takes_over_and_another_is_started_when_idle() {
    let mut rig = with_spare();
    rig.is_ready(2);
    kill(&mut rig, 1);
    goes_on_at_base(&mut rig);
    rig.command("machine.run", json!({"code": "a"}));
    let run = rig.posted("run");
    assert_eq!(run.worker, 2);
    rig.reply(&run, json!({}));
    rig.answer().unwrap();
    rig.wait();
    rig.saves(&[1, 5]);
    rig.work();
    rig.wait();
    rig.spawns(3);
}

#[test]
fn a_booting_spare_is_waited_for() {
    let mut rig = with_spare();
    kill(&mut rig, 1);
    rig.quiet();
    rig.is_ready(2);
    goes_on_at_base(&mut rig);
}

#[test]
fn a_spare_that_failed_or_died_is_replaced_by_a_fresh_worker() {
    let failed = json!({"type": "failed", "code": "MACHINE_BOOT_FAILED", "message": "x"});
    for early in [true, false] {
        let mut rig = with_spare();
        if !early {
            kill(&mut rig, 1);
        }
        rig.says(2, &failed, None, None);
        if early {
            kill(&mut rig, 1);
        }
        rig.ends(2, "");
        rig.boots(3);
        goes_on_at_base(&mut rig);
    }
    let mut rig = with_spare();
    rig.is_ready(2);
    rig.tell(PageInput::WorkerLost(2, "crashed".to_owned()));
    kill(&mut rig, 1);
    rig.ends(2, "");
    rig.boots(3);
    goes_on_at_base(&mut rig);
}

#[test]
fn a_spare_that_never_answers_is_given_up_at_its_deadline() {
    let mut rig = with_spare();
    kill(&mut rig, 1);
    assert_eq!(rig.deadline(), Some(30_500));
    rig.wait();
    rig.ends(2, "");
    rig.boots(3);
    goes_on_at_base(&mut rig);
}

#[test]
fn without_the_setting_there_is_no_spare() {
    let mut rig = Rig::booted();
    assert_eq!(rig.deadline(), None);
    rig.wait_until(10_000);
    rig.quiet();
}

#[test]
fn a_spare_gets_the_slots_of_dead_workers_and_the_present_one_no_longer_has_them() {
    let mut rig = with_spare();
    rig.is_ready(2);
    rig.save(&[1, 5]);
    kill(&mut rig, 1);
    let adopt = rig.adopts(2);
    let error = rig.answer().unwrap_err();
    assert_eq!(error["details"]["restored"]["kind"], "checkpoint");
    // The base of worker 1 had slot 100, that of worker 2 has 200.
    let told = adopt.free.unwrap();
    assert!(told.contains(&100) && !told.contains(&200), "{told:?}");
    rig.wait();
    assert_eq!(rig.spawns(3), told);
    // While it boots nothing is free; then all but what its base took.
    rig.run("b");
    rig.wait();
    let save = rig.saves(&[1, 6]);
    assert_eq!(save.free, Some(vec![]));
    rig.work();
    rig.is_ready(3);
    rig.run("c");
    rig.wait();
    let free = rig.saves(&[1, 7]).free.unwrap();
    assert!(free.contains(&100) && !free.contains(&300), "{free:?}");
}
