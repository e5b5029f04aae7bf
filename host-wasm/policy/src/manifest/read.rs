//! Typed access to the tree: every question knows the key path it is about.

use std::collections::{BTreeMap, BTreeSet};

use super::json::Node;
use super::path::AbsolutePath;
use super::{Fault, FileFault, KeyPath, ManifestError, ManifestFiles};
use crate::Bounded;

/// What every value is read with.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) files: &'a dyn ManifestFiles,
}

/// A value of the manifest and its place.
#[derive(Clone)]
pub(super) struct At<'a> {
    path: KeyPath,
    node: &'a Node,
    reader: Reader<'a>,
}

/// The members of a closed object.
pub(super) struct Members<'a> {
    path: KeyPath,
    members: BTreeMap<&'a str, &'a Node>,
    reader: Reader<'a>,
}

const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

impl<'a> At<'a> {
    pub(super) fn root(node: &'a Node, reader: Reader<'a>) -> Self {
        Self {
            path: KeyPath::root(),
            node,
            reader,
        }
    }

    pub(super) fn files(&self) -> &'a dyn ManifestFiles {
        self.reader.files
    }

    /// An error about this value.
    pub(super) fn fault(&self, fault: impl Into<Fault>) -> ManifestError {
        ManifestError {
            path: self.path.clone(),
            fault: fault.into(),
        }
    }

    fn mistyped(&self, expected: &'static str) -> ManifestError {
        self.fault(Fault::Type {
            expected,
            found: self.node.type_name(),
        })
    }

    /// The object, all of whose members are in `known`.
    pub(super) fn closed(
        &self,
        known: &'static [&'static str],
    ) -> Result<Members<'a>, ManifestError> {
        let members = self.open()?;
        match members.members.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(members.fault(key, Fault::UnknownKey { known })),
            None => Ok(members),
        }
    }

    /// The object, whatever its members are.
    pub(super) fn open(&self) -> Result<Members<'a>, ManifestError> {
        let Node::Object(members) = self.node else {
            return Err(self.mistyped("an object"));
        };
        Ok(Members {
            path: self.path.clone(),
            members: members
                .iter()
                .map(|(name, node)| (name.as_str(), node))
                .collect(),
            reader: self.reader,
        })
    }

    pub(super) fn string(&self) -> Result<&'a str, ManifestError> {
        match self.node {
            Node::String(text) => Ok(text),
            _ => Err(self.mistyped("a string")),
        }
    }

    pub(super) fn boolean(&self) -> Result<bool, ManifestError> {
        match self.node {
            Node::Bool(value) => Ok(*value),
            _ => Err(self.mistyped("a boolean")),
        }
    }

    /// An integral number within the bounds of the type; `1.0` is an integer.
    pub(super) fn bounded<const MIN: u64, const MAX: u64>(
        &self,
    ) -> Result<Bounded<MIN, MAX>, ManifestError> {
        let Node::Number(number) = self.node else {
            return Err(self.mistyped("an integer"));
        };
        let value = match (number.as_u64(), number.as_f64()) {
            (Some(value), _) => Some(value),
            // Exact: integral, not negative and below 2^53.
            (None, Some(float))
                if float.fract() == 0.0 && (0.0..=MAX_SAFE_INTEGER).contains(&float) =>
            {
                Some(float as u64)
            }
            _ => None,
        };
        value
            .and_then(Bounded::new)
            .ok_or_else(|| self.fault(Fault::IntegerRange { min: MIN, max: MAX }))
    }

    /// A number from `min` to `max`.
    pub(super) fn number(&self, min: f64, max: f64) -> Result<f64, ManifestError> {
        let Node::Number(number) = self.node else {
            return Err(self.mistyped("a number"));
        };
        match number.as_f64() {
            Some(value) if (min..=max).contains(&value) => Ok(value),
            _ => Err(self.fault(Fault::NumberRange { min, max })),
        }
    }

    /// One of a few words, each with its meaning.
    pub(super) fn choice<T: Copy>(
        &self,
        allowed: &'static [&'static str],
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ManifestError> {
        from_name(self.string()?).ok_or_else(|| self.fault(Fault::Choice { allowed }))
    }

    /// An absolute path, whatever it leads to.
    pub(super) fn path(&self) -> Result<AbsolutePath, ManifestError> {
        AbsolutePath::parse(self.string()?, self.files().path_style())
            .map_err(|fault| self.fault(fault))
    }

    /// An absolute path that passes `check`.
    pub(super) fn checked_path(
        &self,
        check: impl Fn(AbsolutePath, &dyn ManifestFiles) -> Result<AbsolutePath, FileFault>,
    ) -> Result<AbsolutePath, ManifestError> {
        check(self.path()?, self.files()).map_err(|fault| self.fault(fault))
    }

    /// A string array by the rules of control protocol 1.4: no blank entry, no
    /// text twice; entries are trimmed, parsed, and merged when equal, keeping
    /// the first position. Each value comes with its place.
    pub(super) fn distinct<T: Ord + Clone>(
        &self,
        parse: impl Fn(&At<'a>, &'a str) -> Result<T, ManifestError>,
    ) -> Result<Vec<(At<'a>, T)>, ManifestError> {
        let Node::Array(items) = self.node else {
            return Err(self.mistyped("an array"));
        };
        let mut texts = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut values = Vec::new();
        for (position, node) in items.iter().enumerate() {
            let at = Self {
                path: self.path.index(position),
                node,
                reader: self.reader,
            };
            let text = at.string()?;
            if text.trim().is_empty() {
                return Err(at.fault(Fault::Blank));
            }
            if !texts.insert(text) {
                return Err(at.fault(Fault::DuplicateEntry));
            }
            let value = parse(&at, text.trim())?;
            if seen.insert(value.clone()) {
                values.push((at, value));
            }
        }
        Ok(values)
    }
}

impl<'a> Members<'a> {
    /// An error about the member `key`, present or not.
    pub(super) fn fault(&self, key: &str, fault: impl Into<Fault>) -> ManifestError {
        ManifestError {
            path: self.path.key(key),
            fault: fault.into(),
        }
    }

    /// An error about the object itself.
    pub(super) fn object_fault(&self, fault: impl Into<Fault>) -> ManifestError {
        ManifestError {
            path: self.path.clone(),
            fault: fault.into(),
        }
    }

    pub(super) fn optional(&self, key: &str) -> Option<At<'a>> {
        let node = self.members.get(key)?;
        Some(At {
            path: self.path.key(key),
            node,
            reader: self.reader,
        })
    }

    pub(super) fn required(&self, key: &str) -> Result<At<'a>, ManifestError> {
        self.optional(key)
            .ok_or_else(|| self.fault(key, Fault::Missing))
    }

    /// A boolean that is false when absent.
    pub(super) fn flag(&self, key: &str) -> Result<bool, ManifestError> {
        self.optional(key).map_or(Ok(false), |at| at.boolean())
    }

    /// A bounded integer with its default.
    pub(super) fn bounded_or<const MIN: u64, const MAX: u64>(
        &self,
        key: &str,
        default: Bounded<MIN, MAX>,
    ) -> Result<Bounded<MIN, MAX>, ManifestError> {
        self.optional(key).map_or(Ok(default), |at| at.bounded())
    }

    /// Every member with its name.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, At<'a>)> {
        self.members.iter().map(|(name, node)| {
            let at = At {
                path: self.path.key(name),
                node,
                reader: self.reader,
            };
            (*name, at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::json;
    use super::*;
    use crate::NoFiles;

    fn read<T>(text: &str, ask: impl Fn(&At<'_>) -> Result<T, ManifestError>) -> Result<T, Fault> {
        let node = json::parse(text.as_bytes()).map_err(|error| error.fault)?;
        ask(&At::root(&node, Reader { files: &NoFiles })).map_err(|error| error.fault)
    }

    #[test]
    fn an_integer_is_an_integral_number_however_it_is_written() {
        let integer = |text| read(text, |at| at.bounded::<0, 100>().map(Bounded::value));
        for (text, value) in [
            ("1", 1),
            ("1.0", 1),
            ("1e0", 1),
            ("-0", 0),
            ("100", 100),
            ("0.1e3", 100),
        ] {
            assert_eq!(integer(text), Ok(value), "{text}");
        }
        let range = Err(Fault::IntegerRange { min: 0, max: 100 });
        for text in [
            "101",
            "-1",
            "-1.0",
            "1e3",
            "18446744073709551615",
            "1.5",
            "1e300",
            "-1e300",
            "1e-3",
            "100000000000000000000",
        ] {
            assert_eq!(integer(text), range, "{text}");
        }
        for (text, found) in [
            ("true", "a boolean"),
            ("null", "null"),
            ("\"1\"", "a string"),
        ] {
            let expected = "an integer";
            assert_eq!(
                integer(text),
                Err(Fault::Type { expected, found }),
                "{text}"
            );
        }
    }

    #[test]
    fn entries_are_trimmed_merged_and_refused_when_repeated_or_blank() {
        let lower = |text| {
            read(text, |at| {
                let values = at.distinct(|_, text| Ok(text.to_lowercase()))?;
                Ok(values
                    .into_iter()
                    .map(|(_, value)| value)
                    .collect::<Vec<_>>())
            })
        };
        assert_eq!(
            lower(r#"["B"," a","b ","A"]"#),
            Ok(vec!["b".to_owned(), "a".to_owned()])
        );
        assert_eq!(lower(r#"["a","a"]"#), Err(Fault::DuplicateEntry));
        assert_eq!(lower(r#"["a"," \t"]"#), Err(Fault::Blank));
        assert_eq!(lower("[]"), Ok(Vec::new()));
    }
}
