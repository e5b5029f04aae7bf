//! The browser's command line (control protocol 2.6).

use std::path::Path;

use super::launch::LaunchOptions;
use super::sandbox::Sandbox;

/// On every start: a fresh browser that talks to nobody but the pages it is told to open.
pub const ALWAYS: [&str; 15] = [
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-extensions",
    "--disable-quic",
    "--disable-component-update",
    "--disable-sync",
    // The last one asks a time server.
    "--disable-features=Translate,MediaRouter,OptimizationHints,NetworkTimeServiceQuerying",
    "--no-service-autorun",
    "--password-store=basic",
    "--disable-domain-reliability",
    "--disable-client-side-phishing-detection",
    "--metrics-recording-only",
    // The account service and the component updater have no switch that keeps them silent. They
    // are given an address that Chromium itself refuses before it opens a socket.
    "--gaia-url=http://127.0.0.1:1",
    "--component-updater=url-source=http://127.0.0.1:1/",
];

/// Below this size of the shared memory file system, Chromium uses files instead, in bytes.
pub const SHARED_MEMORY_WANTED: u64 = 512 * 1024 * 1024;

/// The arguments of a browser that hosts only the machine page: no argument opens DevTools.
pub(super) fn machine_only(
    options: &LaunchOptions,
    profile: &str,
    sandbox: Sandbox,
    shared_memory: Option<u64>,
) -> Vec<String> {
    let mut arguments: Vec<String> = ALWAYS.map(str::to_owned).into();
    arguments.push(format!("--user-data-dir={profile}"));
    let mut add = |extra: &[&str]| arguments.extend(extra.iter().map(|&flag| flag.to_owned()));
    match (options.headed, options.gpu) {
        (true, _) => {}
        (false, false) => add(&["--headless=new", "--disable-gpu"]),
        (false, true) => add(&[
            "--headless=new",
            "--enable-unsafe-swiftshader",
            "--use-angle=swiftshader",
            "--enable-features=Vulkan",
        ]),
    }
    if sandbox != Sandbox::On {
        add(&["--no-sandbox"]);
    }
    if shared_memory.is_none_or(|size| size < SHARED_MEMORY_WANTED) {
        add(&["--disable-dev-shm-usage"]);
    }
    arguments.push(options.url.clone());
    arguments
}

/// Size of the shared memory file system in bytes; containers often have one of 64 MiB.
pub fn shared_memory_size() -> Option<u64> {
    let file_system = rustix::fs::statvfs(Path::new("/dev/shm")).ok()?;
    Some(file_system.f_blocks.saturating_mul(file_system.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::browser::SandboxOff;

    fn options() -> LaunchOptions {
        LaunchOptions::new(
            "/usr/bin/chromium",
            "http://127.0.0.1:1/?controlBootstrap=x",
        )
    }

    fn arguments(options: &LaunchOptions) -> Vec<String> {
        machine_only(options, "/tmp/p", Sandbox::On, Some(SHARED_MEMORY_WANTED))
    }

    #[test]
    fn the_default_is_headless_without_gpu_and_ends_with_the_address() {
        let arguments = arguments(&options());
        let expected = [
            "--no-first-run",
            "--no-default-browser-check",
            "--disable-background-networking",
            "--disable-extensions",
            "--disable-quic",
            "--disable-component-update",
            "--disable-sync",
            "--disable-features=Translate,MediaRouter,OptimizationHints,NetworkTimeServiceQuerying",
            "--no-service-autorun",
            "--password-store=basic",
            "--disable-domain-reliability",
            "--disable-client-side-phishing-detection",
            "--metrics-recording-only",
            "--gaia-url=http://127.0.0.1:1",
            "--component-updater=url-source=http://127.0.0.1:1/",
            "--user-data-dir=/tmp/p",
            "--headless=new",
            "--disable-gpu",
            "http://127.0.0.1:1/?controlBootstrap=x",
        ];
        assert_eq!(arguments, expected);
    }

    #[test]
    fn no_combination_opens_devtools() {
        for headed in [false, true] {
            for gpu in [false, true] {
                let arguments = arguments(&LaunchOptions {
                    headed,
                    gpu,
                    ..options()
                });
                assert!(
                    !arguments
                        .iter()
                        .any(|flag| flag.contains("remote-debugging"))
                );
                assert_eq!(arguments.contains(&"--headless=new".to_owned()), !headed);
                let software = arguments.contains(&"--use-angle=swiftshader".to_owned());
                assert_eq!(software, gpu && !headed);
            }
        }
    }

    #[test]
    fn surroundings_add_their_flags() {
        let off = Sandbox::Off(SandboxOff::Root);
        let arguments = machine_only(&options(), "/tmp/p", off, Some(64 * 1024 * 1024));
        assert!(arguments.contains(&"--no-sandbox".to_owned()));
        assert!(arguments.contains(&"--disable-dev-shm-usage".to_owned()));
    }
}
