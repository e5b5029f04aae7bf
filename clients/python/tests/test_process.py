"""Starting, checking and ending a host process. The host here is a small program that says what a test wants."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from pyprocControl import AsyncPyProcClient, ControlError, PyProcClient

HOST = """
import json, os, signal, sys, time
base = {"protocol": "pyproc-control", "version": 1}
def say(**frame):
    sys.stdout.write(json.dumps({**base, **frame}) + "\\n")
    sys.stdout.flush()
def welcome():
    hello = json.loads(sys.stdin.readline())
    say(type="hello", requestId=hello["requestId"], role="server", peer={"name": "t", "version": "1"},
        capabilities={"cancel": True, "events": False, "attachments": {"encoding": "base64", "maxChunkBytes": 64}},
        operations=["machine.run"])
def requests():
    for line in sys.stdin:
        yield json.loads(line)
"""

ECHO = """
welcome()
for request in requests():
    if request["type"] == "request":
        output = {"arguments": sys.argv[1:], "environment": os.environ.get("MARK"), "pid": os.getpid()}
        say(type="response", requestId=request["requestId"], outcome="applied", output=output)
"""

Program = Callable[[str], list[str]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A host that does what a script says, as a command."""

    def write(script: str) -> list[str]:
        path = tmp_path / "host.py"
        path.write_text(HOST + script)
        return [sys.executable, str(path)]

    return write


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "machine.json"
    path.write_text("{}")
    return path


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 60))


async def asked(config: Path, **options: Any) -> Any:
    async with await AsyncPyProcClient.start(config, **options) as client:
        result = await client.runPython("1")
        return result.output


def test_the_command_gets_the_absolute_path_of_the_manifest(
    program: Program, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(config.parent)
    command = program(ECHO)
    with PyProcClient.start(config.name, command=command) as client:
        output = client.runPython("1").output
    assert output["arguments"] == ["--config", str(config)]
    assert run(asked(Path(config.name), command=command))["arguments"] == ["--config", str(config)]


def test_the_program_on_path_is_the_default(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    for start in (PyProcClient.start, lambda path: run(AsyncPyProcClient.start(path))):
        with pytest.raises(FileNotFoundError, match="pyproc-control is not on PATH"):
            start(config)
    script = folder / "pyproc-control"
    script.write_text(f"#!{sys.executable}\n{HOST}{ECHO}")
    script.chmod(0o755)
    with PyProcClient.start(config) as client:
        assert client.operations == ("machine.run",)
    with PyProcClient.start(config, command=script) as client:
        assert client.operations == ("machine.run",)


def test_an_empty_command_is_refused(config: Path) -> None:
    with pytest.raises(ValueError, match="empty"):
        PyProcClient.start(config, command=[])


def test_the_environment_can_be_replaced(program: Program, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARK", "own")
    command = program(ECHO)
    for environment, expected in ((None, "own"), ({"MARK": "given"}, "given"), ({}, None)):
        with PyProcClient.start(config, command=command, environment=environment) as client:
            assert client.runPython("1").output["environment"] == expected
        assert run(asked(config, command=command, environment=environment))["environment"] == expected


DYING = "print('machine.json: no such file', file=sys.stderr)\nsys.exit(1)"


def test_a_host_that_ends_at_once_says_why(program: Program, config: Path) -> None:
    command = program(DYING)
    with pytest.raises(ConnectionError, match="no such file"):
        PyProcClient.start(config, command=command)
    with pytest.raises(ConnectionError, match="no such file"):
        run(AsyncPyProcClient.start(config, command=command))


SILENT = "open(sys.argv[2] + '.pid', 'w').write(str(os.getpid()))\ntime.sleep(600)"


def ended(config: Path) -> bool:
    pid = int(Path(f"{config}.pid").read_text())
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_a_host_that_does_not_answer_is_ended(program: Program, config: Path) -> None:
    command = program(SILENT)
    with pytest.raises(TimeoutError):
        PyProcClient.start(config, command=command, startupTimeout=2.0)
    assert ended(config)
    with pytest.raises(TimeoutError):
        run(AsyncPyProcClient.start(config, command=command, startupTimeout=2.0))
    assert ended(config)


STUBBORN = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[2] + '.pid', 'w').write(str(os.getpid()))
welcome()
while True: time.sleep(600)
"""


def test_a_host_that_does_not_end_is_killed(program: Program, config: Path) -> None:
    command = program(STUBBORN)
    client = PyProcClient.start(config, command=command)
    request = client.requestAsync("machine.run", {"code": "1"})
    client.close(timeout=0.2)
    client.close()
    assert ended(config)
    with pytest.raises(ControlError) as caught:
        request.result()
    assert (caught.value.code, caught.value.outcome) == ("CONTROL_CONNECTION_LOST", "outcomeUnknown")

    async def close() -> None:
        client = await AsyncPyProcClient.start(config, command=command)
        await client.close(timeout=0.2)

    run(close())
    assert ended(config)


def test_a_host_that_does_not_read_holds_nobody_up_for_ever(program: Program, config: Path) -> None:
    command = program("welcome()\ntime.sleep(600)")
    client = PyProcClient.start(config, command=command)

    def fill() -> None:
        for _ in range(100):
            client.requestAsync("machine.run", {"code": "x" * 500_000})

    raised: list[BaseException] = []

    def guarded() -> None:
        try:
            fill()
        except (ControlError, RuntimeError) as error:
            raised.append(error)

    writer = threading.Thread(target=guarded)
    writer.start()
    time.sleep(0.3)
    client.close(timeout=0.5)
    writer.join(30)
    assert not writer.is_alive()
    assert len(raised) == 1


def test_diagnostics_are_the_last_200_lines(program: Program, config: Path) -> None:
    script = (
        "for n in range(500): print('line', n, file=sys.stderr)\nprint('x' * 100_000, file=sys.stderr)\n"
        "sys.stderr.flush()\n" + ECHO
    )
    command = program(script)
    with PyProcClient.start(config, command=command) as client:
        client.runPython("1")
        deadline = time.monotonic() + 30
        while "xxx" not in client.diagnostics and time.monotonic() < deadline:
            time.sleep(0.01)
        lines = client.diagnostics.splitlines()
    assert len(lines) == 200
    assert max(map(len, lines)) <= 8192
    assert not any(line == "line 10" for line in lines)


def test_the_report_of_a_check(program: Program, config: Path) -> None:
    def script(report: Any) -> list[str]:
        return program(f"assert sys.argv[3] == '--check'\nprint({json.dumps(report)!r})")

    assert PyProcClient.check(config, command=script({"ok": True, "a": 1})) == {"ok": True, "a": 1}
    assert run(AsyncPyProcClient.check(config, command=script({"ok": True}))) == {"ok": True}
    for report in ({"ok": False}, {}, [1]):
        with pytest.raises(RuntimeError, match="not usable"):
            PyProcClient.check(config, command=script(report))
    with pytest.raises(subprocess.CalledProcessError) as caught:
        PyProcClient.check(config, command=program("print('bad key', file=sys.stderr)\nsys.exit(1)"))
    assert "bad key" in caught.value.stderr
    with pytest.raises(subprocess.TimeoutExpired):
        PyProcClient.check(config, command=program("time.sleep(600)"), timeout=0.5)


def test_a_cancelled_task_cancels_its_request(program: Program, config: Path) -> None:
    script = """
welcome()
for request in requests():
    if request["type"] == "cancel":
        error = {"code": "CONTROL_CANCELLED", "message": "x", "retryable": False, "outcome": "outcomeUnknown"}
        say(type="error", requestId=request["requestId"], error=error)
    elif request["input"]["code"] == "after":
        say(type="response", requestId=request["requestId"], outcome="applied", output="still there")
"""

    async def cancel() -> Any:
        async with await AsyncPyProcClient.start(config, command=program(script)) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.runPython("long"), 0.2)
            while client._pending:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            return (await client.runPython("after")).output

    assert run(cancel()) == "still there"
