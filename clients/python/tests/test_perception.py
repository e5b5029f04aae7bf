"""The perception facade, with clients that only observe and act (control protocol 8.4)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyprocControl import AsyncPerceptionClient, ControlResult, PerceptionClient, PerceptionQueryResult

SESSION = {"sessionId": "s:1"}
BUTTON = {
    "entityRef": "e:1",
    "locatorRef": "l:1",
    "kind": "control",
    "role": "button",
    "name": "Send",
    "actionable": True,
}


class Recorded:
    def __init__(self, output: Any) -> None:
        self.output = output
        self.calls: list[tuple[Any, ...]] = []

    def observe(self, sessionRef: Any, options: Any = None, *, timeout: float | None = None) -> ControlResult:
        self.calls.append(("observe", sessionRef, options, timeout))
        return ControlResult(self.output, "observed")

    def act(self, sessionRef: Any, actions: Any, *, timeout: float | None = None) -> ControlResult:
        self.calls.append(("act", sessionRef, actions, timeout))
        return ControlResult(self.output, "applied")


class AsyncRecorded(Recorded):
    async def observe(self, *given: Any, **more: Any) -> ControlResult:  # type: ignore[override]
        return super().observe(*given, **more)

    async def act(self, *given: Any, **more: Any) -> ControlResult:  # type: ignore[override]
        return super().act(*given, **more)


class Both:
    """The synchronous and the asynchronous facade behind one interface."""

    def __init__(self, kind: str, output: Any) -> None:
        self.sync = kind == "threads"
        self.client: Any = Recorded(output) if self.sync else AsyncRecorded(output)
        make: Any = PerceptionClient if self.sync else AsyncPerceptionClient
        self.facade = make(self.client)

    def call(self, method: str, /, *given: Any, **options: Any) -> Any:
        made = getattr(self.facade, method)(*given, **options)
        return made if self.sync else asyncio.run(made)


@pytest.fixture(params=["threads", "asyncio"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_observation_is_a_read_of_the_graph(kind: str) -> None:
    both = Both(kind, {"entities": []})
    both.call("observe", sessionRef=SESSION, since="o:1", channels=["semantic"], timeout=3)
    assert both.client.calls == [
        (
            "observe",
            SESSION,
            {"expectedRisk": "read", "representation": "apx.graph", "since": "o:1", "channels": ["semantic"]},
            3,
        )
    ]


def test_a_query_has_the_filters_that_were_given(kind: str) -> None:
    both = Both(kind, {"entities": [BUTTON]})
    both.facade = both.facade.bind(SESSION)
    found = both.call("query", role="button", name={"contains": "Se"}, actionable=False)
    options = both.client.calls[0][2]
    assert options["query"] == {"role": "button", "name": {"contains": "Se"}, "actionable": False}
    entity = found.one()
    assert isinstance(found, PerceptionQueryResult)
    assert (entity.entityRef, entity.locatorRef, entity.kind, entity.role, entity.name, entity.actionable) == (
        "e:1",
        "l:1",
        "control",
        "button",
        "Send",
        True,
    )
    assert found.result.outcome == "observed"


def test_one_is_exactly_one(kind: str) -> None:
    for entities in ([], [BUTTON, BUTTON]):
        both = Both(kind, {"entities": entities})
        with pytest.raises(LookupError, match="not one"):
            both.call("query", sessionRef=SESSION).one()


def test_an_action_names_its_locator_and_its_risk(kind: str) -> None:
    both = Both(kind, {})
    both.call("act", "fill", "l:1", sessionRef=SESSION, verify={"all": []}, value="x")
    assert both.client.calls == [
        (
            "act",
            SESSION,
            [
                {
                    "kind": "fill",
                    "locatorRef": "l:1",
                    "expectedRisk": "externalEffect",
                    "value": "x",
                    "verify": {"all": []},
                }
            ],
            None,
        )
    ]


def test_shortcuts(kind: str) -> None:
    both = Both(kind, {"entities": [BUTTON]})
    both.facade = both.facade.bind(SESSION)
    assert both.call("explainActionability", "e:1").entityRef == "e:1"
    options = both.client.calls[0][2]
    assert tuple(options["channels"]) == ("semantic", "geometry", "interaction")
    assert options["query"] == {"entityRef": "e:1"}
    both.call("whatChanged", "o:1")
    assert both.client.calls[1][2]["since"] == "o:1"


def test_what_is_missing_or_odd_is_refused(kind: str) -> None:
    both = Both(kind, {"entities": [BUTTON]})
    with pytest.raises(ValueError, match="no session"):
        both.call("observe")
    with pytest.raises(TypeError, match="attachSession"):
        both.call("observe", sessionRef="s:1")
    with pytest.raises(TypeError, match="attachSession"):
        both.facade.bind("s:1")
    odd: list[Any] = [[], None, {}, {"entities": [1]}]
    for output in odd:
        with pytest.raises(TypeError, match="not a graph"):
            Both(kind, output).call("query", sessionRef=SESSION)


def test_an_entity_without_a_locator_has_none() -> None:
    result = PerceptionQueryResult.of(ControlResult({"entities": [{"entityRef": "e:1"}]}, "observed"))
    assert result.one().locatorRef is None
