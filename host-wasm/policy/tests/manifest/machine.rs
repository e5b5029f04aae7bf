//! The object `machine` and its bounds.

use serde_json::{Value, json};

use crate::support::{accept, full, minimal, refused_at, with};

#[test]
fn the_machine_has_defaults_and_bounds() {
    let machine = accept(&minimal()).machine;
    assert_eq!(machine.heap_limit_bytes.value(), 512 << 20);
    assert_eq!(machine.store_limit_bytes.value(), 1 << 30);
    assert_eq!(machine.max_checkpoints.value(), 256);
    assert_eq!(machine.file_limit_bytes.value(), 256 << 20);
    assert_eq!(machine.output_bytes.value(), 1 << 20);
    assert_eq!(machine.interrupt_grace_ms.value(), 2_000);
    assert_eq!(machine.guard_idle_ms.value(), 10);
    assert_eq!(machine.boot_timeout_ms.value(), 30_000);
    assert!(machine.spare);
    for (key, min, max) in [
        ("heapLimitBytes", 64_u64 << 20, 2_u64 << 30),
        ("storeLimitBytes", 64 << 20, 3 << 30),
        ("maxCheckpoints", 1, 4096),
        ("fileLimitBytes", 1 << 20, 1 << 30),
        ("outputBytes", 64 << 10, 8 << 20),
        ("interruptGraceMs", 0, 60_000),
        ("guardIdleMs", 0, 900_000),
        ("bootTimeoutMs", 1, 900_000),
    ] {
        let set = |value: Value| with(full(), &format!("/machine/{key}"), value);
        accept(&set(json!(min)));
        accept(&set(json!(max)));
        let below = i64::try_from(min).expect("small") - 1;
        let path = format!("machine.{key}");
        refused_at(&[(set(json!(below)), &path), (set(json!(max + 1)), &path)]);
    }
}

#[test]
fn the_machines_names_are_checked() {
    let set = |key: &str, value| with(full(), &format!("/machine/{key}"), value);
    let many: Vec<String> = (0..33).map(|n| format!("p{n}")).collect();
    let variables: serde_json::Map<_, _> = (0..65).map(|n| (format!("V{n}"), json!("x"))).collect();
    refused_at(&[
        (set("wheels", json!("/srv/none")), "machine.wheels"),
        (set("wheels", json!("srv/wheels")), "machine.wheels"),
        (set("wheels", json!("/srv/machine.img")), "machine.wheels"),
        (set("preload", json!(["os.path"])), "machine.preload[0]"),
        (set("preload", json!(["1st"])), "machine.preload[0]"),
        (
            set("preload", json!(["numpy", "numpy"])),
            "machine.preload[1]",
        ),
        (set("preload", json!(many)), "machine.preload"),
        (set("env", json!({"lower": "x"})), "machine.env.lower"),
        (set("env", json!({"1A": "x"})), "machine.env.1A"),
        (set("env", json!({"": "x"})), "machine.env[\"\"]"),
        (set("env", json!({"A=B": "x"})), "machine.env[\"A=B\"]"),
        (
            set("env", json!({"PYPROC_BROWSER": "x"})),
            "machine.env.PYPROC_BROWSER",
        ),
        (set("env", json!({"A": 1})), "machine.env.A"),
        (set("env", json!({"A": "x\u{0}"})), "machine.env.A"),
        (set("env", Value::Object(variables)), "machine.env"),
        (set("timezone", json!("Europe/Wien")), "machine.timezone"),
        (set("spare", json!(1)), "machine.spare"),
        (
            set("image", json!({"load": "/srv/none.img"})),
            "machine.image.load",
        ),
        (
            set("image", json!({"saveOnExit": "/none/x.img"})),
            "machine.image.saveOnExit",
        ),
        (
            set("image", json!({"saveOnExit": "x.img"})),
            "machine.image.saveOnExit",
        ),
        (
            set("image", json!({"operations": "yes"})),
            "machine.image.operations",
        ),
    ]);
    // What the machine makes itself need not be there yet.
    let own = json!({"load": "/srv/none.img", "saveOnExit": "/srv/none.img"});
    let image = accept(&set("image", own)).machine.image;
    assert_eq!(image.load, image.save_on_exit);
    refused_at(&[(
        set(
            "image",
            json!({"load": "/srv/none.img", "saveOnExit": "/srv/next.img"}),
        ),
        "machine.image.load",
    )]);
    assert_eq!(
        accept(&set("preload", json!(many[..32]))).machine.preload,
        many[..32]
    );
}
