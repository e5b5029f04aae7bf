//! Automation providers.

/// Which automation provider the manifest selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Provider {
    /// The browser's own protocol.
    #[default]
    NativeCdp,
    /// Cooperating pages in frames.
    Frame,
    /// A recording.
    Replay,
}

impl Provider {
    pub(super) const NAMES: &[&str] = &["nativeCdp", "frame", "replay"];

    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "nativeCdp" => Some(Self::NativeCdp),
            "frame" => Some(Self::Frame),
            "replay" => Some(Self::Replay),
            _ => None,
        }
    }

    /// How the provider is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NativeCdp => "nativeCdp",
            Self::Frame => "frame",
            Self::Replay => "replay",
        }
    }
}

/// A provider that acts on a browser, so that it can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LiveProvider {
    /// The browser's own protocol.
    NativeCdp,
    /// Cooperating pages in frames.
    Frame,
}

impl LiveProvider {
    /// The live provider that is written `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "nativeCdp" => Some(Self::NativeCdp),
            "frame" => Some(Self::Frame),
            _ => None,
        }
    }

    /// How the provider is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NativeCdp => "nativeCdp",
            Self::Frame => "frame",
        }
    }
}
