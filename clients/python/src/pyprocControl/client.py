"""The client: a process of the host, requests from any thread, one reader."""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import os
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from . import operations
from . import process as hosts
from .conversation import (
    CANCEL_REASON,
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
from .protocol import CONTROL_MAX_FRAME_BYTES, Frame, decodeFrame, encodeFrame

if TYPE_CHECKING:
    from typing_extensions import Self

    from .perception import PerceptionClient

SessionRef = Mapping[str, Any]
EventHandler = Callable[[Frame], None]


class ControlRequest:
    """One request on its way. ``future`` gets its ``ControlResult`` or its ``ControlError``."""

    def __init__(self, client: Any, requestId: str, future: Future[ControlResult]) -> None:
        self.client = client
        self.requestId = requestId
        self.future = future

    def done(self) -> bool:
        """Whether the request has ended."""
        return self.future.done()

    def cancel(self, reason: str = CANCEL_REASON) -> bool:
        """Asks the host to stop it. The request still ends by itself, usually with ``CONTROL_CANCELLED``."""
        return bool(self.client.cancel(self.requestId, reason))

    def result(self, timeout: float | None = None) -> ControlResult:
        """Waits for the end.

        After ``timeout`` seconds the request is cancelled, and its end is awaited for ``client.cancelSettleTimeout``
        seconds more. If none comes the client is closed and ``CONTROL_TIMEOUT`` is raised: the effect is unknown.
        """
        try:
            return self.future.result(timeout)
        except concurrent.futures.TimeoutError:
            if self.future.done():
                return self.future.result()
        try:
            self.client.cancel(self.requestId, "the client's time is over")
            return self.future.result(self.client.cancelSettleTimeout)
        except ControlError as error:
            if error.code != "CONTROL_CONNECTION_LOST":
                raise
            self._abandon(error)
        except (OSError, EOFError, ValueError, RuntimeError, concurrent.futures.TimeoutError) as error:
            self._abandon(error)

    def _abandon(self, cause: BaseException) -> NoReturn:
        with contextlib.suppress(Exception):
            self.client.close()
        raise timedOut(self.requestId) from cause


class PyProcClient:
    """A connection to one host. It may be used from any thread, and as a context manager.

    ``readable`` and ``writable`` are text streams in UTF-8 whose lines end with LF only; ``start`` makes them. The
    ``eventHandler`` is called by the reader, outside of all locks.
    """

    def __init__(
        self,
        readable: TextIO,
        writable: TextIO,
        *,
        process: subprocess.Popen[bytes] | None = None,
        stderr: TextIO | None = None,
        startupTimeout: float = 30.0,
        cancelSettleTimeout: float = 5.0,
        eventHandler: EventHandler | None = None,
    ) -> None:
        _checkSettleTime(cancelSettleTimeout)
        self.readable = readable
        self.writable = writable
        self.process = process
        self.stderr = stderr
        self.cancelSettleTimeout = cancelSettleTimeout
        self.eventHandler = eventHandler
        self.operations: tuple[str, ...] = ()
        self._stateLock = threading.RLock()
        self._writeLock = threading.Lock()
        self._helloEvent = threading.Event()
        self._connectionError: BaseException | None = None
        self._closed = False
        self._sequence = 0
        self._used: set[str] = set()
        self._pending: dict[str, dict[str, Any]] = {}
        self._welcome: Welcome | None = None
        self._events: dict[str, None] = {}
        self._said: deque[str] = deque(maxlen=hosts.DIAGNOSTIC_LINES)
        self._threads = [threading.Thread(target=self._read, name="pyproc-reader", daemon=True)]
        if stderr is not None:
            self._threads.append(threading.Thread(target=self._listen, name="pyproc-stderr", daemon=True))
        try:
            self._open(startupTimeout)
        except BaseException:
            self.close()
            raise

    def _open(self, startupTimeout: float) -> None:
        for thread in self._threads:
            thread.start()
        try:
            self._write(encodeFrame(helloFrame()))
        except (OSError, ValueError) as error:
            # The reader knows better why nobody listens.
            if not self._helloEvent.wait(1.0):
                raise ConnectionError("the host does not listen") from error
        if not self._helloEvent.wait(startupTimeout):
            raise TimeoutError(f"the host did not answer within {startupTimeout} s")
        if self._welcome is None:
            cause = self._connectionError
            if isinstance(cause, EOFError) or cause is None:
                # What it said is read by another thread.
                for thread in self._threads[1:]:
                    thread.join(1.0)
                raise hosts.ended(self.diagnostics)
            raise cause

    @classmethod
    def start(
        cls,
        configPath: str | os.PathLike[str],
        *,
        command: hosts.Command | None = None,
        startupTimeout: float = 30.0,
        cancelSettleTimeout: float = 5.0,
        eventHandler: EventHandler | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Self:
        """Starts a host for a manifest and connects to it.

        ``command`` is the program: by default ``pyproc-control`` on ``PATH``. ``environment`` replaces the
        environment of this process.
        """
        _checkSettleTime(cancelSettleTimeout)
        child = subprocess.Popen(  # noqa: S603
            hosts.serving(configPath, command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=hosts.surroundings(environment),
            # Ctrl-C is for this process; the host ends when its input does.
            start_new_session=True,
        )
        try:
            return cls(
                _lines(child.stdout),
                _lines(child.stdin),
                process=child,
                stderr=_lines(child.stderr, errors="replace"),
                startupTimeout=startupTimeout,
                cancelSettleTimeout=cancelSettleTimeout,
                eventHandler=eventHandler,
            )
        except BaseException:
            if child.poll() is None:
                child.kill()
                child.wait()
            raise

    @classmethod
    def check(
        cls,
        configPath: str | os.PathLike[str],
        *,
        command: hosts.Command | None = None,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """The report of ``--check`` on a manifest. A manifest that is not usable raises."""
        return hosts.check(configPath, command, timeout)

    @property
    def diagnostics(self) -> str:
        """The last 200 lines of the host's standard error."""
        return "\n".join(self._said)

    def requestAsync(
        self,
        operation: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        requestId: str | None = None,
        spaceId: str | None = None,
    ) -> ControlRequest:
        """Sends a request and does not wait for its end."""
        future: Future[ControlResult] = Future()
        with self._stateLock:
            if self._closed:
                raise RuntimeError("the client is closed")
            if self._connectionError is not None:
                raise connectionLost("notSent", self._connectionError)
            chosen = self._nextId() if requestId is None else requestId
            if chosen in self._used:
                raise duplicate(chosen)
            self._used.add(chosen)
            line = encodeFrame(requestFrame(chosen, operation, input, spaceId))
            self._pending[chosen] = {"future": future, "attachments": {}}
        self._send(line)
        return ControlRequest(self, chosen, future)

    def _nextId(self) -> str:
        while True:
            self._sequence += 1
            chosen = f"request:{self._sequence}"
            if chosen not in self._used:
                return chosen

    def request(
        self,
        operation: str,
        input: Mapping[str, Any] | None = None,  # noqa: A002
        *,
        requestId: str | None = None,
        spaceId: str | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """Sends a request and waits for its end, see ``ControlRequest.result``."""
        sent = self.requestAsync(operation, input, requestId=requestId, spaceId=spaceId)
        return sent.result(timeout)

    def cancel(self, requestId: str, reason: str = CANCEL_REASON) -> bool:
        """Asks the host to stop a request; ``False`` when it has ended already."""
        line = encodeFrame(cancelFrame(requestId, reason))
        with self._stateLock:
            if requestId not in self._pending:
                return False
        self._send(line)
        return True

    def close(self, timeout: float = 5.0) -> None:
        """Ends the connection and the host's process. What is pending fails with ``CONTROL_CONNECTION_LOST``."""
        with self._stateLock:
            first = not self._closed
            self._closed = True
        self._failAll(EOFError("the client was closed"))
        if not first:
            return
        self._closeInput()
        if self.process is not None:
            _end(self.process, timeout)
            # Now nobody is kept waiting in a write.
            self._closeInput()
        for thread in self._threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(timeout)

    def _closeInput(self) -> None:
        # A writer that the host does not read holds the lock until the process has ended.
        if self._writeLock.acquire(timeout=0.1):
            try:
                _close(self.writable)
            finally:
                self._writeLock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, line: str) -> None:
        with self._writeLock:
            self.writable.write(line)
            self.writable.flush()

    def _send(self, line: str) -> None:
        """Writes a frame; a write that fails is the end of the connection (K9)."""
        try:
            self._write(line)
        except (OSError, ValueError) as error:
            self._failAll(error)
            raise connectionLost("outcomeUnknown", error) from error

    def _failAll(self, error: BaseException) -> None:
        with self._stateLock:
            if self._connectionError is None:
                self._connectionError = error
            pending = list(self._pending.values())
            self._pending.clear()
        self._helloEvent.set()
        for entry in pending:
            _settle(entry["future"], connectionLost("outcomeUnknown", error))

    def _read(self) -> None:
        cause: BaseException = EOFError("the host closed the connection")
        try:
            while line := self.readable.readline(CONTROL_MAX_FRAME_BYTES + 3):
                self._receive(decodeFrame(line))
        except Exception as error:  # noqa: BLE001
            # Whatever it is, the connection is not usable any more, and everybody who waits must hear of it.
            cause = error
        self._failAll(cause)
        _close(self.readable)

    def _receive(self, frame: Frame) -> None:
        if self._welcome is None:
            self._welcome = readWelcome(frame)
            self.operations = self._welcome.operations
            self._helloEvent.set()
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
        with self._stateLock:
            entry = self._pending.get(frame["requestId"])
            if entry is None:
                if self._closed:
                    return
                raise notActive(frame, self._used)
            if kind == "attachment":
                receiveChunk(entry["attachments"], frame)
                return
            end = readTerminal(entry["attachments"], frame)
            del self._pending[frame["requestId"]]
        _settle(entry["future"], end)

    def _listen(self) -> None:
        if self.stderr is None:
            return
        with contextlib.suppress(OSError, ValueError):
            while line := self.stderr.readline(hosts.DIAGNOSTIC_LINE_BYTES):
                self._said.append(line.rstrip("\n"))
        _close(self.stderr)

    def runPython(self, code: str, *, timeout: float | None = None) -> ControlResult:
        """Runs Python source. ``output`` has ``stdout`` and, for an expression, its ``value``."""
        return self.request(*operations.runPython(code), timeout=timeout)

    def saveCheckpoint(self, *, timeout: float | None = None) -> ControlResult:
        """Saves the machine; ``output["index"]`` is the checkpoint's number."""
        return self.request(*operations.saveCheckpoint(), timeout=timeout)

    def restoreCheckpoint(self, index: int | None = None, *, timeout: float | None = None) -> ControlResult:
        """Brings the machine back to a checkpoint, to the latest one without ``index``."""
        return self.request(*operations.restoreCheckpoint(index), timeout=timeout)

    def reset(self, *, timeout: float | None = None) -> ControlResult:
        """Brings the machine back to its boot state and forgets all checkpoints."""
        return self.request(*operations.reset(), timeout=timeout)

    def inspectSpace(self, *, timeout: float | None = None) -> ControlResult:
        """What the browser automation may do."""
        return self.request(*operations.inspectSpace(), timeout=timeout)

    def listTargets(self, *, timeout: float | None = None) -> ControlResult:
        """The open pages of allowed origins."""
        return self.request(*operations.listTargets(), timeout=timeout)

    def openTarget(
        self, url: str, *, expectedRisk: str, waitUntil: str = "commit", timeout: float | None = None
    ) -> ControlResult:
        """Opens an allowed address in a new page."""
        return self.request(*operations.openTarget(url, expectedRisk, waitUntil), timeout=timeout)

    def attachSession(self, targetRef: str, *, timeout: float | None = None) -> ControlResult:
        """Starts a session on a page; ``output`` is the session reference."""
        return self.request(*operations.attachSession(targetRef), timeout=timeout)

    def observe(
        self,
        sessionRef: SessionRef,
        options: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Reads a page without changing it."""
        return self.request(*operations.observe(sessionRef, options), timeout=timeout)

    def act(
        self,
        sessionRef: SessionRef,
        actions: Sequence[Mapping[str, Any]],
        *,
        timeout: float | None = None,
    ) -> ControlResult:
        """Runs actions on a page in order, up to the first that fails."""
        return self.request(*operations.act(sessionRef, actions), timeout=timeout)

    def command(
        self,
        sessionRef: SessionRef,
        method: str,
        params: Mapping[str, Any],
        *,
        expectedRisk: str,
        timeout: float | None = None,
    ) -> ControlResult:
        """Sends one raw browser command that the manifest allows."""
        return self.request(*operations.command(sessionRef, method, params, expectedRisk), timeout=timeout)

    def detachSession(self, sessionRef: SessionRef, *, timeout: float | None = None) -> ControlResult:
        """Ends a session."""
        return self.request(*operations.detachSession(sessionRef), timeout=timeout)

    def readArtifact(
        self,
        artifactRef: str,
        *,
        offset: int | None = None,
        maxBytes: int | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """Reads one chunk of a stored artifact."""
        return self.request(*operations.readArtifact(artifactRef, offset, maxBytes), timeout=timeout)

    def deleteArtifact(self, artifactRef: str, *, timeout: float | None = None) -> ControlResult:
        """Deletes a stored artifact."""
        return self.request(*operations.deleteArtifact(artifactRef), timeout=timeout)

    def perception(self, sessionRef: SessionRef | None = None) -> PerceptionClient:
        """The perception of pages as graphs."""
        from .perception import PerceptionClient

        return PerceptionClient(self, sessionRef)


def _checkSettleTime(seconds: float) -> None:
    if seconds <= 0:
        raise ValueError("cancelSettleTimeout must be more than 0 seconds")


def _lines(pipe: Any, errors: str = "strict") -> io.TextIOWrapper:
    # Only LF ends a line of the protocol.
    return io.TextIOWrapper(pipe, encoding="utf-8", errors=errors, newline="\n")


def _close(stream: TextIO) -> None:
    # Only the thread that reads a stream closes it: another one would wait for its read.
    with contextlib.suppress(OSError, ValueError):
        stream.close()


def _settle(future: Future[ControlResult], end: ControlResult | ControlError) -> None:
    # A caller may have cancelled the future itself.
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        if isinstance(end, ControlError):
            future.set_exception(end)
        else:
            future.set_result(end)


def _end(child: subprocess.Popen[bytes], timeout: float) -> None:
    for ask in (None, child.terminate, child.kill):
        if ask is not None:
            ask()
        try:
            child.wait(timeout)
            return
        except subprocess.TimeoutExpired:
            continue
