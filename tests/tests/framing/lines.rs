//! What is a line, and what is a line that can be read (control protocol 3.1).

use pyproc_tests::{Home, fatal_after_hello, fatal_at_first, hello, line, request, run, vector};
use serde_json::json;

const LIMIT: usize = 1_048_576;

/// A request for an operation that does not exist, as a line of `length` bytes.
fn padded(length: usize) -> Vec<u8> {
    let bare = request("p:1", "nope.op", json!({"x": ""})).to_string();
    let padding = "x".repeat(length - bare.len());
    let whole = request("p:1", "nope.op", json!({"x": padding})).to_string();
    assert_eq!(whole.len(), length);
    whole.into_bytes()
}

#[tokio::test]
async fn a_line_of_exactly_the_limit_is_parsed() {
    for terminator in ["\n", "\r\n"] {
        let home = Home::default();
        let mut product = home.open().await;
        product.write(&padded(LIMIT)).await;
        product.write(terminator.as_bytes()).await;
        let answer = product.frame().await;
        assert_eq!(answer["requestId"], "p:1");
        assert_eq!(answer["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
        product.end_input();
        assert_eq!(product.exited().await.0.code(), Some(0));
    }
}

#[tokio::test]
async fn a_longer_line_is_refused_without_waiting_for_its_end() {
    let (code, before) = fatal_after_hello(&padded(LIMIT + 1)).await;
    assert_eq!(
        (code.as_str(), before.len()),
        ("CONTROL_FRAME_TOO_LARGE", 0)
    );
    let code = fatal_at_first(&vec![b' '; LIMIT + 1]).await;
    assert_eq!(code, "CONTROL_FRAME_TOO_LARGE");
}

#[tokio::test]
async fn a_longer_line_at_the_end_of_input_is_refused() {
    // One byte over the limit that could still be the CR of a terminator.
    let home = Home::default();
    let mut product = home.open().await;
    let mut bytes = padded(LIMIT);
    bytes.push(b'\r');
    product.write(&bytes).await;
    product.end_input();
    let (code, before) = product.fatal().await;
    assert_eq!(
        (code.as_str(), before.len()),
        ("CONTROL_FRAME_TOO_LARGE", 0)
    );
}

#[tokio::test]
async fn bytes_that_are_no_json_object_are_refused() {
    let vectors = ["invalid-utf8.bin", "overlong.bin", "bom.bin"];
    for name in vectors {
        let home = Home::default();
        let mut product = home.serve();
        product.write(&vector(&format!("framing/{name}"))).await;
        let (code, before) = product.fatal().await;
        assert_eq!(code, "CONTROL_INVALID_FRAME", "{name}");
        assert_eq!(before.len(), 1, "{name}: the hello was answered");
    }
    let texts = [
        "\n", "\r\n", "[]\n", "1\n", "null\n", "\"x\"\n", "{\n", "{} {}\n", "hello\n",
    ];
    for text in texts {
        let (code, before) = fatal_after_hello(text.as_bytes()).await;
        assert_eq!(code, "CONTROL_INVALID_FRAME", "{text:?}");
        assert_eq!(before.len(), 0, "{text:?}");
        assert_eq!(
            fatal_at_first(text.as_bytes()).await,
            "CONTROL_INVALID_FRAME",
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn pieces_and_terminators_do_not_matter() {
    let home = Home::default();
    let mut product = home.serve();
    for piece in line(&hello()).chunks(7) {
        product.write(piece).await;
    }
    assert_eq!(product.frame().await["role"], "server");
    for byte in line(&run("r:1", "'h\u{e9}\u{20ac}\u{1f600}'")) {
        product.write(&[byte]).await;
    }
    let mut batch = Vec::new();
    for number in 1..=5 {
        batch.extend(
            run(&format!("b:{number}"), &format!("'\u{1f600}' * {number}"))
                .to_string()
                .bytes(),
        );
        batch.extend(if number % 2 == 0 { &b"\r\n"[..] } else { b"\n" });
    }
    product.write(&batch).await;
    let answer = product.frame().await;
    assert_eq!(answer["requestId"], "r:1");
    assert_eq!(answer["output"]["value"], "'h\u{e9}\u{20ac}\u{1f600}'");
    for number in 1..=5 {
        let answer = product.frame().await;
        assert_eq!(answer["requestId"], format!("b:{number}"));
        let value = format!("'{}'", "\u{1f600}".repeat(number));
        assert_eq!(answer["output"]["value"], value);
    }
}

#[tokio::test]
async fn crlf_lines_are_lines() {
    let home = Home::default();
    let mut product = home.serve();
    product.write(&vector("framing/crlf.ndjson")).await;
    product.end_input();
    let frames = product.rest().await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!(frames[1]["requestId"], "c:1");
    assert_eq!(frames[1]["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
    assert_eq!(product.exited().await.0.code(), Some(0));
}

#[tokio::test]
async fn unicode_separators_do_not_end_a_line_and_are_escaped_on_the_way_out() {
    let home = Home::default();
    let mut product = home.serve();
    product.write(&vector("framing/separators.ndjson")).await;
    assert_eq!(product.frame().await["type"], "hello");
    let raw = product.line().await.expect("an answer");
    assert!(raw.contains(r"a\u2028b\u2029c 5\n"), "{raw}");
    assert!(!raw.contains(['\u{2028}', '\u{2029}', '\r']), "{raw}");
    // A lone CR inside a string is malformed JSON and ends nothing.
    product.write(b"{\"a\":1}\r{\"b\":2}\n").await;
    assert_eq!(product.fatal().await.0, "CONTROL_INVALID_FRAME");
}

#[tokio::test]
async fn a_last_line_needs_no_line_feed() {
    let home = Home::default();
    let mut product = home.serve();
    product
        .write(&vector("framing/no-final-newline.ndjson"))
        .await;
    product.end_input();
    let frames = product.rest().await;
    assert_eq!(frames.len(), 2, "{frames:?}");
    assert_eq!(frames[1]["requestId"], "last:1");
    assert_eq!(frames[1]["error"]["code"], "CONTROL_OPERATION_UNKNOWN");
    assert_eq!(product.exited().await.0.code(), Some(0));
    home.is_left_clean().await;
}

#[tokio::test]
async fn unpaired_surrogate_escapes_become_replacement_characters() {
    let home = Home::default();
    let mut product = home.serve();
    product
        .write(&vector("framing/lone-surrogate.ndjson"))
        .await;
    assert_eq!(product.frame().await["type"], "hello");
    for (id, value) in [
        ("t:0", "'0xfffd'"),
        ("t:1", "'0xfffd'"),
        ("t:2", "'0x1f600'"),
    ] {
        let answer = product.frame().await;
        assert_eq!(answer["requestId"], id);
        assert_eq!(answer["output"]["value"], value);
    }
    // Nor does the product emit one: an escape of it would not be decoded.
    product
        .send(&run("t:3", r"print('<\ud800>'); '\udfff'"))
        .await;
    let answer = product.frame().await;
    assert_eq!(answer["output"]["value"], r"'\udfff'");
    let stdout = answer["output"]["stdout"].as_str().expect("output");
    assert!(
        stdout.starts_with('<') && stdout.ends_with(">\n"),
        "{stdout}"
    );
}
