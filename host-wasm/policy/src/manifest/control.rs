//! `control`: the operator plane's listener (operator plane 2, 6, 7).
//!
//! What a secret is, is not known here: the sources of the tokens are checked,
//! their contents are the business of whoever reads them.

use std::fmt;
use std::net::SocketAddr;

use super::read::{At, Members};
use super::{AbsolutePath, ControlLimits, Fault, FileFault, ManifestError, ManifestFiles};
use crate::Bounded;
use pyproc_protocol::Operation;

/// The operator plane's listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlSettings {
    listen: SocketAddr,
    operator_token: TokenSource,
    observer_token: Option<TokenSource>,
    tls: Option<TlsFiles>,
    forbidden_token_env: Vec<EnvironmentName>,
    approvals: Option<Approvals>,
    journal_file: Option<AbsolutePath>,
    limits: ControlLimits,
}

/// Where a token is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenSource {
    /// A private regular file of at most [`TokenSource::MAX_BYTES`] bytes.
    File(AbsolutePath),
    /// An environment variable, read once and kept from child processes.
    Environment(EnvironmentName),
}

impl TokenSource {
    /// Largest token file.
    pub const MAX_BYTES: u64 = 4096;
}

/// The name of an environment variable: letters, digits and `_`, not starting
/// with a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EnvironmentName(String);

impl EnvironmentName {
    /// The name, or `None` when the text has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        (starts_well && text.chars().all(is_word)).then(|| Self(text.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn read(at: &At<'_>, text: &str) -> Result<Self, ManifestError> {
        Self::parse(text).ok_or_else(|| {
            at.fault(Fault::Form {
                expected: "the name of an environment variable",
            })
        })
    }
}

impl fmt::Display for EnvironmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The certificate and key of a TLS listener: regular files of at most
/// [`TlsFiles::MAX_BYTES`] bytes, the key the owner's alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, DER.
    pub certificate: AbsolutePath,
    /// The private key, DER (PKCS#8).
    pub private_key: AbsolutePath,
}

impl TlsFiles {
    /// Largest file.
    pub const MAX_BYTES: u64 = 65_536;
}

/// Requests with external effects are held for an operator's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approvals {
    /// Milliseconds that a decision may take; 300,000 by default.
    pub timeout_ms: ApprovalTimeoutMs,
    /// The operations that are held; absent means every one.
    pub operations: Option<Vec<Operation>>,
}

type ApprovalTimeoutMs = Bounded<1_000, 3_600_000>;

impl ControlSettings {
    /// The address to listen on; port 0 lets the system pick one.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where the operator's token comes from.
    pub fn operator_token(&self) -> &TokenSource {
        &self.operator_token
    }

    /// Where the observer's token comes from; absent means that there is no
    /// observer role. Never the same source as the operator's.
    pub fn observer_token(&self) -> Option<&TokenSource> {
        self.observer_token.as_ref()
    }

    /// The TLS files; always present when [`Self::listen`] is not loopback.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }

    /// Whether other machines can reach the listener.
    pub fn is_remote(&self) -> bool {
        !self.listen.ip().is_loopback()
    }

    /// The variables that hold other secrets, whose values no token may have.
    pub fn forbidden_token_env(&self) -> &[EnvironmentName] {
        &self.forbidden_token_env
    }

    /// Which requests are held; absent means none.
    pub fn approvals(&self) -> Option<&Approvals> {
        self.approvals.as_ref()
    }

    /// Where events are written as NDJSON.
    pub fn journal_file(&self) -> Option<&AbsolutePath> {
        self.journal_file.as_ref()
    }

    /// The bounds.
    pub fn limits(&self) -> &ControlLimits {
        &self.limits
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&[
            "listen",
            "operator_token_file",
            "observer_token_file",
            "operator_token_env",
            "observer_token_env",
            "remote_tls_certificate_der",
            "remote_tls_private_key_der",
            "forbidden_token_env",
            "approvals",
            "journal_file",
            "limits",
        ])?;
        let listen_at = members.required("listen")?;
        let listen: SocketAddr = listen_at.string()?.parse().map_err(|_| {
            listen_at.fault(Fault::Form {
                expected: "IP:PORT with a numeric address",
            })
        })?;
        let (operator_key, operator_token) =
            token(&members, "operator_token_file", "operator_token_env")?
                .ok_or_else(|| members.object_fault(Fault::TokenMissing))?;
        let observer = token(&members, "observer_token_file", "observer_token_env")?;
        if let Some((key, source)) = &observer
            && *source == operator_token
        {
            let other = operator_key;
            return Err(members.fault(key, Fault::SameToken { other }));
        }
        let tls = tls_files(&members)?;
        if !listen.ip().is_loopback() && tls.is_none() {
            return Err(listen_at.fault(Fault::TlsRequired));
        }
        let mut tokens = vec![(operator_key, operator_token.clone())];
        tokens.extend(observer.clone());
        Ok(Self {
            listen,
            operator_token,
            observer_token: observer.map(|(_, source)| source),
            tls,
            forbidden_token_env: match members.optional("forbidden_token_env") {
                Some(at) => forbidden(&at, &tokens)?,
                None => Vec::new(),
            },
            approvals: match members.optional("approvals") {
                Some(at) => Approvals::read(&at)?,
                None => None,
            },
            journal_file: members
                .optional("journal_file")
                .map(|at| at.checked_path(AbsolutePath::writable))
                .transpose()?,
            limits: match members.optional("limits") {
                Some(at) => ControlLimits::read(&at)?,
                None => ControlLimits::default(),
            },
        })
    }
}

impl Approvals {
    fn read(at: &At<'_>) -> Result<Option<Self>, ManifestError> {
        let members = at.closed(&["mode", "timeout_ms", "operations"])?;
        let mode = members.required("mode")?;
        let is_held = mode.choice(&["none", "externalEffect"], |name| match name {
            "none" => Some(false),
            "externalEffect" => Some(true),
            _ => None,
        })?;
        if !is_held {
            // Settings of a mode that is off are a mistake, not a preference.
            at.closed(&["mode"])?;
            return Ok(None);
        }
        let default = ApprovalTimeoutMs::constant::<300_000>();
        Ok(Some(Self {
            timeout_ms: members.bounded_or("timeout_ms", default)?,
            operations: members
                .optional("operations")
                .map(|at| operations(&at))
                .transpose()?,
        }))
    }
}

fn operations(at: &At<'_>) -> Result<Vec<Operation>, ManifestError> {
    let operations = at.distinct(|at, text| {
        Operation::from_name(text).ok_or_else(|| at.fault(Fault::UnknownOperation))
    })?;
    if operations.is_empty() {
        return Err(at.fault(Fault::Empty));
    }
    Ok(operations.into_iter().map(|(_, value)| value).collect())
}

/// The one source of a token, with its key.
fn token(
    members: &Members<'_>,
    file: &'static str,
    env: &'static str,
) -> Result<Option<(&'static str, TokenSource)>, ManifestError> {
    match (members.optional(file), members.optional(env)) {
        (None, None) => Ok(None),
        (Some(_), Some(at)) => Err(at.fault(Fault::TokenTwice { other: file })),
        (Some(at), None) => {
            let path = secret_file(&at, TokenSource::MAX_BYTES)?;
            Ok(Some((file, TokenSource::File(path))))
        }
        (None, Some(at)) => {
            let name = EnvironmentName::read(&at, at.string()?)?;
            Ok(Some((env, TokenSource::Environment(name))))
        }
    }
}

fn tls_files(members: &Members<'_>) -> Result<Option<TlsFiles>, ManifestError> {
    const CERTIFICATE: &str = "remote_tls_certificate_der";
    const KEY: &str = "remote_tls_private_key_der";
    match (members.optional(CERTIFICATE), members.optional(KEY)) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
            certificate: certificate
                .checked_path(|path, files| path.bounded_file(TlsFiles::MAX_BYTES, files))?,
            private_key: secret_file(&key, TlsFiles::MAX_BYTES)?,
        })),
        (Some(_), None) => Err(members.fault(KEY, Fault::TlsPair { other: CERTIFICATE })),
        (None, Some(_)) => Err(members.fault(CERTIFICATE, Fault::TlsPair { other: KEY })),
    }
}

/// A regular file that is no link, small enough, and the owner's alone.
fn secret_file(at: &At<'_>, max: u64) -> Result<AbsolutePath, ManifestError> {
    at.checked_path(|path, files: &dyn ManifestFiles| {
        let path = path.bounded_file(max, files)?;
        if files.is_exposed(path.as_str()) {
            return Err(FileFault::Exposed);
        }
        Ok(path)
    })
}

fn forbidden(
    at: &At<'_>,
    tokens: &[(&'static str, TokenSource)],
) -> Result<Vec<EnvironmentName>, ManifestError> {
    let names = at.distinct(|at, text| {
        let name = EnvironmentName::read(at, text)?;
        let same = |source: &TokenSource| {
            matches!(source, TokenSource::Environment(token) if *token == name)
        };
        match tokens.iter().find(|(_, source)| same(source)) {
            Some((token, _)) => Err(at.fault(Fault::ForbiddenToken { token })),
            None => Ok(name),
        }
    })?;
    Ok(names.into_iter().map(|(_, name)| name).collect())
}
