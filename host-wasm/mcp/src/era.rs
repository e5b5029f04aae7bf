//! Which version a request is of, and what that means for it (MCP 1.1 to 1.5).

use serde_json::{Map, Value};

use crate::error::{Reason, Refusal};
use crate::message::Request;

/// The key of the protocol version in the metadata of a modern request.
const KEY_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The key of the client's capabilities there.
const KEY_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

/// The key of the log level there.
const KEY_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Log levels, from the least to the most important.
pub const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Longest name of a method that a refusal repeats, characters.
const MAX_NAMED: usize = 100;

/// A version of the protocol, older ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `2024-11-05`.
    V2024_11_05,
    /// `2025-03-26`.
    V2025_03_26,
    /// `2025-06-18`.
    V2025_06_18,
    /// `2025-11-25`.
    V2025_11_25,
    /// `2026-07-28`, the modern one.
    V2026_07_28,
}

impl Version {
    /// Versions that start with `initialize`.
    pub const LEGACY: [Self; 4] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
    ];

    /// The version whose requests describe themselves.
    pub const MODERN: Self = Self::V2026_07_28;

    /// The name on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The legacy version that answers a wish: the wish itself, else the
    /// newest one (MCP 1.3).
    #[must_use]
    pub fn negotiate(wish: Option<&Value>) -> Self {
        let wish = wish.and_then(Value::as_str);
        let known = Self::LEGACY
            .into_iter()
            .find(|version| wish == Some(version.name()));
        known.unwrap_or(Self::V2025_11_25)
    }
}

/// What is to be done with a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Treatment {
    /// `initialize`, answered with this version.
    Initialize(Version),
    /// `ping`, answered at any time.
    Ping,
    /// `server/discover`.
    Discover,
    /// `tools/list` of a version.
    ListTools(Version, Map<String, Value>),
    /// `tools/call` of a version.
    CallTool(Version, Map<String, Value>),
    /// `logging/setLevel` with a level of [`LEVELS`].
    SetLevel(&'static str),
}

/// What a connection has negotiated. Requests of both eras are served side by
/// side; none changes how one of the other era is treated.
#[derive(Debug, Default)]
pub struct Eras {
    negotiated: Option<Version>,
    modern: bool,
}

impl Eras {
    /// The legacy version in force.
    #[must_use]
    pub const fn negotiated(&self) -> Option<Version> {
        self.negotiated
    }

    /// Whether an error that answers no request has the member `"id":null`
    /// (MCP 2.4).
    #[must_use]
    pub fn null_id(&self) -> bool {
        match self.negotiated {
            Some(version) => version < Version::V2025_11_25,
            None => !self.modern,
        }
    }

    /// Whether a request is of the modern era, whatever else is wrong with it.
    #[must_use]
    pub fn is_modern(request: &Request) -> bool {
        let meta = request.params.get("_meta").and_then(Value::as_object);
        let claims = |meta: &Map<String, Value>| {
            meta.contains_key(KEY_VERSION) || meta.contains_key(KEY_CAPABILITIES)
        };
        meta.is_some_and(claims) || request.method == "server/discover"
    }

    /// Decides about a request. A treatment counts from now on.
    ///
    /// # Errors
    ///
    /// The [`Refusal`] that answers the request, with its id.
    pub fn judge(&mut self, request: &Request) -> Result<Treatment, Refusal> {
        let treatment = self.treat(request);
        let treatment = treatment.map_err(|refusal| refusal.of(Some(request.id.clone())))?;
        match treatment {
            Treatment::Initialize(version) => self.negotiated = Some(version),
            _ if Self::is_modern(request) => self.modern = true,
            _ => {}
        }
        Ok(treatment)
    }

    fn treat(&self, request: &Request) -> Result<Treatment, Refusal> {
        let params = params(&request.params)?;
        if Self::is_modern(request) {
            return modern(&request.method, params);
        }
        match (request.method.as_str(), self.negotiated) {
            ("initialize", None) => Ok(Treatment::Initialize(Version::negotiate(
                params.get("protocolVersion"),
            ))),
            ("initialize", Some(_)) => Err(Refusal::new(
                Reason::AlreadyInitialized,
                "this connection is initialized already",
            )),
            ("ping", _) => Ok(Treatment::Ping),
            (method, Some(version)) => legacy(method, version, params),
            (_, None) => Err(Refusal::new(
                Reason::NotInitialized,
                format!(
                    "send initialize first, or name protocol version {} in params._meta of every request",
                    Version::MODERN.name()
                ),
            )),
        }
    }
}

/// The parameters as an object whose `_meta` is one too.
fn params(params: &Value) -> Result<Map<String, Value>, Refusal> {
    let refused = |message: &str| Err(Refusal::new(Reason::ParamsInvalid, message));
    let params = match params {
        Value::Null => Map::new(),
        Value::Object(params) => params.clone(),
        _ => return refused("params must be an object"),
    };
    match params.get("_meta") {
        None | Some(Value::Object(_)) => Ok(params),
        Some(_) => refused("params._meta must be an object"),
    }
}

fn legacy(
    method: &str,
    version: Version,
    params: Map<String, Value>,
) -> Result<Treatment, Refusal> {
    match method {
        "tools/list" => Ok(Treatment::ListTools(version, params)),
        "tools/call" => Ok(Treatment::CallTool(version, params)),
        "logging/setLevel" => level(params.get("level")).map(Treatment::SetLevel),
        method => Err(not_found(method)),
    }
}

fn modern(method: &str, params: Map<String, Value>) -> Result<Treatment, Refusal> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let version = meta
        .and_then(|meta| meta.get(KEY_VERSION))
        .and_then(Value::as_str);
    let capable = meta.is_some_and(|meta| meta.get(KEY_CAPABILITIES).is_some_and(Value::is_object));
    let missing: Vec<_> = [
        (KEY_VERSION, version.is_some()),
        (KEY_CAPABILITIES, capable),
    ]
    .into_iter()
    .filter_map(|(key, there)| (!there).then_some(key))
    .collect();
    match version {
        // A client of another revision learns which version to use, whatever
        // else is missing.
        Some(version) if version != Version::MODERN.name() => {
            return Err(Refusal::unsupported_version(
                &[Version::MODERN.name()],
                version,
            ));
        }
        _ if !missing.is_empty() => {
            let message = format!("params._meta needs {}", missing.join(" and "));
            return Err(Refusal::new(Reason::MetaInvalid, message).with("missing", missing));
        }
        _ => {}
    }
    if let Some(wanted) = meta.and_then(|meta| meta.get(KEY_LEVEL)) {
        level(Some(wanted))?;
    }
    match method {
        "server/discover" => Ok(Treatment::Discover),
        "tools/list" => Ok(Treatment::ListTools(Version::MODERN, params)),
        "tools/call" => Ok(Treatment::CallTool(Version::MODERN, params)),
        method => Err(not_found(method)),
    }
}

fn level(wanted: Option<&Value>) -> Result<&'static str, Refusal> {
    let wanted = wanted.and_then(Value::as_str);
    let known = LEVELS.into_iter().find(|level| wanted == Some(level));
    known.ok_or_else(|| {
        let message = format!("the level must be one of {}", LEVELS.join(", "));
        Refusal::new(Reason::LevelInvalid, message)
    })
}

fn not_found(method: &str) -> Refusal {
    let named: String = method.chars().take(MAX_NAMED).collect();
    Refusal::new(Reason::MethodNotFound, format!("Method not found: {named}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::Id;

    fn request(method: &str, params: Value) -> Request {
        Request {
            id: Id::Integer(1),
            method: method.to_owned(),
            params,
        }
    }

    fn meta() -> Value {
        json!({KEY_VERSION: "2026-07-28", KEY_CAPABILITIES: {}})
    }

    fn modern(method: &str) -> Request {
        request(method, json!({"_meta": meta()}))
    }

    fn reason(eras: &mut Eras, request: &Request) -> (i32, String) {
        let refusal = eras.judge(request).unwrap_err();
        assert_eq!(refusal.id, Some(request.id.clone()));
        let reason = refusal.reason().unwrap_or_default().to_owned();
        (refusal.code(), reason)
    }

    fn initialized(version: &str) -> Eras {
        let mut eras = Eras::default();
        eras.judge(&request("initialize", json!({"protocolVersion": version})))
            .unwrap();
        eras
    }

    #[test]
    fn each_legacy_version_is_echoed_and_anything_else_gets_the_newest() {
        for (wish, version) in [
            (json!("2024-11-05"), Version::V2024_11_05),
            (json!("2025-03-26"), Version::V2025_03_26),
            (json!("2025-06-18"), Version::V2025_06_18),
            (json!("2025-11-25"), Version::V2025_11_25),
            (json!("2026-07-28"), Version::V2025_11_25),
            (json!("2030-01-01"), Version::V2025_11_25),
            (json!(5), Version::V2025_11_25),
            (Value::Null, Version::V2025_11_25),
        ] {
            let mut eras = Eras::default();
            let asked = request("initialize", json!({"protocolVersion": wish}));
            assert_eq!(
                eras.judge(&asked),
                Ok(Treatment::Initialize(version)),
                "{wish}"
            );
            assert_eq!(eras.negotiated(), Some(version));
        }
        let bare = Eras::default().judge(&request("initialize", Value::Null));
        assert_eq!(bare, Ok(Treatment::Initialize(Version::V2025_11_25)));
    }

    #[test]
    fn a_second_initialize_changes_nothing() {
        let mut eras = initialized("2025-03-26");
        let again = request("initialize", json!({"protocolVersion": "2025-11-25"}));
        assert_eq!(
            reason(&mut eras, &again),
            (-32600, "alreadyInitialized".to_owned())
        );
        let list = eras.judge(&request("tools/list", Value::Null)).unwrap();
        assert_eq!(list, Treatment::ListTools(Version::V2025_03_26, Map::new()));
    }

    #[test]
    fn ping_is_answered_at_any_time_and_the_rest_after_a_start() {
        let mut eras = Eras::default();
        assert_eq!(
            eras.judge(&request("ping", Value::Null)),
            Ok(Treatment::Ping)
        );
        let list = request("tools/list", Value::Null);
        assert_eq!(
            reason(&mut eras, &list),
            (-32602, "notInitialized".to_owned())
        );
        assert!(eras.null_id());
        eras.judge(&request("initialize", Value::Null)).unwrap();
        assert!(eras.judge(&list).is_ok());
    }

    #[test]
    fn both_eras_are_served_side_by_side() {
        let mut eras = Eras::default();
        let version = |treatment: Treatment| match treatment {
            Treatment::ListTools(version, _) => version,
            other => panic!("{other:?}"),
        };
        let (new, old) = (modern("tools/list"), request("tools/list", Value::Null));
        assert_eq!(version(eras.judge(&new).unwrap()), Version::MODERN);
        assert_eq!(reason(&mut eras, &old).1, "notInitialized");
        eras.judge(&request(
            "initialize",
            json!({"protocolVersion": "2025-11-25"}),
        ))
        .unwrap();
        assert_eq!(version(eras.judge(&old).unwrap()), Version::V2025_11_25);
        assert_eq!(version(eras.judge(&new).unwrap()), Version::MODERN);
    }

    #[test]
    fn metadata_that_is_missing_is_named() {
        let both = json!([KEY_VERSION, KEY_CAPABILITIES]);
        for (params, missing) in [
            (Value::Null, both.clone()),
            (json!({"_meta": {}}), both),
            (
                json!({"_meta": {KEY_VERSION: "2026-07-28"}}),
                json!([KEY_CAPABILITIES]),
            ),
            (
                json!({"_meta": {KEY_CAPABILITIES: {}}}),
                json!([KEY_VERSION]),
            ),
            (
                json!({"_meta": {KEY_VERSION: 5, KEY_CAPABILITIES: []}}),
                json!([KEY_VERSION, KEY_CAPABILITIES]),
            ),
        ] {
            let refusal = Eras::default()
                .judge(&request("server/discover", params))
                .unwrap_err();
            assert_eq!(
                (refusal.code(), refusal.reason()),
                (-32602, Some("metaInvalid"))
            );
            assert_eq!(refusal.to_json(true)["error"]["data"]["missing"], missing);
        }
    }

    #[test]
    fn another_version_is_told_before_anything_else() {
        for version in ["1900-01-01", "2025-11-25"] {
            let asked = request("tools/list", json!({"_meta": {KEY_VERSION: version}}));
            let refusal = Eras::default().judge(&asked).unwrap_err();
            let data = json!({"supported": ["2026-07-28"], "requested": version});
            let error = &refusal.to_json(true)["error"];
            assert_eq!((&error["code"], &error["data"]), (&json!(-32022), &data));
        }
    }

    #[test]
    fn what_is_not_used_is_not_checked() {
        let mut more = meta();
        more["io.modelcontextprotocol/clientInfo"] = json!(5);
        more["traceparent"] = json!([]);
        let asked = request("server/discover", json!({"_meta": more, "x": 1}));
        assert_eq!(Eras::default().judge(&asked), Ok(Treatment::Discover));
    }

    #[test]
    fn levels_are_checked_in_both_eras() {
        let mut more = meta();
        more[KEY_LEVEL] = json!("loud");
        let asked = request("tools/list", json!({"_meta": more}));
        assert_eq!(
            reason(&mut Eras::default(), &asked),
            (-32602, "levelInvalid".to_owned())
        );
        let mut eras = initialized("2025-06-18");
        let set = |level: Value| request("logging/setLevel", json!({"level": level}));
        assert_eq!(
            eras.judge(&set(json!("error"))),
            Ok(Treatment::SetLevel("error"))
        );
        for bad in [json!("loud"), json!(5), Value::Null] {
            assert_eq!(reason(&mut eras, &set(bad)).1, "levelInvalid");
        }
    }

    #[test]
    fn methods_of_the_other_era_and_unknown_ones_are_not_found() {
        let mut eras = initialized("2025-06-18");
        let unknown = [
            "prompts/list",
            "resources/list",
            "completion/complete",
            "foo/bar",
            "notifications/initialized",
        ];
        let not_modern = [
            "initialize",
            "ping",
            "logging/setLevel",
            "resources/subscribe",
            "subscriptions/listen",
        ];
        for method in unknown {
            let expected = (-32601, "methodNotFound".to_owned());
            assert_eq!(reason(&mut eras, &request(method, Value::Null)), expected);
        }
        for method in unknown.into_iter().chain(not_modern) {
            let mut fresh = Eras::default();
            let expected = (-32601, "methodNotFound".to_owned());
            assert_eq!(reason(&mut fresh, &modern(method)), expected);
            assert_eq!(fresh.negotiated(), None);
        }
        let long = "é".repeat(500);
        let refusal = eras.judge(&request(&long, Value::Null)).unwrap_err();
        let message = refusal.to_json(true)["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(message, format!("Method not found: {}", "é".repeat(100)));
    }

    #[test]
    fn parameters_of_another_kind_are_refused_in_every_era() {
        for params in [
            json!([]),
            json!(5),
            json!({"_meta": 5}),
            json!({"_meta": null}),
        ] {
            for mut eras in [Eras::default(), initialized("2025-06-18")] {
                let asked = request("tools/list", params.clone());
                assert_eq!(
                    reason(&mut eras, &asked),
                    (-32602, "paramsInvalid".to_owned())
                );
            }
        }
    }

    #[test]
    fn errors_without_an_id_have_the_form_that_the_version_wants() {
        let mut modern_only = Eras::default();
        assert!(modern_only.null_id());
        modern_only.judge(&modern("tools/list")).unwrap();
        assert!(!modern_only.null_id());
        for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
            assert!(initialized(version).null_id());
        }
        assert!(!initialized("2025-11-25").null_id());
    }
}
