//! Ids that were used before: each is remembered for the life of a legacy
//! connection in little memory (MCP 2.4).

use std::collections::{BTreeMap, HashSet};

use pyproc_protocol::types::Sha256Hex;

use crate::id::Id;

/// Ids of all earlier requests.
#[derive(Debug)]
pub struct UsedIds {
    /// Ranges of integers by their first one; they neither touch nor overlap.
    ranges: BTreeMap<i64, i64>,
    /// Keyed digests of strings.
    texts: HashSet<u128>,
    key: [u8; 16],
}

impl UsedIds {
    /// None was used. The key makes it impossible to choose strings that are
    /// taken for one another; it must be random and secret.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            ranges: BTreeMap::new(),
            texts: HashSet::new(),
            key,
        }
    }

    /// Whether the id was used before.
    #[must_use]
    pub fn contains(&self, id: &Id) -> bool {
        match id {
            Id::Integer(integer) => self.range_of(*integer).is_some(),
            Id::Text(text) => self.texts.contains(&self.digest(text)),
        }
    }

    /// Remembers an id; `false` when it was used before.
    pub fn insert(&mut self, id: &Id) -> bool {
        match id {
            Id::Integer(integer) => self.insert_integer(*integer),
            Id::Text(text) => {
                let digest = self.digest(text);
                self.texts.insert(digest)
            }
        }
    }

    fn range_of(&self, integer: i64) -> Option<(i64, i64)> {
        let (first, last) = self.ranges.range(..=integer).next_back()?;
        (integer <= *last).then_some((*first, *last))
    }

    /// Integers stay within 2^53, so neighbours exist.
    fn insert_integer(&mut self, integer: i64) -> bool {
        if self.range_of(integer).is_some() {
            return false;
        }
        let first = self
            .range_of(integer - 1)
            .map_or(integer, |(first, _)| first);
        let last = self.ranges.remove(&(integer + 1)).unwrap_or(integer);
        self.ranges.insert(first, last);
        true
    }

    fn digest(&self, text: &str) -> u128 {
        let keyed = [&self.key[..], text.as_bytes()].concat();
        let digest = Sha256Hex::of(&keyed);
        u128::from_str_radix(&digest.as_str()[..32], 16).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn strings_and_numbers_are_never_the_same() {
        let mut used = UsedIds::new([1; 16]);
        assert!(used.insert(&Id::Integer(8)));
        assert!(used.insert(&Id::Text("8".to_owned())));
        assert!(!used.insert(&Id::Integer(8)));
        assert!(!used.insert(&Id::Text("8".to_owned())));
        assert!(used.contains(&Id::Integer(8)) && !used.contains(&Id::Integer(9)));
    }

    #[test]
    fn counting_up_needs_one_range() {
        let mut used = UsedIds::new([1; 16]);
        for integer in (0..1000).chain((1001..2000).rev()).chain([1000]) {
            assert!(used.insert(&Id::Integer(integer)));
        }
        assert_eq!(used.ranges.len(), 1);
        let most = 9_007_199_254_740_991;
        assert!(used.insert(&Id::Integer(most)) && used.insert(&Id::Integer(-most)));
    }

    proptest! {
        #[test]
        fn ranges_remember_what_a_set_would(integers in proptest::collection::vec(-20_i64..20, 0..80)) {
            let mut used = UsedIds::new([1; 16]);
            let mut model = HashSet::new();
            for integer in integers {
                prop_assert_eq!(used.insert(&Id::Integer(integer)), model.insert(integer));
            }
            for integer in -25..25 {
                prop_assert_eq!(used.contains(&Id::Integer(integer)), model.contains(&integer));
            }
        }
    }
}
