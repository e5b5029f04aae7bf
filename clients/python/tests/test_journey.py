"""The client against the product itself: a real browser, a real engine.

Skipped unless ``PYPROC_TEST_CONTROL`` names the program and ``PYPROC_TEST_ENGINE`` the directory of the engine.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyprocControl import AsyncPyProcClient, ControlError, PyProcClient

CONTROL, ENGINE = os.environ.get("PYPROC_TEST_CONTROL"), os.environ.get("PYPROC_TEST_ENGINE")

pytestmark = pytest.mark.skipif(not (CONTROL and ENGINE), reason="needs the product")

EXAMPLES = Path(__file__).parent.parent / "examples"

EXPECTED = {
    "first_run.py": "squares\n285\nMACHINE_PYTHON_ERROR applied\n",
    "checkpoints.py": "{'rows': [1, 2, 3]}\n",
    "timeouts.py": "CONTROL_CANCELLED outcomeUnknown\nTrue\n",
    "asynchronous.py": "2 4\nmachine.display image/svg+xml 95\n",
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "machine.json"
    manifest = {"schemaVersion": 1, "engine": {"root": str(Path(str(ENGINE)).resolve())}}
    path.write_text(json.dumps(manifest))
    return path


def test_the_whole_way(config: Path) -> None:
    assert PyProcClient.check(config, command=CONTROL)["ok"] is True
    with PyProcClient.start(config, command=CONTROL) as client:
        assert client.operations[:2] == ("machine.run", "machine.checkpoint.save")
        client.runPython("x = 40")
        assert client.runPython("x + 2").output["value"] == "42"
        assert client.runPython("print('é\\u2028\U0001f600')").output["stdout"] == "é\u2028\U0001f600\n"
        index = client.saveCheckpoint().output["index"]
        client.runPython("x = 'lost'")
        assert client.restoreCheckpoint(index).outcome == "applied"
        assert client.runPython("x").output["value"] == "40"
        with pytest.raises(ControlError, match="ZeroDivisionError") as caught:
            client.runPython("1/0")
        assert (caught.value.code, caught.value.outcome) == ("MACHINE_PYTHON_ERROR", "applied")
        assert caught.value.details is not None
        with pytest.raises(ControlError) as caught:
            client.runPython("while True: pass", timeout=1.0)
        assert (caught.value.code, caught.value.outcome) == ("CONTROL_CANCELLED", "outcomeUnknown")
        queued = [client.requestAsync("machine.run", {"code": f"{n} * 2"}) for n in range(20)]
        assert [request.result().output["value"] for request in queued] == [str(n * 2) for n in range(20)]
        code = "import pyproc\npyproc.display(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(1_000_000))"
        (picture,) = client.runPython(code).attachments
        assert (picture.kind, picture.mimeType, picture.byteLength) == ("machine.display", "image/png", 1_000_008)
        client.reset()
        with pytest.raises(ControlError, match="NameError"):
            client.runPython("x")
    assert client.process is not None
    assert client.process.returncode == 0


def test_the_whole_way_with_asyncio(config: Path) -> None:
    async def journey() -> Any:
        async with await AsyncPyProcClient.start(config, command=CONTROL) as client:
            await client.runPython("x = 40")
            with pytest.raises(ControlError) as caught:
                await client.runPython("while True: pass", timeout=1.0)
            assert caught.value.code == "CONTROL_CANCELLED"
            results = await asyncio.gather(*(client.runPython(f"x + {n}") for n in range(10)))
            assert [result.output["value"] for result in results] == [str(40 + n) for n in range(10)]
            process = client.process
        assert process is not None
        return process.returncode

    assert asyncio.run(journey()) == 0


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_examples_print_what_they_promise(name: str, config: Path, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "pyproc-control").symlink_to(str(CONTROL))
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), str(config)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert (done.stdout, done.returncode) == (EXPECTED[name], 0), done.stderr
