//! The catalog of raw browser protocol methods.

use std::fmt;

use crate::Risk;

/// Declares the catalog: one line per method with its name and its fixed risk.
macro_rules! methods {
    ($($variant:ident $name:literal $risk:ident,)*) => {
        /// A browser protocol method that a manifest may open (control protocol 1.9).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RawMethod {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl RawMethod {
            /// Every method, in catalog order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The method's name in the browser protocol.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The fixed risk.
            pub const fn risk(self) -> Risk {
                match self { $(Self::$variant => Risk::$risk,)* }
            }
        }
    };
}

methods! {
    AccessibilityEnable "Accessibility.enable" Read,
    AccessibilityGetFullAxTree "Accessibility.getFullAXTree" Read,
    BrowserGetVersion "Browser.getVersion" Read,
    DomDescribeNode "DOM.describeNode" Read,
    DomGetAttributes "DOM.getAttributes" Read,
    DomGetDocument "DOM.getDocument" Read,
    DomGetOuterHtml "DOM.getOuterHTML" Read,
    DomGetBoxModel "DOM.getBoxModel" Read,
    DomGetFrameOwner "DOM.getFrameOwner" Read,
    DomQuerySelector "DOM.querySelector" Read,
    DomQuerySelectorAll "DOM.querySelectorAll" Read,
    DomRequestNode "DOM.requestNode" Read,
    DomResolveNode "DOM.resolveNode" Read,
    DomSnapshotCaptureSnapshot "DOMSnapshot.captureSnapshot" Read,
    DomStorageEnable "DOMStorage.enable" Read,
    DomStorageGetDomStorageItems "DOMStorage.getDOMStorageItems" Read,
    NetworkEnable "Network.enable" Read,
    NetworkGetCookies "Network.getCookies" Read,
    PageGetFrameTree "Page.getFrameTree" Read,
    PageCaptureScreenshot "Page.captureScreenshot" Read,
    PageGetLayoutMetrics "Page.getLayoutMetrics" Read,
    PageCreateIsolatedWorld "Page.createIsolatedWorld" Read,
    RuntimeEnable "Runtime.enable" Read,
    RuntimeGetProperties "Runtime.getProperties" Read,
    RuntimeReleaseObject "Runtime.releaseObject" Read,
    DomFocus "DOM.focus" Mutate,
    DomSetAttributeValue "DOM.setAttributeValue" Mutate,
    DomSetFileInputFiles "DOM.setFileInputFiles" ExternalEffect,
    DomStorageClear "DOMStorage.clear" ExternalEffect,
    DomStorageRemoveDomStorageItem "DOMStorage.removeDOMStorageItem" ExternalEffect,
    DomStorageSetDomStorageItem "DOMStorage.setDOMStorageItem" ExternalEffect,
    FetchContinueRequest "Fetch.continueRequest" ExternalEffect,
    InputDispatchKeyEvent "Input.dispatchKeyEvent" ExternalEffect,
    InputDispatchDragEvent "Input.dispatchDragEvent" ExternalEffect,
    InputDispatchMouseEvent "Input.dispatchMouseEvent" ExternalEffect,
    InputSetInterceptDrags "Input.setInterceptDrags" ExternalEffect,
    InputInsertText "Input.insertText" ExternalEffect,
    NetworkDeleteCookies "Network.deleteCookies" ExternalEffect,
    NetworkSetCookie "Network.setCookie" ExternalEffect,
    PageNavigate "Page.navigate" ExternalEffect,
    PageHandleJavaScriptDialog "Page.handleJavaScriptDialog" ExternalEffect,
    PageSetDownloadBehavior "Page.setDownloadBehavior" ExternalEffect,
    RuntimeCallFunctionOn "Runtime.callFunctionOn" ExternalEffect,
    RuntimeEvaluate "Runtime.evaluate" ExternalEffect,
    StorageClearDataForOrigin "Storage.clearDataForOrigin" ExternalEffect,
}

impl RawMethod {
    /// The method that is written `name`. The match is exact.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|method| method.name() == name)
    }
}

impl fmt::Display for RawMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(risk: Risk) -> usize {
        RawMethod::ALL
            .iter()
            .filter(|method| method.risk() == risk)
            .count()
    }

    #[test]
    fn the_catalog_has_45_methods_split_25_2_18() {
        assert_eq!(RawMethod::ALL.len(), 45);
        assert_eq!(count(Risk::Read), 25);
        assert_eq!(count(Risk::Mutate), 2);
        assert_eq!(count(Risk::ExternalEffect), 18);
    }

    #[test]
    fn names_are_exact() {
        for method in RawMethod::ALL {
            assert_eq!(RawMethod::from_name(method.name()), Some(*method));
        }
        for unknown in [
            "",
            "toString",
            "dom.focus",
            "DOM.focus ",
            "Target.createTarget",
        ] {
            assert_eq!(RawMethod::from_name(unknown), None);
        }
    }

    #[test]
    fn running_script_is_an_external_effect() {
        assert_eq!(RawMethod::RuntimeEvaluate.risk(), Risk::ExternalEffect);
        assert_eq!(RawMethod::DomFocus.risk(), Risk::Mutate);
        assert_eq!(RawMethod::NetworkGetCookies.risk(), Risk::Read);
    }
}
