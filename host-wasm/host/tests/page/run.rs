//! What a run's reply becomes on the wire (machine 12).

use pyproc_host::page::{PageInput, WorkerText};
use serde_json::{Value, json};

use crate::rig::{Rig, verdict, without};

fn guest(kind: &str, exit_code: Option<i64>) -> Value {
    json!({"ok": false, "error": {
        "kind": kind, "type": "Oops", "module": "builtins", "message": "boom",
        "traceback": "Traceback (most recent call last):\nOops: boom\n", "exitCode": exit_code,
    }})
}

#[test]
fn a_run_answers_with_what_it_printed_and_its_value() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "x"}));
    let run = rig.posted("run");
    let expected = json!({"op": "run", "id": run.command["id"], "code": "x", "runSeq": 1});
    assert_eq!(run.command, expected);
    rig.now = 7;
    rig.tell(PageInput::WorkerSaid(
        1,
        WorkerText {
            message: json!({"type": "reply", "id": run.command["id"], "ok": true, "value": "42"})
                .to_string(),
            printed: Some(
                json!({"stdout": "hi\n!", "stdoutBytes": 4, "stderrBytes": 1, "stdoutDropped": 0})
                    .to_string(),
            ),
            ..WorkerText::default()
        },
    ));
    let output = json!({
        "stdout": "hi\n!", "value": "42", "stdoutBytes": 4, "stderrBytes": 1,
        "runSeq": 1, "durationMs": 7,
    });
    assert_eq!(rig.answer(), Ok(output));
}

#[test]
fn a_value_that_the_prelude_cut_says_its_full_length() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "x"}));
    let run = rig.posted("run");
    rig.reply(&run, json!({"value": "short", "valueChars": 300_000}));
    assert_eq!(rig.answer().unwrap()["valueChars"], 300_000);
}

#[test]
fn errors_of_the_code_are_applied_and_the_machine_goes_on() {
    let mut rig = Rig::booted();
    for (kind, asked, expected) in [
        ("exception", false, "MACHINE_PYTHON_ERROR applied false"),
        ("syntax", false, "MACHINE_PYTHON_ERROR rejected false"),
        ("exit", false, "MACHINE_EXIT applied false"),
        ("interrupted", false, "MACHINE_PYTHON_ERROR applied false"),
        ("interrupted", true, "MACHINE_INTERRUPTED applied false"),
        ("exception", true, "MACHINE_PYTHON_ERROR applied false"),
    ] {
        let id = rig.command("machine.run", json!({"code": kind}));
        let run = rig.posted("run");
        if asked {
            rig.interrupt(&id, None);
            rig.interrupts(1);
        }
        let code = (kind == "exit").then_some(3);
        rig.reply_with(&run, guest(kind, code), "before", None, None);
        let error = rig.answer().unwrap_err();
        assert_eq!(verdict(&error), expected, "{kind}");
        let message = "Traceback (most recent call last):\nOops: boom";
        assert_eq!(error["message"], message);
        let mut details = json!({
            "type": "Oops", "module": "builtins", "message": "boom",
            "traceback": format!("{message}\n"), "stdout": "before",
            "runSeq": run.command["runSeq"],
        });
        if kind == "exit" {
            details["exitCode"] = 3.into();
        }
        assert_eq!(error["details"], details, "{kind}");
        rig.quiet();
    }
    rig.run("alive");
}

#[test]
fn run_numbers_count_every_run_that_reached_the_worker() {
    let mut rig = Rig::booted();
    rig.run("a");
    rig.command("machine.run", json!({}));
    assert_eq!(
        verdict(&rig.answer().unwrap_err()),
        "PYPROC_INPUT_INVALID notSent false"
    );
    rig.command("machine.run", json!({"code": "b"}));
    assert_eq!(rig.posted("run").command["runSeq"], 2);
}

#[test]
fn unpaired_surrogates_of_the_guest_are_replaced_and_not_fatal() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "x"}));
    let run = rig.posted("run");
    let message = format!(
        r#"{{"type":"reply","id":{},"ok":false,"error":{{"kind":"exception","type":"E","module":"m",
        "message":"\ud800","traceback":"E: \udfff!"}}}}"#,
        run.command["id"]
    );
    let text = WorkerText {
        message,
        ..WorkerText::default()
    };
    rig.tell(PageInput::WorkerSaid(1, text));
    let error = rig.answer().unwrap_err();
    assert_eq!(verdict(&error), "MACHINE_PYTHON_ERROR applied false");
    assert_eq!(error["message"], "E: \u{fffd}!");
    assert_eq!(error["details"]["message"], "\u{fffd}");
}

#[test]
fn a_run_that_does_not_compile_changes_nothing_that_could_be_lost() {
    let mut rig = Rig::booted();
    rig.command("machine.run", json!({"code": "("}));
    let run = rig.posted("run");
    rig.reply(&run, guest("syntax", None));
    rig.answer().unwrap_err();
    rig.command("machine.reset", json!({}));
    let reset = rig.answer().unwrap();
    let expected = json!({
        "index": 0, "pagesWritten": 0, "rehashed": false, "pageBytes": 4096, "recycled": false,
    });
    assert_eq!(without(&reset, &["durationMs"]), expected);
}
