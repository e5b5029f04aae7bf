//! Limits of the control protocol (control protocol 3.3). All sizes are bytes
//! unless the name says otherwise.

/// The `protocol` member of every frame.
pub const PROTOCOL: &str = "pyproc-control";
/// The `version` member of every frame.
pub const VERSION: u64 = 1;

/// Longest line that is read, without its terminator.
pub const MAX_INBOUND_FRAME: usize = 1_048_576;
/// Longest line that is written, without its terminator. One less than the
/// inbound limit, because some clients count the LF.
pub const MAX_OUTBOUND_FRAME: usize = 1_048_575;
/// Most decoded bytes of one attachment chunk.
pub const MAX_CHUNK: usize = 262_144;
/// Most bytes of one attachment.
pub const MAX_ATTACHMENT: u64 = 67_108_864;
/// Deepest level of a Json value; the value itself has depth 0.
pub const MAX_JSON_DEPTH: usize = 64;
/// Most arrays and objects that may be open at once anywhere in a line. The
/// bound of a recursive decoder, above every depth that a frame may have.
pub const MAX_NESTING: usize = 128;
/// Longest error message, in characters.
pub const MAX_ERROR_MESSAGE: usize = 2000;
/// Longest error message that a machine page contributes, in UTF-16 code units.
pub const MAX_PAGE_ERROR_MESSAGE: usize = 400;
/// Longest `peer.name`, in characters.
pub const MAX_PEER_NAME: usize = 80;
/// Longest `peer.version`, in characters.
pub const MAX_PEER_VERSION: usize = 40;
/// Longest `cancel.reason`, in characters.
pub const MAX_CANCEL_REASON: usize = 200;
/// Largest magnitude of an integer on the wire: 2^53 - 1.
pub const MAX_SAFE_INTEGER: i64 = 9_007_199_254_740_991;
/// The same bound for members that are never negative.
pub const MAX_SAFE_UNSIGNED: u64 = MAX_SAFE_INTEGER.unsigned_abs();

/// Longest first message of a machine page.
pub const MAX_HANDSHAKE: usize = 4096;
/// Longest message of the machine bridge, both directions.
pub const MAX_PAGE_MESSAGE: usize = 8_388_608;
/// Longest JSON-RPC line of the MCP adapter.
pub const MAX_MCP_LINE: usize = 8_388_608;
/// Largest interrupt grace that a command may ask for, in milliseconds.
pub const MAX_INTERRUPT_GRACE_MS: u32 = 60_000;
