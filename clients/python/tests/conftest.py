"""A peer at the other end of real pipes, and both clients behind one interface."""

from __future__ import annotations

import asyncio
import io
import json
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest

from pyprocControl import AsyncPyProcClient, ControlResult, PyProcClient, controlBase, decodeFrame

PATIENCE = 30.0

Frame = dict[str, Any]
Result = TypeVar("Result")


class Peer:
    """The host's end of a connection; the test says what it does."""

    def __init__(self) -> None:
        self.client_in, self.out = os.pipe()
        self.into, self.client_out = os.pipe()
        self._lines = io.TextIOWrapper(open(self.into, "rb"), encoding="utf-8", newline="\n")  # noqa: SIM115
        self._open = {self.out}

    def receive(self) -> Frame:
        """The next frame of the client."""
        return decodeFrame(self._lines.readline())

    def ended(self) -> bool:
        """Whether the client has closed its end; waits for it."""
        return self._lines.read() == ""

    def raw(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.out, view) :]

    def send(self, type_: str, **members: Any) -> None:
        text = json.dumps({**controlBase(type_), **members})
        self.raw(text.encode() + b"\n")

    def welcome(self, *, events: bool = False, **changed: Any) -> None:
        """Answers the hello that the client has sent."""
        hello = self.receive()
        members = {
            "requestId": hello["requestId"],
            "role": "server",
            "peer": {"name": "pyproc", "version": "1"},
            "capabilities": {
                "cancel": True,
                "events": events,
                "attachments": {"encoding": "base64", "maxChunkBytes": 262144},
            },
            "operations": ["machine.run", "machine.reset"],
        }
        self.send("hello", **{**members, **changed})

    def respond(self, request_id: str, output: Any = None, **more: Any) -> None:
        self.send("response", requestId=request_id, outcome="applied", output=output, **more)

    def fail(self, request_id: str, code: str, outcome: str, **more: Any) -> None:
        error = {"code": code, "message": "no", "retryable": False, "outcome": outcome, **more}
        self.send("error", requestId=request_id, error=error)

    def close(self) -> None:
        """Ends what the client reads."""
        if self.out in self._open:
            self._open.remove(self.out)
            os.close(self.out)

    def shut(self) -> None:
        self.close()
        self._lines.close()


class Driver:
    """Both clients as the tests use them."""

    client: Any

    def start(self, peer: Peer, **options: Any) -> None:
        raise NotImplementedError

    def send(self, operation: str, input: Any = None, **options: Any) -> Any:  # noqa: A002
        raise NotImplementedError

    def result(self, request: Any, timeout: float | None = None) -> ControlResult:
        raise NotImplementedError

    def cancel(self, request: Any, *reason: str) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class SyncDriver(Driver):
    def start(self, peer: Peer, *, startupTimeout: float = PATIENCE, **options: Any) -> None:
        reader = io.TextIOWrapper(open(peer.client_in, "rb"), encoding="utf-8", newline="\n")  # noqa: SIM115
        writer = io.TextIOWrapper(open(peer.client_out, "wb"), encoding="utf-8", newline="\n")  # noqa: SIM115
        try:
            self.client = PyProcClient(reader, writer, startupTimeout=startupTimeout, **options)
        except ValueError:
            # It was refused before the client took the streams.
            reader.close()
            writer.close()
            raise

    def send(self, operation: str, input: Any = None, **options: Any) -> Any:  # noqa: A002
        return self.client.requestAsync(operation, input, **options)

    def result(self, request: Any, timeout: float | None = None) -> ControlResult:
        found: ControlResult = request.result(timeout)
        return found

    def cancel(self, request: Any, *reason: str) -> bool:
        return bool(request.cancel(*reason))

    def close(self) -> None:
        self.client.close()


class AsyncDriver(Driver):
    """The asynchronous client in an event loop of its own thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.transports: list[asyncio.ReadTransport] = []
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def do(self, work: Coroutine[Any, Any, Result]) -> Result:
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(PATIENCE)

    def start(self, peer: Peer, *, startupTimeout: float = PATIENCE, **options: Any) -> None:
        async def start() -> AsyncPyProcClient:
            loop = asyncio.get_running_loop()
            reader = asyncio.StreamReader(limit=2**20 + 2)
            readable, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader),
                open(peer.client_in, "rb"),  # noqa: SIM115
            )
            self.transports.append(readable)
            transport, protocol = await loop.connect_write_pipe(
                asyncio.streams.FlowControlMixin,
                open(peer.client_out, "wb"),  # noqa: SIM115
            )
            writer = asyncio.StreamWriter(transport, protocol, None, loop)
            try:
                client = AsyncPyProcClient(reader, writer, **options)
            except ValueError:
                writer.close()
                raise
            try:
                await client.connect(startupTimeout)
            except BaseException:
                await client.close()
                raise
            return client

        self.client = self.do(start())

    def send(self, operation: str, input: Any = None, **options: Any) -> Any:  # noqa: A002
        return self.do(self.client.requestAsync(operation, input, **options))

    def result(self, request: Any, timeout: float | None = None) -> ControlResult:
        found: ControlResult = self.do(request.result(timeout))
        return found

    def cancel(self, request: Any, *reason: str) -> bool:
        return bool(self.do(request.cancel(*reason)))

    def close(self) -> None:
        self.do(self.client.close())

    def stop(self) -> None:
        async def end() -> None:
            for transport in self.transports:
                transport.close()
            # Closed transports let go of their files in the next turn.
            await asyncio.sleep(0)

        self.do(end())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(PATIENCE)
        self.loop.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.shut()


@pytest.fixture(params=["threads", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    """A client that is not connected."""
    if request.param == "threads":
        driver: Driver = SyncDriver()
        yield driver
    else:
        asynchronous = AsyncDriver()
        yield asynchronous
        asynchronous.stop()


Connect = Callable[..., Driver]


@pytest.fixture
def connect(peer: Peer, driver: Driver) -> Iterator[Connect]:
    """Connects the client to the peer."""
    started = []

    def connect(*, events: bool = False, **options: Any) -> Driver:
        answer = threading.Thread(target=peer.welcome, kwargs={"events": events})
        answer.start()
        driver.start(peer, **options)
        answer.join()
        started.append(driver)
        return driver

    yield connect
    peer.close()
    for each in started:
        each.close()


@pytest.fixture
def connected(connect: Connect) -> Driver:
    return connect()
