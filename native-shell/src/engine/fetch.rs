//! Engine files from an address (manifest `engine.indexURL`).

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::digests::Release;
use super::error::EngineError;

/// Fetches every core file of `release` into `into`. What arrives is not trusted: the caller
/// verifies the directory.
///
/// # Errors
/// [`EngineError::Fetch`] naming the address, or the file system refuses.
pub(super) fn files(
    address: &str,
    release: &Release,
    into: &Path,
    limit: Duration,
) -> Result<(), EngineError> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(limit))
        .build()
        .into();
    for file in &release.files {
        let url = format!("{address}{}", file.name);
        let failed = |error: ureq::Error| EngineError::Fetch {
            url: url.clone(),
            reason: error.to_string(),
        };
        let mut response = agent.get(&url).call().map_err(failed)?;
        // One byte more than the file has is enough to see that it is another.
        let body = response.body_mut().with_config().limit(file.size + 1);
        let path = into.join(file.name);
        let written = fs::File::create(&path).and_then(|mut target| {
            io::copy(&mut body.reader(), &mut target)?;
            target.sync_all()
        });
        written.map_err(|error| EngineError::Fetch {
            url: url.clone(),
            reason: error.to_string(),
        })?;
    }
    Ok(())
}
