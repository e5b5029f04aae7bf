//! What became of a machine whose worker was replaced (machine 14.3).

use serde_json::Value;

/// One line about the member `restored` of an answer.
pub(super) fn describe(restored: &Value) -> String {
    let number = |name: &str| restored.get(name).and_then(Value::as_u64);
    let lost = number("lostRuns").unwrap_or(0);
    let kind = restored.get("kind").and_then(Value::as_str);
    let place = match (kind, number("index")) {
        (Some("checkpoint"), Some(index)) => format!("at checkpoint {index}"),
        (Some("guard"), _) if lost == 0 => "as it was before this run".to_owned(),
        (Some("guard"), _) => "at its last automatic save".to_owned(),
        _ => "at its start".to_owned(),
    };
    let lost = match lost {
        0 => String::new(),
        1 => "; one run is lost".to_owned(),
        more => format!("; {more} runs are lost"),
    };
    format!("Python had to be replaced: the machine is {place}{lost}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_replaced_machine_says_where_it_is() {
        let text = |kind: &str, index: Value, lost: u64| {
            describe(&json!({"kind": kind, "index": index, "lostRuns": lost}))
        };
        assert!(text("guard", Value::Null, 0).ends_with("as it was before this run"));
        assert!(text("guard", Value::Null, 2).ends_with("automatic save; 2 runs are lost"));
        assert!(text("checkpoint", 3.into(), 1).ends_with("checkpoint 3; one run is lost"));
        assert!(text("base", Value::Null, 4).contains("at its start"));
    }
}
