//! `hello`, the first frame of each side (control protocol 3.5).

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

use super::encode_members;
use crate::json::EncodeError;
use crate::limits;
use crate::members::{MemberError, Members};
use crate::text;
use crate::types::{InvalidText, OperationName, RequestId};

/// The first frame of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Chosen by the client and echoed by the server; not a request's id.
    pub request_id: RequestId,
    /// Which side speaks.
    pub role: Role,
    /// Who speaks.
    pub peer: Peer,
    /// What the side is able to receive.
    pub capabilities: Capabilities,
}

/// The side that a hello comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that asks.
    Client,
    /// The side that answers.
    Server {
        /// The operations it serves, without duplicates.
        operations: Vec<OperationName>,
    },
}

/// Name and version of a peer's software.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Peer {
    name: String,
    version: String,
}

impl Peer {
    /// A peer that introduces itself.
    ///
    /// # Errors
    /// [`InvalidText`] when `name` has not 1 to 80 or `version` not 1 to 40
    /// UTF-16 code units.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Result<Self, InvalidText> {
        let (name, version) = (name.into(), version.into());
        let fits = |text: &str, max| (1..=max).contains(&text::utf16_len(text));
        if !fits(&name, limits::MAX_PEER_NAME) {
            return Err(InvalidText {
                expected: "a peer name of 1 to 80 characters",
            });
        }
        if !fits(&version, limits::MAX_PEER_VERSION) {
            return Err(InvalidText {
                expected: "a peer version of 1 to 40 characters",
            });
        }
        Ok(Self { name, version })
    }

    /// The server of this product: `pyproc`, version `1`.
    #[must_use]
    pub fn product() -> Self {
        Self {
            name: "pyproc".to_owned(),
            version: "1".to_owned(),
        }
    }

    /// The name, 1 to 80 characters.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version, 1 to 40 characters.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }
}

/// What a side is able to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether the side handles or sends cancels.
    pub cancel: bool,
    /// Whether the side handles or sends events.
    pub events: bool,
    /// The largest attachment chunk that the side takes.
    pub max_chunk: ChunkLimit,
}

impl Capabilities {
    /// What this product announces in both roles.
    pub const PRODUCT: Self = Self {
        cancel: true,
        events: false,
        max_chunk: ChunkLimit::MAX,
    };
}

/// Largest decoded attachment chunk that a side takes: 1 to 262 144 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ChunkLimit(u32);

impl ChunkLimit {
    /// The largest value, 262 144 bytes.
    pub const MAX: Self = Self(262_144);

    /// A limit of `bytes`, unless that is 0 or above the largest value.
    #[must_use]
    pub const fn new(bytes: u32) -> Option<Self> {
        if bytes == 0 || bytes > Self::MAX.0 {
            None
        } else {
            Some(Self(bytes))
        }
    }

    /// The limit in bytes, at least 1.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.0 as usize
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HelloMembers<'a> {
    request_id: &'a RequestId,
    role: &'static str,
    peer: &'a Peer,
    capabilities: CapabilityMembers,
    #[serde(skip_serializing_if = "Option::is_none")]
    operations: Option<&'a [OperationName]>,
}

#[derive(Serialize)]
struct CapabilityMembers {
    cancel: bool,
    events: bool,
    attachments: AttachmentCapability,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AttachmentCapability {
    encoding: &'static str,
    max_chunk_bytes: ChunkLimit,
}

const ENCODING: &str = "base64";

impl Hello {
    pub(super) fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["requestId", "role", "peer", "capabilities"];
        let mut hello = Members::closed("", members, &required, &["operations"])?;
        let request_id = hello.text("requestId")?;
        let role = match hello.string("role")?.as_str() {
            "client" if hello.has("operations") => {
                return Err(hello.error("operations", "belongs to a server hello"));
            }
            "client" => Role::Client,
            "server" => Role::Server {
                operations: decode_operations(hello.array("operations")?)?,
            },
            _ => return Err(hello.error("role", "must be \"client\" or \"server\"")),
        };
        Ok(Self {
            request_id,
            role,
            peer: Peer::decode(hello.object("peer")?)?,
            capabilities: Capabilities::decode(hello.object("capabilities")?)?,
        })
    }

    pub(super) fn encode(&self) -> Result<String, EncodeError> {
        let (role, operations) = match &self.role {
            Role::Client => ("client", None),
            Role::Server { operations } => ("server", Some(operations.as_slice())),
        };
        let Capabilities {
            cancel,
            events,
            max_chunk,
        } = self.capabilities;
        let attachments = AttachmentCapability {
            encoding: ENCODING,
            max_chunk_bytes: max_chunk,
        };
        encode_members(
            "hello",
            HelloMembers {
                request_id: &self.request_id,
                role,
                peer: &self.peer,
                capabilities: CapabilityMembers {
                    cancel,
                    events,
                    attachments,
                },
                operations,
            },
        )
    }
}

fn decode_operations(items: Vec<Value>) -> Result<Vec<OperationName>, MemberError> {
    let mut seen = BTreeSet::new();
    items
        .into_iter()
        .map(|item| {
            item.as_str()
                .and_then(|name| OperationName::parse(name).ok())
                .filter(|name| seen.insert(name.clone()))
                .ok_or_else(|| MemberError::new("operations must be distinct operation names"))
        })
        .collect()
}

impl Peer {
    fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let mut peer = Members::closed("peer", members, &["name", "version"], &[])?;
        Ok(Self {
            name: peer.bounded_string("name", 1, limits::MAX_PEER_NAME)?,
            version: peer.bounded_string("version", 1, limits::MAX_PEER_VERSION)?,
        })
    }
}

impl Capabilities {
    fn decode(members: Map<String, Value>) -> Result<Self, MemberError> {
        let required = ["cancel", "events", "attachments"];
        let mut capabilities = Members::closed("capabilities", members, &required, &[])?;
        let cancel = capabilities.boolean("cancel")?;
        let events = capabilities.boolean("events")?;
        let mut attachments = Members::closed(
            "capabilities.attachments",
            capabilities.object("attachments")?,
            &["encoding", "maxChunkBytes"],
            &[],
        )?;
        if attachments.string("encoding")? != ENCODING {
            return Err(attachments.error("encoding", "must be \"base64\""));
        }
        let bytes = attachments.integer("maxChunkBytes", 1, limits::MAX_CHUNK as u64)?;
        let max_chunk = u32::try_from(bytes)
            .ok()
            .and_then(ChunkLimit::new)
            .ok_or_else(|| attachments.error("maxChunkBytes", "is out of range"))?;
        Ok(Self {
            cancel,
            events,
            max_chunk,
        })
    }
}
