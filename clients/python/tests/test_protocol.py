"""Frames: what is one, what is none, and how it is written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyprocControl import (
    CONTROL_MAX_FRAME_BYTES,
    ControlProtocolError,
    controlBase,
    decodeFrame,
    encodeFrame,
    validateFrame,
)

ERROR = {"code": "CONTROL_FAILED", "message": "no", "retryable": False, "outcome": "notSent"}
CAPABILITIES = {"cancel": True, "events": False, "attachments": {"encoding": "base64", "maxChunkBytes": 64}}
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

GOOD: dict[str, dict[str, Any]] = {
    "hello": {
        "requestId": "h:1",
        "role": "client",
        "peer": {"name": "acme", "version": "3"},
        "capabilities": CAPABILITIES,
    },
    "request": {"requestId": "r:1", "operation": "machine.run", "input": {"code": "1"}, "spaceId": "machine:primary"},
    "cancel": {"requestId": "r:1", "reason": ""},
    "response": {"requestId": "r:1", "outcome": "applied", "output": None},
    "error": {"requestId": "r:1", "error": ERROR},
    "attachment": {
        "requestId": "r:1",
        "attachmentId": "a:1",
        "mimeType": "image/png",
        "offset": 0,
        "dataBase64": "",
        "eof": True,
        "byteLength": 0,
        "sha256": SHA,
    },
    "event": {"eventId": "e:1", "name": "a.b", "data": []},
}


def frame(kind: str, **changed: Any) -> dict[str, Any]:
    """A good frame with some members changed; ``...`` takes one away."""
    members = {**controlBase(kind), **GOOD[kind], **changed}
    return {name: value for name, value in members.items() if value is not ...}


@pytest.mark.parametrize("kind", GOOD)
def test_good_frames_survive_their_line(kind: str) -> None:
    line = encodeFrame(frame(kind))
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert decodeFrame(line) == frame(kind)
    assert decodeFrame(line[:-1] + "\r\n") == frame(kind)


NESTED: Any = "leaf"
for _ in range(63):
    NESTED = [NESTED]

ALSO_GOOD = [
    frame("hello", role="server", operations=["machine.run"]),
    frame("request", requestId="r" * 128, spaceId=...),
    frame("request", input={"deep": NESTED}),
    frame("cancel", reason="x" * 200),
    frame("cancel", reason=...),
    frame("error", requestId=..., fatal=True),
    frame("error", error={**ERROR, "retryable": True, "outcome": "rejected", "details": {}}),
    frame("attachment", offset=0.0),
]


@pytest.mark.parametrize("good", ALSO_GOOD, ids=lambda good: json.dumps(good)[45:90])
def test_what_is_at_the_bound_is_good(good: dict[str, Any]) -> None:
    assert decodeFrame(encodeFrame(good)) == good


BAD = [
    ("CONTROL_INVALID_FRAME", []),
    ("CONTROL_INVALID_FRAME", {}),
    ("CONTROL_INVALID_FRAME", frame("request", protocol="other", version=2)),
    ("CONTROL_VERSION_UNSUPPORTED", frame("request", version=2)),
    ("CONTROL_VERSION_UNSUPPORTED", frame("request", version=True)),
    ("CONTROL_VERSION_UNSUPPORTED", frame("request", version=...)),
    ("CONTROL_INVALID_FRAME", frame("request", type="other")),
    ("CONTROL_INVALID_FRAME", frame("request", type=[])),
    ("CONTROL_INVALID_FRAME", frame("request", more=1)),
    *(
        ("CONTROL_INVALID_FRAME", frame(kind, **{name: ...}))
        for kind in GOOD
        for name in GOOD[kind]
        if name not in ("spaceId", "reason", "byteLength", "sha256")
    ),
    *(("CONTROL_ATTACHMENT_INVALID", frame("attachment", **{name: ...})) for name in ("byteLength", "sha256")),
    *(
        ("CONTROL_INVALID_FRAME", frame("request", requestId=bad))
        for bad in ("", "r" * 129, ".a", "a b", 1, None, "é", "a\n")
    ),
    *(("CONTROL_INVALID_FRAME", frame("request", operation=bad)) for bad in ("run", "Machine.run", "1a.b", "a.", 5)),
    ("CONTROL_INVALID_FRAME", frame("request", input=[])),
    ("CONTROL_INVALID_FRAME", frame("request", input={"deep": [NESTED]})),
    ("CONTROL_INVALID_FRAME", frame("cancel", reason="x" * 201)),
    ("CONTROL_INVALID_FRAME", frame("cancel", reason="\U0001f600" * 101)),
    ("CONTROL_INVALID_FRAME", frame("hello", operations=["machine.run"])),
    ("CONTROL_INVALID_FRAME", frame("hello", role="server")),
    ("CONTROL_INVALID_FRAME", frame("hello", peer={"name": "", "version": "1"})),
    ("CONTROL_INVALID_FRAME", frame("hello", peer={"name": "x" * 81, "version": "1"})),
    ("CONTROL_INVALID_FRAME", frame("hello", capabilities={**CAPABILITIES, "cancel": 1})),
    *(
        (
            "CONTROL_INVALID_FRAME",
            frame(
                "hello", capabilities={**CAPABILITIES, "attachments": {"encoding": "base64", "maxChunkBytes": bad}}
            ),
        )
        for bad in (0, 262145, "1", True, 1.5)
    ),
    ("CONTROL_INVALID_FRAME", frame("response", outcome="notSent")),
    ("CONTROL_INVALID_FRAME", frame("response", attachments={})),
    ("CONTROL_INVALID_FRAME", frame("response", attachments=[{}])),
    ("CONTROL_INVALID_FRAME", frame("error", fatal=True)),
    ("CONTROL_INVALID_FRAME", frame("error", requestId=..., fatal=1)),
    ("CONTROL_INVALID_FRAME", frame("error", error={**ERROR, "retryable": True, "outcome": "applied"})),
    ("CONTROL_INVALID_FRAME", frame("error", error={**ERROR, "message": ""})),
    ("CONTROL_INVALID_FRAME", frame("error", error={**ERROR, "message": "x" * 2001})),
    ("CONTROL_INVALID_FRAME", frame("error", error={**ERROR, "code": "lower"})),
    ("CONTROL_INVALID_FRAME", frame("error", error={**ERROR, "details": []})),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", mimeType="png")),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", offset=-1)),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", eof=1)),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", eof=False)),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", dataBase64="=")),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", dataBase64="QUI")),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", dataBase64="QUI=\n")),
    ("CONTROL_ATTACHMENT_INVALID", frame("attachment", sha256=SHA.upper())),
]


@pytest.mark.parametrize(
    ("code", "bad"), BAD, ids=lambda bad: None if isinstance(bad, str) else json.dumps(bad)[-60:]
)
def test_what_breaks_a_rule_is_refused_with_its_code(code: str, bad: Any) -> None:
    with pytest.raises(ControlProtocolError) as caught:
        validateFrame(bad)
    assert caught.value.code == code


def test_the_largest_frame_is_measured_without_its_line_end() -> None:
    fill = CONTROL_MAX_FRAME_BYTES - len(encodeFrame(frame("request", input={"code": ""}))) + 1
    most = frame("request", input={"code": "x" * fill})
    line = encodeFrame(most)
    assert len(line) == CONTROL_MAX_FRAME_BYTES + 1
    assert decodeFrame(line) == most
    for change in (
        lambda: encodeFrame(frame("request", input={"code": "x" * (fill + 1)})),
        lambda: decodeFrame(" " + line),
    ):
        with pytest.raises(ControlProtocolError) as caught:
            change()
        assert caught.value.code == "CONTROL_FRAME_TOO_LARGE"


def test_text_keeps_to_one_line_of_valid_utf8() -> None:
    line = encodeFrame(frame("request", input={"code": "é\u2028\u2029\r\n\ud800"}))
    assert "\r" not in line
    assert "\u2028" not in line
    line.encode("utf-8")
    assert decodeFrame(line)["input"]["code"] == "é\u2028\u2029\r\n\ud800"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "NaN",
        "[1]",
        "1",
        "{",
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        "{} {}",
        "[" * 10_000,
    ],
)
def test_what_is_not_a_json_object_is_no_frame(line: str) -> None:
    with pytest.raises(ControlProtocolError) as caught:
        decodeFrame(line)
    assert caught.value.code == "CONTROL_INVALID_FRAME"


def test_bytes_are_no_line() -> None:
    with pytest.raises(ControlProtocolError, match="must be text"):
        decodeFrame(b"{}")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"", object(), {1, 2}, {1: 2}])
def test_what_json_does_not_know_is_not_encoded(value: Any) -> None:
    with pytest.raises(ControlProtocolError) as caught:
        encodeFrame(frame("request", input={"code": value}))
    assert caught.value.code == "CONTROL_INVALID_FRAME"
