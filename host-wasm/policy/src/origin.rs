//! Origins in their normal form, and the URL rules they share with the engine's URL.

use std::fmt;

use url::Url;

use crate::UrlFault;

/// An `http` or `https` origin in its normal form: `scheme://host[:port]`, host
/// in lower-case ASCII, no default port (control protocol 1.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin(String);

impl Origin {
    /// Normalises the text of an origin; surrounding white space is ignored.
    ///
    /// # Errors
    ///
    /// Anything that is more than an origin (user information, a path, a query,
    /// a fragment, even empty ones), another scheme, and the characters that
    /// would widen a policy header: `*`, `,`, `;` and white space.
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let text = text.trim();
        refuse_separators(text)?;
        let url = parse_http(text)?;
        if url.path() != "/" {
            return Err(UrlFault::Path);
        }
        // A percent escape in the host can decode to a refused character.
        refuse_separators(url.host_str().unwrap_or_default())?;
        Ok(Self::of(&url))
    }

    /// The origin of `url`, or `None` unless it is an absolute `http`/`https`
    /// URL without user information. Path, query and fragment are free.
    pub fn of_url(url: &str) -> Option<Self> {
        let parsed = Url::parse(url).ok()?;
        let plain = matches!(parsed.scheme(), "http" | "https") && !has_user_info(url, &parsed);
        plain.then(|| Self::of(&parsed))
    }

    fn of(url: &Url) -> Self {
        Self(url.origin().ascii_serialization())
    }

    /// The normal form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parses an absolute `http`/`https` URL that has no user information, no query
/// and no fragment; a bare `?` or `#` counts as one.
pub(crate) fn parse_http(text: &str) -> Result<Url, UrlFault> {
    // The URL parser would drop these silently, so the text would not be what
    // it seems to be.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(UrlFault::Whitespace);
    }
    let url = Url::parse(text).map_err(|_| UrlFault::NotAbsolute)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlFault::Scheme);
    }
    if has_user_info(text, &url) {
        return Err(UrlFault::UserInfo);
    }
    if url.query().is_some() {
        return Err(UrlFault::Query);
    }
    if url.fragment().is_some() {
        return Err(UrlFault::Fragment);
    }
    Ok(url)
}

fn refuse_separators(text: &str) -> Result<(), UrlFault> {
    if text.contains('*') {
        return Err(UrlFault::Wildcard);
    }
    if text.contains([',', ';']) {
        return Err(UrlFault::SeveralValues);
    }
    Ok(())
}

/// The parsed form of `http://@host` shows no user information, so the text's
/// authority is looked at too.
fn has_user_info(text: &str, url: &Url) -> bool {
    let rest = text.split_once(':').map_or("", |(_, rest)| rest);
    let authority = rest.trim_start_matches(['/', '\\']);
    let authority = authority.split(['/', '\\', '?', '#']).next().unwrap_or("");
    !url.username().is_empty() || url.password().is_some() || authority.contains('@')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(text: &str) -> Result<String, UrlFault> {
        Origin::parse(text).map(|origin| origin.0)
    }

    #[test]
    fn host_case_default_port_and_final_slash_are_normalised() {
        for (text, stored) in [
            ("http://A.test:80", "http://a.test"),
            ("http://a.test/", "http://a.test"),
            ("HTTPS://Shop.Test:443/", "https://shop.test"),
            ("https://shop.test:8443", "https://shop.test:8443"),
            ("http://a.test:443", "http://a.test:443"),
            (" http://a.test ", "http://a.test"),
            ("http://127.0.0.1:4100", "http://127.0.0.1:4100"),
            ("http://[::1]:80", "http://[::1]"),
            ("http://bücher.test", "http://xn--bcher-kva.test"),
        ] {
            assert_eq!(normal(text).as_deref(), Ok(stored), "{text}");
        }
    }

    #[test]
    fn anything_that_is_more_than_an_origin_is_refused() {
        for (text, fault) in [
            ("http://a.test/x", UrlFault::Path),
            ("http://a.test/?", UrlFault::Query),
            ("http://a.test?q=1", UrlFault::Query),
            ("http://a.test/#", UrlFault::Fragment),
            ("http://u:p@a.test", UrlFault::UserInfo),
            ("http://@a.test", UrlFault::UserInfo),
            ("http://:@a.test", UrlFault::UserInfo),
            ("ftp://a.test", UrlFault::Scheme),
            ("file:///", UrlFault::Scheme),
            ("a.test", UrlFault::NotAbsolute),
            ("", UrlFault::NotAbsolute),
            ("http://", UrlFault::NotAbsolute),
            ("http://*.a.test", UrlFault::Wildcard),
            ("*", UrlFault::Wildcard),
            ("http://%2A.a.test", UrlFault::Wildcard),
            ("http://a.test,http://b.test", UrlFault::SeveralValues),
            ("http://a%2Cb.test", UrlFault::SeveralValues),
            ("http://a.test;b", UrlFault::SeveralValues),
            ("http://a.test http://b.test", UrlFault::Whitespace),
            ("ht\ntp://a.test", UrlFault::Whitespace),
        ] {
            assert_eq!(normal(text), Err(fault), "{text}");
        }
    }

    #[test]
    fn the_origin_of_a_page_url_ignores_everything_after_the_authority() {
        let origin = |url| Origin::of_url(url).map(|origin| origin.0);
        let shop = Some("https://shop.test".to_owned());
        assert_eq!(origin("https://SHOP.test:443/a?b#c@d"), shop);
        for denied in [
            "about:blank",
            "data:text/html,x",
            "blob:https://shop.test/1",
            "https://user@shop.test/",
            "file:///etc/passwd",
            "/relative",
        ] {
            assert_eq!(origin(denied), None, "{denied}");
        }
    }

    /// The rule of 1.5 for plain host names, written by splitting text.
    fn slow_normal(text: &str) -> Option<String> {
        let lower = text.trim().to_ascii_lowercase();
        let (scheme, rest) = lower.split_once("://")?;
        let default = match scheme {
            "http" => "80",
            "https" => "443",
            _ => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, port),
            None => (authority, ""),
        };
        let host_is_plain = host
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        if host.is_empty() || !host_is_plain {
            return None;
        }
        let port = match port {
            "" => String::new(),
            digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
                let number: u16 = digits.parse().ok()?;
                let number = number.to_string();
                if number == default {
                    String::new()
                } else {
                    format!(":{number}")
                }
            }
            _ => return None,
        };
        Some(format!("{scheme}://{host}{port}"))
    }

    proptest! {
        #[test]
        fn the_normal_form_is_its_own_normal_form(text in "(http|https|ftp)://[a-zA-Z0-9.:@/?#%\\[\\]-]{0,24}") {
            if let Ok(origin) = Origin::parse(&text) {
                prop_assert_eq!(Origin::parse(origin.as_str()), Ok(origin.clone()));
                prop_assert_eq!(Origin::of_url(&format!("{origin}/path?q")), Some(origin));
            }
        }

        #[test]
        fn normalisation_matches_the_slow_rule(
            scheme in "[hH][tT][tT][pP][sS]?|ftp|ws",
            host in "[a-zA-Z][a-zA-Z0-9]{0,8}(\\.[a-zA-Z][a-zA-Z0-9]{0,6}){0,3}",
            port in prop_oneof![
                Just(String::new()),
                Just(":80".to_owned()),
                Just(":443".to_owned()),
                "0{0,2}[0-9]{1,6}".prop_map(|digits| format!(":{digits}")),
                Just(":8x".to_owned()),
            ],
            tail in prop_oneof![Just(""), Just("/"), Just("/x"), Just("?"), Just("#"), Just("@b"), Just("//")],
            pad in "[ \t]{0,2}",
        ) {
            // Labels like `xn--` have rules of their own and are not generated.
            let text = format!("{pad}{scheme}://{host}{port}{tail}{pad}");
            prop_assert_eq!(Origin::parse(&text).ok().map(|origin| origin.0), slow_normal(&text));
        }
    }
}
