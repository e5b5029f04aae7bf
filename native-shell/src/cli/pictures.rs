//! What Python displayed, for people: files in a folder, or a note that there
//! was something.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use pyproc_protocol::client::ReceivedAttachment;
use serde_json::{Value, json};

const KIND: &str = "machine.display";

/// Where pictures go.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    dir: Option<PathBuf>,
}

impl Pictures {
    /// Pictures are written to `dir`, which is made when the first one comes.
    pub(super) fn into_dir(dir: Option<PathBuf>) -> Self {
        Self { dir }
    }

    /// Keeps what a run displayed and says so on standard error.
    pub(super) fn show(&self, attachments: &[ReceivedAttachment]) -> io::Result<()> {
        for picture in attachments.iter().filter(|one| one.kind.as_str() == KIND) {
            let mime = picture.mime_type.as_str();
            let bytes = picture.bytes.len();
            match self.keep(picture)? {
                Some(path) => eprintln!("displayed {}", path.display()),
                None => {
                    eprintln!("displayed {mime}, {bytes} bytes; --pictures DIR keeps such files")
                }
            }
        }
        Ok(())
    }

    /// The same for programs.
    pub(super) fn describe(&self, attachments: &[ReceivedAttachment]) -> io::Result<Vec<Value>> {
        let describe = |one: &ReceivedAttachment| {
            let mut described = json!({
                "kind": one.kind,
                "mimeType": one.mime_type,
                "byteLength": one.bytes.len(),
                "sha256": one.sha256,
            });
            if one.kind.as_str() == KIND
                && let Some(path) = self.keep(one)?
            {
                described["path"] = json!(path.display().to_string());
            }
            Ok(described)
        };
        attachments.iter().map(describe).collect()
    }

    fn keep(&self, picture: &ReceivedAttachment) -> io::Result<Option<PathBuf>> {
        let Some(dir) = &self.dir else {
            return Ok(None);
        };
        let failed =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", dir.display()));
        fs::create_dir_all(dir).map_err(failed)?;
        let extension = extension(picture.mime_type.as_str());
        let path = write_new(dir, extension, &picture.bytes).map_err(failed)?;
        Ok(Some(path))
    }
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
