//! Which frames are refused, and with which code (control protocol 3.4 to 3.7).

use pyproc_tests::{
    Home, cancel, fatal_after_hello, fatal_at_first, frame, hello, line, request, run,
};
use serde_json::{Value, json};

/// The hello with one member replaced.
fn hello_with(pointer: &str, value: Value) -> Vec<u8> {
    let mut frame = hello();
    *frame.pointer_mut(pointer).expect("a member") = value;
    line(&frame)
}

/// A request whose `input` holds `levels` arrays around a number.
fn nested(levels: usize) -> Vec<u8> {
    let input = format!("{{\"a\":{}1{}}}", "[".repeat(levels), "]".repeat(levels));
    let text = request("n:1", "nope.op", json!("INPUT")).to_string();
    (text.replace("\"INPUT\"", &input) + "\n").into_bytes()
}

#[tokio::test]
async fn the_version_is_an_integer_of_one() {
    for version in [json!(2), json!(0)] {
        let code = fatal_at_first(&hello_with("/version", version)).await;
        assert_eq!(code, "CONTROL_VERSION_UNSUPPORTED");
    }
    for spelling in ["1.0", "1e0"] {
        let home = Home::default();
        let mut product = home.serve();
        let text = hello().to_string();
        let text = text.replace("\"version\":1,", &format!("\"version\":{spelling},"));
        product.write(format!("{text}\n").as_bytes()).await;
        let answer = product.frame().await;
        assert_eq!(answer["requestId"], "h:1", "{answer}");
        assert_eq!(answer["version"], 1);
    }
}

#[tokio::test]
async fn a_wrong_protocol_is_found_before_a_wrong_version() {
    let mut frame = hello();
    frame["protocol"] = json!("pyproc");
    frame["version"] = json!(2);
    assert_eq!(fatal_at_first(&line(&frame)).await, "CONTROL_INVALID_FRAME");
}

#[tokio::test]
async fn the_first_frame_is_a_client_hello() {
    let mut server = hello();
    server["role"] = json!("server");
    server["operations"] = json!([]);
    for first in [run("r:1", "1"), cancel("r:1", "x"), server] {
        let code = fatal_at_first(&line(&first)).await;
        assert_eq!(code, "CONTROL_HELLO_REQUIRED", "{first}");
    }
}

#[tokio::test]
async fn frames_of_the_other_side_are_refused() {
    let attachment = frame(
        "attachment",
        json!({"requestId": "r:1", "attachmentId": "a:1", "mimeType": "image/png",
               "offset": 0, "dataBase64": "AAAA", "eof": false}),
    );
    let response = frame(
        "response",
        json!({"requestId": "r:1", "outcome": "applied", "output": {}}),
    );
    let error = json!({"code": "X_Y_Z", "message": "m", "retryable": false, "outcome": "notSent"});
    let error = frame("error", json!({"requestId": "r:1", "error": error}));
    let event = frame("event", json!({"eventId": "e:1", "name": "a.b", "data": 1}));
    for wrong in [hello(), attachment.clone(), response, error, event] {
        let (code, before) = fatal_after_hello(&line(&wrong)).await;
        assert_eq!(
            (code.as_str(), before.len()),
            ("CONTROL_FRAME_DIRECTION", 0),
            "{wrong}"
        );
    }
    let mut early = attachment;
    early["byteLength"] = json!(3);
    let (code, _) = fatal_after_hello(&line(&early)).await;
    assert_eq!(code, "CONTROL_ATTACHMENT_INVALID");
}

#[tokio::test]
async fn a_hello_has_known_members_within_their_bounds() {
    let chunk = "/capabilities/attachments/maxChunkBytes";
    let wrong = [
        (chunk, json!(0)),
        (chunk, json!(262_145)),
        (chunk, json!(true)),
        (chunk, json!("64")),
        ("/capabilities/attachments/encoding", json!("hex")),
        ("/capabilities/cancel", json!(1)),
        ("/peer/name", json!("")),
        ("/peer/name", json!("x".repeat(81))),
        ("/peer/version", json!("x".repeat(41))),
        ("/peer", json!({"name": "x"})),
        ("/peer", json!({"name": "x", "version": "1", "url": "y"})),
        ("/role", json!("agent")),
        ("/requestId", json!("")),
        ("/requestId", json!(1)),
    ];
    for (pointer, value) in wrong {
        let code = fatal_at_first(&hello_with(pointer, value.clone())).await;
        assert_eq!(code, "CONTROL_INVALID_FRAME", "{pointer} {value}");
    }
    for member in ["extra", "operations"] {
        let mut frame = hello();
        frame[member] = json!([]);
        assert_eq!(
            fatal_at_first(&line(&frame)).await,
            "CONTROL_INVALID_FRAME",
            "{member}"
        );
    }
    for chunk_bytes in [1, 262_144] {
        let home = Home::default();
        let mut product = home.serve();
        product.write(&hello_with(chunk, json!(chunk_bytes))).await;
        assert_eq!(product.frame().await["type"], "hello");
    }
}

#[tokio::test]
async fn a_request_has_known_members_within_their_alphabets() {
    let good = request("r:1", "nope.op", json!({}));
    let wrong = [
        ("requestId", json!("x".repeat(129))),
        ("requestId", json!(".r")),
        ("requestId", json!("r 1")),
        ("requestId", json!("r\u{e9}")),
        ("requestId", json!("")),
        ("requestId", json!(null)),
        ("operation", json!("Machine.run")),
        ("operation", json!("run")),
        ("operation", json!("machine..run")),
        ("operation", json!("1machine.run")),
        ("input", json!([])),
        ("input", json!(null)),
        ("spaceId", json!(null)),
        ("spaceId", json!("a b")),
        ("timeoutMs", json!(5)),
    ];
    for (member, value) in wrong {
        let mut frame = good.clone();
        frame[member] = value.clone();
        let (code, before) = fatal_after_hello(&line(&frame)).await;
        assert_eq!(
            (code.as_str(), before.len()),
            ("CONTROL_INVALID_FRAME", 0),
            "{member} {value}"
        );
    }
    for member in ["requestId", "operation", "input"] {
        let mut frame = good.clone();
        frame.as_object_mut().expect("an object").remove(member);
        let (code, _) = fatal_after_hello(&line(&frame)).await;
        assert_eq!(code, "CONTROL_INVALID_FRAME", "without {member}");
    }
}

#[tokio::test]
async fn ids_of_128_characters_and_the_id_of_the_hello_are_served() {
    let home = Home::default();
    let mut product = home.open().await;
    let long = "x".repeat(128);
    for id in [long.as_str(), "h:1"] {
        product.send(&run(id, "6 * 7")).await;
        let answer = product.terminal(id).await;
        assert_eq!(answer["output"]["value"], "42", "{answer}");
    }
}

#[tokio::test]
async fn input_is_at_most_64_levels_deep() {
    // The input itself has depth 0 and its member depth 1.
    let home = Home::default();
    let mut product = home.open().await;
    product.write(&nested(63)).await;
    let answer = product.frame().await;
    assert_eq!(
        answer["error"]["code"], "CONTROL_OPERATION_UNKNOWN",
        "{answer}"
    );
    for levels in [64, 200_000] {
        let (code, before) = fatal_after_hello(&nested(levels)).await;
        assert_eq!(
            (code.as_str(), before.len()),
            ("CONTROL_INVALID_FRAME", 0),
            "{levels}"
        );
    }
    // Unclosed, and outside of any member.
    let (code, _) = fatal_after_hello(&["[".repeat(900_000).as_bytes(), b"\n"].concat()).await;
    assert_eq!(code, "CONTROL_INVALID_FRAME");
}

#[tokio::test]
async fn numbers_beyond_a_double_are_refused() {
    for number in ["1e999", "-1e999"] {
        let text = request("n:1", "nope.op", json!({"x": "N"})).to_string();
        let text = text.replace("\"N\"", number) + "\n";
        let (code, before) = fatal_after_hello(text.as_bytes()).await;
        assert_eq!(
            (code.as_str(), before.len()),
            ("CONTROL_INVALID_FRAME", 0),
            "{number}"
        );
    }
}

#[tokio::test]
async fn the_last_of_repeated_members_counts() {
    let home = Home::default();
    let mut product = home.open().await;
    let text = request("first:1", "nope.op", json!({})).to_string();
    let text = text.replace("\"input\"", "\"requestId\":\"last:1\",\"input\"") + "\n";
    product.write(text.as_bytes()).await;
    assert_eq!(product.frame().await["requestId"], "last:1");
}

#[tokio::test]
async fn a_cancel_reason_has_at_most_200_characters() {
    let (code, before) = fatal_after_hello(&line(&cancel("none:1", &"x".repeat(201)))).await;
    assert_eq!((code.as_str(), before.len()), ("CONTROL_INVALID_FRAME", 0));
    // One that nobody waits for says nothing, whatever its reason.
    let home = Home::default();
    let mut product = home.open().await;
    product
        .send(&cancel("none:1", &"\u{1f600}".repeat(200)))
        .await;
    product
        .send(&frame("cancel", json!({"requestId": "none:1"})))
        .await;
    product.send(&request("r:1", "nope.op", json!({}))).await;
    assert_eq!(product.frame().await["requestId"], "r:1");
    product.send(&cancel("r:1", "too late")).await;
    product.send(&request("r:2", "nope.op", json!({}))).await;
    assert_eq!(product.frame().await["requestId"], "r:2");
    product.end_input();
    assert_eq!(product.rest().await, Vec::<Value>::new());
    assert_eq!(product.exited().await.0.code(), Some(0));
}
