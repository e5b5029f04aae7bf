"""The same client for asyncio: one event loop, the same methods as coroutines."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import operations
from . import process as hosts
from .conversation import (
    CANCEL_REASON,
    Streams,
    Welcome,
    admitEvent,
    cancelFrame,
    duplicate,
    helloFrame,
    notActive,
    readTerminal,
    readWelcome,
    receiveChunk,
    requestFrame,
    unexpected,
)
from .models import ControlError, ControlResult, connectionLost, timedOut
from .protocol import CONTROL_MAX_FRAME_BYTES, ControlProtocolError, Frame, decodeFrame, encodeFrame

if TYPE_CHECKING:
    from typing_extensions import Self

    from .perception import AsyncPerceptionClient

SessionRef = Mapping[str, Any]
EventHandler = Callable[[Frame], None]


class AsyncControlRequest:
    """One request on its way. ``future`` gets its ``ControlResult`` or its ``ControlError``."""

    def __init__(self, client: AsyncPyProcClient, requestId: str, future: asyncio.Future[ControlResult]) -> None:
        self.client = client
        self.requestId = requestId
        self.future = future

    def done(self) -> bool:
        """Whether the request has ended."""
        return self.future.done()

    async def cancel(self, reason: str = CANCEL_REASON) -> bool:
        """Asks the host to stop it. The request still ends by itself, usually with ``CONTROL_CANCELLED``."""
        return await self.client.cancel(self.requestId, reason)

    async def result(self, timeout: float | None = None) -> ControlResult:
        """Waits for the end.

        After ``timeout`` seconds the request is cancelled, and its end is awaited for ``client.cancelSettleTimeout``
        seconds more. If none comes the client is closed and ``CONTROL_TIMEOUT`` is raised: the effect is unknown.
        When the task that waits is cancelled, the request is cancelled too.
        """
        try:
            done, _ = await asyncio.wait({self.future}, timeout=timeout)
        except asyncio.CancelledError:
            self.client._cancelSoon(self.requestId)
            raise
        if done:
            return self.future.result()
        try:
            await self.client.cancel(self.requestId, "the client's time is over")
            return await asyncio.wait_for(asyncio.shield(self.future), self.client.cancelSettleTimeout)
        except ControlError as error:
            if error.code != "CONTROL_CONNECTION_LOST":
                raise
            cause: BaseException = error
        except (OSError, EOFError, RuntimeError, asyncio.TimeoutError) as error:
            cause = error
        with contextlib.suppress(Exception):
            await self.client.close()
        raise timedOut(self.requestId) from cause


class AsyncPyProcClient:
    """A connection to one host in the running event loop. Made by ``start``; an asynchronous context manager."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        process: Process | None = None,
        cancelSettleTimeout: float = 5.0,
        eventHandler: EventHandler | None = None,
    ) -> None:
        if cancelSettleTimeout <= 0:
            raise ValueError("cancelSettleTimeout must be more than 0 seconds")
        self.cancelSettleTimeout = cancelSettleTimeout
        self.eventHandler = eventHandler
        self.operations: tuple[str, ...] = ()
        self.process = process
        self._reader = reader
        self._writer = writer
        self._connectionError: BaseException | None = None
        self._closed = False
        self._sequence = 0
        self._used: set[str] = set()
        self._pending: dict[str, tuple[asyncio.Future[ControlResult], Streams]] = {}
        self._events: dict[str, None] = {}
        self._said: deque[str] = deque(maxlen=hosts.DIAGNOSTIC_LINES)
        self._welcome: Welcome | None = None
        self._welcomed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._cancels: set[asyncio.Task[bool]] = set()

    @classmethod
    async def start(
        cls,
        configPath: str | os.PathLike[str],
        *,
        command: hosts.Command | None = None,
        startupTimeout: float = 30.0,
        cancelSettleTimeout: float = 5.0,
        eventHandler: EventHandler | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a host for a manifest and connects to it, as ``PyProcClient.start`` does."""
        if cancelSettleTimeout <= 0:
            raise ValueError("cancelSettleTimeout must be more than 0 seconds")
        child = await asyncio.create_subprocess_exec(
            *hosts.serving(configPath, command),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=hosts.surroundings(environment),
            limit=CONTROL_MAX_FRAME_BYTES + 2,
            start_new_session=True,
        )
        if child.stdin is None or child.stdout is None:
            raise RuntimeError("the host has no pipes")
        client = cls(
            child.stdout,
            child.stdin,
            process=child,
            cancelSettleTimeout=cancelSettleTimeout,
            eventHandler=eventHandler,
        )
        try:
            await client.connect(startupTimeout)
        except BaseException:
            await client.close()
            raise
        return client

    async def connect(self, startupTimeout: float = 30.0) -> None:
        """Sends the hello and waits for the server's."""
        self._tasks.append(asyncio.create_task(self._read()))
        if self.process is not None and self.process.stderr is not None:
            self._tasks.append(asyncio.create_task(self._listen(self.process.stderr)))
        with contextlib.suppress(ControlError):
            # The reader knows better why nobody listens.
            await self._send(encodeFrame(helloFrame()))
        try:
            await asyncio.wait_for(self._welcomed.wait(), startupTimeout)
        except asyncio.TimeoutError:
            raise TimeoutError(f"the host did not answer within {startupTimeout} s") from None
        if self._welcome is None:
            cause = self._connectionError
            if isinstance(cause, (ControlError, ControlProtocolError, UnicodeError)):
                raise cause
            if len(self._tasks) > 1:
                await asyncio.wait({self._tasks[1]}, timeout=1.0)
            raise hosts.ended(self.diagnostics)

    @classmethod
    async def check(
        cls,
        configPath: str | os.PathLike[str],
        *,
        command: hosts.Command | None = None,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """The report of ``--check`` on a manifest. A manifest that is not usable raises."""
        return await asyncio.to_thread(hosts.check, configPath, command, timeout)

    @property
    def diagnostics(self) -> str:
        """The last 200 lines of the host's standard error."""
        return "\n".join(self._said)

    async def requestAsync(
        self,
        operation: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        requestId: str | None = None,
        spaceId: str | None = None,
    ) -> AsyncControlRequest:
        """Sends a request and does not wait for its end."""
        if self._closed:
            raise RuntimeError("the client is closed")
        if self._connectionError is not None:
            raise connectionLost("notSent", self._connectionError)
        chosen = self._nextId() if requestId is None else requestId
        if chosen in self._used:
            raise duplicate(chosen)
        self._used.add(chosen)
        line = encodeFrame(requestFrame(chosen, operation, input, spaceId))
        future: asyncio.Future[ControlResult] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting for it when the connection ends.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending[chosen] = (future, {})
        try:
            await self._send(line)
        except asyncio.CancelledError:
            self._cancelSoon(chosen)
            raise
        return AsyncControlRequest(self, chosen, future)

    def _nextId(self) -> str:
        while True:
            self._sequence += 1
            chosen = f"request:{self._sequence}"
            if chosen not in self._used:
                return chosen

    async def request(
        self,
        operation: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        requestId: str | None = None,
        spaceId: str | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """Sends a request and waits for its end, see ``AsyncControlRequest.result``."""
        sent = await self.requestAsync(operation, input, requestId=requestId, spaceId=spaceId)
        return await sent.result(timeout)

    async def cancel(self, requestId: str, reason: str = CANCEL_REASON) -> bool:
        """Asks the host to stop a request; ``False`` when it has ended already."""
        line = encodeFrame(cancelFrame(requestId, reason))
        if requestId not in self._pending:
            return False
        await self._send(line)
        return True

    def _cancelSoon(self, requestId: str) -> None:
        async def cancel() -> bool:
            with contextlib.suppress(ControlError):
                return await self.cancel(requestId)
            return False

        task = asyncio.create_task(cancel())
        self._cancels.add(task)
        task.add_done_callback(self._cancels.discard)

    async def close(self, timeout: float = 5.0) -> None:
        """Ends the connection and the host's process. What is pending fails with ``CONTROL_CONNECTION_LOST``."""
        first = not self._closed
        self._closed = True
        self._failAll(EOFError("the client was closed"))
        if not first:
            return
        for cancel in tuple(self._cancels):
            cancel.cancel()
        self._writer.close()
        if self.process is not None:
            await _end(self.process, timeout)
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        await asyncio.gather(*(t for t in self._tasks if t is not asyncio.current_task()), return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _send(self, line: str) -> None:
        """Writes a frame; a write that fails is the end of the connection (K9)."""
        try:
            self._writer.write(line.encode("utf-8"))
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            self._failAll(error)
            raise connectionLost("outcomeUnknown", error) from error

    def _failAll(self, error: BaseException) -> None:
        if self._connectionError is None:
            self._connectionError = error
        pending = list(self._pending.values())
        self._pending.clear()
        self._welcomed.set()
        for future, _ in pending:
            if not future.done():
                future.set_exception(connectionLost("outcomeUnknown", error))

    async def _read(self) -> None:
        cause: BaseException = EOFError("the host closed the connection")
        try:
            while line := await self._line():
                self._receive(decodeFrame(line.decode("utf-8")))
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the connection is not usable any more, and everybody who waits must hear of it.
            cause = error
        self._failAll(cause)

    async def _line(self) -> bytes:
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            return end.partial
        except asyncio.LimitOverrunError:
            message = f"a frame has more than {CONTROL_MAX_FRAME_BYTES} bytes"
            raise ControlProtocolError("CONTROL_FRAME_TOO_LARGE", message) from None

    def _receive(self, frame: Frame) -> None:
        if self._welcome is None:
            self._welcome = readWelcome(frame)
            self.operations = self._welcome.operations
            self._welcomed.set()
            return
        kind = frame["type"]
        if kind == "error" and frame.get("fatal"):
            raise ControlError(frame["error"], fatal=True)
        if kind == "event":
            admitEvent(frame, self._welcome, self._events)
            if self.eventHandler is not None:
                self.eventHandler(frame)
            return
        if kind not in ("attachment", "response", "error"):
            raise unexpected(frame)
        entry = self._pending.get(frame["requestId"])
        if entry is None:
            if self._closed:
                return
            raise notActive(frame, self._used)
        future, streams = entry
        if kind == "attachment":
            receiveChunk(streams, frame)
            return
        end = readTerminal(streams, frame)
        del self._pending[frame["requestId"]]
        if future.done():
            return
        if isinstance(end, ControlError):
            future.set_exception(end)
        else:
            future.set_result(end)

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await stderr.readuntil(b"\n")
            except asyncio.IncompleteReadError as end:
                if not end.partial:
                    return
                line = end.partial
            except asyncio.LimitOverrunError as over:
                line = await stderr.readexactly(over.consumed)
            self._said.append(line.decode("utf-8", "replace").rstrip("\n")[: hosts.DIAGNOSTIC_LINE_BYTES])

    async def runPython(self, code: str, *, timeout: float | None = None) -> ControlResult:
        """Runs Python source. ``output`` has ``stdout`` and, for an expression, its ``value``."""
        return await self.request(*operations.runPython(code), timeout=timeout)

    async def saveCheckpoint(self, *, timeout: float | None = None) -> ControlResult:
        """Saves the machine; ``output["index"]`` is the checkpoint's number."""
        return await self.request(*operations.saveCheckpoint(), timeout=timeout)

    async def restoreCheckpoint(
        self,
        index: int | None = None,
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Brings the machine back to a checkpoint, to the latest one without ``index``."""
        return await self.request(*operations.restoreCheckpoint(index), timeout=timeout)

    async def reset(self, *, timeout: float | None = None) -> ControlResult:
        """Brings the machine back to its boot state and forgets all checkpoints."""
        return await self.request(*operations.reset(), timeout=timeout)

    async def inspectSpace(self, *, timeout: float | None = None) -> ControlResult:
        """What the browser automation may do."""
        return await self.request(*operations.inspectSpace(), timeout=timeout)

    async def listTargets(self, *, timeout: float | None = None) -> ControlResult:
        """The open pages of allowed origins."""
        return await self.request(*operations.listTargets(), timeout=timeout)

    async def openTarget(
        self,
        url: str,
        *,
        expectedRisk: str,
        waitUntil: str = "commit",
        timeout: float | None = None,
    ) -> ControlResult:
        """Opens an allowed address in a new page."""
        return await self.request(*operations.openTarget(url, expectedRisk, waitUntil), timeout=timeout)

    async def attachSession(self, targetRef: str, *, timeout: float | None = None) -> ControlResult:
        """Starts a session on a page; ``output`` is the session reference."""
        return await self.request(*operations.attachSession(targetRef), timeout=timeout)

    async def observe(
        self,
        sessionRef: SessionRef,
        options: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Reads a page without changing it."""
        return await self.request(*operations.observe(sessionRef, options), timeout=timeout)

    async def act(
        self,
        sessionRef: SessionRef,
        actions: Sequence[Mapping[str, Any]],
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Runs actions on a page in order, up to the first that fails."""
        return await self.request(*operations.act(sessionRef, actions), timeout=timeout)

    async def command(
        self,
        sessionRef: SessionRef,
        method: str,
        params: Mapping[str, Any],
        *,
        expectedRisk: str,
        timeout: float | None = None,
    ) -> ControlResult:
        """Sends one raw browser command that the manifest allows."""
        call = operations.command(sessionRef, method, params, expectedRisk)
        return await self.request(*call, timeout=timeout)

    async def detachSession(
        self,
        sessionRef: SessionRef,
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Ends a session."""
        return await self.request(*operations.detachSession(sessionRef), timeout=timeout)

    async def readArtifact(
        self,
        artifactRef: str,
        *,
        offset: int | None = None,
        maxBytes: int | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """Reads one chunk of a stored artifact."""
        return await self.request(*operations.readArtifact(artifactRef, offset, maxBytes), timeout=timeout)

    async def deleteArtifact(
        self,
        artifactRef: str,
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Deletes a stored artifact."""
        return await self.request(*operations.deleteArtifact(artifactRef), timeout=timeout)

    def perception(self, sessionRef: SessionRef | None = None) -> AsyncPerceptionClient:
        """The perception of pages as graphs."""
        from .perception import AsyncPerceptionClient

        return AsyncPerceptionClient(self, sessionRef)


async def _end(child: Process, timeout: float) -> None:
    for ask in (None, signal.SIGTERM, signal.SIGKILL):
        if ask is not None:
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(ask)
        try:
            await asyncio.wait_for(child.wait(), timeout)
            return
        except asyncio.TimeoutError:
            continue
