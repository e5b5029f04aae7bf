//! `browser.viewport`: device metrics (control protocol 1.7).

use super::ManifestError;
use super::read::At;
use crate::Bounded;

/// A side of the viewport in CSS pixels.
pub type ViewportSide = Bounded<1, 10_000>;

/// Device metrics of the native provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Viewport {
    width: ViewportSide,
    height: ViewportSide,
    device_scale_factor: f64,
    mobile: bool,
    touch: bool,
}

impl Viewport {
    /// Width in CSS pixels, 1 to 10000.
    pub fn width(&self) -> u64 {
        self.width.value()
    }

    /// Height in CSS pixels, 1 to 10000.
    pub fn height(&self) -> u64 {
        self.height.value()
    }

    /// Device pixels per CSS pixel, 0.1 to 10; 1 by default.
    pub fn device_scale_factor(&self) -> f64 {
        self.device_scale_factor
    }

    /// Whether the device counts as mobile.
    pub fn mobile(&self) -> bool {
        self.mobile
    }

    /// Whether the device has a touch screen.
    pub fn touch(&self) -> bool {
        self.touch
    }

    pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
        let members = at.closed(&["width", "height", "deviceScaleFactor", "mobile", "touch"])?;
        Ok(Self {
            width: members.required("width")?.bounded()?,
            height: members.required("height")?.bounded()?,
            device_scale_factor: match members.optional("deviceScaleFactor") {
                Some(at) => at.number(0.1, 10.0)?,
                None => 1.0,
            },
            mobile: members.flag("mobile")?,
            touch: members.flag("touch")?,
        })
    }
}
