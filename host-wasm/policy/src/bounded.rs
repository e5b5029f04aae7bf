//! Integers that carry their bounds in their type.

use std::fmt;

/// An integer from `MIN` to `MAX`, both included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bounded<const MIN: u64, const MAX: u64>(u64);

impl<const MIN: u64, const MAX: u64> Bounded<MIN, MAX> {
    /// The smallest value of this type.
    pub const MIN: u64 = MIN;
    /// The largest value of this type.
    pub const MAX: u64 = MAX;

    /// `value`, or `None` when it is out of bounds.
    pub const fn new(value: u64) -> Option<Self> {
        if value >= MIN && value <= MAX {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The constant `VALUE`; out of bounds is a compile error.
    pub const fn constant<const VALUE: u64>() -> Self {
        const { assert!(VALUE >= MIN && VALUE <= MAX, "constant out of bounds") };
        Self(VALUE)
    }

    /// The plain integer.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Debug for Bounded<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<const MIN: u64, const MAX: u64> fmt::Display for Bounded<MIN, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<const MIN: u64, const MAX: u64> From<Bounded<MIN, MAX>> for u64 {
    fn from(bounded: Bounded<MIN, MAX>) -> Self {
        bounded.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_within_the_bounds_exist() {
        type Small = Bounded<2, 4>;
        assert_eq!(Small::new(1), None);
        assert_eq!(Small::new(2).map(Small::value), Some(2));
        assert_eq!(Small::new(4).map(Small::value), Some(4));
        assert_eq!(Small::new(5), None);
        assert_eq!(Small::constant::<3>().value(), 3);
    }
}
