//! Validation survives any input.

use proptest::prelude::*;
use pyproc_policy::{Manifest, ManifestFiles, NoFiles};
use serde_json::{Value, json};

use crate::support::{full, minimal, replay, with, world};

fn valid() -> impl Strategy<Value = Value> {
    prop_oneof![Just(minimal()), Just(full()), Just(replay())]
}

/// Values that often sit at a boundary of some rule.
fn odd_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[], {}, "x", " "])),
        Just(json!({"enabled": true, "root": "/", "mode": "replay"})),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        "/[a-z/.\u{0}:]{0,12}".prop_map(Value::from),
        "[a-zA-Z]{1,8}://[\u{20}-\u{7e}]{0,16}".prop_map(Value::from),
    ]
}

/// The JSON pointers of every object member and array element.
fn pointers(value: &Value, at: &str, found: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(k, v)| (k.clone(), v)).collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    for (key, member) in members {
        let pointer = format!("{at}/{key}");
        pointers(member, &pointer, found);
        found.push(pointer);
    }
}

/// A verdict is a model or one line of printable text.
fn check(text: &[u8], files: &dyn ManifestFiles) -> Result<(), TestCaseError> {
    if let Err(error) = Manifest::parse(text, files) {
        let line = error.to_string();
        prop_assert!(!line.contains(|c: char| c.is_control()), "{:?}", line);
        prop_assert!(line.len() < 1000, "{} bytes", line.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_never_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        check(&text, &NoFiles)?;
    }

    #[test]
    fn damaged_manifests_never_panic(
        manifest in valid(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        let mut text = manifest.to_string().into_bytes();
        for (index, byte, edit) in edits {
            let position = index.index(text.len());
            match edit {
                0 => text[position] = byte,
                1 => text.insert(position, byte),
                _ => { text.remove(position); }
            }
        }
        check(&text, &world())?;
    }

    #[test]
    fn replaced_values_never_panic(
        manifest in valid(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), odd_value()), 1..3),
    ) {
        let mut manifest = manifest;
        for (index, value) in edits {
            let mut found = Vec::new();
            pointers(&manifest, "", &mut found);
            if !found.is_empty() {
                manifest = with(manifest, &found[index.index(found.len())], value);
            }
        }
        check(manifest.to_string().as_bytes(), &world())?;
    }

    #[test]
    fn a_secret_in_any_place_is_not_repeated(manifest in valid(), index in any::<prop::sample::Index>()) {
        let secret = "s3cr3t-v4lue-of-an-operator";
        let mut found = Vec::new();
        pointers(&manifest, "", &mut found);
        for value in [json!(secret), json!([secret]), json!({"listen": secret, "root": secret})] {
            let manifest = with(manifest.clone(), &found[index.index(found.len())], value);
            match Manifest::parse(manifest.to_string().as_bytes(), &world()) {
                Err(error) => {
                    prop_assert!(!error.to_string().contains(secret), "{}", error);
                    prop_assert!(!format!("{error:?}").contains(secret), "{:?}", error);
                }
                Ok(valid) => {
                    let environment = format!("{:?}", valid.machine.env);
                    prop_assert!(!environment.contains(secret), "{}", environment);
                }
            }
        }
    }
}
