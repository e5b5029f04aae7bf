//! From a cancel to the answer of the next run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::Effort;
use super::report::{Budget, Measure, Report};
use super::samples::Samples;
use crate::{Home, Machine, PATIENCE};

/// Code that stops when it is asked to.
const PATIENT: &str = "while True: pass";

/// Code that does not.
const STUBBORN: &str = "
while True:
    try:
        while True: pass
    except BaseException: pass
";

/// Time for the worker to be in the code.
const RUNNING: Duration = Duration::from_millis(200);

/// Time for a spare to boot, more than the product needs.
const SPARE: Duration = Duration::from_secs(4);

pub(super) async fn measure(effort: Effort, report: &mut Report) {
    let interrupts = cancels(effort, json!({}), PATIENT, Duration::ZERO).await;
    report.add(Measure::median(
        "interrupt of a loop to next answer",
        &interrupts,
    ));
    let kill = |spare: bool| json!({"interruptGraceMs": 0, "spare": spare});
    let kills = cancels(effort, kill(true), STUBBORN, SPARE).await;
    report.add(
        Measure::median("kill to next answer, with a spare", &kills).budget(Budget::AtMost(80.0)),
    );
    let kills = cancels(effort, kill(false), STUBBORN, Duration::ZERO).await;
    report.add(
        Measure::median("kill to next answer, without", &kills).budget(Budget::AtMost(1000.0)),
    );
}

async fn cancels(effort: Effort, settings: Value, code: &str, idle: Duration) -> Samples {
    let home = Home::with_machine(settings);
    let machine = home.connect().await;
    machine.value("1+1").await;
    let mut samples = Samples::default();
    for _ in 0..effort.interrupts {
        // The guard is there, and a spare if there is one.
        sleep(idle + RUNNING).await;
        samples.push(cancel(&machine, code).await);
    }
    machine.close().await;
    samples
}

async fn cancel(machine: &Machine, code: &str) -> Duration {
    let run = machine.start(json!({"code": code}));
    sleep(RUNNING).await;
    let begun = Instant::now();
    machine.client.cancel(&run.id, None).expect("a cancel");
    let ending = timeout(PATIENCE, run.ending()).await.expect("a terminal");
    let error = ending.expect_err("it was cancelled");
    assert_eq!(error.code().as_str(), "CONTROL_CANCELLED");
    assert_eq!(machine.value("1+1").await, "2");
    begun.elapsed()
}
