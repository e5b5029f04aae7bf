//! The engine releases this product was tested with.

use std::fmt;

use sha2::{Digest, Sha256};

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

impl Sha256Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits of either case.
    #[must_use]
    pub const fn from_hex(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        let mut at = 0;
        while at < bytes.len() {
            let (Some(high), Some(low)) = (nibble(digits[2 * at]), nibble(digits[2 * at + 1]))
            else {
                return None;
            };
            bytes[at] = high << 4 | low;
            at += 1;
        }
        Some(Self(bytes))
    }
}

const fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for Sha256Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// One core file of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreFile {
    /// Plain file name inside the engine directory.
    pub name: &'static str,
    /// Exact size in bytes.
    pub size: u64,
    /// Digest of the whole file.
    pub sha256: Sha256Digest,
}

/// One engine release (machine 4.1).
#[derive(Clone, Debug)]
pub struct Release {
    /// Version of the npm package.
    pub version: &'static str,
    /// Interpreter tag of its wheels, for example `cp314`.
    pub python_tag: &'static str,
    /// Platform tag of its native wheels.
    pub platform_tag: &'static str,
    /// The core files. The first [`DIGESTED_FILES`] are in the order of the engine digest.
    pub files: [CoreFile; 6],
}

/// How many of a release's files make its engine digest (machine 4.1).
pub const DIGESTED_FILES: usize = 4;

/// Name of the lock file. Its presence is what makes a directory look prepared.
pub const LOCK_FILE: &str = "pyodide-lock.json";

impl Release {
    /// SHA-256 over the raw SHA-256 digests of the first four files, concatenated (machine 4.1).
    #[must_use]
    pub fn engine_digest(&self) -> Sha256Digest {
        let mut hash = Sha256::new();
        for file in &self.files[..DIGESTED_FILES] {
            hash.update(file.sha256.0);
        }
        Sha256Digest(hash.finalize().into())
    }

    /// The core file of that name.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&CoreFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// Every release that an engine directory may hold. The first one is what is prepared by default.
pub static RELEASES: [Release; 1] = [Release {
    version: "314.0.7",
    python_tag: "cp314",
    platform_tag: "pyemscripten_2026_0_wasm32",
    files: [
        core_file(
            "pyodide.mjs",
            17_931,
            "6f1d60f7bf529beb300f0f47983c921d3982363640ba20af0e38efdddbc66109",
        ),
        core_file(
            "pyodide.asm.mjs",
            1_250_344,
            "f7cdc8ece80678ceb712f8e65ebe6d3a83203a180c399865f49612a051693635",
        ),
        core_file(
            "pyodide.asm.wasm",
            9_598_218,
            "cc36e3cab04fdfc9a63ff13eb52eae2b911bf46c025cc7b281f394bd3de1d5e6",
        ),
        core_file(
            "python_stdlib.zip",
            2_545_637,
            "fa1957e5777068fc4f7437f96d860ae2fbe9c19732ba06c84e004ec16dd7dd7a",
        ),
        core_file(
            "pyodide.js",
            18_912,
            "3141b814715a72e59b51b1b18b9ceae5bf19f7c852417e431bb0a34feadf825c",
        ),
        core_file(
            LOCK_FILE,
            119_077,
            "5dc2fc119108bc148c7457dc86e7675b5c87e1cafd420b9c34c1eaef7b36c010",
        ),
    ],
}];

/// The release that [`provision`](super::provision()) prepares.
#[must_use]
pub fn pinned() -> &'static Release {
    &RELEASES[0]
}

const fn core_file(name: &'static str, size: u64, sha256: &str) -> CoreFile {
    // A malformed entry of the table becomes a digest that no file has; a test names it.
    let sha256 = match Sha256Digest::from_hex(sha256) {
        Some(digest) => digest,
        None => Sha256Digest([0; 32]),
    };
    CoreFile { name, size, sha256 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_table_is_well_formed() {
        for release in RELEASES.iter() {
            for file in &release.files {
                assert_ne!(file.sha256, Sha256Digest([0; 32]), "{}", file.name);
                assert!(file.size > 0, "{}", file.name);
            }
        }
    }

    #[test]
    fn the_engine_digest_covers_the_four_files_in_the_order_of_the_contract() {
        let names: Vec<_> = pinned().files[..DIGESTED_FILES]
            .iter()
            .map(|file| file.name)
            .collect();
        assert_eq!(
            names,
            [
                "pyodide.mjs",
                "pyodide.asm.mjs",
                "pyodide.asm.wasm",
                "python_stdlib.zip"
            ]
        );
        assert_eq!(
            pinned().engine_digest().to_string(),
            "3685972878d5751131ba3dbbca0010c21d8081a0274e975194978c407a75ee7a"
        );
    }

    #[test]
    fn hexadecimal_reads_back_and_refuses_other_text() {
        let digest = Sha256Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(Sha256Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(Sha256Digest::from_hex(&digest.to_string()[1..]), None);
        assert_eq!(Sha256Digest::from_hex(&"g".repeat(64)), None);
    }
}
