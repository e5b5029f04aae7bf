//! The browser face of the host core: the same decisions as everywhere, with
//! JavaScript values at the border. Texts and typed arrays cross it; nothing
//! is decided here.

use js_sys::{Float64Array, Object, Reflect, Uint32Array};
use pyproc_host::page::{
    ImageAnswer, ImageRefusal, MachinePage, PageInput, PageOutput, PageSettings, PlacedImage, Post,
    WorkerText,
};
use wasm_bindgen::prelude::*;

/// The core of one machine page.
#[wasm_bindgen]
pub struct MachineCore {
    page: MachinePage,
}

#[wasm_bindgen]
impl MachineCore {
    /// A core that has not started. `settings` is the JSON object of the host;
    /// slots 1 to `image_slots` of the page store hold the boot image.
    ///
    /// # Errors
    ///
    /// When the settings are not those of this build.
    #[wasm_bindgen(constructor)]
    pub fn new(
        capability: &str,
        page_epoch: &str,
        settings: &str,
        image_slots: u32,
    ) -> Result<Self, JsError> {
        let settings: PageSettings = serde_json::from_str(settings)?;
        let page = MachinePage::new(capability, page_epoch, settings, image_slots)?;
        Ok(Self { page })
    }

    /// Boots the machine.
    pub fn start(&mut self, now: f64) {
        self.handle(now, PageInput::Start);
    }

    /// The host sent a message.
    #[wasm_bindgen(js_name = bridgeMessage)]
    pub fn bridge_message(&mut self, now: f64, text: String) {
        self.handle(now, PageInput::BridgeMessage(text));
    }

    /// The host is gone.
    #[wasm_bindgen(js_name = bridgeClosed)]
    pub fn bridge_closed(&mut self, now: f64) {
        self.handle(now, PageInput::BridgeClosed);
    }

    /// A worker said something; bulk data travels beside the message.
    #[wasm_bindgen(js_name = workerMessage)]
    pub fn worker_message(
        &mut self,
        now: f64,
        incarnation: u32,
        message: String,
        printed: Option<String>,
        table: Option<Vec<u32>>,
        record: Option<String>,
    ) {
        let text = WorkerText {
            message,
            printed,
            table,
            record,
        };
        self.handle(now, PageInput::WorkerSaid(incarnation.into(), text));
    }

    /// A worker ended by itself.
    #[wasm_bindgen(js_name = workerLost)]
    pub fn worker_lost(&mut self, now: f64, incarnation: u32, reason: String) {
        self.handle(now, PageInput::WorkerLost(incarnation.into(), reason));
    }

    /// A worker was killed; this is what it had printed.
    #[wasm_bindgen(js_name = workerKilled)]
    pub fn worker_killed(&mut self, now: f64, incarnation: u32, printed: &str) {
        let input = PageInput::WorkerKilled(incarnation.into(), printed.to_owned());
        self.handle(now, input);
    }

    /// The image that was asked for is made and has this many bytes.
    #[wasm_bindgen(js_name = imageMade)]
    pub fn image_made(&mut self, now: f64, bytes: f64) {
        self.handle(now, PageInput::Image(ImageAnswer::Made(bytes as u64)));
    }

    /// The image is in the page store.
    #[wasm_bindgen(js_name = imagePlaced)]
    pub fn image_placed(
        &mut self,
        now: f64,
        table: Vec<u32>,
        record: String,
        identities: Vec<f64>,
    ) {
        let image = PlacedImage {
            table,
            record,
            identities: identities.into_iter().map(|id| id as u64).collect(),
        };
        self.handle(now, PageInput::Image(ImageAnswer::Placed(image)));
    }

    /// The image is not made or not taken.
    #[wasm_bindgen(js_name = imageRefused)]
    pub fn image_refused(&mut self, now: f64, code: String, message: String) {
        let refusal = ImageRefusal { code, message };
        self.handle(now, PageInput::Image(ImageAnswer::Refused(refusal)));
    }

    /// Time has passed.
    pub fn tick(&mut self, now: f64) {
        self.handle(now, PageInput::Tick);
    }

    /// The next thing to do, or `undefined`.
    pub fn poll(&mut self) -> JsValue {
        self.page.poll().map_or(JsValue::UNDEFINED, to_js)
    }

    /// When the core wants a tick at the latest.
    pub fn deadline(&self) -> Option<f64> {
        // Exact: page times are far below 2^53.
        self.page.deadline().map(|at| at as f64)
    }

    fn handle(&mut self, now: f64, input: PageInput) {
        // Rounded up: a timer that fired was due.
        self.page.handle(now.ceil() as u64, input);
    }
}

fn to_js(output: PageOutput) -> JsValue {
    match output {
        PageOutput::Send(text) => object("send", &[("text", text.into())]),
        PageOutput::Spawn(number, free) => {
            let free = Uint32Array::from(free.as_slice()).into();
            object("spawn", &[("incarnation", integer(number)), ("free", free)])
        }
        PageOutput::Interrupt(number) => object("interrupt", &[("incarnation", integer(number))]),
        PageOutput::Kill(number) => object("kill", &[("incarnation", integer(number))]),
        PageOutput::KeepContents(identities) => {
            let identities: Vec<f64> = identities.into_iter().map(|id| id as f64).collect();
            let identities = Float64Array::from(identities.as_slice());
            object("keepContents", &[("identities", identities.into())])
        }
        PageOutput::Post(number, post) => post_to_js(number, post),
        PageOutput::MakeImage {
            table,
            record,
            limit,
        } => object(
            "makeImage",
            &[
                ("table", Uint32Array::from(table.as_slice()).into()),
                ("record", record.into()),
                ("limit", integer(limit)),
            ],
        ),
        PageOutput::SendImage => object("sendImage", &[]),
        PageOutput::SendDisplays => object("sendDisplays", &[]),
        PageOutput::PlaceImage { address, free } => object(
            "placeImage",
            &[
                ("address", address.into()),
                ("free", Uint32Array::from(free.as_slice()).into()),
            ],
        ),
    }
}

fn post_to_js(number: u64, post: Post) -> JsValue {
    let array = |slots: Option<Vec<u32>>| match slots {
        Some(slots) => Uint32Array::from(slots.as_slice()).into(),
        None => JsValue::UNDEFINED,
    };
    object(
        "post",
        &[
            ("incarnation", integer(number)),
            ("command", post.command.to_json().into()),
            ("table", array(post.table)),
            ("free", array(post.free)),
            ("record", post.record.into()),
        ],
    )
}

fn object(kind: &str, members: &[(&str, JsValue)]) -> JsValue {
    let object = Object::new();
    let kind = ("type", JsValue::from(kind));
    for (name, value) in members.iter().chain([&kind]) {
        // A fresh plain object accepts every member.
        let _ = Reflect::set(&object, &JsValue::from(*name), value);
    }
    object.into()
}

fn integer(number: u64) -> JsValue {
    JsValue::from(number as f64)
}
