//! The machine page: it can be opened once, with the nonce of the launch.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::{Secret, Shared, files, plain};
use crate::{assets, marks};

pub(super) const PATH: &str = "/machine";
pub(super) const NONCE_MEMBER: &str = "controlBootstrap";

/// The page's own policy (machine 16.1). The worker's is stricter.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; \
    worker-src 'self'; connect-src 'self'; img-src 'self' data: blob:; style-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page is told at its start: one JSON object, capability included.
pub struct Bootstrap(Value);

impl Bootstrap {
    /// The object that the page's entry module reads.
    pub fn new(value: Value) -> Self {
        Self(value)
    }

    /// A data block: it is never executed, and `<` cannot end it. The links
    /// let the browser ask for all modules at once instead of one after the
    /// other.
    fn html(&self) -> String {
        let data = self.0.to_string().replace('<', "\\u003c");
        let links: String = assets::page_modules()
            .map(|path| {
                format!(
                    "<link rel=\"modulepreload\" href=\"{}{path}\">\n",
                    files::PAGE
                )
            })
            .collect();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <title>pyproc machine</title>\n<link rel=\"icon\" href=\"data:,\">\n\
             {links}<script id=\"bootstrap\" type=\"application/json\">{data}</script>\n\
             <script type=\"module\" src=\"/page/machine/main.js\"></script>\n</html>\n"
        )
    }
}

/// Opens once.
pub(super) struct PageDoor {
    nonce: Secret,
    html: Mutex<Option<String>>,
}

impl PageDoor {
    pub(super) fn new(nonce: Secret, bootstrap: &Bootstrap) -> Self {
        Self {
            nonce,
            html: Mutex::new(Some(bootstrap.html())),
        }
    }

    /// The page for the right nonce, the first time (control protocol 6.1).
    fn open(&self, nonce: Option<&str>) -> Result<String, StatusCode> {
        let mut html = self.html.lock().unwrap_or_else(PoisonError::into_inner);
        if html.is_none() {
            return Err(StatusCode::GONE);
        }
        if !nonce.is_some_and(|nonce| self.nonce.matches(nonce)) {
            return Err(StatusCode::FORBIDDEN);
        }
        html.take().ok_or(StatusCode::GONE)
    }
}

pub(super) async fn open(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let nonce = query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find_map(|(name, value)| (name == NONCE_MEMBER).then_some(value));
    match shared.door.open(nonce) {
        Ok(html) => {
            shared.marks.note(marks::PAGE_REQUESTED);
            shared.presence.sent();
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, POLICY),
            ];
            (headers, html).into_response()
        }
        Err(StatusCode::GONE) => plain(StatusCode::GONE, "this page was opened before"),
        Err(status) => plain(status, "this page needs its launch address"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_door_opens_once_and_only_with_its_nonce() {
        let nonce = Secret::random().unwrap();
        let right = nonce.reveal().to_owned();
        let door = PageDoor::new(nonce, &Bootstrap::new(Value::Null));
        assert_eq!(door.open(Some("wrong")), Err(StatusCode::FORBIDDEN));
        assert_eq!(door.open(None), Err(StatusCode::FORBIDDEN));
        assert!(door.open(Some(&right)).is_ok());
        for nonce in [Some(right.as_str()), Some("wrong"), None] {
            assert_eq!(door.open(nonce), Err(StatusCode::GONE));
        }
    }

    #[test]
    fn bootstrap_data_cannot_end_its_element() {
        let html = Bootstrap::new(serde_json::json!({"x": "</script><b>"})).html();
        assert!(html.contains(r"\u003c/script>\u003cb>"));
    }
}
