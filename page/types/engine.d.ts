/** The engine's own modules, served beside the worker's folder. They are checked at boot, not here. */
declare module "*/pyodide.asm.mjs" {
  const createEngineModule: (settings: any) => Promise<any>;
  export default createEngineModule;
}

declare module "*/pyodide.mjs" {
  export const loadPyodide: (options: any) => Promise<any>;
}
