//! What Python displayed between the page, the shell and the client.

use pyproc_host::{Input, Purpose};
use serde_json::{Value, json};

use crate::rig::Rig;

/// The output of a run that displayed two and three bytes.
fn output() -> Value {
    json!({"stdout": "", "displays": [
        {"mimeType": "image/png", "byteLength": 2},
        {"mimeType": "text/html", "byteLength": 3},
    ]})
}

#[test]
fn what_a_run_displayed_follows_as_attachments_in_its_order() {
    let mut rig = Rig::ready();
    rig.run("x");
    let command = rig.command();
    rig.answer(&command, output());
    assert_eq!(rig.agent, Vec::<Value>::new());
    let ticket = rig.receiving(5, Purpose::Display);
    rig.tell(Input::Received(ticket, Ok(b"abcde".to_vec())));
    let frames = std::mem::take(&mut rig.agent);
    let said: Vec<_> = (frames.iter())
        .map(|frame| frame["type"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["attachment", "attachment", "response"]);
    assert_eq!(frames[0]["dataBase64"], "YWI=");
    assert_eq!(frames[1]["dataBase64"], "Y2Rl");
    let response = &frames[2];
    assert_eq!(response["output"], output());
    let descriptors = response["attachments"].as_array().unwrap();
    let told: Vec<_> = (descriptors.iter())
        .map(|one| (&one["kind"], &one["mimeType"], &one["byteLength"]))
        .collect();
    let kind = json!("machine.display");
    assert_eq!(
        told,
        [
            (&kind, &json!("image/png"), &json!(2)),
            (&kind, &json!("text/html"), &json!(3)),
        ]
    );
}

#[test]
fn the_next_run_waits_for_what_the_page_still_sends() {
    let mut rig = Rig::ready();
    rig.run("x");
    rig.run("y");
    let command = rig.command();
    rig.cancel("x", "enough");
    assert_eq!(
        rig.terminals(),
        ["x CONTROL_CANCELLED outcomeUnknown false"]
    );
    rig.page.clear();
    rig.answer(&command, output());
    let ticket = rig.receiving(5, Purpose::Display);
    assert!(rig.page.is_empty());
    rig.tell(Input::Received(ticket, Ok(b"abcde".to_vec())));
    assert_eq!(rig.terminals(), [""; 0]);
    let command = rig.command();
    rig.answer(&command, json!({"stdout": ""}));
    assert_eq!(rig.terminals(), ["y ok {\"stdout\":\"\"}"]);
}

#[test]
fn displays_that_no_run_makes_end_the_page() {
    for displays in [
        json!(null),
        json!([]),
        json!([{"mimeType": "image/png", "byteLength": 0}]),
        json!([{"mimeType": "image/png", "byteLength": (8 << 20) + 1}]),
        json!([{"mimeType": "text/plain", "byteLength": 1}]),
    ] {
        let mut rig = Rig::ready();
        rig.run("x");
        let command = rig.command();
        rig.answer(&command, json!({"stdout": "", "displays": displays}));
        assert!(rig.images.is_empty());
        assert_eq!(
            rig.terminals(),
            ["x CONTROL_PAGE_REPLACED outcomeUnknown false"],
            "{displays}"
        );
        assert_eq!(rig.closed[0].1, 4400);
    }
}

#[test]
fn what_cannot_be_received_is_an_error_of_a_run_that_happened() {
    for received in [Err("no".to_owned()), Ok(b"abcd".to_vec())] {
        let mut rig = Rig::ready();
        rig.run("x");
        let command = rig.command();
        rig.answer(&command, output());
        let ticket = rig.receiving(5, Purpose::Display);
        rig.tell(Input::Received(ticket, received));
        assert_eq!(rig.terminals(), ["x PYPROC_INTERNAL applied false"]);
    }
}
