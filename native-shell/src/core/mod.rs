//! The core under wasmtime: loading the component that the build script made,
//! and turning one input into the work it asks for.

mod engine_config;
mod watchdog;

use std::sync::OnceLock;

use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::diagnostics;
use watchdog::Watchdog;

#[expect(missing_docs, reason = "the documentation is in the WIT file")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../host-wasm/wasi/wit",
        world: "core",
    });
}

pub use bindings::pyproc::host::types::{
    ImageOpened, ImageOpening, ImageSource, Input, LedgerEntry, LedgerState, Link, Output,
    PageClose, PageText, Purpose, Received, Settings, Step, Transfer,
};

/// The component as this build's own script compiled it.
static COMPONENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/host.cwasm"));

/// Most memory the core may use, bytes.
const MEMORY_LIMIT: usize = 512 << 20;

/// One handled input may take this many watchdog periods.
const DEADLINE_TICKS: u64 = 20;

/// The core cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CoreError {
    /// The embedded component does not load.
    #[error("the core does not load: {0:#}")]
    Load(wasmtime::Error),
    /// The core refused its settings.
    #[error("the core refused its settings: {0}")]
    Settings(String),
    /// The core trapped: a bug, the memory limit, or the deadline.
    #[error("the core failed: {0:#}")]
    Trap(wasmtime::Error),
}

/// One running core.
pub struct Core {
    store: Store<Shell>,
    host: bindings::Core,
}

/// What the component may reach: its own memory, and a voice on standard error.
struct Shell {
    limits: StoreLimits,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Shell {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl bindings::pyproc::host::types::Host for Shell {}

impl bindings::CoreImports for Shell {
    fn diagnostic(&mut self, text: String) {
        diagnostics::line(&text);
    }
}

impl Core {
    /// Loads the component and starts its host.
    ///
    /// # Errors
    ///
    /// [`CoreError::Load`] or [`CoreError::Settings`].
    pub fn start(settings: &Settings) -> Result<Self, CoreError> {
        let (engine, component) = component().map_err(CoreError::Load)?;
        let mut linker = Linker::<Shell>::new(&engine);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).map_err(CoreError::Load)?;
        bindings::Core::add_to_linker::<_, HasSelf<_>>(&mut linker, |shell| shell)
            .map_err(CoreError::Load)?;
        let shell = Shell {
            limits: StoreLimitsBuilder::new()
                .memory_size(MEMORY_LIMIT)
                .trap_on_grow_failure(true)
                .build(),
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
        };
        let mut store = Store::new(&engine, shell);
        store.limiter(|shell| &mut shell.limits);
        store.set_epoch_deadline(DEADLINE_TICKS);
        let host = bindings::Core::instantiate(&mut store, &component, &linker)
            .map_err(CoreError::Load)?;
        host.call_start(&mut store, settings)
            .map_err(CoreError::Trap)?
            .map_err(CoreError::Settings)?;
        Ok(Self { store, host })
    }

    /// Handles one input at `now`, monotonic milliseconds.
    ///
    /// # Errors
    ///
    /// [`CoreError::Trap`]: the core must not be used any more.
    pub fn handle(&mut self, now: u64, input: &Input) -> Result<Step, CoreError> {
        self.store.set_epoch_deadline(DEADLINE_TICKS);
        self.host
            .call_handle(&mut self.store, now, input)
            .map_err(CoreError::Trap)
    }
}

/// The engine and the component, loaded once a process.
fn component() -> wasmtime::Result<(Engine, Component)> {
    static LOADED: OnceLock<(Engine, Component, Watchdog)> = OnceLock::new();
    if LOADED.get().is_none() {
        let engine = Engine::new(&engine_config::engine_config())?;
        #[expect(unsafe_code, reason = "loading precompiled code is unsafe by nature")]
        // SAFETY: the bytes were made by this build's own script with the same
        // wasmtime and configuration, and are part of the executable.
        let component = unsafe { Component::deserialize(&engine, COMPONENT) }?;
        let watchdog = Watchdog::start(&engine)?;
        // A second thread that was here first has an equal value.
        let _ = LOADED.set((engine, component, watchdog));
    }
    match LOADED.get() {
        Some((engine, component, _)) => Ok((engine.clone(), component.clone())),
        None => Err(wasmtime::Error::msg("the core was not loaded")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            capability: "c".repeat(43),
            operations: vec!["machine.run".to_owned()],
            automation_space: None,
            timeout_ms: 1000,
            boot_timeout_ms: 1000,
            save_on_exit: false,
        }
    }

    #[test]
    fn the_core_answers_a_hello() {
        let mut core = Core::start(&settings()).unwrap();
        let hello = r#"{"protocol":"pyproc-control","version":1,"type":"hello","requestId":"h:1","role":"client","peer":{"name":"t","version":"1"},"capabilities":{"cancel":true,"events":false,"attachments":{"encoding":"base64","maxChunkBytes":64}}}"#;
        let bytes = format!("{hello}\n").into_bytes();
        let step = core.handle(0, &Input::AgentBytes(bytes)).unwrap();
        let Output::AgentLine(line) = &step.outputs[0] else {
            panic!("{:?}", step.outputs)
        };
        assert!(line.contains(r#""role":"server""#), "{line}");
    }
}
