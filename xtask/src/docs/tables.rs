//! The tables themselves.

use std::fmt::Write;
use std::fs;

use pyproc_policy::{Bounded, GuestEnvironment, MachineSettings, Manifest};
use pyproc_protocol::{Code, Operation, SuccessOutcome, codes};

use super::source::{constant, items, number, plain};
use crate::project::Project;
use crate::step::{Failure, Result};

type Table = fn(&Project) -> Result<String>;

/// Every table by its name.
pub(super) const TABLES: [(&str, Table); 7] = [
    ("operations", operations),
    ("connection codes", connection_codes),
    ("machine codes", machine_codes),
    ("client codes", client_codes),
    ("limits", limits),
    ("machine limits", machine_limits),
    ("machine keys", machine_keys),
];

/// Constants of the protocol that no client meets: between host and page, or of another protocol.
const INTERNAL_LIMITS: [&str; 5] = [
    "MAX_PAGE_ERROR_MESSAGE",
    "MAX_HANDSHAKE",
    "MAX_PAGE_MESSAGE",
    "MAX_MCP_LINE",
    "MAX_INTERRUPT_GRACE_MS",
];

/// Limits that the manifest cannot change: file, constant, and what it bounds.
const MACHINE_LIMITS: [(&str, &str, &str); 15] = [
    (
        "host-wasm/host/src/machine.rs",
        "MAX_CODE_BYTES",
        "`code` of one run, bytes of UTF-8",
    ),
    (
        "page/worker/prelude.py",
        "VALUE_LIMIT",
        "`value`, characters; the rest is cut and `valueChars` has the full length",
    ),
    (
        "page/worker/prelude.py",
        "MESSAGE_LIMIT",
        "message of a Python exception, characters",
    ),
    (
        "page/worker/prelude.py",
        "TRACEBACK_LIMIT",
        "traceback, characters; the middle is cut",
    ),
    (
        "page/worker/prelude.py",
        "KEPT_SOURCES",
        "runs whose source lines appear in tracebacks",
    ),
    (
        "page/worker/prelude_display.py",
        "DISPLAY_COUNT",
        "Pictures that one run displays.",
    ),
    (
        "page/worker/prelude_display.py",
        "DISPLAY_BYTES",
        "Bytes of the pictures that one run displays.",
    ),
    (
        "page/worker/files.js",
        "NODE_LIMIT",
        "files and directories in Python's file system",
    ),
    (
        "host-wasm/host/src/page/fit.rs",
        "REPLY_BYTES",
        "one answer of the machine, bytes of JSON",
    ),
    (
        "host-wasm/host/src/host.rs",
        "MAX_ACTIVE",
        "requests without an answer",
    ),
    (
        "host-wasm/host/src/host.rs",
        "MAX_ACTIVE_BYTES",
        "lines of the requests without an answer, bytes",
    ),
    (
        "host-wasm/host/src/page/machine.rs",
        "GUARD_HEAP_LIMIT",
        "memory of a machine that is saved by itself when idle, bytes",
    ),
    (
        "host-wasm/host/src/page/machine.rs",
        "TRANSFER_LIMIT_MS",
        "one save or restore, milliseconds; longer counts as a failed engine",
    ),
    (
        "native-shell/src/engine/wheels/mod.rs",
        "WHEEL_LIMIT",
        "one wheel, bytes",
    ),
    (
        "native-shell/src/engine/wheels/mod.rs",
        "UNPACKED_LIMIT",
        "one wheel unpacked, bytes",
    ),
];

fn read(project: &Project, path: &str) -> Result<String> {
    let path = project.path(path);
    fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))
}

fn head(columns: &[&str]) -> String {
    let line = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    line(columns) + &line(&vec!["---"; columns.len()])
}

fn row(table: &mut String, cells: &[&str]) {
    // Writing to a text cannot fail.
    let _ = writeln!(table, "| {} |", cells.join(" | "));
}

/// The operations that the machine performs.
fn operations(project: &Project) -> Result<String> {
    let text = read(project, "host-wasm/protocol/src/catalog.rs")?;
    let comments = items(&text);
    let mut table = head(&["Operation", "Outcome when it succeeds", "What it does"]);
    for operation in Operation::MACHINE.into_iter().chain(Operation::IMAGE) {
        let variant = format!("{operation:?},");
        let comment = comments.iter().find(|item| item.line == variant);
        let comment = comment.ok_or_else(|| Failure::new(format!("{variant} has no comment")))?;
        let outcome = match operation.success_outcome(&serde_json::Map::new()) {
            SuccessOutcome::Observed => "`observed`",
            SuccessOutcome::Applied => "`applied`",
        };
        let name = format!("`{}`", operation.name());
        let what = plain(&comment.comment);
        row(&mut table, &[&name, outcome, what.trim_end_matches('.')]);
    }
    Ok(table)
}

/// Comments of codes that stay inside the product, or that only clients use.
const BRIDGE: &str = "Bridge close reason: ";
const CLIENT: &str = "Client-local: ";

fn connection_codes(project: &Project) -> Result<String> {
    on_the_wire(project, |code| !code.as_str().starts_with("MACHINE_"))
}

fn machine_codes(project: &Project) -> Result<String> {
    on_the_wire(project, |code| code.as_str().starts_with("MACHINE_"))
}

fn on_the_wire(project: &Project, wanted: fn(&Code) -> bool) -> Result<String> {
    let mut table = head(&["Code", "Meaning", "Outcome"]);
    for (code, comment) in commented_codes(project)? {
        if comment.starts_with(BRIDGE) || comment.starts_with(CLIENT) || !wanted(code) {
            continue;
        }
        let parts = comment.split_once(" Outcome: ");
        let (meaning, outcome) =
            parts.ok_or_else(|| Failure::new(format!("{code} has no outcome in its comment")))?;
        let cells = [meaning, outcome].map(|cell| cell.trim_end_matches('.'));
        row(&mut table, &[&format!("`{code}`"), cells[0], cells[1]]);
    }
    Ok(table)
}

fn client_codes(project: &Project) -> Result<String> {
    let mut table = head(&["Code", "Meaning"]);
    for (code, comment) in commented_codes(project)? {
        if let Some(meaning) = comment.strip_prefix(CLIENT) {
            row(
                &mut table,
                &[&format!("`{code}`"), &first_sentence(meaning)],
            );
        }
    }
    Ok(table)
}

/// Every code with its comment.
fn commented_codes(project: &Project) -> Result<Vec<(&'static Code, String)>> {
    let text = read(project, "host-wasm/protocol/src/codes.rs")?;
    let comments = items(&text);
    let commented = codes::ALL.iter().map(|code| {
        let line = format!("{code};");
        let item = comments.iter().find(|item| item.line == line);
        let item = item.ok_or_else(|| Failure::new(format!("{code} has no comment")))?;
        Ok((code, plain(&item.comment)))
    });
    commented.collect()
}

fn limits(project: &Project) -> Result<String> {
    let text = read(project, "host-wasm/protocol/src/limits.rs")?;
    let mut table = head(&["Limit", "Value"]);
    for item in items(&text) {
        let constant = item
            .line
            .strip_prefix("pub const ")
            .and_then(|line| line.strip_suffix(';')?.split_once(" = "));
        let Some((name, value)) = constant else {
            continue;
        };
        let name = name.split(':').next().unwrap_or(name);
        if INTERNAL_LIMITS.contains(&name) || name == "VERSION" {
            continue;
        }
        // Texts, and values that are made from others, are in the comment.
        if let Some(number) = number(value) {
            let limit = first_sentence(&plain(&item.comment));
            row(&mut table, &[&limit, &thousands(number)]);
        }
    }
    Ok(table)
}

fn machine_limits(project: &Project) -> Result<String> {
    let mut table = head(&["Limit", "Value"]);
    for (file, name, what) in MACHINE_LIMITS {
        let value = constant(&read(project, file)?, name);
        let value = value.ok_or_else(|| Failure::new(format!("{file} has no constant {name}")))?;
        row(&mut table, &[&first_sentence(what), &thousands(value)]);
    }
    Ok(table)
}

/// Default and bounds of a bounded number.
fn range<const MIN: u64, const MAX: u64>(default: Bounded<MIN, MAX>) -> (String, String) {
    let bounds = format!("{} to {}", quantity(MIN), quantity(MAX));
    (quantity(default.value()), bounds)
}

/// Keys of the manifest's object `machine`, and the one beside it.
fn machine_keys(project: &Project) -> Result<String> {
    let defaults = MachineSettings::default();
    let text = |default: &str, bounds: &str| (default.to_owned(), bounds.to_owned());
    let count = |what: &str, count: usize| format!("at most {count} {what}");
    let keys = [
        ("heap_limit_bytes", range(defaults.heap_limit_bytes)),
        ("store_limit_bytes", range(defaults.store_limit_bytes)),
        ("max_checkpoints", range(defaults.max_checkpoints)),
        ("file_limit_bytes", range(defaults.file_limit_bytes)),
        ("output_bytes", range(defaults.output_bytes)),
        ("interrupt_grace_ms", range(defaults.interrupt_grace_ms)),
        ("guard_idle_ms", range(defaults.guard_idle_ms)),
        ("boot_timeout_ms", range(defaults.boot_timeout_ms)),
        (
            "spare",
            text(&defaults.spare.to_string(), "`true`, `false`"),
        ),
        ("wheels", text("none", "absolute path of a directory")),
        (
            "preload",
            text("none", &count("names", MachineSettings::MAX_PRELOAD)),
        ),
        (
            "env",
            text("none", &count("strings", GuestEnvironment::MAX_VARIABLES)),
        ),
        ("timezone", text("UTC", "IANA name")),
        ("image", text("none", "object, see below")),
    ];
    let source = read(project, "host-wasm/policy/src/manifest/machine.rs")?;
    let comments = items(&source);
    let mut table = head(&["Key", "Default", "Allowed", "Meaning"]);
    for (field, (default, bounds)) in keys {
        let line = format!("pub {field}: ");
        let item = comments.iter().find(|item| item.line.starts_with(&line));
        let item = item.ok_or_else(|| Failure::new(format!("{field} is no field")))?;
        // Defaults have a column of their own.
        let comment = plain(&item.comment);
        let comment = comment.split(';').next().unwrap_or(&comment);
        let key = format!("`{}`", camel_case(field));
        let comment = comment.trim_end_matches('.');
        row(&mut table, &[&key, &default, &bounds, comment]);
    }
    let (default, bounds) = range(Manifest::DEFAULT_TIMEOUT_MS);
    row(
        &mut table,
        &[
            "`timeoutMs`, beside `machine`",
            &default,
            &bounds,
            "Milliseconds until a command's deadline, counted from when it is queued",
        ],
    );
    Ok(table)
}

/// The first sentence without its end, beginning with a capital letter.
fn first_sentence(text: &str) -> String {
    let sentence = text.split(". ").next().unwrap_or(text);
    let sentence = sentence.trim_end_matches('.');
    let mut letters = sentence.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut key = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        key.push_str(&first.to_ascii_uppercase());
        key.push_str(rest);
    }
    key
}

/// A number as people read it, whole units of memory with their name.
fn quantity(number: u64) -> String {
    for (unit, bytes) in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        // Smaller counts are seldom bytes.
        if number >= 64 << 10 && number >= bytes && number.is_multiple_of(bytes) {
            return format!("{} {unit}", number / bytes);
        }
    }
    thousands(number)
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<_> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(String::from_utf8_lossy)
        .collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(thousands(1_048_576), "1,048,576");
        assert_eq!(thousands(64), "64");
        assert_eq!(quantity(512 << 20), "512 MiB");
        assert_eq!(quantity(900_000), "900,000");
        assert_eq!(quantity(4096), "4,096");
        assert_eq!(first_sentence("a `b`, 1.5. More."), "A `b`, 1.5");
        assert_eq!(camel_case("heap_limit_bytes"), "heapLimitBytes");
    }

    #[test]
    fn every_code_that_leaves_the_product_has_one_row() {
        let project = Project::locate();
        let rows = |table: Table| table(&project).unwrap().lines().count() - 2;
        let shown = [connection_codes, machine_codes, client_codes]
            .map(rows)
            .iter()
            .sum::<usize>();
        // Four codes close the bridge between host and page.
        assert_eq!(shown + 4, codes::ALL.len());
    }

    #[test]
    fn every_operation_of_the_machine_has_a_row() {
        let table = operations(&Project::locate()).unwrap();
        assert_eq!(table.lines().count(), 2 + 6);
        assert!(table.contains("| `machine.run` | `applied` | "));
        assert!(table.contains("| `machine.image.export` | `observed` | "));
    }

    #[test]
    fn every_key_that_the_manifest_takes_has_a_row() {
        let project = Project::locate();
        let table = machine_keys(&project).unwrap();
        let source = read(&project, "host-wasm/policy/src/manifest/machine.rs").unwrap();
        let (_, keys) = source.split_once("pub(super) fn read").unwrap();
        let (_, keys) = keys.split_once("at.closed(&[").unwrap();
        let (keys, _) = keys.split_once("])").unwrap();
        let keys: Vec<_> = keys.split('"').skip(1).step_by(2).collect();
        assert_eq!(keys.len(), 14);
        for key in keys {
            assert!(table.contains(&format!("| `{key}` |")), "{key}");
        }
    }
}
