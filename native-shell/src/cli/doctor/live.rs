//! The check that includes all others: a machine that answers.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::cli::profile::Profile;
use crate::cli::session::Session;

/// Longest wait for the first answer: a boot image may have to be made.
const FIRST_LIMIT: Duration = Duration::from_secs(180);

/// How long the answers took.
pub(super) struct Times {
    /// From nothing to the first answer.
    pub(super) first: Duration,
    /// The same request once more.
    pub(super) next: Duration,
}

/// Starts a machine, asks twice, and ends it.
///
/// # Errors
///
/// What kept it from answering, or a wrong answer.
pub(super) async fn check(profile: &Profile) -> Result<Times, String> {
    let begun = Instant::now();
    let session = (Session::open(profile).await).map_err(|error| error.to_string())?;
    let answers = async {
        ask(&session).await?;
        let first = begun.elapsed();
        ask(&session).await?;
        let next = begun.elapsed() - first;
        Ok(Times { first, next })
    };
    let times = timeout(FIRST_LIMIT, answers).await;
    session.close().await;
    times.unwrap_or_else(|_| Err(format!("no answer after {} s", FIRST_LIMIT.as_secs())))
}

async fn ask(session: &Session) -> Result<(), String> {
    let input = Map::from_iter([("code".to_owned(), Value::from("40 + 2"))]);
    match session.client.request("machine.run", input).await {
        Ok(done) if done.output.get("value").is_some_and(|value| value == "42") => Ok(()),
        Ok(done) => Err(format!("40 + 2 was answered with {}", done.output)),
        Err(error) => Err(error.to_string()),
    }
}
