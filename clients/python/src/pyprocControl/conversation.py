"""The client's side of one connection without its input and output (control protocol 4, K1 to K8).

Both clients are built on it. It takes no lock: the caller keeps it to one thread at a time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .models import Attachment, ControlError, ControlResult
from .protocol import (
    CONTROL_ATTACHMENT_CHUNK_BYTES,
    CONTROL_MAX_ATTACHMENT_BYTES,
    ControlProtocolError,
    Frame,
    controlBase,
    decodeChunk,
)

HELLO_ID: Final = "hello:python"
CANCEL_REASON: Final = "cancelled by the client"

MAX_STREAMS: Final = 64
MAX_BUFFERED_BYTES: Final = 4 * CONTROL_MAX_ATTACHMENT_BYTES
MAX_EVENTS: Final = 65_536


def helloFrame() -> Frame:
    """The hello of this client."""
    return {
        **controlBase("hello"),
        "requestId": HELLO_ID,
        "role": "client",
        "peer": {"name": "pyproc-python", "version": "1"},
        "capabilities": {
            "cancel": True,
            "events": False,
            "attachments": {"encoding": "base64", "maxChunkBytes": CONTROL_ATTACHMENT_CHUNK_BYTES},
        },
    }


def requestFrame(requestId: str, operation: str, input: Mapping[str, Any] | None, spaceId: str | None) -> Frame:  # noqa: A002
    """The frame of a request."""
    frame = {
        **controlBase("request"),
        "requestId": requestId,
        "operation": operation,
        "input": {} if input is None else dict(input),
    }
    return frame if spaceId is None else {**frame, "spaceId": spaceId}


def cancelFrame(requestId: str, reason: str) -> Frame:
    """The frame that cancels a request."""
    return {**controlBase("cancel"), "requestId": requestId, "reason": reason}


def duplicate(requestId: str) -> ControlError:
    """A request whose id was used before (K4)."""
    message = f"the request id {requestId!r} was used before on this connection"
    return ControlError(
        {"code": "CONTROL_REQUEST_DUPLICATE", "message": message, "outcome": "notSent", "retryable": False}
    )


@dataclass(slots=True)
class Welcome:
    """What the server's hello says."""

    operations: tuple[str, ...]
    events: bool


def readWelcome(frame: Frame) -> Welcome:
    """The server's hello, which must be the first frame (K1)."""
    if frame["type"] == "error" and frame.get("fatal"):
        raise ControlError(frame["error"], fatal=True)
    if frame["type"] != "hello" or frame["role"] != "server" or frame["requestId"] != HELLO_ID:
        raise ControlProtocolError("CONTROL_HELLO_REQUIRED", "the server did not answer the hello")
    return Welcome(tuple(frame["operations"]), frame["capabilities"]["events"])


@dataclass(slots=True)
class Stream:
    """One attachment on its way."""

    mimeType: str
    data: bytearray = field(default_factory=bytearray)
    digest: Any = field(default_factory=hashlib.sha256)
    complete: bool = False


Streams = dict[str, Stream]


def _invalid(message: str) -> ControlProtocolError:
    return ControlProtocolError("CONTROL_ATTACHMENT_INVALID", message)


def receiveChunk(streams: Streams, frame: Frame) -> None:
    """Takes one chunk of one stream (K6)."""
    name = frame["attachmentId"]
    stream = streams.get(name)
    if stream is None:
        if len(streams) >= MAX_STREAMS:
            raise _invalid(f"a request has more than {MAX_STREAMS} attachments")
        stream = streams[name] = Stream(frame["mimeType"])
    chunk = decodeChunk(frame["dataBase64"])
    if stream.complete:
        raise _invalid(f"{name} goes on after its end")
    if frame["mimeType"] != stream.mimeType:
        raise _invalid(f"{name} changes its type")
    if frame["offset"] != len(stream.data):
        raise _invalid(f"{name} goes on at {frame['offset']} and not at {len(stream.data)}")
    if len(stream.data) + len(chunk) > CONTROL_MAX_ATTACHMENT_BYTES:
        raise _invalid(f"{name} has more than {CONTROL_MAX_ATTACHMENT_BYTES} bytes")
    if sum(len(other.data) for other in streams.values()) + len(chunk) > MAX_BUFFERED_BYTES:
        raise _invalid(f"the attachments of a request have more than {MAX_BUFFERED_BYTES} bytes")
    if not chunk and not frame["eof"]:
        raise _invalid(f"{name} has an empty chunk that is not its last")
    stream.data += chunk
    stream.digest.update(chunk)
    if frame["eof"]:
        if frame["byteLength"] != len(stream.data) or frame["sha256"] != stream.digest.hexdigest():
            raise _invalid(f"{name} does not match its length and digest")
        stream.complete = True


def readTerminal(streams: Streams, frame: Frame) -> ControlResult | ControlError:
    """The end of a request, with its attachments (K7)."""
    attachments = tuple(_attach(streams, descriptor) for descriptor in frame.get("attachments", ()))
    if len(attachments) != len(streams):
        raise _invalid("an attachment was sent that the end of its request does not list")
    if frame["type"] == "error":
        return ControlError(frame["error"])
    return ControlResult(frame["output"], frame["outcome"], attachments)


def _attach(streams: Streams, descriptor: Frame) -> Attachment:
    name = descriptor["attachmentId"]
    stream = streams.get(name)
    if stream is None or not stream.complete:
        raise _invalid(f"{name} is listed and was not sent to its end")
    found = (stream.mimeType, len(stream.data), stream.digest.hexdigest())
    if found != (descriptor["mimeType"], descriptor["byteLength"], descriptor["sha256"]):
        raise _invalid(f"{name} is not what the end of its request says")
    return Attachment(name, descriptor["kind"], *found, bytes(stream.data))


def notActive(frame: Frame, used: set[str]) -> ControlProtocolError:
    """A frame for a request that is not active (K5)."""
    requestId = frame["requestId"]
    if frame["type"] in ("response", "error") and requestId in used:
        return ControlProtocolError("CONTROL_TERMINAL_DUPLICATE", f"{requestId} ended twice")
    return ControlProtocolError("CONTROL_REQUEST_UNKNOWN", f"no request {requestId} is active")


def admitEvent(frame: Frame, welcome: Welcome | None, seen: dict[str, None]) -> None:
    """An event that was announced and was not seen before (K3, K5)."""
    if welcome is None or not welcome.events:
        raise ControlProtocolError("CONTROL_FRAME_DIRECTION", "the server sent an event that it had not announced")
    eventId = frame["eventId"]
    if eventId in seen:
        raise ControlProtocolError("CONTROL_EVENT_DUPLICATE", f"the event {eventId} came twice")
    seen[eventId] = None
    if len(seen) > MAX_EVENTS:
        del seen[next(iter(seen))]


def unexpected(frame: Frame) -> ControlProtocolError:
    """A frame that a server does not send after its hello (K3)."""
    return ControlProtocolError("CONTROL_FRAME_DIRECTION", f"the server sent a frame of the type {frame['type']}")
