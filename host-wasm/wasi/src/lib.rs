//! The WASI face of the host core: one host behind the world of
//! `wit/host.wit`. Types are translated; nothing is decided here.

use std::cell::RefCell;

use pyproc_host::{self as core, Host, HostSettings};

#[allow(
    missing_docs,
    unsafe_code,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "generated"
)]
mod bindings {
    wit_bindgen::generate!({ path: "wit", world: "core" });

    super::export_face!();
}

use bindings::pyproc::host::types::{
    ImageOpening, ImageSource, Input, LedgerEntry, LedgerState, Output, PageClose, PageText,
    Purpose, Settings, Step, Transfer,
};

/// Puts the export next to the generated code, under its lint exceptions.
macro_rules! export_face {
    () => {
        export!(Face with_types_in self);
        use super::Face;
    };
}
use export_face;

thread_local! {
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
}

struct Face;

impl bindings::Guest for Face {
    fn start(settings: Settings) -> Result<(), String> {
        std::panic::set_hook(Box::new(|info| {
            bindings::diagnostic(&format!("the core panicked: {info}"));
        }));
        let settings = HostSettings {
            capability: settings.capability,
            operations: settings.operations,
            automation_space: settings.automation_space,
            timeout_ms: settings.timeout_ms,
            boot_timeout_ms: settings.boot_timeout_ms,
            save_on_exit: settings.save_on_exit,
        };
        let host = Host::new(settings).map_err(|error| error.to_string())?;
        HOST.with_borrow_mut(|slot| *slot = Some(host));
        Ok(())
    }

    fn handle(now: u64, input: Input) -> Step {
        HOST.with_borrow_mut(|slot| {
            let Some(host) = slot else {
                return Step {
                    outputs: Vec::new(),
                    deadline: None,
                };
            };
            host.handle(now, to_core(input));
            let outputs = std::iter::from_fn(|| host.poll());
            let outputs = outputs.filter_map(from_core).collect();
            Step {
                outputs,
                deadline: host.deadline(),
            }
        })
    }
}

fn to_core(input: Input) -> core::Input {
    match input {
        Input::AgentBytes(bytes) => core::Input::AgentBytes(bytes),
        Input::AgentEof => core::Input::AgentEof,
        Input::Stop(reason) => core::Input::Stop(reason),
        Input::PageOpened(link) => core::Input::PageOpened(link),
        Input::PageMessage(PageText { link, text }) => core::Input::PageMessage(link, text),
        Input::PageBroken(link) => core::Input::PageBroken(link),
        Input::PageClosed(link) => core::Input::PageClosed(link),
        Input::PageFailed(reason) => core::Input::PageFailed(reason),
        Input::LoadFailed(reason) => core::Input::LoadFailed(reason),
        Input::ImageOpened(opened) => {
            let opening = match opened.opening {
                ImageOpening::Staged(address) => core::ImageOpened::Staged(address),
                ImageOpening::Refused(reason) => core::ImageOpened::Refused(reason),
                ImageOpening::Invalid(reason) => core::ImageOpened::Invalid(reason),
            };
            core::Input::ImageOpened(opened.ticket, opening)
        }
        Input::Received(received) => core::Input::Received(received.ticket, received.bytes),
        Input::Tick => core::Input::Tick,
    }
}

fn from_core(output: core::Output) -> Option<Output> {
    Some(match output {
        core::Output::AgentLine(line) => Output::AgentLine(line),
        core::Output::PageMessage(link, text) => Output::PageMessage(PageText { link, text }),
        core::Output::PageClose { link, code, reason } => {
            Output::PageClose(PageClose { link, code, reason })
        }
        core::Output::ImageOpen {
            ticket,
            path,
            trusted,
        } => Output::ImageOpen(ImageSource {
            ticket,
            path,
            trusted,
        }),
        core::Output::Receive {
            ticket,
            link,
            byte_length,
            purpose,
        } => Output::Receive(Transfer {
            ticket,
            link,
            byte_length,
            purpose: match purpose {
                core::Purpose::Display => Purpose::Display,
                core::Purpose::Export => Purpose::Export,
                core::Purpose::Save => Purpose::Save,
            },
        }),
        core::Output::Diagnostic(text) => {
            bindings::diagnostic(&text);
            return None;
        }
        core::Output::Ledger(request_id, state) => Output::Ledger(LedgerEntry {
            request_id,
            state: match state {
                core::LedgerState::Accepted => LedgerState::Accepted,
                core::LedgerState::Delivered => LedgerState::Delivered,
                core::LedgerState::Ended => LedgerState::Ended,
            },
        }),
        core::Output::Exit(code) => Output::Exit(code),
    })
}
