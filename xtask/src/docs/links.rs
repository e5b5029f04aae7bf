//! Links between pages, and the table of contents.

use std::fs;
use std::path::{Path, PathBuf};

use super::{failure, files};
use crate::step::Result;

/// Every link to a file of the repository leads to one, and to a heading of it when it names one.
pub(super) fn check(path: &Path, text: &str) -> Result {
    for target in targets(text) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let folder = path.parent().unwrap_or(path);
        let file = match file {
            "" => path.to_owned(),
            file => folder.join(file),
        };
        if !file.exists() {
            return Err(failure(path, format!("the link {target} leads nowhere")));
        }
        if heading.is_empty() {
            continue;
        }
        let linked = fs::read_to_string(&file).map_err(|error| failure(&file, error))?;
        if !headings(&linked).any(|known| known == heading) {
            let reason = format!("the link {target} names a heading that is not there");
            return Err(failure(path, reason));
        }
    }
    Ok(())
}

/// Lines that are not inside a code block.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// Targets of the links in `text`, without those to other places.
fn targets(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.contains("://"))
        .collect()
}

/// Headings as links name them.
fn headings(text: &str) -> impl Iterator<Item = String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
                .map(|c| if c == ' ' { '-' } else { c })
                .collect()
        })
}

/// Every page is in the table of contents, and every entry of it is a page.
pub(super) fn contents(folder: &Path) -> Result {
    let path = folder.join("SUMMARY.md");
    let summary = fs::read_to_string(&path).map_err(|error| failure(&path, error))?;
    let listed: Vec<PathBuf> = targets(&summary)
        .into_iter()
        .map(|target| folder.join(target))
        .chain([path.clone()])
        .collect();
    let pages = files(folder)?;
    for page in &listed {
        if !pages.contains(page) {
            return Err(failure(&path, format!("{} is not there", page.display())));
        }
    }
    for page in &pages {
        if !listed.contains(page) {
            return Err(failure(&path, format!("{} is not listed", page.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("a.md");
        fs::write(folder.path().join("b.md"), "# B\n\n## What it `is`, now\n").unwrap();
        fs::write(&page, "# A\n").unwrap();
        let good = "[b](b.md) [h](b.md#what-it-is-now) [a](#a) [x](https://x.test/y#z)";
        assert!(check(&page, good).is_ok());
        for bad in ["[c](c.md)", "see [h](b.md#what), [b](b.md)", "[a](#b)"] {
            assert!(check(&page, bad).is_err(), "{bad}");
        }
        assert!(check(&page, "```python\ntable[0](key)\n```\n").is_ok());
    }

    #[test]
    fn the_table_of_contents_and_the_pages_agree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("SUMMARY.md", "[A](a.md)");
        assert!(contents(folder.path()).is_err());
        write("a.md", "");
        assert!(contents(folder.path()).is_ok());
        write("b.md", "");
        assert!(contents(folder.path()).is_err());
    }
}
