//! The four machine operations as frames (control protocol 7, machine 2).

use std::time::Duration;

use pyproc_tests::{Home, Product, request, run};
use serde_json::{Value, json};

/// A product and fresh request ids.
struct Session {
    product: Product,
    requests: u32,
}

impl Session {
    async fn open(home: &Home) -> Self {
        Self {
            product: home.open().await,
            requests: 0,
        }
    }

    async fn ask(&mut self, operation: &str, input: Value) -> Value {
        self.requests += 1;
        let id = format!("r:{}", self.requests);
        self.product.send(&request(&id, operation, input)).await;
        let answer = self.product.frame().await;
        assert_eq!(answer["requestId"], id, "{answer}");
        answer
    }

    async fn output(&mut self, operation: &str, input: Value) -> Value {
        let answer = self.ask(operation, input).await;
        assert_eq!(answer["type"], "response", "{answer}");
        assert_eq!(answer["outcome"], "applied", "{answer}");
        answer["output"].clone()
    }

    async fn error(&mut self, operation: &str, input: Value) -> Value {
        let answer = self.ask(operation, input).await;
        assert_eq!(answer["type"], "error", "{answer}");
        answer["error"].clone()
    }

    async fn run(&mut self, code: &str) -> Value {
        self.output("machine.run", json!({"code": code})).await
    }

    async fn value(&mut self, code: &str) -> Value {
        self.run(code).await["value"].clone()
    }

    async fn save(&mut self) -> Value {
        self.output("machine.checkpoint.save", json!({})).await
    }

    async fn restore(&mut self, input: Value) -> Value {
        self.output("machine.checkpoint.restore", input).await
    }
}

#[tokio::test]
async fn a_run_answers_what_it_printed_and_the_value_of_its_last_expression() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    let cases = [
        ("40+2", "", Some("42")),
        ("x = 1", "", None),
        ("None", "", None),
        ("", "", None),
        ("print('hi')", "hi\n", None),
        ("1;2", "", Some("2")),
        ("y = 2\ny + x", "", Some("3")),
        (
            "import asyncio\nawait asyncio.sleep(0, 'slept')",
            "",
            Some("'slept'"),
        ),
        ("__name__", "", Some("'__main__'")),
    ];
    for (code, stdout, value) in cases {
        let output = session.run(code).await;
        assert_eq!(output["stdout"], stdout, "{code}");
        let found = output.as_object().expect("an object").get("value");
        assert_eq!(found, value.map(Value::from).as_ref(), "{code}: {output}");
    }
    let code = "import sys\nfor n in range(3):\n print(n)\n print('e', n, file=sys.stderr)";
    let output = session.run(code).await;
    assert_eq!(output["stdout"], "0\ne 0\n1\ne 1\n2\ne 2\n");
    assert_eq!(output["stderrBytes"], 12);
    // Members that nobody knows are ignored.
    let output = session
        .output("machine.run", json!({"code": "5", "else": [1]}))
        .await;
    assert_eq!(output["value"], "5");
}

#[tokio::test]
async fn a_python_error_is_an_applied_failure_and_the_machine_goes_on() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    let error = session
        .error(
            "machine.run",
            json!({"code": "print('x'); a = 1; raise ValueError('boom')"}),
        )
        .await;
    assert_eq!(error["code"], "MACHINE_PYTHON_ERROR");
    assert_eq!(error["outcome"], "applied");
    assert_eq!(error["retryable"], false);
    let message = error["message"].as_str().expect("a message");
    assert!(message.ends_with("ValueError: boom"), "{message}");
    assert_eq!(error["details"]["type"], "ValueError");
    assert_eq!(error["details"]["stdout"], "x\n");
    assert_eq!(session.value("a").await, "1");
    // Only what does not compile counts as not run.
    let error = session
        .error("machine.run", json!({"code": "a = 2\n1 +"}))
        .await;
    assert_eq!(
        (&error["code"], &error["outcome"]),
        (&json!("MACHINE_PYTHON_ERROR"), &json!("rejected"))
    );
    assert_eq!(session.value("a").await, "1");
    session
        .run("calls = []\ndef f():\n calls.append(1)\n raise SyntaxError('late')")
        .await;
    let error = session.error("machine.run", json!({"code": "f()"})).await;
    assert_eq!(
        (&error["details"]["type"], &error["outcome"]),
        (&json!("SyntaxError"), &json!("applied"))
    );
    assert_eq!(session.value("calls").await, "[1]");
    let error = session
        .error("machine.run", json!({"code": "raise SystemExit(3)"}))
        .await;
    assert_eq!(
        (&error["code"], &error["details"]["exitCode"]),
        (&json!("MACHINE_EXIT"), &json!(3))
    );
    let error = session
        .error("machine.run", json!({"code": "raise KeyboardInterrupt"}))
        .await;
    assert_eq!(
        (&error["code"], &error["outcome"]),
        (&json!("MACHINE_PYTHON_ERROR"), &json!("applied"))
    );
    let error = session
        .error("machine.run", json!({"code": "input('x')"}))
        .await;
    assert_eq!(error["details"]["type"], "EOFError");
    let long = session
        .error(
            "machine.run",
            json!({"code": "raise ValueError('y' * 5000 + 'end')"}),
        )
        .await;
    let message = long["message"].as_str().expect("a message");
    assert!(
        message.len() <= 400 && message.ends_with("yend"),
        "{message}"
    );
    assert_eq!(session.value("a").await, "1");
}

#[tokio::test]
async fn bad_input_is_refused_before_the_machine_is_asked() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    for input in [
        json!({}),
        json!({"code": 5}),
        json!({"code": null}),
        json!({"code": "ran = 1", "interruptGraceMs": -1}),
        json!({"code": "ran = 1", "interruptGraceMs": 60_001}),
        json!({"code": "ran = 1", "interruptGraceMs": null}),
    ] {
        let error = session.error("machine.run", input.clone()).await;
        assert_eq!(error["code"], "PYPROC_INPUT_INVALID", "{input}");
        assert_eq!(error["outcome"], "notSent", "{input}");
        assert_eq!(error["retryable"], false, "{input}");
    }
    for index in [json!("1"), json!(1.5), json!(true), json!([])] {
        let error = session
            .error("machine.checkpoint.restore", json!({"index": index}))
            .await;
        assert_eq!(
            (&error["code"], &error["outcome"]),
            (&json!("PYPROC_INPUT_INVALID"), &json!("notSent")),
            "{index}"
        );
    }
    let error = session.error("machine.reset", json!({"hard": 1})).await;
    assert_eq!(error["code"], "PYPROC_INPUT_INVALID");
    let code = format!("#{}", "x".repeat(524_288));
    let error = session.error("machine.run", json!({"code": code})).await;
    assert_eq!(
        (&error["code"], &error["outcome"]),
        (&json!("MACHINE_CODE_TOO_LARGE"), &json!("notSent"))
    );
    let code = format!("#{}", "x".repeat(524_287));
    session.run(&code).await;
    assert_eq!(session.value("'ran' in globals()").await, "False");
}

#[tokio::test]
async fn checkpoints_count_from_one_and_stay_restorable() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    for input in [json!({}), json!({"index": 1}), json!({"index": 0})] {
        let error = session
            .error("machine.checkpoint.restore", input.clone())
            .await;
        assert_eq!(
            (&error["code"], &error["outcome"]),
            (&json!("MACHINE_CHECKPOINT_UNKNOWN"), &json!("rejected")),
            "{input}"
        );
    }
    session.run("v = 'one'").await;
    let first = session.save().await;
    assert_eq!(first["index"], 1);
    assert!(
        first["changedPages"].as_u64().expect("a count") > 0,
        "{first}"
    );
    assert_eq!(first["kind"], "delta");
    let second = session.save().await;
    assert_eq!(
        (&second["index"], &second["changedPages"]),
        (&json!(2), &json!(0))
    );
    session.run("v = 'two'; open('late', 'w').write('x')").await;
    assert_eq!(session.save().await["index"], 3);
    let back = session.restore(json!({"index": 1})).await;
    assert_eq!(
        (&back["index"], &back["rehashed"]),
        (&json!(1), &json!(true))
    );
    assert!(
        back["pagesWritten"].as_u64().expect("a count") > 0,
        "{back}"
    );
    let again = session.restore(json!({"index": 1.0})).await;
    assert_eq!(
        (&again["rehashed"], &again["pagesWritten"]),
        (&json!(false), &json!(0))
    );
    assert_eq!(
        session.value("import os; v, os.path.exists('late')").await,
        "('one', False)"
    );
    assert_eq!(session.restore(json!({"index": 2})).await["index"], 2);
    for input in [json!({}), json!({"index": null})] {
        let latest = session.restore(input).await;
        assert_eq!(latest["index"], 3);
        assert_eq!(
            session.value("import os; v, os.path.exists('late')").await,
            "('two', True)"
        );
    }
    let unknown = session
        .error("machine.checkpoint.restore", json!({"index": 99}))
        .await;
    assert_eq!(
        (&unknown["code"], &unknown["outcome"]),
        (&json!("MACHINE_CHECKPOINT_UNKNOWN"), &json!("rejected"))
    );
    assert_eq!(session.value("v").await, "'two'", "unchanged");
    // A save after a restore branches; latest is what was saved last.
    session.restore(json!({"index": 1})).await;
    session.run("v = 'branch'").await;
    assert_eq!(session.save().await["index"], 4);
    session.restore(json!({"index": 3})).await;
    assert_eq!(session.restore(json!({})).await["index"], 4);
    assert_eq!(session.value("v").await, "'branch'");
}

#[tokio::test]
async fn a_reset_forgets_everything_but_the_numbers() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    for input in [json!({}), json!({"hard": true})] {
        session
            .run("v = 1; import json as j; open('f', 'w').close()")
            .await;
        let before = session.save().await["index"].as_u64().expect("an index");
        let reset = session.output("machine.reset", input).await;
        assert_eq!(reset["index"], 0);
        assert!(
            reset["pagesWritten"].is_u64() && reset["rehashed"].is_boolean(),
            "{reset}"
        );
        let code = "import os, sys\n[n in globals() for n in 'vj'], os.path.exists('f'), 'pyprocJail' in sys.modules";
        assert_eq!(session.value(code).await, "([False, False], False, True)");
        for input in [json!({}), json!({"index": before}), json!({"index": 0})] {
            let error = session.error("machine.checkpoint.restore", input).await;
            assert_eq!(error["code"], "MACHINE_CHECKPOINT_UNKNOWN");
        }
        assert_eq!(session.save().await["index"], before + 1);
    }
    let code = "import pyprocJail\ndenied = 0\nfor name in ('net', 'clipboard', 'home', 'workers'):\n    try: getattr(pyprocJail, name)()\n    except PermissionError: denied += 1\ndenied";
    assert_eq!(session.value(code).await, "4");
}

#[tokio::test]
async fn a_cancelled_client_is_told_once_where_the_machine_went_on() {
    let home = Home::default();
    let mut session = Session::open(&home).await;
    session.run("v = 'kept'").await;
    // The guard is taken while the machine is idle.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let code = json!({"code": "v = 'lost'\nsum(range(10**12))", "interruptGraceMs": 100});
    session
        .product
        .send(&request("c:1", "machine.run", code))
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    session
        .product
        .send(&pyproc_tests::cancel("c:1", "stop"))
        .await;
    let answer = session.product.frame().await;
    assert_eq!(
        (&answer["requestId"], &answer["error"]["outcome"]),
        (&json!("c:1"), &json!("outcomeUnknown"))
    );
    session.product.send(&run("n:1", "v")).await;
    let answer = session.product.frame().await;
    let recovered = &answer["output"]["recovered"];
    assert_eq!(recovered["reason"], "MACHINE_KILLED", "{answer}");
    assert_eq!(recovered["restored"]["lostRuns"], 0, "{answer}");
    assert_eq!(answer["output"]["value"], "'kept'");
    assert!(session.run("v").await.get("recovered").is_none());
}
