//! `pyproc-control doctor`: everything that the machine needs, whether it is
//! there, and what to do when it is not.

mod finding;
mod live;
mod system;

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pyproc_policy::{EngineSource, Manifest, SandboxPolicy};
use serde_json::json;

use super::args::Doctor;
use super::files::RealFiles;
use super::profile::Profile;
use crate::browser::Sandbox;
use crate::engine::{CacheDir, EngineError, Verified, verify};
use crate::page_host::cached_image;
use finding::{Finding, Report};

/// Looks at everything and prints the findings; the exit code is 1 when
/// something that is required is missing. It fetches and changes nothing.
pub(super) async fn doctor(arguments: Doctor, config: Option<&Path>) -> io::Result<ExitCode> {
    let report = examine(config).await;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        let colour = io::stdout().is_terminal();
        write!(out, "{}", report.table(colour))?;
    }
    Ok(ExitCode::from(u8::from(!report.is_good())))
}

async fn examine(config: Option<&Path>) -> Report {
    let mut report = Report::default();
    let profile = match config {
        None => default_profile(),
        Some(path) => match Profile::load(Some(path)) {
            Ok(profile) => {
                report.add(Finding::good("manifest", path.display()));
                Some(profile)
            }
            Err(error) => {
                report.add(Finding::missing("manifest", error, "correct the manifest"));
                None
            }
        },
    };
    let browser = browser(&mut report, profile.as_ref()).await;
    let engine = engine(&mut report, profile.as_ref(), config.is_some()).await;
    report.add(system::npm(engine).await);
    report.add(system::cache());
    report.add(system::shared_memory());
    report.add(system::memory());
    match profile {
        Some(profile) if browser && engine => machine(&mut report, &profile).await,
        _ => {
            report.add(Finding::skipped("boot image"));
            report.add(Finding::skipped("machine"));
        }
    }
    report
}

/// The default profile as far as it exists already: nothing is prepared here.
fn default_profile() -> Option<Profile> {
    let root = default_engine()?;
    let engine = EngineSource::root(root.to_str()?, &RealFiles).ok()?;
    Some(Profile {
        path: None,
        manifest: Manifest::machine_only(engine),
    })
}

fn default_engine() -> Option<PathBuf> {
    Some(CacheDir::from_env().ok()?.engine_dir())
}

/// Browser and sandbox; the result says whether a browser can start.
async fn browser(report: &mut Report, profile: Option<&Profile>) -> bool {
    let found = match profile {
        Some(profile) => profile.browser().map_err(|error| error.to_string()),
        None => crate::browser::find_browser(None).map_err(|error| error.to_string()),
    };
    let there = match found {
        Ok(path) => {
            let finding = system::browser(&path).await;
            let good = finding.is_good();
            report.add(finding);
            good
        }
        Err(error) => {
            let advice = "install Chromium, for example with `apt-get install chromium`";
            report.add(Finding::missing("browser", error, advice));
            false
        }
    };
    let required = profile
        .is_some_and(|profile| profile.manifest.browser.launch.sandbox == SandboxPolicy::Required);
    let (finding, allowed) = match Sandbox::of_this_process(required) {
        Ok(Sandbox::On) => (Finding::good("sandbox", Sandbox::On), true),
        Ok(off) => {
            let advice = "start as another user and without CI for Chromium's own sandbox";
            (Finding::note("sandbox", off, advice), true)
        }
        Err(refused) => {
            let advice = "do what the manifest asks for, or let it ask for less";
            (Finding::missing("sandbox", refused, advice), false)
        }
    };
    report.add(finding);
    there && allowed
}

/// The engine, every file checked; the result says whether it can start.
async fn engine(report: &mut Report, profile: Option<&Profile>, configured: bool) -> bool {
    let root = match profile.map(|profile| &profile.manifest.engine) {
        Some(EngineSource::Root(root)) => Some(PathBuf::from(root.as_str())),
        Some(EngineSource::IndexUrl(address)) => {
            let text = format!("fetched from {} at the first start", address.as_str());
            report.add(Finding::good("engine", text));
            return true;
        }
        None if configured => {
            report.add(Finding::skipped("engine"));
            return false;
        }
        None => default_engine(),
    };
    let Some(root) = root else {
        let advice = "set HOME or XDG_CACHE_HOME to an absolute path";
        report.add(Finding::missing("engine", EngineError::NoCacheDir, advice));
        return false;
    };
    let prepare = format!("prepare it with `pyproc-engine --out {}`", root.display());
    if !root.exists() {
        let text = format!("{} is not prepared", root.display());
        report.add(Finding::missing("engine", text, prepare));
        return false;
    }
    let examined = root.clone();
    let verified = tokio::task::spawn_blocking(move || verify(&examined)).await;
    let finding = match verified {
        Ok(Ok(verified)) => describe_engine(&verified),
        Ok(Err(error)) => {
            let advice = format!("remove {} and {prepare}", root.display());
            Finding::missing("engine", error, advice)
        }
        Err(error) => Finding::missing("engine", error, "run this again"),
    };
    let good = finding.is_good();
    report.add(finding);
    good
}

fn describe_engine(verified: &Verified) -> Finding {
    let version = verified.release.version;
    let text = format!(
        "Pyodide {version} in {}, {} core files and {} packages verified",
        verified.root.display(),
        verified.core_files,
        verified.packages
    );
    Finding::good("engine", text).with("version", version.into())
}

/// Boot image and a live machine.
async fn machine(report: &mut Report, profile: &Profile) {
    let plan = match profile.plan() {
        Ok((_, page)) => page,
        Err(error) => {
            report.add(Finding::missing("machine", error, "see above"));
            return;
        }
    };
    report.add(match cached_image(&plan).await {
        Ok(Some(path)) => Finding::good("boot image", path.display()).with("cached", true.into()),
        Ok(None) => Finding::good("boot image", "made at the first start, in a few seconds")
            .with("cached", false.into()),
        Err(error) => Finding::missing("boot image", error, "see the message"),
    });
    report.add(match live::check(profile).await {
        Ok(times) => {
            let text = format!(
                "40 + 2 is 42, first answer after {} ms, next after {:.1} ms",
                times.first.as_millis(),
                times.next.as_secs_f64() * 1000.0
            );
            let milliseconds = |time: std::time::Duration| json!(time.as_secs_f64() * 1000.0);
            Finding::good("machine", text)
                .with("firstAnswerMs", milliseconds(times.first))
                .with("nextAnswerMs", milliseconds(times.next))
        }
        Err(problem) => Finding::missing("machine", problem, "see the message"),
    });
}
