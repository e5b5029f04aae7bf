//! Requests from their arrival to their one terminal, and the page behind them.

use pyproc_host::Input;
use serde_json::json;

use crate::rig::{CAPABILITY, Rig};

#[test]
fn commands_wait_for_the_page_and_run_one_at_a_time_in_order() {
    let mut rig = Rig::new();
    for id in ["a", "b", "c"] {
        rig.run(id);
    }
    assert!(rig.page.is_empty());
    rig.page_ready(1, "epoch-1");
    for id in ["a", "b", "c"] {
        let command = rig.command();
        assert_eq!(command["input"], json!({"code": id}));
        rig.answer(&command, json!({"stdout": ""}));
        assert_eq!(rig.terminals(), [format!(r#"{id} ok {{"stdout":""}}"#)]);
    }
}

#[test]
fn queued_cancel_never_reaches_the_page() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.run("b");
    let first = rig.command();
    rig.cancel("b", "not needed");
    rig.cancel("b", "again");
    assert_eq!(rig.agent[0]["error"]["message"], "not needed");
    assert_eq!(rig.terminals(), ["b CONTROL_CANCELLED notSent false"]);
    rig.answer(&first, json!({}));
    assert_eq!(rig.terminals(), ["a ok {}"]);
    assert!(rig.page.is_empty());
}

#[test]
fn delivered_cancel_interrupts_and_the_next_command_waits_for_the_page() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.run("b");
    let first = rig.command();
    rig.cancel("a", "stop");
    assert_eq!(
        rig.terminals(),
        ["a CONTROL_CANCELLED outcomeUnknown false"]
    );
    assert_eq!(rig.page.len(), 1);
    assert_eq!(rig.page.remove(0).1["type"], "interrupt");
    let killed = json!({
        "code": "MACHINE_KILLED", "message": "x", "outcome": "applied", "retryable": false,
        "details": {"restored": {"kind": "guard", "index": null, "lostRuns": 1}},
    });
    rig.refuse(&first, killed);
    assert!(rig.terminals().is_empty());
    let second = rig.command();
    rig.answer(&second, json!({"stdout": ""}));
    let recovered = json!({
        "stdout": "",
        "recovered": {"reason": "MACHINE_KILLED", "restored": {"kind": "guard", "index": null, "lostRuns": 1}},
    });
    assert_eq!(rig.terminals(), [format!("b ok {recovered}")]);
    rig.run("c");
    let third = rig.command();
    rig.answer(&third, json!({}));
    assert_eq!(rig.terminals(), ["c ok {}"]);
}

#[test]
fn deadlines_count_from_ready_and_say_what_was_sent() {
    let mut rig = Rig::new();
    rig.run("a");
    rig.run("b");
    rig.wait(50_000);
    assert!(rig.terminals().is_empty());
    rig.page_ready(1, "epoch-1");
    rig.wait(50_999);
    assert!(rig.terminals().is_empty());
    rig.wait(51_000);
    let mut terminals = rig.terminals();
    terminals.sort();
    assert_eq!(
        terminals,
        [
            "a CONTROL_TIMEOUT outcomeUnknown false",
            "b CONTROL_TIMEOUT notSent true"
        ]
    );
    assert_eq!(
        rig.page.len(),
        2,
        "the command and its interrupt: {:?}",
        rig.page
    );
}

#[test]
fn a_lost_page_ends_everything_at_once_and_stays_lost() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.run("b");
    rig.tell(Input::PageClosed(1));
    rig.run("c");
    let mut terminals = rig.terminals();
    terminals.sort();
    assert_eq!(
        terminals,
        [
            "a CONTROL_PAGE_REPLACED outcomeUnknown false",
            "b CONTROL_BRIDGE_CLOSED notSent false",
            "c CONTROL_BRIDGE_CLOSED notSent false",
        ]
    );
    rig.page_ready(2, "epoch-2");
    assert_eq!(rig.closed, [(2, 4409, "CONTROL_PAGE_STALE".to_owned())]);
}

#[test]
fn a_second_page_replaces_the_first_and_takes_the_queue() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.run("b");
    let first = rig.command();
    rig.page_ready(2, "epoch-2");
    assert_eq!(rig.closed, [(1, 4409, "CONTROL_PAGE_REPLACED".to_owned())]);
    assert_eq!(
        rig.terminals(),
        ["a CONTROL_PAGE_REPLACED outcomeUnknown false"]
    );
    rig.answer(&first, json!({}));
    assert!(rig.terminals().is_empty());
    let (link, second) = rig.page.remove(0);
    assert_eq!((link, &second["input"]), (2, &json!({"code": "b"})));
}

#[test]
fn the_same_epoch_twice_keeps_the_first_connection() {
    let mut rig = Rig::ready();
    rig.page_ready(2, "epoch-1");
    assert_eq!(rig.closed, [(2, 4409, "CONTROL_POLL_CONFLICT".to_owned())]);
    rig.run("a");
    assert_eq!(rig.page[0].0, 1);
}

#[test]
fn strangers_are_turned_away_and_change_nothing() {
    let mut rig = Rig::ready();
    let wrong = json!({
        "type": "ready", "protocol": "pyproc-control", "version": 1, "pageEpoch": "e",
        "spaceId": "machine:primary", "token": "x".repeat(43),
    });
    rig.tell(Input::PageOpened(7));
    rig.tell(Input::PageMessage(7, wrong.to_string()));
    rig.tell(Input::PageOpened(8));
    rig.tell(Input::PageMessage(8, "x".repeat(5000)));
    rig.tell(Input::PageOpened(9));
    rig.wait(9_999);
    rig.wait(10_000);
    assert_eq!(
        rig.closed,
        [
            (7, 4403, "CONTROL_BRIDGE_UNAUTHORIZED".to_owned()),
            (8, 4400, "CONTROL_BRIDGE_HANDSHAKE".to_owned()),
            (9, 4400, "CONTROL_BRIDGE_HANDSHAKE".to_owned()),
        ]
    );
    rig.run("a");
    assert_eq!(rig.command()["pageEpoch"], "epoch-1");
}

#[test]
fn a_failed_boot_ends_every_command_with_its_cause() {
    let mut rig = Rig::new();
    rig.run("a");
    rig.tell(Input::PageOpened(1));
    let failed = json!({
        "type": "bootFailed", "token": CAPABILITY, "message": "no engine",
        "details": {"cause": "MACHINE_ENGINE_INCOMPATIBLE"},
    });
    rig.tell(Input::PageMessage(1, failed.to_string()));
    assert_eq!(
        rig.agent[0]["error"]["details"]["cause"],
        "MACHINE_ENGINE_INCOMPATIBLE"
    );
    rig.run("b");
    assert_eq!(
        rig.terminals(),
        [
            "a PYPROC_BOOT_FAILED notSent false",
            "b PYPROC_BOOT_FAILED notSent false"
        ]
    );
}

#[test]
fn a_page_that_never_comes_is_a_failed_boot() {
    let mut rig = Rig::new();
    rig.run("a");
    rig.wait(180_000);
    assert_eq!(rig.terminals(), ["a PYPROC_BOOT_FAILED notSent false"]);
}

#[test]
fn end_of_input_settles_everything_and_exits_with_0() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.run("b");
    rig.tell(Input::AgentEof);
    let mut terminals = rig.terminals();
    terminals.sort();
    assert_eq!(
        terminals,
        [
            "a CONTROL_CANCELLED outcomeUnknown false",
            "b CONTROL_CANCELLED notSent false"
        ]
    );
    assert_eq!(rig.exit, Some(0));
}

#[test]
fn a_fatal_error_is_the_last_line_and_exits_with_1() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.tell(Input::AgentBytes(b"not json\n".to_vec()));
    rig.run("b");
    rig.tell(Input::PageClosed(1));
    rig.tell(Input::AgentEof);
    assert_eq!(rig.agent.len(), 1);
    assert_eq!(rig.agent[0]["fatal"], true);
    assert_eq!(rig.agent[0]["error"]["code"], "CONTROL_INVALID_FRAME");
    assert_eq!(rig.exit, Some(1));
}

#[test]
fn bad_input_is_refused_without_the_page() {
    let mut rig = Rig::ready();
    rig.request("a", "machine.run", json!({}));
    rig.request("b", "machine.checkpoint.restore", json!({"index": true}));
    assert_eq!(
        rig.terminals(),
        [
            "a PYPROC_INPUT_INVALID notSent false",
            "b PYPROC_INPUT_INVALID notSent false"
        ]
    );
    assert!(rig.page.is_empty());
}

#[test]
fn the_queue_is_bounded_and_says_so() {
    let mut rig = Rig::new();
    for number in 0..4097 {
        rig.run(&format!("r{number}"));
    }
    assert_eq!(rig.terminals(), ["r4096 PYPROC_INTERNAL notSent true"]);
    rig.cancel("r0", "room");
    rig.run("last");
    assert_eq!(rig.terminals(), ["r0 CONTROL_CANCELLED notSent false"]);
}

#[test]
fn a_page_that_talks_nonsense_is_lost() {
    let mut rig = Rig::ready();
    rig.run("a");
    rig.tell(Input::PageMessage(
        1,
        r#"{"type":"result","extra":1}"#.to_owned(),
    ));
    assert_eq!(
        rig.terminals(),
        ["a CONTROL_PAGE_REPLACED outcomeUnknown false"]
    );
    assert_eq!(rig.closed.len(), 1);
}
