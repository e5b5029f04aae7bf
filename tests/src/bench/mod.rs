//! Measures of the Python machine and of what cannot be faster, taken in one
//! run. Nothing here fails because something is slow: the report says it.

mod attachments;
mod bare;
mod checkpoints;
mod interrupts;
mod memory;
mod report;
mod requests;
mod samples;
mod start;
mod web;

pub use report::Report;

/// How often things are measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Starts of each kind.
    starts: usize,
    /// Short requests.
    requests: usize,
    /// Saves and restores at each size of the heap.
    checkpoints: usize,
    /// Resets, interrupts and kills.
    interrupts: usize,
    /// Whether this is only a look.
    quick: bool,
}

impl Effort {
    /// For numbers that are kept.
    pub const FULL: Self = Self {
        starts: 10,
        requests: 1000,
        checkpoints: 20,
        interrupts: 7,
        quick: false,
    };

    /// For a look within a minute or two.
    pub const QUICK: Self = Self {
        starts: 3,
        requests: 200,
        checkpoints: 5,
        interrupts: 3,
        quick: true,
    };
}

/// Measures everything of the machine.
pub async fn machine(effort: Effort) -> Report {
    let mut report = Report::begin(effort.quick);
    progress("start");
    start::measure(effort, &mut report).await;
    progress("requests");
    requests::measure(effort, &mut report).await;
    progress("checkpoints");
    checkpoints::measure(effort, &mut report).await;
    progress("interrupts");
    interrupts::measure(effort, &mut report).await;
    progress("memory");
    memory::measure(&mut report).await;
    progress("attachments");
    attachments::measure(effort, &mut report);
    report.end();
    report
}

fn progress(part: &str) {
    eprintln!("    measuring: {part}");
}
