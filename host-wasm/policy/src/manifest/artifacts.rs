//! `browser.artifacts`: limits of the artifact store (control protocol 1.6).

use super::read::At;
use super::{Fault, ManifestError};
use crate::Bounded;

type ArtifactBytes = Bounded<1, 67_108_864>;
type TotalBytes = Bounded<1, 536_870_912>;
type Count = Bounded<1, 1024>;
type InlineBytes = Bounded<1, 4_194_304>;
type TtlMs = Bounded<1, 86_400_000>;

/// Limits of the artifact store; an inline artifact is never larger than an
/// artifact, which is never larger than all of them (C6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactLimits {
    max_artifact_bytes: ArtifactBytes,
    max_total_bytes: TotalBytes,
    max_artifacts: Count,
    inline_max_bytes: InlineBytes,
    ttl_ms: TtlMs,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self {
            max_artifact_bytes: Bounded::constant::<16_777_216>(),
            max_total_bytes: Bounded::constant::<67_108_864>(),
            max_artifacts: Bounded::constant::<64>(),
            inline_max_bytes: Bounded::constant::<2_097_152>(),
            ttl_ms: Bounded::constant::<900_000>(),
        }
    }
}

impl ArtifactLimits {
    /// What a recording can hold of one artifact, in bytes (C7).
    const RECORDABLE_ARTIFACT_BYTES: u64 = 16_777_216;
    /// What a recording can hold of all artifacts, in bytes (C7).
    const RECORDABLE_TOTAL_BYTES: u64 = 67_108_864;

    /// Largest artifact, in bytes; 16 MiB by default.
    pub fn max_artifact_bytes(&self) -> u64 {
        self.max_artifact_bytes.value()
    }

    /// Most bytes of all artifacts together; 64 MiB by default.
    pub fn max_total_bytes(&self) -> u64 {
        self.max_total_bytes.value()
    }

    /// Most artifacts at a time; 64 by default.
    pub fn max_artifacts(&self) -> u64 {
        self.max_artifacts.value()
    }

    /// Largest artifact that an output carries itself, in bytes; 2 MiB by default.
    pub fn inline_max_bytes(&self) -> u64 {
        self.inline_max_bytes.value()
    }

    /// Lifetime of an artifact, in milliseconds; 15 minutes by default.
    pub fn ttl_ms(&self) -> u64 {
        self.ttl_ms.value()
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&[
            "maxArtifactBytes",
            "maxTotalBytes",
            "maxArtifacts",
            "inlineMaxBytes",
            "ttlMs",
        ])?;
        let default = Self::default();
        let limits = Self {
            max_artifact_bytes: members
                .bounded_or("maxArtifactBytes", default.max_artifact_bytes)?,
            max_total_bytes: members.bounded_or("maxTotalBytes", default.max_total_bytes)?,
            max_artifacts: members.bounded_or("maxArtifacts", default.max_artifacts)?,
            inline_max_bytes: members.bounded_or("inlineMaxBytes", default.inline_max_bytes)?,
            ttl_ms: members.bounded_or("ttlMs", default.ttl_ms)?,
        };
        let ordered = |key, value, limit, bound| {
            if value <= bound {
                return Ok(());
            }
            let fault = Fault::ArtifactOrder {
                value,
                limit,
                bound,
            };
            Err(members.fault(key, fault))
        };
        let artifact = limits.max_artifact_bytes();
        ordered(
            "maxArtifactBytes",
            artifact,
            "maxTotalBytes",
            limits.max_total_bytes(),
        )?;
        ordered(
            "inlineMaxBytes",
            limits.inline_max_bytes(),
            "maxArtifactBytes",
            artifact,
        )?;
        Ok(limits)
    }

    /// Checks that a recording can hold what these limits admit (C7). The
    /// defaults always fit.
    pub(super) fn check_recordable(&self, at: &At<'_>) -> Result<(), ManifestError> {
        let members = at.open()?;
        let at_most = |key, value, max| {
            if value <= max {
                return Ok(());
            }
            Err(members.fault(key, Fault::RecordingCeiling { max }))
        };
        at_most(
            "maxArtifactBytes",
            self.max_artifact_bytes(),
            Self::RECORDABLE_ARTIFACT_BYTES,
        )?;
        at_most(
            "maxTotalBytes",
            self.max_total_bytes(),
            Self::RECORDABLE_TOTAL_BYTES,
        )
    }
}
