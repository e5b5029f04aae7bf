//! The report: one list of measures, as JSON and as a Markdown table.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::samples::Samples;

/// What a value must be (architecture, performance budget).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Budget {
    /// Not more than this, in the measure's unit.
    AtMost(f64),
    /// Not less than this, in the measure's unit.
    AtLeast(f64),
    /// Not more than this part of the floor.
    Ratio(f64),
}

/// One line of the report.
#[derive(Clone, Debug)]
pub(super) struct Measure {
    name: String,
    unit: &'static str,
    value: f64,
    samples: usize,
    floor: Option<(&'static str, f64)>,
    budget: Option<Budget>,
}

impl Measure {
    /// The median of times, in milliseconds.
    pub(super) fn median(name: impl Into<String>, samples: &Samples) -> Self {
        Self::of(name, "ms", samples.median(), samples.len())
    }

    /// A quantile of times, in milliseconds.
    pub(super) fn quantile(name: impl Into<String>, samples: &Samples, part: f64) -> Self {
        Self::of(name, "ms", samples.quantile(part), samples.len())
    }

    pub(super) fn of(
        name: impl Into<String>,
        unit: &'static str,
        value: f64,
        samples: usize,
    ) -> Self {
        Self {
            name: name.into(),
            unit,
            value,
            samples,
            floor: None,
            budget: None,
        }
    }

    /// What cannot be better, in the same unit.
    pub(super) fn floor(mut self, name: &'static str, value: f64) -> Self {
        self.floor = Some((name, value));
        self
    }

    pub(super) fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    fn ratio(&self) -> Option<f64> {
        self.floor.map(|(_, floor)| self.value / floor)
    }

    fn met(&self) -> Option<bool> {
        Some(match self.budget? {
            Budget::AtMost(limit) => self.value <= limit,
            Budget::AtLeast(limit) => self.value >= limit,
            Budget::Ratio(limit) => self.ratio()? <= limit,
        })
    }

    fn json(&self) -> Value {
        let budget = self.budget.map(|budget| match budget {
            Budget::AtMost(limit) => json!({"atMost": limit}),
            Budget::AtLeast(limit) => json!({"atLeast": limit}),
            Budget::Ratio(limit) => json!({"ratioAtMost": limit}),
        });
        json!({
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "samples": self.samples,
            "floor": self.floor.map(|(name, value)| json!({"name": name, "value": value})),
            "ratio": self.ratio(),
            "budget": budget,
            "met": self.met(),
        })
    }

    fn row(&self) -> String {
        let Self { name, unit, .. } = self;
        let none = || "–".to_owned();
        let floor = self
            .floor
            .map(|(name, value)| format!("{} {unit} ({name})", number(value)));
        let budget = self.budget.map(|budget| match budget {
            Budget::AtMost(limit) => format!("≤ {limit} {unit}"),
            Budget::AtLeast(limit) => format!("≥ {limit} {unit}"),
            Budget::Ratio(limit) => format!("ratio ≤ {limit}"),
        });
        let met = self.met().map(|met| if met { "yes" } else { "**no**" });
        format!(
            "| {name} | {} {unit} | {} | {} | {} | {} |",
            number(self.value),
            floor.unwrap_or_else(none),
            self.ratio().map_or_else(none, number),
            budget.unwrap_or_else(none),
            met.unwrap_or("–"),
        )
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}

/// A moment of a start, in milliseconds from its beginning.
pub(super) struct Moment {
    pub(super) name: &'static str,
    pub(super) at: f64,
}

/// All measures of one run.
pub struct Report {
    surroundings: Vec<(&'static str, Value)>,
    time_line: Vec<Moment>,
    measures: Vec<Measure>,
}

impl Report {
    pub(super) fn begin(quick: bool) -> Self {
        let processors = std::thread::available_parallelism().map_or(0, usize::from);
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH);
        let profile = match cfg!(debug_assertions) {
            true => "development",
            false => "release",
        };
        Self {
            surroundings: vec![
                ("unixTime", seconds.map_or(0, |time| time.as_secs()).into()),
                ("processors", processors.into()),
                ("profile", profile.into()),
                ("quick", quick.into()),
                ("loadBefore", load()),
            ],
            time_line: Vec::new(),
            measures: Vec::new(),
        }
    }

    pub(super) fn end(&mut self) {
        self.surroundings.push(("loadAfter", load()));
    }

    pub(super) fn add(&mut self, measure: Measure) {
        eprintln!("      {}: {} {}", measure.name, measure.value, measure.unit);
        self.measures.push(measure);
    }

    pub(super) fn time_line(&mut self, moments: Vec<Moment>) {
        self.time_line = moments;
    }

    fn json(&self) -> Value {
        let moment = |Moment { name, at }: &Moment| json!({"name": name, "ms": at});
        let pairs = self.surroundings.iter();
        let surroundings: Map<_, _> = pairs
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        json!({
            "schemaVersion": 1,
            "surroundings": surroundings,
            "measures": self.measures.iter().map(Measure::json).collect::<Vec<_>>(),
            "timeLine": self.time_line.iter().map(moment).collect::<Vec<_>>(),
        })
    }

    /// The report as people read it.
    pub fn markdown(&self) -> String {
        let mut text = String::from("# Measures of the machine\n\n");
        for (name, value) in &self.surroundings {
            line(&mut text, &format!("- {name}: {value}"));
        }
        line(&mut text, "");
        line(
            &mut text,
            "| Measure | Value | Floor | Ratio | Budget | Met |",
        );
        line(&mut text, "|---|---|---|---|---|---|");
        for measure in &self.measures {
            line(&mut text, &measure.row());
        }
        line(&mut text, "\n## Time line of a cold start\n");
        line(&mut text, "| Moment | Median | Part |");
        line(&mut text, "|---|---|---|");
        let whole = self.time_line.last().map_or(1.0, |last| last.at);
        for Moment { name, at } in &self.time_line {
            let part = at / whole;
            line(&mut text, &format!("| {name} | {at:.0} ms | {part:.2} |"));
        }
        text
    }

    /// Writes `report.json` and `report.md` into a folder, which is made.
    ///
    /// # Errors
    ///
    /// The file system refuses.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("report.json"), format!("{:#}\n", self.json()))?;
        fs::write(folder.join("report.md"), self.markdown())
    }
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes everything");
}

/// Load average of the last minute, which tells how quiet the machine was.
fn load() -> Value {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.map_or(Value::Null, |load: f64| load.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_met_on_its_limit_and_not_beyond() {
        let of = |value, budget| {
            let measure = Measure::of("m", "ms", value, 1).floor("f", 4.0);
            measure.budget(budget).met()
        };
        assert_eq!(of(2.0, Budget::AtMost(2.0)), Some(true));
        assert_eq!(of(2.1, Budget::AtMost(2.0)), Some(false));
        assert_eq!(of(2.0, Budget::AtLeast(2.0)), Some(true));
        assert_eq!(of(1.9, Budget::AtLeast(2.0)), Some(false));
        assert_eq!(of(1.0, Budget::Ratio(0.25)), Some(true));
        assert_eq!(of(1.1, Budget::Ratio(0.25)), Some(false));
        assert_eq!(Measure::of("m", "ms", 1.0, 1).met(), None);
    }

    #[test]
    fn both_forms_carry_every_measure() {
        let mut report = Report::begin(true);
        let measure = Measure::of("hello", "ms", 12.345, 3).floor("bare", 6.0);
        report.add(measure.budget(Budget::AtMost(10.0)));
        report.time_line(vec![Moment {
            name: "ready",
            at: 80.0,
        }]);
        report.end();
        let row = "| hello | 12.3 ms | 6.00 ms (bare) | 2.06 | ≤ 10 ms | **no** |\n";
        assert!(report.markdown().contains(row), "{}", report.markdown());
        assert!(report.markdown().contains("| ready | 80 ms | 1.00 |"));
        let json = report.json();
        assert_eq!(json["measures"][0]["met"], false);
        assert_eq!(json["measures"][0]["floor"]["value"], 6.0);
        assert_eq!(json["timeLine"][0]["ms"], 80.0);
        assert_eq!(json["surroundings"]["quick"], true);
    }
}
