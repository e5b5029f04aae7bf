//! File names of wheels and their tags.

use crate::engine::digests::Release;

/// One compatibility tag of a wheel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Interpreter, for example `cp314` or `py3`.
    pub python: String,
    /// Binary interface, for example `abi3` or `none`.
    pub abi: String,
    /// Platform, for example `any`.
    pub platform: String,
}

/// What the file name of a wheel says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WheelName {
    /// The distribution, as written.
    pub distribution: String,
    /// The version, as written.
    pub version: String,
    /// Every tag, compressed tag sets expanded.
    pub tags: Vec<Tag>,
}

/// Most tags of one name. Compressed sets multiply, so a crafted name could ask for millions.
const TAG_LIMIT: usize = 64;

impl WheelName {
    /// Reads `distribution-version[-build]-python-abi-platform.whl`.
    #[must_use]
    pub fn parse(file_name: &str) -> Option<Self> {
        let parts: Vec<&str> = file_name.strip_suffix(".whl")?.split('-').collect();
        if !(5..=6).contains(&parts.len()) || parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        if parts.len() == 6 && !parts[2].starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let [pythons, abis, platforms] = parts[parts.len() - 3..] else {
            return None;
        };
        let sets = [pythons, abis, platforms].map(|set| set.split('.').collect::<Vec<_>>());
        if sets.iter().map(Vec::len).product::<usize>() > TAG_LIMIT {
            return None;
        }
        let mut tags = Vec::new();
        for python in &sets[0] {
            for abi in &sets[1] {
                for platform in &sets[2] {
                    tags.push(Tag {
                        python: (*python).to_owned(),
                        abi: (*abi).to_owned(),
                        platform: (*platform).to_owned(),
                    });
                }
            }
        }
        Some(Self {
            distribution: parts[0].to_owned(),
            version: parts[1].to_owned(),
            tags,
        })
    }

    /// Whether one of the tags is accepted by the machine with that engine (machine 17.1).
    #[must_use]
    pub fn fits(&self, release: &Release) -> bool {
        self.tags.iter().any(|tag| {
            match (tag.python.as_str(), tag.abi.as_str(), tag.platform.as_str()) {
                (python, "none", "any") => python == "py3" || python == release.python_tag,
                (python, abi, platform) => {
                    python == release.python_tag
                        && (abi == release.python_tag || abi == "abi3")
                        && platform == release.platform_tag
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::digests::pinned;

    fn fits(tags: &str) -> bool {
        WheelName::parse(&format!("demo-1.0-{tags}.whl"))
            .unwrap()
            .fits(pinned())
    }

    #[test]
    fn the_five_tag_sets_of_the_contract_are_accepted() {
        for tags in [
            "py3-none-any",
            "py2.py3-none-any",
            "cp314-none-any",
            "cp314-cp314-pyemscripten_2026_0_wasm32",
            "cp314-abi3-pyemscripten_2026_0_wasm32",
        ] {
            assert!(fits(tags), "{tags}");
        }
    }

    #[test]
    fn other_tags_are_not() {
        for tags in [
            "py2-none-any",
            "cp313-none-any",
            "cp314-cp314-manylinux_2_28_x86_64",
            "cp313-cp313-pyemscripten_2026_0_wasm32",
            "cp314-cp314t-pyemscripten_2026_0_wasm32",
            "cp314-cp314-pyemscripten_2025_0_wasm32",
            "py3-none-pyemscripten_2026_0_wasm32",
        ] {
            assert!(!fits(tags), "{tags}");
        }
    }

    #[test]
    fn name_version_and_build_are_told_apart() {
        let name = WheelName::parse("zope.interface-7.2-1b-py3-none-any.whl").unwrap();
        assert_eq!(
            (name.distribution.as_str(), name.version.as_str()),
            ("zope.interface", "7.2")
        );
        for bad in [
            "demo.whl",
            "demo-1-py3-none-any.zip",
            "demo-1-build-py3-none-any.whl",
            "demo-1--none-any.whl",
            "a-b-1-1-py3-none-any.whl",
        ] {
            assert_eq!(WheelName::parse(bad), None, "{bad}");
        }
        let crafted = format!("demo-1-{0}-{0}-{0}.whl", ["a"; 9].join("."));
        assert_eq!(WheelName::parse(&crafted), None);
    }
}
