//! `control.limits`: bounds of the operator plane (operator plane 9).

use super::ManifestError;
use super::read::At;
use crate::Bounded;

/// Declares the limits once: field, key, smallest, largest and default value.
macro_rules! limits {
    ($($(#[$doc:meta])* $key:ident: $min:literal..=$max:literal, $default:literal;)*) => {
        /// Bounds of the operator plane.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct ControlLimits {
            $($(#[$doc])* pub $key: Bounded<$min, $max>,)*
        }

        impl Default for ControlLimits {
            fn default() -> Self {
                Self { $($key: Bounded::constant::<$default>(),)* }
            }
        }

        impl ControlLimits {
            pub(super) fn read(at: &At<'_>) -> Result<Self, ManifestError> {
                let members = at.closed(&[$(stringify!($key),)*])?;
                let default = Self::default();
                Ok(Self {
                    $($key: members.bounded_or(stringify!($key), default.$key)?,)*
                })
            }
        }
    };
}

limits! {
    /// Open connections.
    max_connections: 1..=256, 16;
    /// Open connections that have not said who they are.
    max_unauthenticated: 1..=64, 8;
    /// Milliseconds from accept to hello.
    handshake_timeout_ms: 100..=60_000, 5_000;
    /// Milliseconds without a client frame and without a subscription.
    idle_timeout_ms: 1_000..=3_600_000, 300_000;
    /// Milliseconds that a frame may take to arrive.
    frame_timeout_ms: 100..=60_000, 10_000;
    /// Milliseconds that a request may take.
    request_timeout_ms: 100..=600_000, 30_000;
    /// Milliseconds that a write may take.
    write_timeout_ms: 100..=60_000, 5_000;
    /// Bytes of a frame's body.
    max_frame_bytes: 1_024..=1_048_576, 65_536;
    /// Unanswered requests of a connection.
    max_in_flight: 1..=256, 32;
    /// Requests of a connection over its life.
    max_requests_per_connection: 100..=10_000_000, 100_000;
    /// Subscriptions of a connection.
    max_subscriptions: 1..=16, 4;
    /// Frames that wait to be written to a connection.
    writer_queue: 8..=4_096, 256;
    /// Events that are kept.
    history_events: 100..=1_000_000, 10_000;
    /// Bytes of events that are kept.
    history_bytes: 65_536..=268_435_456, 8_388_608;
    /// Bytes of one event.
    max_event_bytes: 512..=65_536, 4_096;
    /// Events in a second; the excess becomes a gap.
    max_events_per_second: 10..=100_000, 2_000;
    /// Undelivered operator messages of a conversation.
    mailbox_messages: 1..=256, 32;
    /// Milliseconds that a shutdown may take.
    shutdown_deadline_ms: 0..=60_000, 10_000;
}
