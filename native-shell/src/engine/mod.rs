//! Engine files: what they must be, how they are prepared, checked and cached.
//!
//! The engine is the user's Pyodide core distribution. The product never carries it; it carries
//! the digests of the releases it was tested with ([`digests`]), prepares a directory with the
//! user's own npm client ([`provision`](mod@provision)), checks a directory ([`verify`](mod@verify)),
//! indexes Python wheels ([`wheels`]) and knows where prepared things live ([`cache`]).
//!
//! Everything here blocks; callers on an async runtime use a blocking task.

mod archive;
pub mod cache;
pub mod digests;
mod error;
mod fetch;
pub(crate) mod files;
mod npm;
pub mod provision;
pub mod verify;
pub mod wheels;

pub use cache::{BootImageCache, BootImageKey, CacheDir, CachedImage};
pub use digests::{CoreFile, Release, Sha256Digest};
pub use error::EngineError;
pub use provision::{Phase, Prepared, first_time, provision, provision_from_address};
pub use verify::{Verified, verify};
pub use wheels::{Wheel, WheelIndex};
