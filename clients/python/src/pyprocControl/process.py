"""The host as a process: which one, how it is checked, what it said."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

PROGRAM: Final = "pyproc-control"
DIAGNOSTIC_LINES: Final = 200
DIAGNOSTIC_LINE_BYTES: Final = 8192

Command: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def resolve(command: Command | None) -> list[str]:
    """The command as arguments; ``None`` is the program on ``PATH``."""
    if command is None:
        found = shutil.which(PROGRAM)
        if found is None:
            raise FileNotFoundError(f"{PROGRAM} is not on PATH; install it, or give its path as command")
        return [found]
    if isinstance(command, (str, os.PathLike)):
        return [os.fspath(command)]
    parts = [os.fspath(part) for part in command]
    if not parts:
        raise ValueError("command must not be empty")
    return parts


def serving(configPath: str | os.PathLike[str], command: Command | None) -> list[str]:
    """The command that serves a manifest."""
    return [*resolve(command), "--config", str(Path(configPath).absolute())]


def check(configPath: str | os.PathLike[str], command: Command | None, timeout: float) -> dict[str, Any]:
    """The report of ``--check``."""
    arguments = [*serving(configPath, command), "--check"]
    done = subprocess.run(  # noqa: S603
        arguments,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=timeout,
        encoding="utf-8",
    )
    report = json.loads(done.stdout)
    if not isinstance(report, dict) or report.get("ok") is not True:
        raise RuntimeError(f"the manifest is not usable: {done.stdout.strip()}")
    return report


def surroundings(environment: Mapping[str, str] | None) -> dict[str, str] | None:
    """The environment of the host; ``None`` is this process's own."""
    return None if environment is None else dict(environment)


def ended(diagnostics: str) -> ConnectionError:
    """A host that ended before it answered; its last words say why."""
    said = diagnostics.strip().splitlines()
    reason = f": {said[-1]}" if said else ""
    return ConnectionError(f"the host ended before it answered{reason}")
