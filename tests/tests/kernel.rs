//! The page kernel (machine 8): which features it needs, and that it copies
//! and compares pages as a simple model does.

use std::path::Path;

use wasmparser::{Validator, WasmFeatures};
use wasmtime::{Engine, Instance, Memory, MemoryType, Module, Store, TypedFunc};

const PAGE: usize = 4096;
const HEAP_PAGES: usize = 64;
const SLOTS: usize = 96;
const WASM_PAGE: usize = 65536;

fn source() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../page/worker/kernel.wat");
    std::fs::read_to_string(path).unwrap()
}

/// The features beyond the first WebAssembly that the kernel may use.
fn features() -> WasmFeatures {
    WasmFeatures::FLOATS
        | WasmFeatures::GC_TYPES
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::SIMD
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::THREADS
}

#[test]
fn the_kernel_needs_exactly_four_features() {
    let bytes = wat::parse_str(source()).unwrap();
    let valid = |features| Validator::new_with_features(features).validate_all(&bytes);
    valid(features()).unwrap();
    for needed in [
        WasmFeatures::MULTI_MEMORY,
        WasmFeatures::SIMD,
        WasmFeatures::BULK_MEMORY,
        WasmFeatures::THREADS,
    ] {
        assert!(valid(features() - needed).is_err(), "{needed:?}");
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    /// Pages that differ by little: equal ones and late differences matter.
    fn page(&mut self) -> Vec<u8> {
        let mut page = vec![self.below(3) as u8; PAGE];
        for _ in 0..self.below(3) {
            page[self.below(PAGE)] ^= 1 << self.below(8);
        }
        page
    }
}

struct Kernel {
    store: Store<()>,
    guest: Memory,
    slots: Memory,
    scratch: Memory,
    diff: TypedFunc<(u32, u32, u32), u32>,
    take: TypedFunc<(u32, u32), ()>,
    put: TypedFunc<(u32, u32), u32>,
}

impl Kernel {
    /// Sharing changes who may see the store and nothing that the kernel does,
    /// so it runs with a memory of its own here.
    fn new() -> Self {
        let source = source();
        assert_eq!(source.matches(" shared)").count(), 1);
        let bytes = wat::parse_str(source.replace(" shared)", ")")).unwrap();
        let engine = Engine::default();
        let module = Module::new(&engine, bytes).unwrap();
        let mut store = Store::new(&engine, ());
        let mut memory = |pages: usize, most| {
            let kind = MemoryType::new((pages * PAGE / WASM_PAGE) as u32, most);
            Memory::new(&mut store, kind).unwrap()
        };
        let (guest, slots) = (memory(HEAP_PAGES, None), memory(SLOTS, Some(65536)));
        let imports = [guest.into(), slots.into()];
        let instance = Instance::new(&mut store, &module, &imports).unwrap();
        Self {
            guest,
            slots,
            scratch: instance.get_memory(&mut store, "scratch").unwrap(),
            diff: instance.get_typed_func(&mut store, "diff").unwrap(),
            take: instance.get_typed_func(&mut store, "take").unwrap(),
            put: instance.get_typed_func(&mut store, "put").unwrap(),
            store,
        }
    }

    fn words(&mut self, at: usize, words: &[u32]) {
        for (i, word) in words.iter().enumerate() {
            let scratch = self.scratch.data_mut(&mut self.store);
            scratch[at + i * 4..][..4].copy_from_slice(&word.to_le_bytes());
        }
    }

    fn guest(&self) -> Vec<Vec<u8>> {
        let pages = self.guest.data(&self.store).chunks(PAGE);
        pages.map(<[u8]>::to_vec).collect()
    }

    fn slots(&self) -> Vec<Vec<u8>> {
        let pages = self.slots.data(&self.store).chunks(PAGE);
        pages.map(<[u8]>::to_vec).collect()
    }
}

#[test]
fn random_pages_are_compared_and_copied_like_a_model_does() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut kernel = Kernel::new();
    for round in 0..50 {
        let heap: Vec<_> = (0..HEAP_PAGES).map(|_| random.page()).collect();
        let store: Vec<_> = (0..SLOTS)
            .map(|slot| match slot {
                0 => vec![0; PAGE],
                _ => random.page(),
            })
            .collect();
        (kernel.guest.data_mut(&mut kernel.store)).copy_from_slice(&heap.concat());
        (kernel.slots.data_mut(&mut kernel.store)).copy_from_slice(&store.concat());
        let n = random.below(HEAP_PAGES + 1);
        let table: Vec<u32> = (0..n).map(|_| random.below(SLOTS) as u32).collect();

        // diff lists what differs, in order, and writes nothing else.
        let (at, out) = (0, 8192);
        kernel.words(at, &table);
        let count = (kernel.diff)
            .call(&mut kernel.store, (n as u32, at as u32, out as u32))
            .unwrap();
        let listed: Vec<u32> = kernel.scratch.data(&kernel.store)[out..][..count as usize * 4]
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        let differs = |page: &u32| {
            let page = *page as usize;
            heap[page] != store[table[page] as usize]
        };
        let expected: Vec<u32> = (0..n as u32).filter(differs).collect();
        assert_eq!(listed, expected, "round {round}");
        assert_eq!(kernel.guest(), heap, "round {round}");

        // take copies pages to slots, later pairs over earlier ones.
        let pairs: Vec<u32> = (0..random.below(20))
            .flat_map(|_| [random.below(HEAP_PAGES), 1 + random.below(SLOTS - 1)])
            .map(|word| word as u32)
            .collect();
        let mut model = store;
        for pair in pairs.chunks(2) {
            model[pair[1] as usize] = heap[pair[0] as usize].clone();
        }
        kernel.words(out, &pairs);
        (kernel.take)
            .call(&mut kernel.store, (pairs.len() as u32 / 2, out as u32))
            .unwrap();
        assert_eq!(kernel.slots(), model, "round {round}");

        // put makes the heap equal to the table and counts what it wrote.
        let written = (kernel.put)
            .call(&mut kernel.store, (n as u32, at as u32))
            .unwrap();
        let changed = (0..n).filter(|page| heap[*page] != model[table[*page] as usize]);
        assert_eq!(written as usize, changed.count(), "round {round}");
        let mut put = heap;
        for (page, slot) in table.iter().enumerate() {
            put[page].clone_from(&model[*slot as usize]);
        }
        assert_eq!(kernel.guest(), put, "round {round}");
        assert_eq!(kernel.slots(), model, "round {round}");
        let left = (kernel.diff)
            .call(&mut kernel.store, (n as u32, at as u32, out as u32))
            .unwrap();
        assert_eq!(left, 0, "round {round}");
    }
}
