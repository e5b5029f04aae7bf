//! The object `control` (operator plane, cases 34 and 36 as far as no content is read).

use serde_json::{Value, json};

use crate::support::{accept, full, minimal, refused_at, with};

#[test]
fn a_control_listener_has_one_token_source_per_role_and_tls_when_remote() {
    let control = |value| with(minimal(), "/control", value);
    let local = |extra: Value| {
        let mut value = json!({"listen": "127.0.0.1:0", "operator_token_env": "OPERATOR"});
        for (key, member) in extra.as_object().expect("an object") {
            value[key] = member.clone();
        }
        control(value)
    };
    let no_token = json!({"listen": "127.0.0.1:0"});
    let remote = json!({"listen": "192.0.2.1:7000"});
    refused_at(&[
        (
            control(json!({"operator_token_env": "OPERATOR"})),
            "control.listen",
        ),
        (local(json!({"listen": "localhost:7000"})), "control.listen"),
        (local(json!({"listen": "127.0.0.1"})), "control.listen"),
        (
            local(json!({"listen": "127.0.0.1:65536"})),
            "control.listen",
        ),
        (local(remote), "control.listen"),
        (local(json!({"listen": "[::]:7000"})), "control.listen"),
        (control(no_token), "control"),
        (
            local(json!({"operator_token_file": "/etc/pyproc/operator"})),
            "control.operator_token_env",
        ),
        (
            local(json!({"observer_token_env": "OPERATOR"})),
            "control.observer_token_env",
        ),
        (
            local(json!({"operator_token_env": "A=B"})),
            "control.operator_token_env",
        ),
        (
            local(json!({"forbidden_token_env": ["OPERATOR"]})),
            "control.forbidden_token_env[0]",
        ),
        (
            local(json!({"forbidden_token_env": ["a b"]})),
            "control.forbidden_token_env[0]",
        ),
        (
            local(json!({"remote_tls_certificate_der": "/etc/pyproc/cert.der"})),
            "control.remote_tls_private_key_der",
        ),
        (
            local(json!({"remote_tls_private_key_der": "/etc/pyproc/key.der"})),
            "control.remote_tls_certificate_der",
        ),
        (local(json!({"approvals": {}})), "control.approvals.mode"),
        (
            local(json!({"approvals": {"mode": "all"}})),
            "control.approvals.mode",
        ),
        (
            local(json!({"approvals": {"mode": "none", "timeout_ms": 1000}})),
            "control.approvals.timeout_ms",
        ),
        (
            local(json!({"approvals": {"mode": "externalEffect", "timeout_ms": 999}})),
            "control.approvals.timeout_ms",
        ),
        (
            local(json!({"approvals": {"mode": "externalEffect", "operations": ["run"]}})),
            "control.approvals.operations[0]",
        ),
        (
            local(json!({"journal_file": "/none/journal"})),
            "control.journal_file",
        ),
        (
            local(json!({"limits": {"max_connections": 257}})),
            "control.limits.max_connections",
        ),
        (
            local(json!({"limits": {"shutdown_deadline_ms": -1}})),
            "control.limits.shutdown_deadline_ms",
        ),
    ]);
    for token in ["exposed", "link", "pipe", "long", "none"] {
        refused_at(&[(
            control(json!({
                "listen": "[::1]:0", "operator_token_file": format!("/etc/pyproc/{token}")
            })),
            "control.operator_token_file",
        )]);
    }
    let tls = |certificate: &str, key: &str| {
        local(json!({
            "remote_tls_certificate_der": format!("/etc/pyproc/{certificate}"),
            "remote_tls_private_key_der": format!("/etc/pyproc/{key}")
        }))
    };
    refused_at(&[
        (
            tls("huge.der", "key.der"),
            "control.remote_tls_certificate_der",
        ),
        (tls("link", "key.der"), "control.remote_tls_certificate_der"),
        (
            tls("cert.der", "huge.der"),
            "control.remote_tls_private_key_der",
        ),
        (
            tls("cert.der", "exposed"),
            "control.remote_tls_private_key_der",
        ),
    ]);
    accept(&tls("exposed", "key.der"));
    let settings = accept(&local(json!({"approvals": {"mode": "none"}})))
        .control
        .expect("present");
    assert!(!settings.is_remote() && settings.approvals().is_none());
    assert_eq!(settings.limits().history_bytes.value(), 8_388_608);
    let settings = accept(&full()).control.expect("present");
    assert!(settings.is_remote() && settings.tls().is_some());
    let approvals = settings.approvals().expect("present");
    assert_eq!(approvals.timeout_ms.value(), 60_000);
}
