//! Round trips of short requests.

use std::time::{Duration, Instant};

use serde_json::json;

use super::report::{Budget, Measure, Report};
use super::samples::Samples;
use super::{Effort, bare};
use crate::{Home, Machine};

/// Requests before the measured ones.
const WARM_UP: usize = 100;

/// Characters of the page's message for a short run.
const MESSAGE: usize = 250;

pub(super) async fn measure(effort: Effort, report: &mut Report) {
    let home = Home::default();
    let machine = home.connect().await;
    let runs = samples(effort.requests, async || {
        assert_eq!(machine.value("1+1").await, "2");
    });
    let runs = runs.await;
    let refused = samples(effort.requests, || refusal(&machine)).await;
    machine.close().await;
    let bare = bare::page_round_trips(&"r".repeat(MESSAGE), WARM_UP, effort.requests).await;
    report.add(
        Measure::median("run `1+1`, p50", &runs)
            .floor(
                "bare round trip to a worker that works for 0.25 ms",
                bare.median(),
            )
            .budget(Budget::AtMost(1.5)),
    );
    report.add(
        Measure::quantile("run `1+1`, p99", &runs, 0.99)
            .floor(
                "bare round trip to a worker that works for 0.25 ms",
                bare.quantile(0.99),
            )
            .budget(Budget::AtMost(5.0)),
    );
    report.add(
        Measure::median("protocol overhead: unknown operation, p50", &refused)
            .budget(Budget::AtMost(0.3)),
    );
    report.add(Measure::quantile(
        "protocol overhead: unknown operation, p99",
        &refused,
        0.99,
    ));
}

/// A request that goes through the whole host and not to the page.
async fn refusal(machine: &Machine) {
    let refusal = machine.request("no.operation", json!({})).await;
    let error = refusal.expect_err("there is no such operation");
    assert_eq!(error.code().as_str(), "CONTROL_OPERATION_UNKNOWN");
}

async fn samples(count: usize, work: impl AsyncFn()) -> Samples {
    let mut times: Vec<Duration> = Vec::with_capacity(count);
    for round in 0..WARM_UP + count {
        let begun = Instant::now();
        work().await;
        if round >= WARM_UP {
            times.push(begun.elapsed());
        }
    }
    times.into_iter().collect()
}
