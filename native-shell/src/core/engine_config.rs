/// The configuration of the wasmtime engine. The build script compiles the
/// component with it and the shell loads the result with it: they must agree.
pub(crate) fn engine_config() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config.wasm_component_model(true);
    config.epoch_interruption(true);
    config
}
