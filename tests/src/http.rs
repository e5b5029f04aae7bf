//! HTTP by hand: requests that no client library would send.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::PATIENCE;

/// One answer.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header names in lower case and values, in order.
    pub headers: Vec<(String, String)>,
    /// Body as it came.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a header that must be there at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(known, _)| known == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} twice: {:?}", self.headers);
        value
    }
}

/// Sends a request line and headers to `authority` as they are and reads the
/// answer until the server closes.
pub async fn raw(authority: &str, head: &str) -> Answer {
    let exchange = async {
        let mut stream = TcpStream::connect(authority).await.expect("a connection");
        let request = format!("{head}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("a write");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.expect("an answer");
        bytes
    };
    let bytes = timeout(PATIENCE, exchange).await.expect("an answer");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.expect("a head");
    let text = std::str::from_utf8(&bytes[..end]).expect("headers are text");
    let mut lines = text.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1));
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(':').expect("a header");
        (name.to_ascii_lowercase(), value.trim().to_owned())
    });
    Answer {
        status: status
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    }
}

/// The answer to a plain request for `path` under the right host.
pub async fn fetch(authority: &str, method: &str, path: &str) -> Answer {
    raw(
        authority,
        &format!("{method} {path} HTTP/1.1\r\nHost: {authority}"),
    )
    .await
}
