//! A client of a host in this very process: `run` and `repl` speak the control
//! protocol like every other client, without a second process.

use pyproc_protocol::frame::Peer;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::profile::{Profile, ProfileError};
use crate::client::{ConnectError, ControlClient};
use crate::serve::{self, Ended, ServeError};

/// Bytes in flight between client and host, in each direction.
const PIPE: usize = 1 << 20;

/// A session cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The run cannot be planned.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The host.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

/// A running host and its one client.
pub struct Session {
    /// The client.
    pub client: ControlClient,
    host: JoinHandle<Result<Ended, ServeError>>,
    stop: oneshot::Sender<String>,
}

impl Session {
    /// Starts a host for the profile and connects to it.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub async fn open(profile: &Profile) -> Result<Self, SessionError> {
        let (host, page) = profile.plan()?;
        let (near, far) = tokio::io::duplex(PIPE);
        let (host_reader, host_writer) = tokio::io::split(far);
        let (stop, stopped) = oneshot::channel();
        let host = tokio::spawn(serve::serve(host, page, host_reader, host_writer, stopped));
        let (reader, writer) = tokio::io::split(near);
        let peer = Peer::new("pyproc-cli", env!("CARGO_PKG_VERSION"));
        let peer = peer.map_err(|error| ConnectError::Hello(error.to_string()))?;
        match ControlClient::connect(reader, writer, peer).await {
            Ok(client) => Ok(Self { client, host, stop }),
            Err(error) => {
                drop(stop);
                match host.await {
                    Ok(Err(failure)) => Err(failure.into()),
                    _ => Err(error.into()),
                }
            }
        }
    }

    /// Ends the host and leaves nothing behind.
    pub async fn close(self) {
        // A host that has ended by itself needs neither.
        let _ = self.stop.send("the session was closed".to_owned());
        let _ = self.host.await;
    }
}
