//! Findings and their two forms: a table for people, JSON for programs.

use std::fmt::{Display, Write};

use serde_json::{Map, Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// As it should be.
    Good,
    /// It works, and could be better.
    Note,
    /// Required, and not there.
    Missing,
    /// Could not be looked at, because something else is missing.
    Skipped,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Note => "note",
            Self::Missing => "missing",
            Self::Skipped => "skipped",
        }
    }

    /// Its colour on a terminal.
    fn colour(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Note => "33",
            Self::Missing => "31",
            Self::Skipped => "2",
        }
    }
}

/// What was found about one thing.
#[derive(Debug)]
pub(super) struct Finding {
    name: &'static str,
    status: Status,
    text: String,
    advice: Option<String>,
    facts: Map<String, Value>,
}

impl Finding {
    fn new(name: &'static str, status: Status, text: impl Display) -> Self {
        Self {
            name,
            status,
            text: text.to_string(),
            advice: None,
            facts: Map::new(),
        }
    }

    pub(super) fn good(name: &'static str, text: impl Display) -> Self {
        Self::new(name, Status::Good, text)
    }

    pub(super) fn note(name: &'static str, text: impl Display, advice: impl Into<String>) -> Self {
        let finding = Self::new(name, Status::Note, text);
        Self {
            advice: Some(advice.into()),
            ..finding
        }
    }

    pub(super) fn missing(
        name: &'static str,
        text: impl Display,
        advice: impl Into<String>,
    ) -> Self {
        let finding = Self::new(name, Status::Missing, text);
        Self {
            advice: Some(advice.into()),
            ..finding
        }
    }

    pub(super) fn skipped(name: &'static str) -> Self {
        let text = "not looked at: it needs what is missing above";
        Self::new(name, Status::Skipped, text)
    }

    /// Adds a value for programs.
    pub(super) fn with(mut self, name: &str, value: Value) -> Self {
        self.facts.insert(name.to_owned(), value);
        self
    }

    pub(super) fn is_good(&self) -> bool {
        self.status == Status::Good
    }

    fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("name".to_owned(), self.name.into());
        members.insert("status".to_owned(), self.status.name().into());
        members.insert("text".to_owned(), self.text.clone().into());
        if let Some(advice) = &self.advice {
            members.insert("advice".to_owned(), advice.clone().into());
        }
        members.extend(self.facts.clone());
        members.into()
    }
}

/// All findings, in the order of the looks.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<Finding>);

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// Nothing that is required is missing.
    pub(super) fn is_good(&self) -> bool {
        (self.0.iter()).all(|finding| !matches!(finding.status, Status::Missing | Status::Skipped))
    }

    pub(super) fn to_json(&self) -> Value {
        let checks: Vec<_> = self.0.iter().map(Finding::to_json).collect();
        json!({
            "ok": self.is_good(),
            "version": env!("CARGO_PKG_VERSION"),
            "checks": checks,
        })
    }

    pub(super) fn table(&self, colour: bool) -> String {
        let mut table = String::new();
        for finding in &self.0 {
            let status = format!("{:<8}", finding.status.name());
            let status = if colour {
                format!("\x1b[{}m{status}\x1b[0m", finding.status.colour())
            } else {
                status
            };
            // Writing to a text cannot fail.
            let _ = writeln!(table, "{status} {:<14} {}", finding.name, finding.text);
            if let Some(advice) = &finding.advice {
                let _ = writeln!(table, "{:24}-> {advice}", "");
            }
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_makes_a_report_bad() {
        let mut report = Report::default();
        report.add(Finding::good("browser", "/usr/bin/chromium").with("version", "1".into()));
        report.add(Finding::note("sandbox", "off", "start as another user"));
        assert!(report.is_good());
        report.add(Finding::missing("engine", "not there", "prepare it"));
        report.add(Finding::skipped("machine"));
        assert!(!report.is_good());
        assert_eq!(
            report.table(false),
            "ok       browser        /usr/bin/chromium\n\
             note     sandbox        off\n                        -> start as another user\n\
             missing  engine         not there\n                        -> prepare it\n\
             skipped  machine        not looked at: it needs what is missing above\n"
        );
        let json = report.to_json();
        assert_eq!(json["ok"], false);
        assert_eq!(
            json["checks"][0],
            json!({"name": "browser", "status": "ok", "text": "/usr/bin/chromium", "version": "1"})
        );
        assert_eq!(json["checks"][2]["advice"], "prepare it");
    }
}
