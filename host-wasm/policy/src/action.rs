//! The catalog of high-level actions.

use std::fmt;

use crate::Risk;

/// Declares the catalog: one line per action with its name, its fixed risk and
/// whether the frame provider supports it.
macro_rules! actions {
    ($($variant:ident $name:literal $risk:ident $frame:literal,)*) => {
        /// A high-level action (control protocol 1.8).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl Action {
            /// Every action, in catalog order.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The name on the wire and in the manifest.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The fixed risk. No action has risk `mutate`.
            pub const fn risk(self) -> Risk {
                match self { $(Self::$variant => Risk::$risk,)* }
            }

            /// Whether the frame provider supports the action.
            pub const fn is_frame_supported(self) -> bool {
                match self { $(Self::$variant => $frame,)* }
            }
        }
    };
}

actions! {
    Snapshot "snapshot" Read true,
    Screenshot "screenshot" Read true,
    WaitFor "waitFor" Read true,
    CookiesGet "cookiesGet" Read false,
    StorageGet "storageGet" Read false,
    HydrateLazy "hydrateLazy" ExternalEffect false,
    Navigate "navigate" ExternalEffect true,
    CookieSet "cookieSet" ExternalEffect false,
    CookieDelete "cookieDelete" ExternalEffect false,
    StorageSet "storageSet" ExternalEffect false,
    StorageRemove "storageRemove" ExternalEffect false,
    StorageClear "storageClear" ExternalEffect false,
    Click "click" ExternalEffect true,
    Hover "hover" ExternalEffect false,
    Focus "focus" ExternalEffect true,
    Check "check" ExternalEffect true,
    Uncheck "uncheck" ExternalEffect true,
    Drag "drag" ExternalEffect false,
    Fill "fill" ExternalEffect true,
    Press "press" ExternalEffect true,
    Select "select" ExternalEffect true,
    Scroll "scroll" ExternalEffect true,
    Upload "upload" ExternalEffect false,
}

impl Action {
    /// The action that is written `name`. The match is exact.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|action| action.name() == name)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_has_23_actions_of_which_frames_support_12() {
        assert_eq!(Action::ALL.len(), 23);
        let frame = Action::ALL
            .iter()
            .filter(|action| action.is_frame_supported());
        assert_eq!(
            frame.map(|action| action.name()).collect::<Vec<_>>(),
            [
                "snapshot",
                "screenshot",
                "waitFor",
                "navigate",
                "click",
                "focus",
                "check",
                "uncheck",
                "fill",
                "press",
                "select",
                "scroll"
            ]
        );
    }

    #[test]
    fn five_actions_read_and_the_others_have_external_effects() {
        let (read, other): (Vec<Action>, Vec<Action>) = Action::ALL
            .iter()
            .copied()
            .partition(|action| action.risk() == Risk::Read);
        assert_eq!(
            read.iter().map(|action| action.name()).collect::<Vec<_>>(),
            [
                "snapshot",
                "screenshot",
                "waitFor",
                "cookiesGet",
                "storageGet"
            ]
        );
        assert!(
            other
                .iter()
                .all(|action| action.risk() == Risk::ExternalEffect)
        );
    }

    #[test]
    fn names_are_exact() {
        for action in Action::ALL {
            assert_eq!(Action::from_name(action.name()), Some(*action));
        }
        for unknown in ["", "Click", "click ", "toString", "constructor"] {
            assert_eq!(Action::from_name(unknown), None);
        }
    }
}
