"""Frames of the control protocol, version 1: one JSON object a line (control protocol 3).

Every check happens here, for both directions and before a frame is used. Nothing in this module does input or output.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

CONTROL_PROTOCOL: Final = "pyproc-control"
CONTROL_VERSION: Final = 1
CONTROL_MAX_FRAME_BYTES: Final = 1_048_576
CONTROL_ATTACHMENT_CHUNK_BYTES: Final = 262_144
CONTROL_MAX_ATTACHMENT_BYTES: Final = 67_108_864

MAX_DEPTH: Final = 64
MAX_MESSAGE: Final = 2000
MAX_REASON: Final = 200
MAX_SAFE_INTEGER: Final = 2**53 - 1

OUTCOMES: Final = ("observed", "applied")
ERROR_OUTCOMES: Final = ("notSent", "rejected", "applied", "outcomeUnknown")
RETRYABLE_OUTCOMES: Final = ("notSent", "rejected")

Frame: TypeAlias = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
_NAME = re.compile(r"[a-z][a-z0-9]*(?:\.[a-z0-9]+)+")
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,95}")
_MIME = re.compile(r"[a-z0-9][a-z0-9.+-]*/[a-z0-9][a-z0-9.+-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SURROGATES = re.compile("[\ud800-\udfff]")


class ControlProtocolError(ValueError):
    """A frame breaks the protocol. ``code`` is the code of the contract."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def controlBase(type: str) -> Frame:  # noqa: A002
    """The members that every frame begins with."""
    return {"protocol": CONTROL_PROTOCOL, "version": CONTROL_VERSION, "type": type}


def encodeFrame(frame: Mapping[str, Any]) -> str:
    """The line of a frame, with its line feed.

    Raises ``ControlProtocolError``: ``CONTROL_INVALID_FRAME`` for what JSON or the protocol does not know, NaN and
    infinities among it, and ``CONTROL_FRAME_TOO_LARGE`` for more than 1,048,576 bytes.
    """
    checked = validateFrame(dict(frame))
    try:
        text = json.dumps(checked, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if _SURROGATES.search(text):
            # Half a pair has no UTF-8; as an escape it may travel.
            text = json.dumps(checked, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ControlProtocolError("CONTROL_INVALID_FRAME", f"the frame is not JSON: {error}") from error
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    _checkSize(len(text.encode("utf-8")))
    return text + "\n"


def decodeFrame(line: str) -> Frame:
    """The frame of a line, with or without its line end. The inverse of ``encodeFrame``."""
    if not isinstance(line, str):
        raise ControlProtocolError("CONTROL_INVALID_FRAME", "a line must be text")
    text = line.removesuffix("\n").removesuffix("\r")
    try:
        _checkSize(len(text.encode("utf-8", "surrogatepass")))
        frame = json.loads(text, parse_constant=_refuseConstant, parse_float=_finite)
    except ControlProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ControlProtocolError("CONTROL_INVALID_FRAME", f"the line is not JSON: {error}") from error
    return validateFrame(frame)


def validateFrame(frame: Any) -> Frame:
    """The frame itself when it keeps to the protocol; raises ``ControlProtocolError`` otherwise."""
    if not isinstance(frame, dict):
        _fail("a frame must be an object")
    if frame.get("protocol") != CONTROL_PROTOCOL:
        _fail(f"protocol must be {CONTROL_PROTOCOL!r}")
    version = frame.get("version")
    if isinstance(version, bool) or version != CONTROL_VERSION:
        raise ControlProtocolError("CONTROL_VERSION_UNSUPPORTED", f"version must be {CONTROL_VERSION}")
    kind = frame.get("type")
    check = _FRAMES.get(kind) if isinstance(kind, str) else None
    if check is None:
        _fail("type must be one of " + ", ".join(_FRAMES))
    check(frame)
    return frame


def decodeChunk(data: str) -> bytes:
    """The bytes of canonical base64; raises ``ValueError`` for anything else."""
    decoded = base64.b64decode(data, validate=True)
    if base64.b64encode(decoded).decode("ascii") != data:
        raise ValueError("not canonical base64")
    return decoded


def _fail(message: str, code: str = "CONTROL_INVALID_FRAME") -> NoReturn:
    raise ControlProtocolError(code, message)


def _refuseConstant(name: str) -> NoReturn:
    _fail(f"{name} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        _fail("a number is too large")
    return number


def _checkSize(size: int) -> None:
    if size > CONTROL_MAX_FRAME_BYTES:
        _fail(f"a frame has {size} bytes, more than {CONTROL_MAX_FRAME_BYTES}", "CONTROL_FRAME_TOO_LARGE")


def _closed(where: str, value: Any, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> Frame:
    if not isinstance(value, dict):
        _fail(f"{where} must be an object")
    for name in value:
        if name not in required and name not in optional:
            _fail(f"{where} has an unknown member {str(name)[:80]!r}")
    for name in required:
        if name not in value:
            _fail(f"{where} has no {name}")
    return value


def _members(frame: Frame, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    _closed(frame["type"], frame, ("protocol", "version", "type", *required), optional)


def _matches(name: str, value: Any, pattern: re.Pattern[str], code: str = "CONTROL_INVALID_FRAME") -> str:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        _fail(f"{name} is not of the form that it must have", code)
    return value


def _boolean(name: str, value: Any, code: str = "CONTROL_INVALID_FRAME") -> bool:
    if not isinstance(value, bool):
        _fail(f"{name} must be true or false", code)
    return value


def _integer(name: str, value: Any, low: int, high: int, code: str = "CONTROL_INVALID_FRAME") -> int:
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, int) or not low <= number <= high:
        _fail(f"{name} must be an integer from {low} to {high}", code)
    return number


def _text(name: str, value: Any, low: int, high: int) -> str:
    if not isinstance(value, str) or not low <= _units(value) <= high:
        _fail(f"{name} must be text of {low} to {high} characters")
    return value


def _units(text: str) -> int:
    """Length as the contract counts it, in UTF-16 code units."""
    return len(text) + sum(character > "\uffff" for character in text)


def _json(name: str, value: Any) -> None:
    """Whether a value is JSON that is nested at most 64 deep; the value itself has depth 0."""
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            _fail(f"{name} is nested deeper than {MAX_DEPTH}")
        if isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                _fail(f"{name} has a member whose name is not text")
            waiting.extend((member, depth + 1) for member in item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend((element, depth + 1) for element in item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                _fail(f"{name} holds a number that JSON does not know")
        elif item is not None and not isinstance(item, (str, int)):
            _fail(f"{name} holds a {type(item).__name__}, which JSON does not know")


def _object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        _fail(f"{name} must be an object")
    _json(name, value)


def _hello(frame: Frame) -> None:
    _members(frame, ("requestId", "role", "peer", "capabilities"), ("operations",))
    _matches("requestId", frame["requestId"], _ID)
    role = frame["role"]
    if role not in ("client", "server"):
        _fail("role must be client or server")
    peer = _closed("peer", frame["peer"], ("name", "version"))
    _text("peer.name", peer["name"], 1, 80)
    _text("peer.version", peer["version"], 1, 40)
    capabilities = _closed("capabilities", frame["capabilities"], ("cancel", "events", "attachments"))
    _boolean("capabilities.cancel", capabilities["cancel"])
    _boolean("capabilities.events", capabilities["events"])
    where = "capabilities.attachments"
    attachments = _closed(where, capabilities["attachments"], ("encoding", "maxChunkBytes"))
    if attachments["encoding"] != "base64":
        _fail(f"{where}.encoding must be base64")
    _integer(f"{where}.maxChunkBytes", attachments["maxChunkBytes"], 1, CONTROL_ATTACHMENT_CHUNK_BYTES)
    if (role == "server") != ("operations" in frame):
        _fail("operations belong to the hello of a server")
    if role == "server":
        operations = frame["operations"]
        if not isinstance(operations, list):
            _fail("operations must be a list")
        for name in operations:
            _matches("an operation", name, _NAME)
        if len(set(operations)) != len(operations):
            _fail("an operation is listed twice")


def _request(frame: Frame) -> None:
    _members(frame, ("requestId", "operation", "input"), ("spaceId",))
    _matches("requestId", frame["requestId"], _ID)
    _matches("operation", frame["operation"], _NAME)
    _object("input", frame["input"])
    if "spaceId" in frame:
        _matches("spaceId", frame["spaceId"], _ID)


def _cancel(frame: Frame) -> None:
    _members(frame, ("requestId",), ("reason",))
    _matches("requestId", frame["requestId"], _ID)
    if "reason" in frame:
        _text("reason", frame["reason"], 0, MAX_REASON)


def _descriptors(frame: Frame) -> None:
    if "attachments" not in frame:
        return
    attachments = frame["attachments"]
    if not isinstance(attachments, list):
        _fail("attachments must be a list")
    seen = set()
    for descriptor in attachments:
        members = ("attachmentId", "kind", "mimeType", "byteLength", "sha256")
        _closed("an attachment", descriptor, members)
        seen.add(_matches("attachmentId", descriptor["attachmentId"], _ID))
        _matches("kind", descriptor["kind"], _NAME)
        _matches("mimeType", descriptor["mimeType"], _MIME)
        _integer("byteLength", descriptor["byteLength"], 0, MAX_SAFE_INTEGER)
        _matches("sha256", descriptor["sha256"], _SHA256)
    if len(seen) != len(attachments):
        _fail("an attachment is listed twice")


def _response(frame: Frame) -> None:
    _members(frame, ("requestId", "outcome", "output"), ("attachments",))
    _matches("requestId", frame["requestId"], _ID)
    if frame["outcome"] not in OUTCOMES:
        _fail("outcome must be one of " + ", ".join(OUTCOMES))
    _json("output", frame["output"])
    _descriptors(frame)


def _error(frame: Frame) -> None:
    fatal = "fatal" in frame
    if fatal:
        _members(frame, ("fatal", "error"))
        if frame["fatal"] is not True:
            _fail("fatal must be true")
    else:
        _members(frame, ("requestId", "error"), ("attachments",))
        _matches("requestId", frame["requestId"], _ID)
    error = _closed("error", frame["error"], ("code", "message", "retryable", "outcome"), ("details",))
    _matches("error.code", error["code"], _CODE)
    _text("error.message", error["message"], 1, MAX_MESSAGE)
    _boolean("error.retryable", error["retryable"])
    if error["outcome"] not in ERROR_OUTCOMES:
        _fail("error.outcome must be one of " + ", ".join(ERROR_OUTCOMES))
    if error["retryable"] and error["outcome"] not in RETRYABLE_OUTCOMES:
        _fail(f"an error with the outcome {error['outcome']} is not retryable")
    if "details" in error:
        _object("error.details", error["details"])
    _descriptors(frame)


def _attachment(frame: Frame) -> None:
    code = "CONTROL_ATTACHMENT_INVALID"
    required = ("requestId", "attachmentId", "mimeType", "offset", "dataBase64", "eof")
    _members(frame, required, ("byteLength", "sha256"))
    _matches("requestId", frame["requestId"], _ID)
    _matches("attachmentId", frame["attachmentId"], _ID)
    _matches("mimeType", frame["mimeType"], _MIME, code)
    _integer("offset", frame["offset"], 0, MAX_SAFE_INTEGER, code)
    eof = _boolean("eof", frame["eof"], code)
    data = frame["dataBase64"]
    try:
        chunk = decodeChunk(data) if isinstance(data, str) else None
    except (ValueError, binascii.Error):
        chunk = None
    if chunk is None:
        _fail("dataBase64 is not canonical base64", code)
    if len(chunk) > CONTROL_ATTACHMENT_CHUNK_BYTES:
        _fail(f"a chunk has {len(chunk)} bytes, more than {CONTROL_ATTACHMENT_CHUNK_BYTES}", code)
    if {name in frame for name in ("byteLength", "sha256")} != {eof}:
        _fail("byteLength and sha256 belong to the last chunk", code)
    if eof:
        _integer("byteLength", frame["byteLength"], 0, MAX_SAFE_INTEGER, code)
        _matches("sha256", frame["sha256"], _SHA256, code)


def _event(frame: Frame) -> None:
    _members(frame, ("eventId", "name", "data"), ("requestId",))
    _matches("eventId", frame["eventId"], _ID)
    if "requestId" in frame:
        _matches("requestId", frame["requestId"], _ID)
    _matches("name", frame["name"], _NAME)
    _json("data", frame["data"])


_FRAMES: Final[dict[str, Callable[[Frame], None]]] = {
    "hello": _hello,
    "request": _request,
    "response": _response,
    "error": _error,
    "cancel": _cancel,
    "event": _event,
    "attachment": _attachment,
}
