//! Durable images on their way through the host: the shell owns files and
//! keys, the page owns what is in them, and the bridge says which image belongs
//! to which command.

use pyproc_protocol::attachments::AttachmentContent;
use pyproc_protocol::types::{AttachmentKind, Mime};
use pyproc_protocol::{ControlError, Operation, codes, limits};
use serde_json::{Map, Value, json};

use crate::display;
use crate::machine::MachineRequest;
use crate::output::Purpose;

/// Most bytes of an image (machine 19).
const IMAGE_LIMIT: u64 = 1 << 30;

/// Room for the seal that the shell puts behind an image.
const SEAL_ROOM: u64 = 64;

/// What became of an image that the shell was to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageOpened {
    /// The page can fetch it once from this address.
    Staged(String),
    /// The path may not be used; the text says why.
    Refused(String),
    /// The file is not an image that may be imported; the text says why.
    Invalid(String),
}

/// What a command needs besides its messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Nothing.
    None,
    /// The page sends what was displayed after its answer, if there is any.
    Run,
    /// The page sends an image after its answer.
    Export {
        /// The shell stores it; nobody else gets it.
        save: bool,
    },
    /// The shell opens an image before the page gets the command.
    Import { path: String, trusted: bool },
}

impl Errand {
    /// What a client's request needs, and the input that the page gets.
    pub(crate) fn of(
        request: MachineRequest,
        input: Map<String, Value>,
    ) -> (Self, Map<String, Value>) {
        match request {
            MachineRequest::Run { .. } => (Self::Run, input),
            MachineRequest::Export => {
                let errand = Self::Export { save: false };
                let input = errand.export_input();
                (errand, input)
            }
            MachineRequest::Import { path, trusted } => {
                (Self::Import { path, trusted }, Map::new())
            }
            _ => (Self::None, input),
        }
    }

    /// The page's input of an export.
    pub(crate) fn export_input(&self) -> Map<String, Value> {
        Map::from_iter([("limit".to_owned(), self.limit().into())])
    }

    /// Most bytes that the page may send.
    fn limit(&self) -> u64 {
        match self {
            Self::Export { save: true } => IMAGE_LIMIT,
            Self::Export { save: false } => limits::MAX_ATTACHMENT - SEAL_ROOM,
            _ => 0,
        }
    }

    /// How many bytes follow the page's answer; `None` when the page does not
    /// keep to what it was asked.
    pub(crate) fn announced(&self, output: &Map<String, Value>) -> Option<u64> {
        match self {
            Self::None | Self::Import { .. } => Some(0),
            Self::Run => display::announced(output),
            Self::Export { .. } => {
                let length = output.get("byteLength")?.as_u64()?;
                (1..=self.limit()).contains(&length).then_some(length)
            }
        }
    }

    /// What the bytes are for.
    pub(crate) fn purpose(&self) -> Purpose {
        match self {
            Self::Export { save: true } => Purpose::Save,
            Self::Export { save: false } => Purpose::Export,
            _ => Purpose::Display,
        }
    }
}

/// The page's input of an import.
pub(crate) fn import_input(address: String) -> Map<String, Value> {
    Map::from_iter([("address".to_owned(), address.into())])
}

/// Why an image that the shell looked at is not imported.
pub(crate) fn refusal(opened: ImageOpened) -> ControlError {
    match opened {
        ImageOpened::Refused(message) => {
            ControlError::not_sent(codes::PYPROC_INPUT_INVALID, message)
        }
        ImageOpened::Invalid(message) | ImageOpened::Staged(message) => {
            ControlError::rejected(codes::MACHINE_IMAGE_INVALID, message)
        }
    }
}

/// An image that the page made and nobody gets: the machine is as it was.
pub(crate) fn not_delivered(message: String) -> ControlError {
    ControlError::rejected(codes::PYPROC_INTERNAL, message)
}

/// The image as an attachment; the output says what its descriptor says.
pub(crate) fn attach(
    output: &mut Map<String, Value>,
    bytes: Vec<u8>,
) -> Result<AttachmentContent, ControlError> {
    let mime = Mime::parse("application/octet-stream")
        .map_err(|error| not_delivered(error.to_string()))?;
    let content = AttachmentContent::new(AttachmentKind::machine_image(), mime, bytes)
        .map_err(|error| not_delivered(error.to_string()))?;
    output.insert("byteLength".to_owned(), content.bytes().len().into());
    output.insert("sha256".to_owned(), json!(content.sha256().as_str()));
    Ok(content)
}

/// The operation that makes an image, whoever asks for it.
pub(crate) const EXPORT: Operation = Operation::MachineImageExport;
