//! What can be wrong with a URL or a path, wherever it stands.

use thiserror::Error;

/// Why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum UrlFault {
    /// Not an absolute URL.
    #[error("must be an absolute http or https URL")]
    NotAbsolute,
    /// Another scheme.
    #[error("must have the scheme http or https")]
    Scheme,
    /// User name or password.
    #[error("must not have user information")]
    UserInfo,
    /// More path than `/`.
    #[error("must be an origin without a path")]
    Path,
    /// A query, even an empty one.
    #[error("must not have a query")]
    Query,
    /// A fragment, even an empty one.
    #[error("must not have a fragment")]
    Fragment,
    /// An asterisk.
    #[error("must not have a wildcard")]
    Wildcard,
    /// A separator of lists.
    #[error("must be one origin, without a comma or semicolon")]
    SeveralValues,
    /// White space or control characters.
    #[error("must not have white space or control characters")]
    Whitespace,
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FileFault {
    /// Relative, empty or with a NUL character.
    #[error("must be an absolute path")]
    NotAbsolute,
    /// The path names a directory, or ends in `.` or `..`.
    #[error("must end in a file name")]
    NoFileName,
    /// Nothing there.
    #[error("does not exist")]
    Missing,
    /// Not a directory.
    #[error("is not a directory")]
    NotDirectory,
    /// Not a regular file.
    #[error("is not a regular file")]
    NotRegular,
    /// A link where none is followed.
    #[error("is a symbolic link, which is not followed here")]
    Link,
    /// The directory that would hold the file.
    #[error("must lie in an existing directory that is not a link")]
    Parent,
    /// The engine directory is incomplete.
    #[error("has no regular file {name}")]
    EngineFile {
        /// The file that is missing.
        name: &'static str,
    },
    /// A file is too large.
    #[error("is larger than {max} bytes")]
    TooLarge {
        /// Largest size.
        max: u64,
    },
    /// A secret that others can read.
    #[error("is accessible to other users; its permissions must be for the owner only")]
    Exposed,
}
