//! Resident memory of a product at rest.

use std::fs;
use std::time::Duration;

use tokio::time::sleep;

use super::report::{Budget, Measure, Report};
use crate::Home;

/// Time for the product to come to rest: the guard and the spare are there.
const REST: Duration = Duration::from_secs(5);

pub(super) async fn measure(report: &mut Report) {
    let home = Home::default();
    let machine = home.connect().await;
    machine.value("1+1").await;
    sleep(REST).await;
    let shell = machine.product.child.id().expect("it runs").cast_signed();
    let program = program(shell);
    let browser: Vec<i32> = (home.processes().into_iter())
        .filter(|pid| self::program(*pid) != program)
        .collect();
    let resident = member(&format!("/proc/{shell}/status"), "VmRSS:");
    report.add(
        Measure::of("shell, resident at rest", "MB", resident, 1).budget(Budget::AtMost(40.0)),
    );
    let shared = browser
        .iter()
        .map(|pid| member(&format!("/proc/{pid}/smaps_rollup"), "Pss:"));
    report.add(Measure::of(
        format!("browser, {} processes, proportional", browser.len()),
        "MB",
        shared.sum(),
        1,
    ));
    machine.close().await;
}

fn program(pid: i32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A member of a file of the kernel, given in kB, in MB; 0 for a process that
/// has just ended.
fn member(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    let kilobytes: f64 = number.and_then(|word| word.parse().ok()).unwrap_or(0.0);
    kilobytes * 1024.0 / 1e6
}
