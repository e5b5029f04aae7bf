"""The rules for clients, K1 to K12, for both clients against a peer on real pipes."""

from __future__ import annotations

import base64
import hashlib
import threading
import time
from typing import Any

import pytest
from conftest import PATIENCE, Connect, Driver, Frame, Peer

from pyprocControl import ControlError, ControlProtocolError, decodeFrame, encodeFrame


def lost(driver: Driver, request: Any, outcome: str = "outcomeUnknown") -> str:
    """The request failed with its connection; the result is the message."""
    with pytest.raises(ControlError) as caught:
        driver.result(request)
    error = caught.value
    assert (error.code, error.outcome, error.retryable) == ("CONTROL_CONNECTION_LOST", outcome, False)
    return str(error)


def chunk(request_id: str, data: bytes, *, name: str = "attachment:1", offset: int = 0, **more: Any) -> Frame:
    frame = {
        "requestId": request_id,
        "attachmentId": name,
        "mimeType": "image/png",
        "offset": offset,
        "dataBase64": base64.b64encode(data).decode(),
        "eof": False,
    }
    return {**frame, **more}


def last(data: bytes) -> Frame:
    return {"eof": True, "byteLength": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def descriptor(data: bytes, **more: Any) -> Frame:
    found = {
        "attachmentId": "attachment:1",
        "kind": "machine.display",
        "mimeType": "image/png",
        "byteLength": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    return {**found, **more}


def test_the_hello_comes_first_and_names_this_client(peer: Peer, connected: Driver) -> None:
    assert connected.client.operations == ("machine.run", "machine.reset")
    request = connected.send("machine.run", {"code": "1"})
    frame = peer.receive()
    assert (frame["requestId"], frame["operation"], frame["input"]) == ("request:1", "machine.run", {"code": "1"})
    peer.respond("request:1", {"value": "1"})
    result = connected.result(request)
    assert (result.output, result.outcome, result.attachments) == ({"value": "1"}, "applied", ())


@pytest.mark.parametrize(
    "answer",
    [
        {"role": "client", "operations": None},
        {"requestId": "hello:other"},
        {"operations": ["machine.run", "machine.run"]},
        {"more": 1},
    ],
)
def test_another_answer_to_the_hello_fails_the_start(peer: Peer, driver: Driver, answer: Frame) -> None:
    threading.Thread(target=peer.welcome, kwargs=answer).start()
    with pytest.raises(ControlProtocolError):
        driver.start(peer)
    assert peer.ended()


def test_a_fatal_error_fails_the_start_with_itself(peer: Peer, driver: Driver) -> None:
    error = {"code": "CONTROL_VERSION_UNSUPPORTED", "message": "no", "retryable": False, "outcome": "notSent"}
    peer.send("error", fatal=True, error=error)
    with pytest.raises(ControlError) as caught:
        driver.start(peer)
    assert caught.value.fatal
    assert caught.value.code == "CONTROL_VERSION_UNSUPPORTED"


def test_an_end_before_the_hello_fails_the_start(peer: Peer, driver: Driver) -> None:
    peer.close()
    with pytest.raises(ConnectionError, match="ended before it answered"):
        driver.start(peer)


def test_a_peer_that_does_not_answer_ends_the_start_in_time(peer: Peer, driver: Driver) -> None:
    with pytest.raises(TimeoutError, match="did not answer"):
        driver.start(peer, startupTimeout=0.2)
    assert decodeFrame(encodeFrame(peer.receive()))["type"] == "hello"
    assert peer.ended()


def test_a_cancel_settle_time_must_be_positive(peer: Peer, driver: Driver) -> None:
    with pytest.raises(ValueError, match="cancelSettleTimeout"):
        driver.start(peer, cancelSettleTimeout=0)


def test_terminals_in_any_order_find_their_requests(peer: Peer, connected: Driver) -> None:
    requests = [connected.send("machine.run", {"code": str(number)}) for number in range(50)]
    for number in reversed(range(50)):
        peer.respond(f"request:{number + 1}", number)
    assert [connected.result(request).output for request in requests] == list(range(50))


def test_an_error_is_raised_with_all_that_it_says(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run", {"code": "1/0"})
    peer.fail("request:1", "MACHINE_PYTHON_ERROR", "applied", details={"type": "ZeroDivisionError"})
    with pytest.raises(ControlError, match="no") as caught:
        connected.result(request)
    error = caught.value
    assert (error.code, error.outcome, error.retryable, error.fatal) == (
        "MACHINE_PYTHON_ERROR",
        "applied",
        False,
        False,
    )
    assert error.details == {"type": "ZeroDivisionError"}


def test_an_id_is_used_once_also_after_its_end(peer: Peer, connected: Driver) -> None:
    first = connected.send("machine.run", {"code": "1"}, requestId="mine")
    for _ in range(2):
        with pytest.raises(ControlError) as caught:
            connected.send("machine.run", {"code": "2"}, requestId="mine")
        assert (caught.value.code, caught.value.outcome) == ("CONTROL_REQUEST_DUPLICATE", "notSent")
        if not first.done():
            peer.respond("mine")
            connected.result(first)
    connected.send("machine.run", {"code": "3"})
    assert [peer.receive()["requestId"] for _ in range(2)] == ["mine", "request:1"]


def test_the_default_ids_avoid_what_was_used(connected: Driver) -> None:
    connected.send("machine.run", requestId="request:1")
    assert connected.send("machine.run").requestId == "request:2"


@pytest.mark.parametrize(
    ("operation", "sent", "code"),
    [
        ("run", {}, "CONTROL_INVALID_FRAME"),
        ("machine.run", {"code": float("nan")}, "CONTROL_INVALID_FRAME"),
        ("machine.run", {"code": b"bytes"}, "CONTROL_INVALID_FRAME"),
        ("machine.run", {1: "number"}, "CONTROL_INVALID_FRAME"),
        ("machine.run", {"code": "x" * 2**20}, "CONTROL_FRAME_TOO_LARGE"),
    ],
)
def test_what_cannot_be_sent_burns_its_id_and_nothing_else(
    peer: Peer, connected: Driver, operation: str, sent: Any, code: str
) -> None:
    with pytest.raises(ControlProtocolError) as caught:
        connected.send(operation, sent, requestId="mine")
    assert caught.value.code == code
    with pytest.raises(ControlError, match="used before"):
        connected.send("machine.run", requestId="mine")
    request = connected.send("machine.run", requestId="next")
    assert peer.receive()["requestId"] == "next"
    peer.respond("next", 1)
    assert connected.result(request).output == 1


def test_attachments_are_given_out_whole_in_the_order_of_their_terminal(peer: Peer, connected: Driver) -> None:
    first, second, third = b"a" * 300_000, b"", b"c"
    request, other = connected.send("machine.run"), connected.send("machine.run")
    peer.send("attachment", **chunk("request:1", first[:200_000]))
    peer.send("attachment", **chunk("request:2", third, **last(third)))
    peer.send("attachment", **chunk("request:1", second, name="attachment:2", **last(second)))
    peer.send("attachment", **chunk("request:1", first[200_000:], offset=200_000, **last(first)))
    listed = [descriptor(second, attachmentId="attachment:2"), descriptor(first)]
    peer.respond("request:1", "done", attachments=listed)
    peer.respond("request:2", "other", attachments=[descriptor(third)])
    attachments = connected.result(request).attachments
    assert [(one.attachmentId, one.bytes) for one in attachments] == [
        ("attachment:2", second),
        ("attachment:1", first),
    ]
    assert attachments[1].kind == "machine.display"
    assert attachments[1].sha256 == hashlib.sha256(first).hexdigest()
    assert connected.result(other).attachments[0].bytes == third


def violations() -> list[Any]:
    data = b"data"
    good = chunk("request:1", data, **last(data))

    def attachment(**members: Any) -> tuple[str, Frame]:
        return "attachment", {**good, **members}

    def response(*listed: Frame, **members: Any) -> tuple[str, Frame]:
        said = {"requestId": "request:1", "outcome": "applied", "output": 1, **members}
        return "response", {**said, "attachments": list(listed)} if listed else said

    many = [attachment(attachmentId=f"attachment:{number}") for number in range(65)]
    cases = {
        "starts late": [attachment(offset=1)],
        "gap": [("attachment", chunk("request:1", data)), attachment(offset=5)],
        "overlap": [("attachment", chunk("request:1", data)), attachment(offset=3)],
        "other type": [("attachment", chunk("request:1", data)), attachment(offset=4, mimeType="image/jpeg")],
        "goes on after its end": [attachment(), attachment(offset=4)],
        "wrong digest": [attachment(sha256="0" * 64)],
        "wrong length": [attachment(byteLength=5)],
        "empty chunk": [("attachment", chunk("request:1", b""))],
        "large chunk": [("attachment", chunk("request:1", bytes(262_145)))],
        "no base64": [attachment(dataBase64="????")],
        "spare bits": [attachment(dataBase64="QR==")],
        "digest before the end": [attachment(eof=False)],
        "undeclared": [attachment(), response()],
        "undeclared by an error": [attachment(), ("error", {"requestId": "request:1", "error": ERROR})],
        "not sent": [response(descriptor(data))],
        "incomplete": [("attachment", chunk("request:1", data)), response(descriptor(data))],
        "declared as another type": [attachment(), response(descriptor(data, mimeType="image/jpeg"))],
        "declared shorter": [attachment(), response(descriptor(data, byteLength=3))],
        "declared with another digest": [attachment(), response(descriptor(data, sha256="0" * 64))],
        "declared twice": [attachment(), response(descriptor(data), descriptor(data))],
        "too many": many,
        "unknown request": [("response", {"requestId": "nobody", "outcome": "applied", "output": 1})],
        "unknown request's attachment": [attachment(requestId="nobody")],
        "not announced event": [("event", {"eventId": "e:1", "name": "a.b", "data": 1})],
        "request of the server": [("request", {"requestId": "r", "operation": "a.b", "input": {}})],
        "cancel of the server": [("cancel", {"requestId": "request:1"})],
        "unknown member": [response(more=1)],
        "unknown outcome": [response(outcome="done")],
        "fatal": [("error", {"fatal": True, "error": ERROR})],
        "fatal that is none": [("error", {"fatal": False, "error": ERROR})],
    }
    return [pytest.param(frames, id=name) for name, frames in cases.items()]


ERROR = {"code": "CONTROL_FAILED", "message": "no", "retryable": False, "outcome": "notSent"}


@pytest.mark.parametrize("frames", violations())
def test_a_violation_fails_the_connection_and_all_that_is_pending(
    peer: Peer, connected: Driver, frames: list[tuple[str, Frame]]
) -> None:
    requests = [connected.send("machine.run") for _ in range(3)]
    for kind, members in frames:
        peer.send(kind, **members)
    for request in requests:
        lost(connected, request)
    with pytest.raises(ControlError) as caught:
        connected.send("machine.run")
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_CONNECTION_LOST", "notSent")


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"not json\n",
        b"[]\n",
        b'{"protocol":"pyproc-control","version":1,"type":"response","requestId":"request:1"}\n',
        b'{"protocol":"pyproc-control","version":2,"type":"error"}\n',
        b"\xff\n",
        b"\xef\xbb\xbf{}\n",
        b"{" + b" " * 2**20 + b"}\n",
        b"x" * (2**20 + 10),
        b"[" * 100_000 + b"\n",
        b'{"protocol":"pyproc-control","version":1,"type":"response","requestId":"request:1",'
        b'"outcome":"applied","output":1e999}\n',
    ],
    ids=lambda line: repr(line[:24]),
)
def test_a_line_that_is_no_frame_fails_the_connection(peer: Peer, connected: Driver, line: bytes) -> None:
    request = connected.send("machine.run")
    peer.raw(line)
    lost(connected, request)


def test_a_second_terminal_fails_the_connection(peer: Peer, connected: Driver) -> None:
    first, second = connected.send("machine.run"), connected.send("machine.run")
    peer.respond("request:1", 1)
    peer.respond("request:1", 1)
    assert connected.result(first).output == 1
    assert "ended twice" in lost(connected, second)


def test_a_frame_of_exactly_the_largest_size_arrives(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    frame = '{"protocol":"pyproc-control","version":1,"type":"response","requestId":"request:1","outcome":"applied",'
    fill = 2**20 - len(frame) - len('"output":""}')
    peer.raw(f'{frame}"output":"{"x" * fill}"}}\r\n'.encode())
    assert len(connected.result(request).output) == fill


def test_an_end_of_the_stream_fails_what_is_pending(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.respond("request:1", 1)
    assert connected.result(request).output == 1
    request = connected.send("machine.run")
    peer.raw(b'{"protocol":"pyproc')
    peer.close()
    lost(connected, request)


def test_a_last_line_without_its_end_counts(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.raw(
        b'{"protocol":"pyproc-control","version":1,"type":"response","requestId":"request:1",'
        b'"outcome":"observed","output":null}'
    )
    peer.close()
    assert connected.result(request).outcome == "observed"


def test_a_line_ends_with_lf_only(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run", {"code": "a\u2028b\rc\x85d"})
    assert peer.receive()["input"]["code"] == "a\u2028b\rc\x85d"
    peer.raw(
        '{"protocol":"pyproc-control","version":1,\r"type":"response","requestId":"request:1",'
        '"outcome":"applied","output":"\u2028\x85"}\r\n'.encode()
    )
    assert connected.result(request).output == "\u2028\x85"


def send_until_it_fails(driver: Driver) -> None:
    for _ in range(1000):
        driver.send("machine.run", {"code": "x" * 100_000})


def test_a_write_that_fails_is_the_end_of_the_connection(peer: Peer, connected: Driver) -> None:
    pending = connected.send("machine.run")
    peer._lines.close()
    # A pipe may take a few lines before it notices.
    with pytest.raises(ControlError) as caught:
        send_until_it_fails(connected)
    assert caught.value.code == "CONTROL_CONNECTION_LOST"
    lost(connected, pending)


def test_announced_events_are_handed_over_once(peer: Peer, connect: Connect) -> None:
    seen: list[Frame] = []
    driver = connect(events=True, eventHandler=seen.append)
    request = driver.send("machine.run")
    peer.send("event", eventId="e:1", name="machine.idle", data={"a": 1})
    peer.send("event", eventId="e:2", requestId="request:1", name="machine.idle", data=None)
    peer.respond("request:1")
    driver.result(request)
    assert [event["eventId"] for event in seen] == ["e:1", "e:2"]
    request = driver.send("machine.run")
    peer.send("event", eventId="e:1", name="machine.idle", data={})
    assert "came twice" in lost(driver, request)


def test_a_cancel_is_not_a_terminal(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.receive()
    assert connected.cancel(request, "enough")
    frame = peer.receive()
    assert (frame["type"], frame["requestId"], frame["reason"]) == ("cancel", "request:1", "enough")
    assert not request.done()
    peer.fail("request:1", "CONTROL_CANCELLED", "outcomeUnknown")
    with pytest.raises(ControlError, match="no"):
        connected.result(request)
    assert not connected.cancel(request)


def test_a_timeout_cancels_and_gives_the_terminal_that_comes(peer: Peer, connected: Driver) -> None:
    def cancelled(code: str | None) -> None:
        peer.receive()
        request_id = peer.receive()["requestId"]
        if code is None:
            peer.respond(request_id, "in time")
        else:
            peer.fail(request_id, code, "outcomeUnknown")

    for code in ("CONTROL_CANCELLED", None):
        answer = threading.Thread(target=cancelled, args=(code,))
        answer.start()
        request = connected.send("machine.run")
        if code is None:
            assert connected.result(request, 0.05).output == "in time"
        else:
            with pytest.raises(ControlError) as caught:
                connected.result(request, 0.05)
            assert (caught.value.code, caught.value.outcome) == (code, "outcomeUnknown")
        answer.join()


def test_a_result_that_is_there_already_needs_no_time(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.respond("request:1", 1)
    deadline = time.monotonic() + PATIENCE
    while not request.done() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert connected.result(request, 0).output == 1


def timed_out(driver: Driver, request: Any) -> None:
    with pytest.raises(ControlError) as caught:
        driver.result(request, 0.05)
    error = caught.value
    assert (error.code, error.outcome, error.retryable) == ("CONTROL_TIMEOUT", "outcomeUnknown", False)
    assert error.__cause__ is not None
    with pytest.raises(RuntimeError, match="closed"):
        driver.send("machine.run")


def test_a_timeout_without_a_terminal_closes_the_client(peer: Peer, connect: Connect) -> None:
    driver = connect(cancelSettleTimeout=0.2)
    timed_out(driver, driver.send("machine.run"))
    assert peer.receive()["type"] == "request"
    assert peer.receive()["type"] == "cancel"
    assert peer.ended()


def test_a_timeout_whose_cancel_ends_the_connection_closes_the_client(peer: Peer, connected: Driver) -> None:
    def end() -> None:
        peer.receive()
        peer.receive()
        peer.close()

    answer = threading.Thread(target=end)
    answer.start()
    timed_out(connected, connected.send("machine.run"))
    answer.join()


def test_a_connection_that_ends_before_the_timeout_is_lost(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.close()
    with pytest.raises(ControlError) as caught:
        connected.result(request, PATIENCE)
    assert caught.value.code == "CONTROL_CONNECTION_LOST"


def test_a_closed_client_fails_what_is_pending_and_sends_nothing(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.receive()
    closing = threading.Thread(target=connected.close)
    closing.start()
    assert peer.ended()
    peer.close()
    closing.join(PATIENCE)
    lost(connected, request)
    connected.close()
    with pytest.raises(RuntimeError, match="closed"):
        connected.send("machine.run")


def test_random_bytes_never_hang_a_request(peer: Peer, connected: Driver) -> None:
    request = connected.send("machine.run")
    peer.raw(bytes(range(256)) * 64 + b"\n")
    lost(connected, request)
