"""Pages as graphs: what is on them, what changed, and one action on one thing (control protocol 8.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from .models import ControlResult

SessionRef = Mapping[str, Any]

_EXPLAIN: Final = ("semantic", "geometry", "interaction")


class ObservingClient(Protocol):
    """What a client must offer to perceive with it."""

    def observe(
        self,
        sessionRef: SessionRef,
        options: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
    ) -> ControlResult: ...

    def act(
        self, sessionRef: SessionRef, actions: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> ControlResult: ...


class AsyncObservingClient(Protocol):
    """The same for asyncio."""

    async def observe(
        self, sessionRef: SessionRef, options: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> ControlResult: ...

    async def act(
        self, sessionRef: SessionRef, actions: Sequence[Mapping[str, Any]], *, timeout: float | None = None
    ) -> ControlResult: ...


@dataclass(frozen=True, slots=True)
class PerceptionEntity:
    """One thing on a page. ``value`` is all that the graph says of it."""

    value: Mapping[str, Any]

    @property
    def entityRef(self) -> str:
        return str(self.value["entityRef"])

    @property
    def locatorRef(self) -> str | None:
        found = self.value.get("locatorRef")
        return None if found is None else str(found)

    @property
    def kind(self) -> Any:
        return self.value.get("kind")

    @property
    def role(self) -> Any:
        return self.value.get("role")

    @property
    def name(self) -> Any:
        return self.value.get("name")

    @property
    def actionable(self) -> Any:
        return self.value.get("actionable")


@dataclass(frozen=True, slots=True)
class PerceptionQueryResult:
    """The answer to a query, and the entities that match it."""

    result: ControlResult
    observation: Mapping[str, Any]
    matches: tuple[PerceptionEntity, ...]

    @classmethod
    def of(cls, result: ControlResult) -> PerceptionQueryResult:
        """Reads the output of an observation; ``TypeError`` when it is no graph."""
        observation = result.output
        entities = observation.get("entities") if isinstance(observation, Mapping) else None
        if not isinstance(entities, list) or not all(isinstance(entity, Mapping) for entity in entities):
            raise TypeError("the output of the observation is not a graph")
        return cls(result, observation, tuple(PerceptionEntity(entity) for entity in entities))

    def one(self) -> PerceptionEntity:
        """The only match; ``LookupError`` when there are none or more."""
        if len(self.matches) != 1:
            raise LookupError(f"{len(self.matches)} entities match, not one")
        return self.matches[0]


def observation(**options: Any) -> dict[str, Any]:
    """The options of an observation as a graph; ``None`` is left out."""
    given = {name: value for name, value in options.items() if value is not None}
    return {"expectedRisk": "read", "representation": "apx.graph", **given}


def filters(**given: Any) -> dict[str, Any]:
    """The members of a query; ``None`` is left out."""
    return {name: value for name, value in given.items() if value is not None}


def action(
    kind: str,
    locatorRef: str,
    expectedRisk: str,
    verify: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """One action on what a locator names."""
    made = {"kind": kind, "locatorRef": locatorRef, "expectedRisk": expectedRisk, **options}
    return made if verify is None else {**made, "verify": dict(verify)}


def chosen(bound: SessionRef | None, given: SessionRef | None) -> SessionRef:
    """The session to use: the given one, else the bound one."""
    session = bound if given is None else given
    if session is None:
        raise ValueError("no session is bound: give sessionRef, or use bind")
    if not isinstance(session, Mapping):
        raise TypeError("sessionRef must be the object that attachSession returned")
    return session


class PerceptionClient:
    """Perceives pages with a client, in one session when it is bound to it."""

    def __init__(self, client: ObservingClient, sessionRef: SessionRef | None = None) -> None:
        if sessionRef is not None:
            chosen(None, sessionRef)
        self.client = client
        self.sessionRef = sessionRef

    def bind(self, sessionRef: SessionRef) -> PerceptionClient:
        """The same for one session."""
        return type(self)(self.client, chosen(None, sessionRef))

    def observe(
        self,
        *,
        sessionRef: SessionRef | None = None,
        since: str | None = None,
        channels: Sequence[str] | None = None,
        visual: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        profile: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """The page as a graph, or what changed in it ``since`` an observation."""
        options = observation(
            since=since, channels=channels, visual=visual, budget=budget, query=query, profile=profile
        )
        return self.client.observe(chosen(self.sessionRef, sessionRef), options, timeout=timeout)

    def query(
        self,
        *,
        sessionRef: SessionRef | None = None,
        entityRef: str | None = None,
        kind: str | None = None,
        role: str | None = None,
        name: Any = None,
        state: Mapping[str, Any] | None = None,
        actionable: Any = None,
        changedSince: str | None = None,
        since: str | None = None,
        channels: Sequence[str] | None = None,
        budget: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> PerceptionQueryResult:
        """The entities of a page that match every given filter."""
        asked = filters(
            entityRef=entityRef,
            kind=kind,
            role=role,
            name=name,
            state=state,
            actionable=actionable,
            changedSince=changedSince,
        )
        result = self.observe(
            sessionRef=sessionRef, since=since, channels=channels, budget=budget, query=asked, timeout=timeout
        )
        return PerceptionQueryResult.of(result)

    def act(
        self,
        kind: str,
        locatorRef: str,
        *,
        sessionRef: SessionRef | None = None,
        expectedRisk: str = "externalEffect",
        verify: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> ControlResult:
        """One action on what a locator names."""
        made = action(kind, locatorRef, expectedRisk, verify, options)
        return self.client.act(chosen(self.sessionRef, sessionRef), [made], timeout=timeout)

    def explainActionability(
        self, entityRef: str, *, sessionRef: SessionRef | None = None, timeout: float | None = None
    ) -> PerceptionEntity:
        """Why something can, or cannot, be acted on."""
        found = self.query(sessionRef=sessionRef, entityRef=entityRef, channels=_EXPLAIN, timeout=timeout)
        return found.one()

    def whatChanged(
        self, since: str, *, sessionRef: SessionRef | None = None, timeout: float | None = None
    ) -> ControlResult:
        """What changed on the page since an observation."""
        return self.observe(sessionRef=sessionRef, since=since, timeout=timeout)


class AsyncPerceptionClient:
    """The same with an asynchronous client."""

    def __init__(self, client: AsyncObservingClient, sessionRef: SessionRef | None = None) -> None:
        if sessionRef is not None:
            chosen(None, sessionRef)
        self.client = client
        self.sessionRef = sessionRef

    def bind(self, sessionRef: SessionRef) -> AsyncPerceptionClient:
        """The same for one session."""
        return type(self)(self.client, chosen(None, sessionRef))

    async def observe(
        self,
        *,
        sessionRef: SessionRef | None = None,
        since: str | None = None,
        channels: Sequence[str] | None = None,
        visual: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        profile: Sequence[str] | None = None,
        timeout: float | None = None,
    ) -> ControlResult:
        """The page as a graph, or what changed in it ``since`` an observation."""
        options = observation(
            since=since, channels=channels, visual=visual, budget=budget, query=query, profile=profile
        )
        return await self.client.observe(chosen(self.sessionRef, sessionRef), options, timeout=timeout)

    async def query(
        self,
        *,
        sessionRef: SessionRef | None = None,
        entityRef: str | None = None,
        kind: str | None = None,
        role: str | None = None,
        name: Any = None,
        state: Mapping[str, Any] | None = None,
        actionable: Any = None,
        changedSince: str | None = None,
        since: str | None = None,
        channels: Sequence[str] | None = None,
        budget: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> PerceptionQueryResult:
        """The entities of a page that match every given filter."""
        asked = filters(
            entityRef=entityRef,
            kind=kind,
            role=role,
            name=name,
            state=state,
            actionable=actionable,
            changedSince=changedSince,
        )
        result = await self.observe(
            sessionRef=sessionRef, since=since, channels=channels, budget=budget, query=asked, timeout=timeout
        )
        return PerceptionQueryResult.of(result)

    async def act(
        self,
        kind: str,
        locatorRef: str,
        *,
        sessionRef: SessionRef | None = None,
        expectedRisk: str = "externalEffect",
        verify: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> ControlResult:
        """One action on what a locator names."""
        made = action(kind, locatorRef, expectedRisk, verify, options)
        return await self.client.act(chosen(self.sessionRef, sessionRef), [made], timeout=timeout)

    async def explainActionability(
        self, entityRef: str, *, sessionRef: SessionRef | None = None, timeout: float | None = None
    ) -> PerceptionEntity:
        """Why something can, or cannot, be acted on."""
        found = await self.query(sessionRef=sessionRef, entityRef=entityRef, channels=_EXPLAIN, timeout=timeout)
        return found.one()

    async def whatChanged(
        self, since: str, *, sessionRef: SessionRef | None = None, timeout: float | None = None
    ) -> ControlResult:
        """What changed on the page since an observation."""
        return await self.observe(sessionRef=sessionRef, since=since, timeout=timeout)
