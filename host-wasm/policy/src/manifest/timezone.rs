//! IANA timezone names.

use std::fmt;

/// Every name of the IANA database, 2025b, sorted, one a line.
const NAMES: &str = include_str!("timezones.txt");

/// An IANA timezone name, for instance `Europe/Vienna`. A browser takes an
/// unknown name for UTC without a word, so only known names exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timezone(&'static str);

impl Timezone {
    /// The zone, or `None` when the database has no such name. The match is
    /// exact, letter case included.
    pub fn parse(name: &str) -> Option<Self> {
        NAMES.lines().find(|known| *known == name).map(Self)
    }

    /// The name.
    pub fn as_str(&self) -> &'static str {
        self.0
    }
}

impl fmt::Display for Timezone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_database_are_zones() {
        for name in [
            "UTC",
            "Europe/Vienna",
            "America/Argentina/Ushuaia",
            "Etc/GMT+5",
        ] {
            assert_eq!(Timezone::parse(name).map(|zone| zone.as_str()), Some(name));
        }
        for name in [
            "",
            "\n",
            "utc",
            "Europe",
            "Europe/Wien",
            "UTC\nZulu",
            "localtime",
            "../etc",
        ] {
            assert_eq!(Timezone::parse(name), None, "{name:?}");
        }
    }
}
