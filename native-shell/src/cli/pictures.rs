//! What Python displayed, for people: files in a folder, or a note that there
//! was something.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use pyproc_protocol::AttachmentKind;
use pyproc_protocol::client::ReceivedAttachment;
use serde_json::{Value, json};

use crate::diagnostics;

/// Where pictures go.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    dir: Option<PathBuf>,
}

impl Pictures {
    /// Pictures are written to `dir`, which is made now: before anything runs
    /// whose result could be lost.
    ///
    /// # Errors
    ///
    /// There is no such folder and it cannot be made.
    pub(super) fn into_dir(dir: Option<PathBuf>) -> io::Result<Self> {
        if let Some(dir) = &dir {
            fs::create_dir_all(dir).map_err(|error| named(dir, &error))?;
        }
        Ok(Self { dir })
    }

    /// Keeps what a run displayed and says so on standard error.
    pub(super) fn show(&self, attachments: &[ReceivedAttachment]) {
        for picture in attachments.iter().filter(|one| is_picture(one)) {
            let text = match (&self.dir, self.keep(picture)) {
                (_, Some(path)) => format!("displayed {}", path.display()),
                // Why was said already.
                (Some(_), None) => continue,
                (None, None) => format!(
                    "displayed {}, {} bytes; --pictures DIR keeps such files",
                    picture.mime_type.as_str(),
                    picture.bytes.len()
                ),
            };
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(io::stderr(), "{text}");
        }
    }

    /// The same for programs.
    pub(super) fn describe(&self, attachments: &[ReceivedAttachment]) -> Vec<Value> {
        let describe = |one: &ReceivedAttachment| {
            let mut described = json!({
                "kind": one.kind,
                "mimeType": one.mime_type,
                "byteLength": one.bytes.len(),
                "sha256": one.sha256,
            });
            if is_picture(one)
                && let Some(path) = self.keep(one)
            {
                described["path"] = json!(path.display().to_string());
            }
            described
        };
        attachments.iter().map(describe).collect()
    }

    /// The new file with a picture. One that cannot be written is told to
    /// people; the result of the run is worth more.
    fn keep(&self, picture: &ReceivedAttachment) -> Option<PathBuf> {
        let dir = self.dir.as_ref()?;
        let extension = extension(picture.mime_type.as_str());
        match write_new(dir, extension, &picture.bytes) {
            Ok(path) => Some(path),
            Err(error) => {
                diagnostics::line(&format!("a picture is not kept: {}", named(dir, &error)));
                None
            }
        }
    }
}

fn is_picture(attachment: &ReceivedAttachment) -> bool {
    attachment.kind == AttachmentKind::machine_display()
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn extension(mime: &str) -> &'static str {
    match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "text/html" => "html",
        _ => "bin",
    }
}

/// Writes under the first free number; nothing is replaced.
fn write_new(dir: &Path, extension: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    for number in 1..=u32::MAX {
        let path = dir.join(format!("picture-{number}.{extension}"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                return Ok(path);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there is no number left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_picture_replaces_another_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("picture-1.png"), b"mine").unwrap();
        let first = write_new(dir.path(), "png", b"a").unwrap();
        let second = write_new(dir.path(), "png", b"b").unwrap();
        assert_eq!(first, dir.path().join("picture-2.png"));
        assert_eq!(second, dir.path().join("picture-3.png"));
        assert_eq!(fs::read(dir.path().join("picture-1.png")).unwrap(), b"mine");
        assert_eq!(fs::read(first).unwrap(), b"a");
    }
}
