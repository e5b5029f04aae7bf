//! `cargo xtask docs`: the book in `docs/`, its tables made from the sources, and what a reader
//! relies on checked: links, codes, manifests and frames.
//!
//! A page says where a table goes with two comments, `<!-- table: NAME -->` and
//! `<!-- end of table -->`; what is between them is replaced.

mod examples;
mod links;
mod source;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use crate::project::Project;
use crate::step::{Failure, Result, Steps, execute, output};
use tables::TABLES;

const END: &str = "<!-- end of table -->";

/// Pages that are no part of the book and are read by the same people.
const BESIDE: [&str; 3] = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// What to do with the book.
#[derive(Args)]
pub(crate) struct Docs {
    /// Write nothing; fail when a table, a link or an example is wrong.
    #[arg(long)]
    check: bool,
    /// Also make HTML in target/book, with mdbook.
    #[arg(long, conflicts_with = "check")]
    html: bool,
}

pub(crate) fn docs(project: &Project, steps: &mut Steps, what: &Docs) -> Result {
    if !what.check {
        steps.step("tables", || write(project))?;
    }
    steps.step("documentation", || check(project))?;
    if what.html {
        steps.step("HTML", || html(project))?;
    }
    Ok(())
}

/// Writes every table into its page.
fn write(project: &Project) -> Result {
    for page in pages(project)? {
        if page.old != page.new {
            fs::write(&page.path, page.new).map_err(|error| failure(&page.path, error))?;
            eprintln!("    {} is written", page.path.display());
        }
    }
    Ok(())
}

/// Fails when a table differs from the sources, the table of contents from the pages, or a link,
/// a code or an example is not right.
pub(crate) fn check(project: &Project) -> Result {
    let pages = pages(project)?;
    for page in &pages {
        if page.old != page.new {
            return Err(failure(
                &page.path,
                "a table differs from the sources; run `cargo xtask docs`",
            ));
        }
        examples::check(&page.path, &page.old)?;
    }
    links::contents(&book(project))?;
    let beside = BESIDE.map(|name| project.path(name));
    for path in pages.iter().map(|page| &page.path).chain(&beside) {
        let text = fs::read_to_string(path).map_err(|error| failure(path, error))?;
        links::check(path, &text)?;
    }
    eprintln!("    {} pages, {} tables", pages.len(), TABLES.len());
    Ok(())
}

fn html(project: &Project) -> Result {
    output(Command::new("mdbook").arg("--version")).map_err(|failure| {
        Failure::new(format!("{failure}; run `cargo install mdbook --locked`"))
    })?;
    let target = project.built("book");
    let mut mdbook = project.in_root("mdbook");
    execute(mdbook.args(["build", "docs", "--dest-dir"]).arg(&target))?;
    eprintln!("    open {}", target.join("index.html").display());
    Ok(())
}

fn book(project: &Project) -> PathBuf {
    project.path("docs/src")
}

fn failure(path: &Path, reason: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: {reason}", path.display()))
}

/// A page of the book, with its text as it is and as it should be.
struct Page {
    path: PathBuf,
    old: String,
    new: String,
}

fn pages(project: &Project) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    let mut used = Vec::new();
    for path in files(&book(project))? {
        let old = fs::read_to_string(&path).map_err(|error| failure(&path, error))?;
        let new = fill(project, &path, &old, &mut used)?;
        pages.push(Page { path, old, new });
    }
    match TABLES.iter().find(|(name, _)| !used.contains(name)) {
        Some((name, _)) => Err(Failure::new(format!("no page shows the table `{name}`"))),
        None => Ok(pages),
    }
}

/// The page with its tables replaced.
fn fill(
    project: &Project,
    path: &Path,
    page: &str,
    used: &mut Vec<&'static str>,
) -> Result<String> {
    let mut filled = String::new();
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- table: ") {
        let parts = after
            .split_once(" -->")
            .and_then(|(name, after)| Some((name, after.split_once(END)?.1)));
        let (name, after) = parts.ok_or_else(|| failure(path, "a table does not end"))?;
        let table = TABLES.iter().find(|(known, _)| *known == name);
        let &(name, table) =
            table.ok_or_else(|| failure(path, format!("the table `{name}` is not known")))?;
        used.push(name);
        filled.push_str(before);
        filled.push_str(&format!(
            "<!-- table: {name} -->\n\n{}\n{END}",
            table(project)?
        ));
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// All pages below `folder`, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| failure(folder, error))?;
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if path.extension().is_some_and(|kind| kind == "md") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_replaced_and_the_rest_is_kept() {
        let project = Project::locate();
        let page = format!("before\n<!-- table: operations -->\nold\n{END}\nafter\n");
        let mut used = Vec::new();
        let filled = fill(&project, Path::new("p.md"), &page, &mut used).unwrap();
        assert!(filled.starts_with("before\n<!-- table: operations -->\n\n| "));
        assert!(filled.ends_with(&format!("{END}\nafter\n")));
        assert!(filled.contains("`machine.run`") && !filled.contains("old"));
        assert_eq!(used, ["operations"]);
        let again = fill(&project, Path::new("p.md"), &filled, &mut used).unwrap();
        assert_eq!(again, filled);
    }

    #[test]
    fn a_table_that_is_unknown_or_open_is_refused() {
        let project = Project::locate();
        for page in [
            format!("<!-- table: x -->{END}"),
            "<!-- table: limits -->".to_owned(),
        ] {
            assert!(fill(&project, Path::new("p.md"), &page, &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn the_book_is_as_it_must_be() {
        check(&Project::locate()).unwrap();
    }
}
