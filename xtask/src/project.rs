//! Where things are.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{Failure, Result};

/// Version of the engine that the product pins.
const ENGINE_VERSION: &str = "314.0.7";

/// This repository.
pub(crate) struct Project {
    root: PathBuf,
}

impl Project {
    /// The repository that this program was built from.
    pub(crate) fn locate() -> Self {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self {
            root: manifest.parent().unwrap_or(manifest).to_owned(),
        }
    }

    /// A path in the repository.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The page's folder, which is also its npm project.
    pub(crate) fn page(&self) -> PathBuf {
        self.root.join("page")
    }

    /// The folder of the fuzz targets, which is a project of its own.
    pub(crate) fn fuzz(&self) -> PathBuf {
        self.root.join("fuzz")
    }

    /// A path in the build folder.
    pub(crate) fn built(&self, name: &str) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        self.root.join(target).join(name)
    }

    /// A path below the build folder, for what tasks make.
    pub(crate) fn scratch(&self, name: &str) -> PathBuf {
        self.built("xtask").join(name)
    }

    /// The cargo that runs this task, in the repository's root. Every task uses the plain
    /// development profile, so that the large dependencies are compiled once.
    pub(crate) fn cargo(&self) -> Command {
        self.in_root(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
    }

    /// A command in the repository's root.
    pub(crate) fn in_root(&self, program: impl AsRef<OsStr>) -> Command {
        in_folder(program, &self.root)
    }

    /// A command in the page's folder.
    pub(crate) fn in_page(&self, program: impl AsRef<OsStr>) -> Command {
        in_folder(program, &self.page())
    }

    /// A command in the folder of the fuzz targets.
    pub(crate) fn in_fuzz(&self, program: impl AsRef<OsStr>) -> Command {
        in_folder(program, &self.fuzz())
    }

    /// Where the product looks for the engine when it is told nothing else.
    pub(crate) fn engine_dir(&self) -> Result<PathBuf> {
        let absolute = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        absolute("XDG_CACHE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
            .map(|cache| {
                cache
                    .join("pyproc/engine")
                    .join(ENGINE_VERSION)
                    .join("pyodide")
            })
            .ok_or_else(|| Failure::new("set HOME or XDG_CACHE_HOME to an absolute path"))
    }
}

fn in_folder(program: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}
