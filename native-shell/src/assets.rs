//! The machine page's files, embedded by the build script.

/// One embedded file.
pub(crate) struct Asset {
    /// Path below the page's base, with `/`.
    pub(crate) path: &'static str,
    /// Content type.
    pub(crate) media_type: &'static str,
    /// Content.
    pub(crate) bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// Paths of the modules that the machine page itself imports.
pub(crate) fn page_modules() -> impl Iterator<Item = &'static str> {
    let paths = ASSETS.iter().map(|asset| asset.path);
    paths.filter(|path| path.starts_with("machine/") && path.ends_with(".js"))
}

/// The embedded file at `path`.
pub(crate) fn asset(path: &str) -> Option<&'static Asset> {
    let found = ASSETS.binary_search_by(|asset| asset.path.cmp(path)).ok()?;
    ASSETS.get(found)
}
