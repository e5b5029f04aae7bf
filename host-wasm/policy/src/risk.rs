//! Risk levels.

use std::fmt;

/// What an action or a raw method can do to the outside world, in rising order
/// (control protocol 1.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Risk {
    /// Reads only.
    #[default]
    Read,
    /// Changes the page, not the world behind it.
    Mutate,
    /// May have an effect outside the browser.
    ExternalEffect,
}

impl Risk {
    /// Every level, in rising order.
    pub const ALL: [Self; 3] = [Self::Read, Self::Mutate, Self::ExternalEffect];

    /// The level that is written `name`. The match is exact.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|risk| risk.name() == name)
    }

    /// How the level is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutate => "mutate",
            Self::ExternalEffect => "externalEffect",
        }
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_round_trip_by_name() {
        assert!(Risk::Read < Risk::Mutate && Risk::Mutate < Risk::ExternalEffect);
        for risk in Risk::ALL {
            assert_eq!(Risk::from_name(risk.name()), Some(risk));
        }
        for unknown in ["", "Read", "externaleffect", " read"] {
            assert_eq!(Risk::from_name(unknown), None);
        }
    }
}
