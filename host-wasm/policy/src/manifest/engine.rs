//! `engine`: where the Python engine comes from (control protocol 1.3).

use url::Url;

use super::read::At;
use super::{AbsolutePath, EntryKind, Fault, FileFault, KeyPath, ManifestError, ManifestFiles};
use crate::UrlFault;
use crate::origin::parse_http;

/// Where the Python engine comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineSource {
    /// A prepared directory, in its symlink-free form.
    Root(AbsolutePath),
    /// The URL of an engine directory, ending in `/`.
    IndexUrl(IndexUrl),
}

/// An absolute `http`/`https` URL without user information, query or fragment,
/// whose path ends in `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexUrl(Url);

/// The files that make a directory look like an engine.
const MARKER_FILES: [&str; 2] = ["pyodide.js", "pyodide-lock.json"];

impl EngineSource {
    /// A prepared engine directory by the rules of `engine.root`: absolute,
    /// existing, with the regular files `pyodide.js` and `pyodide-lock.json`.
    /// The files' digests are not looked at.
    ///
    /// # Errors
    ///
    /// About the key path `engine.root`.
    pub fn root(path: &str, files: &dyn ManifestFiles) -> Result<Self, ManifestError> {
        root_directory(path, files)
            .map(Self::Root)
            .map_err(|fault| ManifestError {
                path: KeyPath::root().key("engine").key("root"),
                fault: fault.into(),
            })
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&["root", "indexURL"])?;
        match (members.optional("root"), members.optional("indexURL")) {
            (Some(root), None) => root_directory(root.string()?, root.files())
                .map(Self::Root)
                .map_err(|fault| root.fault(fault)),
            (None, Some(url)) => IndexUrl::parse(url.string()?)
                .map(Self::IndexUrl)
                .map_err(|fault| url.fault(fault)),
            _ => Err(members.object_fault(Fault::EngineChoice)),
        }
    }
}

impl IndexUrl {
    /// Normalises the URL; a missing final `/` of the path is appended.
    ///
    /// # Errors
    ///
    /// What makes the text no such URL.
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        let mut url = parse_http(text)?;
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        Ok(Self(url))
    }

    /// The URL as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

fn root_directory(text: &str, files: &dyn ManifestFiles) -> Result<AbsolutePath, FileFault> {
    let style = files.path_style();
    let root = AbsolutePath::parse(text, style)?.directory(files)?;
    for name in MARKER_FILES {
        let file = files.canonicalize(&root.join(name, style));
        let kind = file.map_or(EntryKind::Missing, |file| files.kind(&file));
        if kind != EntryKind::File {
            return Err(FileFault::EngineFile { name });
        }
    }
    Ok(root)
}
