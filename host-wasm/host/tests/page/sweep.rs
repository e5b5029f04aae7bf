//! Slots of the page store: when the worker gets a free list, and what is on
//! it (machine 8).

use pyproc_host::page::PageOutput;
use serde_json::{Value, json};

use crate::rig::{Rig, verdict};

/// A table as long as an estimate of garbage must be to be worth a sweep.
const LARGE: usize = 131_072;

fn large(slot: u32) -> Vec<u32> {
    let mut table = vec![1; LARGE];
    table[0] = slot;
    table
}

fn save_with_limit(rig: &mut Rig) -> Option<Vec<u32>> {
    let save = rig.posted("save");
    rig.reply(&save, json!({"ok": false, "limit": true}));
    save.free
}

fn reset(rig: &mut Rig) -> Value {
    rig.command("machine.reset", json!({}));
    let restore = rig.posted("restore");
    rig.reply(&restore, json!({}));
    let forget = rig.posted("forget");
    rig.reply(&forget, json!({}));
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    rig.answer().unwrap()
}

#[test]
fn a_full_store_is_swept_once_and_the_save_tried_again() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    rig.takes_guard(&[1, 103]);
    rig.command("machine.checkpoint.save", json!({}));
    assert_eq!(save_with_limit(&mut rig), None, "it keeps the list it has");
    let save = rig.saves(&[1, 6]);
    // All but the image's slots, the base's own, the checkpoint's and the guard's.
    let free: Vec<u32> = (4..=102).filter(|slot| ![5, 100].contains(slot)).collect();
    assert_eq!(save.free, Some(free));
    assert_eq!(rig.answer().unwrap()["index"], 2);
}

#[test]
fn a_store_that_stays_full_is_the_clients_to_empty() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.command("machine.checkpoint.save", json!({}));
    save_with_limit(&mut rig);
    assert!(save_with_limit(&mut rig).is_some());
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_CHECKPOINT_LIMIT rejected true");
    rig.quiet();
    rig.run("alive");
    reset(&mut rig);
    assert_eq!(rig.save(&[1, 5])["index"], 2);
}

#[test]
fn what_a_reset_freed_is_handed_out_with_the_next_save() {
    let mut rig = Rig::booted();
    rig.save(&[1, 103]);
    rig.run("a");
    reset(&mut rig);
    rig.command("machine.checkpoint.save", json!({}));
    let save = rig.saves(&[1, 5]);
    let free: Vec<u32> = (4..=103).filter(|slot| *slot != 100).collect();
    assert_eq!(save.free, Some(free));
    rig.answer().unwrap();
    rig.command("machine.checkpoint.save", json!({}));
    assert_eq!(rig.saves(&[1, 6]).free, None);
}

#[test]
fn a_worker_that_ends_after_a_reset_does_not_end_the_machine() {
    let mut rig = Rig::booted();
    rig.save(&[1, 5]);
    rig.run("a");
    reset(&mut rig);
    rig.command("machine.reset", json!({"hard": true}));
    rig.boots(2);
    rig.ends(1, "");
    assert!(matches!(rig.work(), PageOutput::KeepContents(_)));
    rig.answer().unwrap();
}

#[test]
fn many_dropped_guards_make_a_sweep_worth_its_time() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.takes_guard(&large(5));
    let mut swept = None;
    for slot in 6..12 {
        rig.run("b");
        rig.wait();
        let guard = rig.saves(&large(slot));
        let forget = rig.posted("forget");
        rig.reply(&forget, json!({}));
        rig.work();
        if guard.free.is_some() {
            swept = guard.free.map(|free| (slot, free));
            break;
        }
    }
    let (slot, free) = swept.expect("guards are dropped all the time");
    assert!(free.contains(&(slot - 2)), "{free:?}");
    assert!(!free.contains(&(slot - 1)), "the last guard is in use");
}

#[test]
fn slots_of_a_save_that_was_killed_are_kept_out_of_use_for_ten_seconds() {
    let mut rig = Rig::booted();
    rig.save(&[1, 105]);
    rig.command("machine.checkpoint.save", json!({}));
    rig.posted("save");
    rig.wait();
    rig.ends(1, "");
    rig.boots(2);
    assert_eq!(rig.adopts(2).free, Some(vec![]), "killed at 10 s");
    rig.answer().unwrap_err();
    rig.wait_until(19_999);
    rig.command("machine.checkpoint.save", json!({}));
    assert_eq!(rig.saves(&[1, 6]).free, Some(vec![]));
    rig.answer().unwrap();
    rig.wait_until(20_000);
    rig.command("machine.checkpoint.save", json!({}));
    let free = rig.saves(&[1, 7]).free.unwrap();
    assert!(free.contains(&4) && !free.contains(&6) && !free.contains(&105));
}

#[test]
fn a_new_worker_gets_the_free_list_with_its_first_state() {
    let mut rig = Rig::booted();
    rig.save(&[1, 103]);
    let id = rig.command("machine.run", json!({"code": "loop"}));
    rig.posted("run");
    rig.interrupt(&id, Some(0));
    rig.ends(1, "");
    rig.boots(2);
    let free = rig.adopts(2).free.unwrap();
    assert!(free.contains(&4) && free.contains(&199));
    assert!(![1, 2, 3, 103, 200].iter().any(|slot| free.contains(slot)));
}
