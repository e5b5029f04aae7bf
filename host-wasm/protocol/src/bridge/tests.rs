use serde_json::{Value, json};

use super::*;
use crate::codes;
use crate::error::ControlError;
use crate::outcome::{FailureOutcome, SuccessOutcome};
use crate::types::OperationName;

const TOKEN: &str = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE";

fn token() -> BridgeToken {
    BridgeToken::parse(TOKEN).unwrap()
}

fn bridge_id() -> BridgeId {
    BridgeId::parse("b:1").unwrap()
}

fn epoch() -> PageEpoch {
    PageEpoch::parse("0f8fad5b-d9cb-469f-a165-70867728950e").unwrap()
}

fn ready() -> Value {
    json!({
        "type": "ready", "protocol": "pyproc-control", "version": 1,
        "pageEpoch": epoch(), "spaceId": "machine:primary", "token": TOKEN,
    })
}

fn with(mut message: Value, name: &str, value: Value) -> Value {
    message[name] = value;
    message
}

fn without(mut message: Value, name: &str) -> Value {
    message.as_object_mut().unwrap().remove(name).unwrap();
    message
}

fn shake(message: &Value) -> Result<Handshake, HandshakeError> {
    Handshake::decode(message.to_string().as_bytes(), &token())
}

fn close_of(message: &Value) -> (u16, String) {
    let error = shake(message).unwrap_err();
    (error.close_code(), error.reason().to_string())
}

#[test]
fn tokens_show_nothing_and_match_only_themselves() {
    assert_eq!(format!("{:?}", token()), "BridgeToken(..)");
    assert!(token().matches(TOKEN));
    assert!(!token().matches(&TOKEN[1..]));
    assert!(!token().matches(&TOKEN.to_lowercase()));
    assert!(!token().matches(""));
    for bad in ["", &TOKEN[1..], &format!("{TOKEN}="), &"x".repeat(129)] {
        let error = BridgeToken::parse(bad).unwrap_err().to_string();
        assert!(bad.is_empty() || !error.contains(bad));
    }
}

#[test]
fn a_ready_page_is_welcome() {
    assert_eq!(
        shake(&ready()),
        Ok(Handshake::Ready {
            page_epoch: epoch()
        })
    );
    assert_eq!(
        shake(&with(ready(), "version", json!(1.0))),
        shake(&ready())
    );
    let text = Handshake::Ready {
        page_epoch: epoch(),
    }
    .encode(&token())
    .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), ready());
}

#[test]
fn a_wrong_token_is_unauthorised_whatever_else_is_wrong() {
    let unauthorised = (4403, "CONTROL_BRIDGE_UNAUTHORIZED".to_owned());
    let wrong = with(ready(), "token", json!(TOKEN.to_lowercase()));
    assert_eq!(close_of(&wrong), unauthorised);
    assert_eq!(close_of(&with(wrong, "version", json!(2))), unauthorised);
    assert_eq!(close_of(&without(ready(), "token")), unauthorised);
    assert_eq!(close_of(&with(ready(), "token", json!(null))), unauthorised);
    assert_eq!(close_of(&json!({"type": "nope"})), unauthorised);
}

#[test]
fn any_other_wrong_member_is_a_bad_handshake() {
    let malformed = (4400, "CONTROL_BRIDGE_HANDSHAKE".to_owned());
    let cases = [
        with(ready(), "type", json!("result")),
        with(ready(), "type", json!(null)),
        with(ready(), "protocol", json!("other")),
        with(ready(), "version", json!(2)),
        with(ready(), "version", json!("1")),
        with(ready(), "pageEpoch", json!("")),
        with(ready(), "pageEpoch", json!("x".repeat(129))),
        with(ready(), "pageEpoch", json!(7)),
        with(ready(), "spaceId", json!("space:frame")),
        with(ready(), "extra", json!(1)),
        without(ready(), "pageEpoch"),
        without(ready(), "spaceId"),
        json!([]),
    ];
    for message in cases {
        assert_eq!(close_of(&message), malformed, "{message}");
    }
    let decode = |bytes: &[u8]| Handshake::decode(bytes, &token()).unwrap_err().close_code();
    assert_eq!(decode(b"nonsense"), 4400);
    assert_eq!(decode(b"\xff"), 4400);
}

#[test]
fn the_handshake_is_bounded_exactly() {
    let line = ready().to_string();
    let padded = |length: usize| line.clone() + &" ".repeat(length - line.len());
    assert!(Handshake::decode(padded(4096).as_bytes(), &token()).is_ok());
    let error = Handshake::decode(padded(4097).as_bytes(), &token()).unwrap_err();
    assert_eq!(error.close_code(), 4400);
}

#[test]
fn a_boot_failure_needs_the_token_and_carries_its_cause() {
    let sent = Handshake::boot_failed("no engine", &codes::MACHINE_ENGINE_INCOMPATIBLE);
    let text = sent.encode(&token()).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({
            "type": "bootFailed", "token": TOKEN, "message": "no engine",
            "details": {"cause": "MACHINE_ENGINE_INCOMPATIBLE"},
        })
    );
    assert_eq!(Handshake::decode(text.as_bytes(), &token()), Ok(sent));
    let failed = json!({"type": "bootFailed", "token": TOKEN, "message": ""});
    let Ok(Handshake::BootFailed {
        message,
        details: None,
    }) = shake(&failed)
    else {
        panic!("a boot failure is wanted")
    };
    assert!(!message.is_empty());
    assert_eq!(close_of(&without(failed.clone(), "token")).0, 4403);
    assert_eq!(
        close_of(&with(failed.clone(), "pageEpoch", json!("x"))).0,
        4400
    );
    assert_eq!(close_of(&with(failed, "details", json!(null))).0, 4400);
}

#[test]
fn a_boot_failure_always_fits_the_handshake() {
    let long = "\u{1}".repeat(5000);
    let Handshake::BootFailed { message, .. } =
        Handshake::boot_failed(&long, &codes::MACHINE_BOOT_FAILED)
    else {
        panic!("a boot failure is wanted")
    };
    assert_eq!(message.len(), 400);
    let details = Map::from_iter([("log".to_owned(), json!("x".repeat(5000)))]);
    let sent = Handshake::BootFailed {
        message: message.clone(),
        details: Some(details),
    };
    let text = sent.encode(&token()).unwrap();
    assert_eq!(
        Handshake::decode(text.as_bytes(), &token()),
        Ok(Handshake::BootFailed {
            message,
            details: None
        })
    );
}

#[test]
fn host_messages_survive_the_bridge() {
    let input = json!({"code": "1\u{2028}"});
    let command = HostMessage::Command {
        request_id: bridge_id(),
        page_epoch: epoch(),
        operation: OperationName::parse("machine.run").unwrap(),
        input: input.as_object().unwrap().clone(),
    };
    let text = command.encode().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&text).unwrap(),
        json!({
            "type": "command", "requestId": "b:1", "pageEpoch": epoch(),
            "operation": "machine.run", "input": input,
        })
    );
    assert_eq!(HostMessage::decode(text.as_bytes()), Ok(command));
    for grace_ms in [None, Some(0), Some(60_000)] {
        let interrupt = HostMessage::Interrupt {
            request_id: bridge_id(),
            page_epoch: epoch(),
            grace_ms,
        };
        let text = interrupt.encode().unwrap();
        assert_eq!(text.contains("graceMs"), grace_ms.is_some());
        assert_eq!(HostMessage::decode(text.as_bytes()), Ok(interrupt));
    }
}

#[test]
fn host_messages_are_closed() {
    let interrupt = json!({"type": "interrupt", "requestId": "b:1", "pageEpoch": "e"});
    let command = json!({
        "type": "command", "requestId": "b:1", "pageEpoch": "e", "operation": "a.b", "input": {},
    });
    let accepted = |message: &Value| HostMessage::decode(message.to_string().as_bytes()).is_ok();
    assert!(accepted(&interrupt) && accepted(&command));
    let cases = [
        with(interrupt.clone(), "graceMs", json!(60_001)),
        with(interrupt.clone(), "graceMs", json!(-1)),
        with(interrupt.clone(), "graceMs", json!(null)),
        with(interrupt.clone(), "extra", json!(1)),
        without(interrupt.clone(), "pageEpoch"),
        with(interrupt, "type", json!("stop")),
        with(command.clone(), "input", json!([])),
        with(command.clone(), "operation", json!("run")),
        with(command.clone(), "requestId", json!("a b")),
        with(command.clone(), "extra", json!(1)),
        without(command, "input"),
        json!("x"),
    ];
    for message in cases {
        assert!(!accepted(&message), "{message}");
    }
}

fn success() -> Value {
    json!({"type": "result", "requestId": "b:1", "pageEpoch": epoch(), "ok": true, "value": {}})
}

fn failure() -> Value {
    json!({
        "type": "result", "requestId": "b:1", "pageEpoch": epoch(), "ok": false,
        "error": {
            "code": "MACHINE_PYTHON_ERROR", "message": "boom", "outcome": "applied",
            "retryable": false,
        },
    })
}

fn result_of(message: &Value) -> Result<PageResult, BridgeError> {
    PageResult::decode(message.to_string().as_bytes())
}

fn error_of(error: Value) -> ControlError {
    result_of(&with(failure(), "error", error))
        .unwrap()
        .result
        .unwrap_err()
}

#[test]
fn results_survive_the_bridge() {
    let value = json!({"stdout": "a\u{2028}", "value": "42"});
    let results = [
        Ok(value.as_object().unwrap().clone()),
        Err(ControlError::rejected(codes::MACHINE_KILLED, "killed")
            .with_retryable(true)
            .with_detail("restored", json!({"kind": "guard"}))),
    ];
    for result in results {
        let sent = PageResult {
            request_id: bridge_id(),
            page_epoch: epoch(),
            result,
        };
        let text = sent.encode().unwrap();
        assert!(!text.contains('\u{2028}'));
        assert_eq!(PageResult::decode(text.as_bytes()), Ok(sent));
    }
}

#[test]
fn results_are_closed() {
    assert!(result_of(&success()).is_ok() && result_of(&failure()).is_ok());
    let cases = [
        with(success(), "error", failure()["error"].clone()),
        with(failure(), "value", json!({})),
        with(success(), "value", json!(5)),
        with(success(), "value", json!(null)),
        with(success(), "ok", json!(1)),
        with(success(), "extra", json!(1)),
        with(success(), "type", json!("ready")),
        without(success(), "value"),
        without(success(), "requestId"),
        without(success(), "pageEpoch"),
        without(failure(), "error"),
        with(failure(), "error", json!("boom")),
        json!([]),
    ];
    for message in cases {
        assert!(
            matches!(result_of(&message), Err(BridgeError::Member(_))),
            "{message}"
        );
    }
    assert!(matches!(
        PageResult::decode(b"{"),
        Err(BridgeError::Json(_))
    ));
}

#[test]
fn page_errors_are_normalised() {
    let error = error_of(json!({
        "code": "no code", "message": "x".repeat(500), "outcome": "outcomeUnknown",
        "retryable": true, "details": {},
    }));
    let message = "x".repeat(400);
    assert_eq!(
        error,
        ControlError::outcome_unknown(codes::PYPROC_INTERNAL, message)
    );
    let error = error_of(json!({
        "code": "MACHINE_CHECKPOINT_LIMIT", "message": "full", "outcome": "rejected",
        "retryable": true, "details": {"listed": 256},
    }));
    assert_eq!(error.outcome(), FailureOutcome::Rejected);
    assert!(error.retryable());
    assert_eq!(error.details().unwrap()["listed"], 256);
}

#[test]
fn a_page_must_know_the_outcome_of_its_errors() {
    for outcome in [json!("observed"), json!("maybe"), json!(null)] {
        let message = with(
            failure(),
            "error",
            with(failure()["error"].clone(), "outcome", outcome),
        );
        assert!(
            matches!(result_of(&message), Err(BridgeError::Member(_))),
            "{message}"
        );
    }
}

#[test]
fn lone_surrogates_of_a_page_are_replaced() {
    let text = success()
        .to_string()
        .replace("{}", r#"{"stdout":"a\ud800b"}"#);
    let result = PageResult::decode(text.as_bytes()).unwrap().result.unwrap();
    assert_eq!(result["stdout"], "a\u{fffd}b");
}

#[test]
fn page_messages_are_bounded_exactly() {
    let line = success().to_string();
    let padded = |length: usize| line.clone() + &" ".repeat(length - line.len());
    assert!(PageResult::decode(padded(8_388_608).as_bytes()).is_ok());
    assert_eq!(
        PageResult::decode(padded(8_388_609).as_bytes()),
        Err(BridgeError::TooLarge)
    );
}

#[test]
fn a_result_too_large_for_the_bridge_has_a_substitute() {
    let large = json!({"stdout": "x".repeat(9_000_000)});
    let sent = PageResult {
        request_id: bridge_id(),
        page_epoch: epoch(),
        result: Ok(large.as_object().unwrap().clone()),
    };
    assert!(sent.encode().is_err());
    let substitute = sent.clone().too_large(SuccessOutcome::Applied);
    assert_eq!(substitute.request_id, sent.request_id);
    let error = substitute.result.clone().unwrap_err();
    assert_eq!(*error.code(), codes::CONTROL_FRAME_TOO_LARGE);
    assert_eq!(error.outcome(), FailureOutcome::Applied);
    assert!(substitute.encode().is_ok());
    let error = ControlError::applied(codes::MACHINE_PYTHON_ERROR, "boom");
    let failed = PageResult {
        result: Err(error.clone().with_detail("log", "x")),
        ..sent
    };
    assert_eq!(failed.too_large(SuccessOutcome::Applied).result, Err(error));
}
