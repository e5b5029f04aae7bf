"""Clients that were built without their constructor, as existing fixtures do (control protocol 8.5)."""

from __future__ import annotations

import io
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from pyprocControl import ControlError, ControlRequest, ControlResult, PyProcClient, decodeFrame


class Broken(io.StringIO):
    def write(self, text: str) -> int:  # noqa: ARG002
        raise BrokenPipeError("nobody reads")


def bare(writable: Any = None) -> PyProcClient:
    client = object.__new__(PyProcClient)
    client._stateLock = threading.RLock()
    client._writeLock = threading.Lock()
    client._helloEvent = threading.Event()
    client._helloEvent.set()
    client._connectionError = None
    client._closed = False
    client._sequence = 0
    client._used = set()
    client._pending = {}
    client.writable = io.StringIO() if writable is None else writable
    return client


def test_a_bare_client_sends_and_cancels() -> None:
    client = bare()
    request = client.requestAsync("machine.run", {"code": "1"})
    assert set(client._pending) == {request.requestId} == client._used
    assert client._pending[request.requestId] == {"future": request.future, "attachments": {}}
    assert client.cancel(request.requestId, "enough")
    assert not client.cancel("nobody", "enough")
    written = client.writable.getvalue()  # type: ignore[attr-defined]
    assert [decodeFrame(line)["type"] for line in written.splitlines()] == ["request", "cancel"]


def test_a_bare_client_fails_everything() -> None:
    client = bare()
    request = client.requestAsync("machine.run")
    client._failAll(OSError("gone"))
    assert client._pending == {}
    assert isinstance(client._connectionError, OSError)
    with pytest.raises(ControlError) as caught:
        request.result()
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_CONNECTION_LOST", "outcomeUnknown")
    with pytest.raises(ControlError) as caught:
        client.requestAsync("machine.run")
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_CONNECTION_LOST", "notSent")


def test_a_bare_client_whose_write_fails_loses_its_connection() -> None:
    client = bare(Broken())
    pending: Future[ControlResult] = Future()
    client._pending["other"] = {"future": pending, "attachments": {}}
    with pytest.raises(ControlError) as caught:
        client.requestAsync("machine.run")
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_CONNECTION_LOST", "outcomeUnknown")
    assert isinstance(pending.exception(), ControlError)


class Told:
    """All that a request may use of its client."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.cancelSettleTimeout = 0.05
        self.error = error
        self.told: list[Any] = []

    def cancel(self, requestId: str, reason: str) -> bool:
        self.told.append((requestId, reason))
        if self.error is not None:
            raise self.error
        return True

    def close(self) -> None:
        self.told.append("closed")
        raise OSError("already gone")


@pytest.mark.parametrize("error", [None, BrokenPipeError("x"), EOFError("x"), ValueError("closed file")])
def test_a_request_uses_three_things_of_its_client_and_lets_no_other_error_out(error: BaseException | None) -> None:
    told = Told(error)
    request = ControlRequest(told, "r:1", Future())
    with pytest.raises(ControlError) as caught:
        request.result(0.01)
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_TIMEOUT", "outcomeUnknown")
    assert told.told[0][0] == "r:1"
    assert told.told[-1] == "closed"


def test_a_future_that_its_caller_cancelled_harms_nobody() -> None:
    client = bare()
    request = client.requestAsync("machine.run")
    assert request.future.cancel()
    client._failAll(EOFError())
