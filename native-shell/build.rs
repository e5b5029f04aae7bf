//! Builds both faces of the core, precompiles the one for wasmtime, and embeds
//! everything the machine page needs: `cargo build` alone gives a binary that
//! needs nothing beside it but a browser and the engine.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

mod engine_config {
    include!("src/core/engine_config.rs");
}

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let root = PathBuf::from(env("CARGO_MANIFEST_DIR")?).join("..");
    let root = root.canonicalize()?;
    let out = PathBuf::from(env("OUT_DIR")?);
    for source in ["host-wasm", "page", "Cargo.lock", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    println!("cargo::rerun-if-changed=src/core/engine_config.rs");

    let faces = build_faces(&root, &out)?;
    precompile(&faces.wasi, &out)?;
    let web = bind_web(&faces.web, &out)?;
    let assets = page_assets(&root, &out, &web)?;
    fs::write(out.join("assets.rs"), assets)?;
    Ok(())
}

fn env(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| format!("cargo did not set {name}").into())
}

struct Faces {
    wasi: PathBuf,
    web: PathBuf,
}

/// Compiles the two faces with the toolchain that compiles this script, in a
/// target directory of their own: the outer cargo holds the lock of its own.
fn build_faces(root: &Path, out: &Path) -> Result<Faces> {
    let target = shared_target(out)?;
    let face = |package: &str, triple: &str| -> Result<PathBuf> {
        let mut cargo = Command::new(env("CARGO")?);
        cargo
            .current_dir(root)
            .args(["build", "--package", package, "--target", triple])
            .args(["--profile", "core", "--locked", "--target-dir"])
            .arg(&target);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_") || text.starts_with("RUST") && text != "RUSTUP_TOOLCHAIN"
            {
                cargo.env_remove(&name);
            }
        }
        for kept in ["CARGO_HOME", "RUSTUP_HOME", "CARGO_NET_OFFLINE"] {
            if let Some(value) = std::env::var_os(kept) {
                cargo.env(kept, value);
            }
        }
        if !cargo.status()?.success() {
            return Err(format!("{package} does not build for {triple}").into());
        }
        let file = format!("{}.wasm", package.replace('-', "_"));
        Ok(target.join(triple).join("core").join(file))
    };
    Ok(Faces {
        wasi: face("pyproc-wasi", "wasm32-wasip2")?,
        web: face("pyproc-web", "wasm32-unknown-unknown")?,
    })
}

/// `target/core` beside the outer build's profile folders, shared by all of
/// them; below `OUT_DIR` when the layout is not the usual one.
fn shared_target(out: &Path) -> Result<PathBuf> {
    let profile = out
        .ancestors()
        .find(|path| path.file_name().is_some_and(|name| name == "build"))
        .and_then(|build| build.parent()?.parent());
    let target = profile.unwrap_or(out).join("core");
    fs::create_dir_all(&target)?;
    Ok(target)
}

fn precompile(component: &Path, out: &Path) -> Result<()> {
    let bytes = fs::read(component)?;
    let mut config = engine_config::engine_config();
    config.target(&env("TARGET")?)?;
    let engine = wasmtime::Engine::new(&config)?;
    fs::write(out.join("host.cwasm"), engine.precompile_component(&bytes)?)?;
    Ok(())
}

/// Makes `core.js` and `core_bg.wasm`.
fn bind_web(module: &Path, out: &Path) -> Result<PathBuf> {
    let web = out.join("web");
    fs::create_dir_all(&web)?;
    wasm_bindgen_cli_support::Bindgen::new()
        .input_path(module)
        .out_name("core")
        .web(true)?
        .typescript(false)
        .remove_producers_section(true)
        .generate(&web)?;
    Ok(web)
}

/// One file that the loopback server can answer with.
struct Asset {
    path: String,
    file: PathBuf,
    media_type: &'static str,
}

fn page_assets(root: &Path, out: &Path, web: &Path) -> Result<String> {
    let page = root.join("page");
    let mut assets = Vec::new();
    for folder in ["machine", "worker", "worker/state"] {
        for entry in fs::read_dir(page.join(folder))? {
            let file = entry?.path();
            let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let media_type = match file.extension().and_then(|extension| extension.to_str()) {
                Some("js") => "text/javascript",
                Some("py") => "text/x-python",
                _ => continue,
            };
            assets.push(Asset {
                path: format!("{folder}/{name}"),
                media_type,
                file: file.clone(),
            });
        }
    }
    let kernel = out.join("kernel.wasm");
    fs::write(&kernel, wat::parse_file(page.join("worker/kernel.wat"))?)?;
    assets.push(Asset {
        path: "worker/kernel.wasm".to_owned(),
        file: kernel,
        media_type: "application/wasm",
    });
    for (name, media_type) in [
        ("core.js", "text/javascript"),
        ("core_bg.wasm", "application/wasm"),
    ] {
        assets.push(Asset {
            path: format!("machine/{name}"),
            file: web.join(name),
            media_type,
        });
    }
    assets.sort_by(|a, b| a.path.cmp(&b.path));

    let mut digest = Sha256::new();
    let mut code = String::from("pub(crate) static ASSETS: &[Asset] = &[\n");
    for Asset {
        path,
        file,
        media_type,
    } in &assets
    {
        let bytes = fs::read(file)?;
        digest.update(path.as_bytes());
        digest.update(Sha256::digest(&bytes));
        writeln!(
            code,
            "    Asset {{ path: {path:?}, media_type: {media_type:?}, bytes: include_bytes!({file:?}) }},"
        )?;
    }
    let digest = digest.finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(code, "];\n")?;
    writeln!(
        code,
        "/// SHA-256 over the paths and digests of all assets."
    )?;
    writeln!(code, "pub(crate) const ASSETS_DIGEST: &str = {hex:?};")?;
    Ok(code)
}
