"""The operations of the convenience methods: name and input (control protocol 8.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Call: TypeAlias = tuple[str, dict[str, Any]]


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def runPython(code: str) -> Call:
    return "machine.run", {"code": code}


def saveCheckpoint() -> Call:
    return "machine.checkpoint.save", {}


def restoreCheckpoint(index: int | None) -> Call:
    return "machine.checkpoint.restore", _given(index=index)


def reset() -> Call:
    return "machine.reset", {}


def inspectSpace() -> Call:
    return "automation.space.inspect", {}


def listTargets() -> Call:
    return "automation.target.list", {}


def openTarget(url: str, expectedRisk: str, waitUntil: str) -> Call:
    return "automation.target.open", {"url": url, "expectedRisk": expectedRisk, "waitUntil": waitUntil}


def attachSession(targetRef: str) -> Call:
    return "automation.session.attach", {"targetRef": targetRef}


def observe(sessionRef: Mapping[str, Any], options: Mapping[str, Any] | None) -> Call:
    return "automation.observe", {"sessionRef": dict(sessionRef), **(options or {})}


def act(sessionRef: Mapping[str, Any], actions: Sequence[Mapping[str, Any]]) -> Call:
    return "automation.act", {"sessionRef": dict(sessionRef), "actions": [dict(action) for action in actions]}


def command(sessionRef: Mapping[str, Any], method: str, params: Mapping[str, Any], expectedRisk: str) -> Call:
    return "automation.command", {
        "sessionRef": dict(sessionRef),
        "method": method,
        "params": dict(params),
        "expectedRisk": expectedRisk,
    }


def detachSession(sessionRef: Mapping[str, Any]) -> Call:
    return "automation.session.detach", {"sessionRef": dict(sessionRef)}


def readArtifact(artifactRef: str, offset: int | None, maxBytes: int | None) -> Call:
    return "artifact.read", {"artifactRef": artifactRef, **_given(offset=offset, maxBytes=maxBytes)}


def deleteArtifact(artifactRef: str) -> Call:
    return "artifact.delete", {"artifactRef": artifactRef}
