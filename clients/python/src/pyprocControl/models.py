"""What requests give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes that accompany a result. Length and digest were checked before anybody sees them."""

    attachmentId: str
    kind: str
    mimeType: str
    byteLength: int
    sha256: str
    bytes: bytes


@dataclass(frozen=True, slots=True)
class ControlResult:
    """How a request succeeded. ``outcome`` is ``observed`` for a read and ``applied`` for an effect."""

    output: Any
    outcome: str
    attachments: tuple[Attachment, ...] = ()


class ControlError(RuntimeError):
    """How a request failed.

    ``outcome`` says what is known of its effect: ``notSent``, ``rejected``, ``applied`` or ``outcomeUnknown``. Only
    what is ``retryable`` may be tried again.
    """

    def __init__(self, payload: Mapping[str, Any], *, fatal: bool = False) -> None:
        code = payload.get("code", "CONTROL_FAILED")
        super().__init__(str(payload.get("message", code)))
        self.code: str = code
        self.outcome: str = payload.get("outcome", "notSent")
        self.retryable: bool = payload.get("retryable", False) is True
        details = payload.get("details")
        self.details: dict[str, Any] | None = dict(details) if isinstance(details, Mapping) else None
        self.fatal = fatal


def timedOut(requestId: str) -> ControlError:
    """The end of a request that did not end in time, and not after its cancel either."""
    message = f"request {requestId} did not end in time, and not after its cancel; the client is closed"
    return ControlError(
        {"code": "CONTROL_TIMEOUT", "message": message, "outcome": "outcomeUnknown", "retryable": False}
    )


def connectionLost(outcome: str, cause: object = None) -> ControlError:
    """The end of a request whose connection is gone."""
    message = "the connection to the host was lost"
    text = f"{message}: {cause}" if cause is not None and str(cause) else message
    return ControlError({"code": "CONTROL_CONNECTION_LOST", "message": text, "outcome": outcome, "retryable": False})
