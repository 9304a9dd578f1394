"""A service that follows another one: it applies the records of the other's log, and answers questions.

It learns what the other learns, in the same order, so at the same record the two are equal to the bit. Where the graph
of the other lies on Redis, both look at the same graph, each as of its own record.
"""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import httpx

from ocgl.errors import ConfigError, ServiceError, StoreChangedError
from ocgl.graph.redis.address import address_of
from ocgl.serving.config import FILE, ServiceConfig
from ocgl.serving.events import Begin, Event, decode
from ocgl.serving.graphs import FOLDER, Graphs, checked_store, graphs_of
from ocgl.serving.log import unpacked
from ocgl.serving.service import Service, StateErrorAfterLog, Work
from ocgl.types import Json

WAIT = 2.0
"""Seconds that the other service holds a question for records that are not there yet."""
LONGEST_HASH = 1800.0
"""Seconds that the other service may take to read its whole graph."""
STRANGE = "answers with something else; is it a service of ocgl?"
ANEW = f"anew, in a new folder, with --store {FOLDER}"
RETRY_PROOF = 30.0
"""Seconds after a first comparison that has failed."""
logger = logging.getLogger("ocgl.serving")


class FollowsError(ServiceError):
    """A service that follows another one was asked for what only the other one does."""


class Leader:
    """The service that is followed, over HTTP.

    Args:
        url: its address.
        key: API key with the scope `follow`.
    """

    def __init__(self, url: str, key: str | None) -> None:
        if "@" in url:
            raise ConfigError("the address of a service has no name and password; give the key by --key or OCGL_KEY")
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        self.url = url
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60.0, trust_env=False)

    def facts(self) -> Json:
        """Return the last durable record, and where the graph is."""
        return self._told("/v1/log/head", ("sequence", "store", "owner", "identity"))

    def records(self, after: int, checksum: int, wait: float = WAIT) -> tuple[bytes, int]:
        """Return records after one as they lie in the log, and the last durable record."""
        found = self._get("/v1/log", after=after, checksum=checksum, wait=wait)
        durable = found.headers.get("x-ocgl-durable", "")
        if not durable.isdigit():
            raise OutOfReachError(f"{self.url} {STRANGE}")
        return found.content, int(durable)

    def state_hash(self, graph: bool) -> tuple[int, str]:
        """Return the record that the other service is at, and the hash of its state."""
        found = self._told("/v1/log/hash", ("sequence", "hash"), LONGEST_HASH, graph=str(graph).lower())
        return int(found["sequence"]), str(found["hash"])

    def _told(self, path: str, names: tuple[str, ...], timeout: float = 60.0, **params: Any) -> Json:
        """Return what is told under some names."""
        answer = self._get(path, timeout, **params)
        try:
            found = answer.json()
            return {name: found[name] for name in names}
        except (ValueError, KeyError, TypeError) as error:
            raise OutOfReachError(f"{self.url} {STRANGE}") from error

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _get(self, path: str, timeout: float = 60.0, **params: Any) -> httpx.Response:
        try:
            found = self._http.get(path, params=params, timeout=timeout)
        except (httpx.TransportError, httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise OutOfReachError(f"{self.url} cannot be reached: {error!r}") from error
        if found.status_code in (429, 502, 503, 504):
            raise OutOfReachError(f"{self.url} answers with {found.status_code}")
        if found.status_code != 200:
            try:
                why = found.json().get("detail", "")
            except ValueError:
                why = "is it a service of ocgl?"
            raise FollowsError(f"{self.url} cannot be followed ({found.status_code}): {why}")
        return found


class OutOfReachError(ServiceError):
    """The service that is followed does not answer now."""


def begin_following(folder: Path, url: str, key: str | None, store: str | None) -> ServiceConfig | None:
    """Return the configuration of a new service that follows another one; None for one that is there.

    Args:
        folder: folder of the new service.
        url: address of the other one.
        key: API key with the scope `follow`.
        store: address of the other's graph on Redis, or `folder` for a graph of its own; None for as the other one
            says it.
    """
    if (folder / FILE).exists():
        known = ServiceConfig.read(folder)
        if known.follows != url:
            raise ConfigError(f"the service in {folder} follows {known.follows or 'nobody'}, not {url}")
        return None
    leader = Leader(url, key)
    try:
        facts = leader.facts()
        for _, payload, _ in unpacked(leader.records(0, 0)[0], 0):
            first = decode(payload)
            break
        else:
            raise OutOfReachError(f"{url} has no record yet")
    finally:
        leader.close()
    if not isinstance(first, Begin):
        raise FollowsError(f"the log of {url} does not begin with its configuration")
    where = facts["store"] if store is None else checked_store(store)
    if where is not None and address_of(where).shown != facts["store"]:
        raise ConfigError(f"the graph of {url} is {facts['store'] or 'in its folder'}, not {address_of(where).shown}")
    return ServiceConfig.model_validate(first.config | {"follows": url, "store": where})


class Follower(Service):
    """Follows a service: applies its records, and answers questions.

    Args:
        folder: where the copy of the log, snapshots, and the graph are, unless it is on Redis.
        config: what the service is; the folder's own if None.
        key: API key of the other service, with the scope `follow`.

    Attributes:
        target: last durable record of the other service that is known of.
        proven: what the last comparison of both states has shown; None before the first.
    """

    def __init__(self, folder: Path, config: ServiceConfig | None = None, key: str | None = None) -> None:
        known = config or ServiceConfig.read(folder)
        assert known.follows is not None
        self.leader = Leader(known.follows, key)
        self.target = 0
        self.proven: Json | None = None
        self.heard: float | None = None
        self._prove_at = 0.0
        self._wanted: list[tuple[bool, Future[Any]]] = []
        self._compared: dict[int, list[tuple[str, bool, Future[Any]]]] = {}
        try:
            super().__init__(folder, config)
        except StoreChangedError as error:
            raise FollowsError(f"{error}; follow {known.follows} {ANEW}") from error
        if self.graphs.owner is not None:
            for name, learner in self.engine.learners.items():
                if learner.strategy.needs_store:
                    self._close()
                    raise ConfigError(f"{name} reads more of the graph than samples; it cannot follow on Redis")
        self._threads.append(threading.Thread(target=self._follow, name="follower", daemon=True))

    def _graphs(self) -> Graphs:
        if self.config.store is None:
            return graphs_of(self.folder, self.config)
        from ocgl.serving.shared import owner_of  # needs the extra `redis`

        return graphs_of(self.folder, self.config, owner_of(self.folder, lambda: str(self.leader.facts()["owner"])))

    def _begin(self) -> None:
        """What was under way goes on as the other service says."""
        self._checksum = self.log.checksum

    def _do_what_is_due(self) -> None:
        """The other service says what is due."""
        if self.trouble is not None:
            self._in_background(self._look_for_room)

    @property
    def ready(self) -> bool:
        """Whether it is, or has been, where the other service is, and equal to it."""
        return super().ready and self.proven is not None

    @property
    def why_not_ready(self) -> str:
        """Why questions are not answered yet, or should not be relied on."""
        other = f"not compared with {self.leader.url} yet" if self.proven is None else None
        return self.failure or self.trouble or other or super().why_not_ready

    def take(
        self, events: list[Event], key: str | None = None, source: tuple[str, int, int] | None = None
    ) -> "Future[Any]":
        """Refuse: events go to the other service."""
        raise FollowsError(f"send events to {self.leader.url}; this service only follows it")

    def skip(self, source: tuple[str, int, int], why: str) -> "Future[Any]":
        """Refuse: events go to the other service."""
        raise FollowsError(f"{self.leader.url} takes the events; this service only follows it")

    def promote(self, name: str) -> "Future[Any]":
        """Refuse: the other service says which strategy answers."""
        raise FollowsError(f"promote {name} at {self.leader.url}; this service only follows it")

    def prove(self, graph: bool = True) -> "Future[Any]":
        """Compare the state with that of the other service at one record; the future says at which.

        Args:
            graph: whether the whole graph is compared too, which takes both services as long as it takes to read it.
        """
        self._refuse_if_down()
        found: Future[Any] = Future()
        self._wanted.append((graph, found))
        return found

    @property
    def figures(self) -> Json:
        """How far this service has followed."""
        heard = None if self.heard is None else time.monotonic() - self.heard
        return {
            "url": self.leader.url,
            "record": self.target,
            "behind": max(0, self.target - self.engine.sequence),
            "heard_seconds": None if heard is None else round(heard, 3),
            "proven": self.proven,
        }

    # Following

    def _follow(self) -> None:
        """Fetch records and hand them to the writer, until the service stops."""
        pause = 0.1
        while not self._stop.is_set() and self.failure is None:
            try:
                self._ask_for_hashes()
                data, self.target = self.leader.records(self.engine.sequence, self._checksum)
                self.heard = time.monotonic()
                self._hand_over(data)
                pause = 0.1
                due = self.proven is None and not self._compared and time.monotonic() > self._prove_at
                if due and self.engine.sequence >= self.target:
                    self._require_other()
                    self._wanted.append((False, Future()))
                    self._prove_at = time.monotonic() + RETRY_PROOF
            except OutOfReachError as error:
                logger.warning("%s", error)
                self._stop.wait(pause)
                pause = min(2 * pause, 5.0)
            except Exception as error:
                if self._stop.is_set():
                    break
                self.failure = f"{error}" if isinstance(error, ServiceError) else repr(error)
                logger.error("following has ended: %s", self.failure)
                self._wake.set()
        for _, future in self._wanted:
            future.set_exception(ServiceError("the service is shutting down"))
        self.leader.close()

    def _require_other(self) -> None:
        """Raise `FollowsError` if the service that is followed is this one."""
        if self.leader.facts()["identity"] == self.identity:
            raise FollowsError(f"{self.leader.url} is this service itself")

    def _owes(self) -> bool:
        return self.engine.owed  # the other service says when a batch is learned

    def _hand_over(self, data: bytes) -> None:
        """Let the writer apply records, each between questions, and wait until it has."""
        last: Future[Any] | None = None
        for sequence, payload, checksum in unpacked(data, self.engine.sequence):
            last = self._handed(self._application(sequence, payload))
            self._checksum = checksum
        if last is not None:
            last.result()
            self._commit.set()

    def _handed(self, act: Callable[[], Any]) -> "Future[Any]":
        work = Work(act)
        with self._lock:
            self._queued += 1
        self._events.put(work)
        self._wake.set()
        if self._drained:
            raise ServiceError("the service is shutting down")
        return work.outcome

    def _application(self, sequence: int, payload: bytes) -> Callable[[], None]:
        def apply() -> None:
            if self.failure is not None:
                raise ServiceError(self.failure)
            self.log.append(payload)
            try:
                self.engine.apply(decode(payload), sequence)
            except Exception as error:
                self.log.undo()
                text = f"record {sequence} of {self.leader.url} cannot be applied: {error}"
                if isinstance(error, StoreChangedError):
                    text += f"; follow it {ANEW}"
                raise StateErrorAfterLog(text) from error
            self._notices.tell()
            self._compare(sequence)

        return apply

    def _ask_for_hashes(self) -> None:
        """Ask the other service for the hash of its state; it is compared when this one gets to the same record.

        The other one does nothing else meanwhile, so nothing is missed.
        """
        while self._wanted:
            graph, future = self._wanted.pop(0)
            try:
                sequence, wanted = self.leader.state_hash(graph)
            except OutOfReachError as error:
                future.set_exception(error)
                raise
            self._compared.setdefault(sequence, []).append((wanted, graph, future))
            if sequence <= self.engine.sequence:  # nothing has come since
                self._handed(lambda: self._compare(self.engine.sequence)).result()

    def _compare(self, sequence: int) -> None:
        """Compare the states of both services at a record."""
        for wanted, graph, future in self._compared.pop(sequence, ()):
            found = self.engine.state_hash(graph)
            self.proven = {"sequence": sequence, "hash": found, "graph": graph, "equal": found == wanted}
            future.set_result(self.proven)
            if found != wanted:
                raise StateErrorAfterLog(f"this service differs from {self.leader.url} at record {sequence}")
            logger.info("equal to the service that is followed", extra={"facts": self.proven})
