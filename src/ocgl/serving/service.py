"""A service: one thread writes the log and changes the state, another makes records durable, questions come between."""

import contextlib
import fcntl
import hashlib
import logging
import os
import queue
import shutil
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from ocgl.errors import (
    ConfigError,
    DiskFullError,
    EmptyBatchError,
    OcglError,
    OverloadedError,
    ServiceError,
    UnknownNodeError,
)
from ocgl.files import make_folder
from ocgl.graph import GraphStore
from ocgl.serving.checks import is_id, packed, rows_of
from ocgl.serving.config import FILE, ServiceConfig
from ocgl.serving.engine import Accepted, Engine
from ocgl.serving.events import (
    Abandon,
    Batch,
    Begin,
    Event,
    Id,
    Node,
    Promote,
    Publish,
    Record,
    Request,
    Solve,
    WrongEventError,
    encode,
)
from ocgl.serving.graphs import Graphs, graphs_of
from ocgl.serving.log import LOG, Log
from ocgl.serving.notices import Notices
from ocgl.serving.recovery import Recovered, recover, write_snapshot
from ocgl.serving.solver import Solver
from ocgl.types import Json

HEAL_SECONDS = 2.0
"""Seconds between two looks at the servers of the graph."""
_LATER = object()
"""What an act returns whose outcome the committer settles."""
logger = logging.getLogger("ocgl.serving")


@dataclass(frozen=True)
class Prediction:
    """An answer of the service, with what it rests on."""

    labels: list[Any]
    scores: Any
    classes: list[Any]
    sequence: int
    weights_sequence: int
    weights_seconds: float
    cost: Any
    bound: Any


class Work:
    """Something the writer has to do, and where its outcome goes."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act
        self.outcome: Future[Any] = Future()


class Service:
    """Runs the service of a folder.

    Args:
        folder: where log, snapshots and graph are.
        config: what the service is; the folder's own if None.

    Attributes:
        recovered: what was found when it started, in words.
        durable: last record that is durable.
    """

    def __init__(self, folder: Path, config: ServiceConfig | None = None) -> None:
        torch.set_num_threads(1)
        threadpool_limits(1)
        if config is not None:
            Engine(config, GraphStore(sparse=config.sparse))  # a wrong name or value leaves no folder
        is_new = not folder.exists()
        make_folder(folder)
        self.folder, self.identity = folder, uuid.uuid4().hex
        self._lock_file = _locked_file(folder)
        try:
            if config is not None and not (folder / FILE).exists():
                config.write(folder)
            self.config = ServiceConfig.read(folder)
        except BaseException:
            os.close(self._lock_file)
            raise
        self.started = time.time()
        self.failure: str | None = None
        self._events: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._questions: deque[Work] = deque()
        self._waiting_questions: list[tuple[int, float, Work]] = []
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._queued = 0
        self._lock = threading.Lock()
        self._unsynced: deque[tuple[int, Future[Any], Any]] = deque()
        self._commit = threading.Event()
        self._oldest_label: float | None = None
        self._solver = Solver(self._wake.set)
        self.last_answer: Prediction | None = None
        self.timings: dict[str, deque[float]] = {name: deque(maxlen=1000) for name in ("ingest", "learn", "answer")}
        self.history: deque[Json] = deque(maxlen=900)
        self.snapshot_at = 0
        self._healed = time.monotonic()
        self.unhealed: OcglError | None = None
        self.trouble: str | None = None
        self._drained = False
        self.closing = False
        found: Recovered | None = None
        try:
            self.log = Log(folder / LOG)
            if self.log.torn is not None:
                logger.warning("%s", self.log.torn)
            self.graphs = self._graphs()
            found = recover(folder, self.config, self.log, self.graphs)
            self.engine, self.snapshot_at = found.engine, found.snapshot
            self.recovered = found.facts
            self.durable = self.engine.sequence
            self._oldest_label = time.monotonic() if len(self.engine.waiting) else None
            self._notices = Notices(self.engine)
            self._begin()
        except BaseException:
            self._solver.close()
            if found is not None:
                self.graphs.release(found.engine.store)
            os.close(self._lock_file)
            if is_new:  # a wrong address, say, can be given again
                shutil.rmtree(folder, ignore_errors=True)
            raise
        self._threads = [
            threading.Thread(target=self._write, name="writer", daemon=True),
            threading.Thread(target=self._sync, name="committer", daemon=True),
        ]

    def _graphs(self) -> Graphs:
        """Return where the graph is."""
        return graphs_of(self.folder, self.config)

    def _begin(self) -> None:
        """Go on with what was under way when the service ended; a new service writes its first record."""
        self._solver.finish(self.engine.models)
        if self.engine.sequence == 0:
            self._append(Begin(self.config.fixed()))

    # Starting and stopping

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def close_doors(self) -> None:
        """Take nothing more, and answer those who wait for a sequence number; what was taken is finished."""
        self.closing = True
        self._wake.set()

    def stop(self) -> None:
        """Finish what was taken, take a snapshot, and close everything."""
        self._stop.set()
        self._wake.set()
        self._commit.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(60)
        self._solver.close()
        if self.failure is None:
            with contextlib.suppress(OcglError, OSError):
                self.take_snapshot()
        self._close()

    def _close(self) -> None:
        with contextlib.suppress(OcglError, OSError):
            self.log.close()
        with contextlib.suppress(OcglError, OSError):
            self.graphs.close(self.engine.store)
        self._solver.close()
        if self._lock_file >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    @property
    def ready(self) -> bool:
        """Whether events and questions are taken."""
        alive = not self._stop.is_set() and all(thread.is_alive() for thread in self._threads)
        return self.failure is None and self.trouble is None and self.unhealed is None and alive

    @property
    def why_not_ready(self) -> str:
        """Why events and questions are not taken."""
        return self.failure or self.trouble or str(self.unhealed or "it starts or ends")

    # What clients ask for, from any thread

    def ingest(
        self, events: list[Event], key: str | None = None, source: tuple[str, int, int] | None = None
    ) -> "Future[Accepted]":
        """Take events as a whole; the future has the answer once they are durable."""
        return self.take(packed(events, self.config), key, source)

    def take(
        self, events: list[Event], key: str | None = None, source: tuple[str, int, int] | None = None
    ) -> "Future[Accepted]":
        """Take events whose features are packed already."""
        digest = _digest(events) if key is not None else ""
        work = Work(lambda: None)

        def act() -> object:
            return self._ingest(events, key, digest, source, work.outcome)

        work.act = act
        self._enqueue(work)
        return work.outcome

    def skip(self, source: tuple[str, int, int], why: str) -> "Future[Accepted]":
        """Pass a message that cannot be taken, so that it is not met again after a start."""
        logger.warning("%s/%d: the message before offset %d was left out: %s", *source, why)
        work = Work(lambda: None)
        work.act = lambda: self._acknowledge(
            self._append(Request([], None, source)), work.outcome, Accepted(0, self.engine.sequence, "")
        )
        self._enqueue(work)
        return work.outcome

    def ask_new(self, x: Any, neighbors: list[Id], min_sequence: int = 0) -> "Future[Prediction]":
        """Answer about a node that is not there."""
        work = Work(lambda: self._answer_new(x, neighbors))
        self._ask(work, min_sequence)
        return work.outcome

    def ask(self, ids: list[Id], min_sequence: int = 0) -> "Future[Prediction]":
        """Answer about nodes, once graph and weights are at least at `min_sequence`."""
        work = Work(lambda: self._answer(ids))
        self._ask(work, min_sequence)
        return work.outcome

    def inspect(self, act: Callable[[Engine], Any]) -> "Future[Any]":
        """Call a function with the state, between changes; it must change nothing."""
        work = Work(lambda: act(self.engine))
        self._ask(work, 0)
        return work.outcome

    def promote(self, name: str) -> "Future[Any]":
        """Let a shadow strategy answer from now on."""
        if name not in self.engine.models:
            raise ConfigError(f"{name} is no strategy of this service; it has {', '.join(self.engine.models)}")
        work = Work(lambda: None)
        work.act = lambda: self._acknowledge(self._append(Promote(name)), work.outcome, name)
        self._enqueue(work)
        return work.outcome

    def snapshot(self) -> "Future[int]":
        """Take a snapshot now; the future has its sequence number."""
        work = Work(self.take_snapshot)
        self._enqueue(work)
        return work.outcome

    def _enqueue(self, work: Work) -> None:
        self._refuse_if_down()
        with self._lock:
            if self._queued >= self.config.queue:
                raise OverloadedError(f"{self._queued} requests wait already; try again later")
            self._queued += 1
        self._events.put(work)
        self._wake.set()
        if self._drained:
            _fail(work.outcome, ServiceError("the service is shutting down"))

    def _ask(self, work: Work, min_sequence: int) -> None:
        self._refuse_if_down()
        if len(self._questions) >= 4 * self.config.queue:
            raise OverloadedError("too many questions wait; try again later")
        if min_sequence and len(self._waiting_questions) >= self.config.queue:
            raise OverloadedError("too many questions wait for a sequence number; try again later")
        if min_sequence:
            deadline = time.monotonic() + self.config.answer_seconds
            work.act, plain = (lambda: None), work.act
            held = Work(plain)
            held.outcome = work.outcome
            self._questions.append(Work(lambda: self._waiting_questions.append((min_sequence, deadline, held))))
        else:
            self._questions.append(work)
        self._wake.set()
        if self._drained:
            _fail(work.outcome, ServiceError("the service is shutting down"))

    def _refuse_if_down(self) -> None:
        if self.failure is not None:
            raise ServiceError(f"the service has stopped taking requests: {self.failure}")
        if self._stop.is_set() or self.closing:
            raise ServiceError("the service is shutting down")

    # The writer

    def _write(self) -> None:
        while not (self._stop.is_set() and self._events.empty()):
            owed = self._oldest_label is not None or any(map(self.engine.solve_due, self.engine.models))
            self._wake.wait(0.05 if owed or self._waiting_questions else 0.5)
            self._wake.clear()
            try:
                self._turn()
            except BaseException as error:
                logger.exception("the writer has stopped")
                self.failure = f"{type(error).__name__}: {error}"
                break
        self._drained = True
        for work in [*self._questions, *(held for _, _, held in self._waiting_questions)]:
            _fail(work.outcome, ServiceError("the service is shutting down"))
        while not self._events.empty():
            _fail(self._events.get().outcome, ServiceError(self.failure or "the service is shutting down"))

    def _turn(self) -> None:
        """Do everything that is there: questions first, between any two requests."""
        while True:
            self._answer_all()
            self._do_what_is_due()
            try:
                work = self._events.get_nowait()
            except queue.Empty:
                return
            with self._lock:
                self._queued -= 1
            self._run(work)
            if self.engine.sequence - self.snapshot_at >= self.config.snapshot_records:
                self._in_background(self.take_snapshot)

    def _do_what_is_due(self) -> None:
        """Do what nobody asks for."""
        if self.trouble is not None:
            self._in_background(self._look_for_room)
        self._in_background(self._publish_all)
        self._in_background(self._learn_owed)
        self._in_background(self._learn_late)
        self._in_background(self._heal)

    def _heal(self) -> None:
        """Send again what servers of the graph have lost, now and then: somebody may follow."""
        if time.monotonic() - self._healed > HEAL_SECONDS:
            self.unhealed = self.graphs.heal(self.engine.store)
            self._healed = time.monotonic()

    def _in_background(self, act: Callable[[], object]) -> None:
        """Do what nobody waits for; a full disk is said by /readyz until something can be written again."""
        try:
            act()
        except StateErrorAfterLog:
            raise
        except OcglError as error:
            if not isinstance(error, OSError):
                raise
            self.trouble = str(error)
            logger.warning("%s", error)
            time.sleep(0.05)

    def _run(self, work: Work) -> None:
        """Do what somebody waits for. Whatever goes wrong is theirs; only a half applied record ends the writer."""
        if work.outcome.cancelled():
            return
        try:
            found = work.act()
        except StateErrorAfterLog as error:
            _fail(work.outcome, error)
            raise
        except (OcglError, WrongEventError) as error:
            _fail(work.outcome, error)
        except Exception as error:
            logger.exception("a request has failed")
            _fail(work.outcome, ServiceError(f"this request cannot be answered: {error!r}"))
        else:
            if found is not _LATER:
                _settle(work.outcome, found)

    def _answer_all(self) -> None:
        while self._questions:
            self._run(self._questions.popleft())
        if self._waiting_questions:
            reached, now = min(self.engine.sequence, self.engine.settled_sequence), time.monotonic()
            reached = -1 if self._owes() else reached
            still = []
            for wanted, deadline, work in self._waiting_questions:
                if work.outcome.cancelled():
                    continue
                if reached >= wanted:
                    self._run(work)
                elif self.closing:
                    _fail(work.outcome, ServiceError("the service is shutting down"))
                elif now > deadline:
                    text = f"record {wanted} was not reached in time; now at {self.engine.sequence}"
                    _fail(work.outcome, NotReachedError(text))
                else:
                    still.append((wanted, deadline, work))
            self._waiting_questions = still

    def _owes(self) -> bool:
        """Return whether a batch that is full, or was closed, has to be learned first."""
        return self.engine.owed or self.engine.due() is not None

    def _ingest(
        self,
        events: list[Event],
        key: str | None,
        digest: str,
        source: tuple[str, int, int] | None,
        outcome: "Future[Any]",
    ) -> object:
        begin = time.perf_counter()
        engine = self.engine
        if key is not None and key in engine.accepted:
            known = engine.accepted[key]
            if known.digest and known.digest != digest:
                raise WrongEventError(0, f"the idempotency key {key!r} was used for another request")
            return self._acknowledge(engine.sequence, outcome, known)
        if source is not None and engine.offsets.get(f"{source[0]}/{source[1]}", -1) >= source[2]:
            return self._acknowledge(engine.sequence, outcome, Accepted(0, engine.sequence, ""))
        self._require_room()
        engine.check(events)
        sequence = self._append(Request(events, None if key is None else f"{key}#{digest}", source))
        if len(engine.waiting) and self._oldest_label is None:
            self._oldest_label = time.monotonic()
        self.timings["ingest"].append(time.perf_counter() - begin)
        self._acknowledge(sequence, outcome, Accepted(len(events), sequence, digest))
        self._notices.tell()
        self._in_background(self._learn_owed)
        return _LATER

    def _require_room(self) -> None:
        """Refuse events while the disk is nearly full, so that what follows from them can be written."""
        if self.unhealed is not None:
            raise self.unhealed
        free = shutil.disk_usage(self.folder).free
        if free < self.config.least_free:
            text = f"{free:,} bytes are free in {self.folder}; at least {self.config.least_free:,} are needed"
            self.trouble = f"{text}: free disk space"
            raise DiskFullError(self.trouble)

    def _look_for_room(self) -> None:
        """Be ready again once there is room on the disk."""
        if shutil.disk_usage(self.folder).free >= max(self.config.least_free, 1 << 20):
            self.trouble = None

    def _learn_owed(self) -> None:
        """Learn what is due: full batches, and the rest if a request has asked for it."""
        while (batch := self.engine.due()) is not None:
            self._learn(batch)
        if self.engine.owed and (rest := self.engine.next_batch(len(self.engine.waiting))) is not None:
            self._learn(rest)

    def _append(self, record: Record) -> int:
        """Write a record to the log, then apply it."""
        sequence = self.log.append(encode(record))
        try:
            self.engine.apply(record, sequence)
        except Exception as error:
            self.log.undo()  # nobody was told of it, and a start must not meet it again
            if isinstance(error, DiskFullError) and isinstance(record, Request) and not self.engine.touched:
                self.trouble = str(error)
                raise
            raise StateErrorAfterLog(f"record {sequence} could not be applied: {error!r}") from error
        self.trouble = None
        return sequence

    def _learn(self, batch: Batch) -> None:
        begin = time.perf_counter()
        self._append(batch)
        self._oldest_label = None if not len(self.engine.waiting) else time.monotonic()
        self.timings["learn"].append(time.perf_counter() - begin)
        self._notices.tell()
        self._solve_due()
        self._answer_all()

    def _learn_late(self) -> None:
        waited = None if self._oldest_label is None else time.monotonic() - self._oldest_label
        if waited is not None and self.config.batch_seconds and waited > self.config.batch_seconds:
            batch = self.engine.next_batch(self.config.batch_size)
            if batch is not None:
                self._learn(batch)
                self._commit.set()

    def _solve_due(self) -> None:
        """Begin to solve for weights that are behind.

        Solving takes at most a share of the time, so that it does not hold up what it is for, unless somebody waits.
        """
        for name, model in self.engine.models.items():
            if self.engine.solve_due(name) and (self._waiting_questions or not self._solver.rests(name)):
                self._append(Solve(name))
                assert callable(model.solving)
                self._solver.begin(name, model.solving)

    def _publish_all(self) -> None:
        self._solve_due()
        for name, future in self._solver.solved():
            error = future.exception()
            if error is None:
                self.engine.models[name].solving = future.result()
                self._append(Publish(name))
                self._solver.published(name)
            else:
                logger.warning("the weights of %s cannot be solved for: %r", name, error)
                self._append(Abandon(name))
            self._commit.set()

    def _answer(self, ids: list[Id]) -> Prediction:
        begin = time.perf_counter()
        if not ids:
            raise EmptyBatchError("no node to ask about; ids is empty")
        engine = self.engine
        kind = str if engine.store.id_kind == "text" else int
        for id in ids:
            if not engine.store.arrived or type(id) is not kind or not is_id(id):
                raise UnknownNodeError(f"node {id!r} has not arrived, or was removed")
        found = self._prediction(engine.answer(ids))
        self.timings["answer"].append(time.perf_counter() - begin)
        return found

    def _answer_new(self, x: Any, neighbors: list[Id]) -> Prediction:
        asked = packed([Node(_unused(self.engine), x, neighbors)], self.config)
        self.engine.check(asked)
        row = rows_of(asked, self.config.features)[0]
        return self._prediction(self.engine.answer_new(row, neighbors))

    def _prediction(self, found: Any) -> Prediction:
        labels, scores, classes, cost, bound = found
        engine = self.engine
        known = engine.weights_sequence
        age = self._solver.age(engine.main) if known < engine.sequence else 0.0
        self.last_answer = Prediction(
            labels.tolist(), scores, classes.tolist(), engine.sequence, known, age, cost, bound
        )
        return self.last_answer

    # Durability

    def _acknowledge(self, sequence: int, outcome: "Future[Any]", answer: Any) -> object:
        """Let the committer answer once everything up to a record is durable."""
        self._unsynced.append((sequence, outcome, answer))
        self._commit.set()
        return _LATER

    def _sync(self) -> None:
        """Make records durable in groups, and answer."""
        while not (self._stop.is_set() and not self._threads[0].is_alive() and not self._unsynced):
            self._commit.wait(0.2)
            self._commit.clear()
            self._remember()
            group = []
            while self._unsynced:
                group.append(self._unsynced.popleft())
            applied = self.engine.sequence  # a record that is not applied may be taken back
            try:
                self.log.sync()
                self.durable = applied
            except OcglError as error:
                self.failure = str(error)
            for _, outcome, answer in group:
                if self.failure is None:
                    _settle(outcome, answer)
                else:
                    _fail(outcome, ServiceError(self.failure))

    def _remember(self) -> None:
        """Note the figures of the dashboard's curves once a second."""
        now = time.time()
        if not self.history or now - self.history[-1]["at"] >= 1:
            engine = self.engine
            recent = {name: scores.recent for name, scores in engine.scores.items()}
            drifts = engine.scores[engine.main].drift_count
            self.history.append({"at": now, "events": engine.events, "recent": recent, "drifts": drifts})

    def take_snapshot(self) -> int:
        """Take a snapshot; only the writer calls it."""
        self.log.sync()
        write_snapshot(self.folder, self.engine, self.graphs)
        self.snapshot_at = self.engine.sequence
        return self.snapshot_at


class NotReachedError(ServiceError):
    """A question has waited for a record that did not come in time."""


class StateErrorAfterLog(ServiceError):
    """A record could not be applied as a whole: the service stops, and a start goes on from the record before."""


def _settle(outcome: "Future[Any]", answer: Any) -> None:
    with contextlib.suppress(InvalidStateError):  # who asked has gone
        outcome.set_result(answer)


def _fail(outcome: "Future[Any]", error: BaseException) -> None:
    with contextlib.suppress(InvalidStateError):
        outcome.set_exception(error)


def _locked_file(folder: Path) -> int:
    """Lock the folder of a service until the file is closed."""
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ServiceError(f"the service in {folder} is running already") from error
    return descriptor


def _digest(events: list[Event]) -> str:
    """Return a hash of events; that of events which cannot be written down does not matter, they are refused."""
    try:
        return hashlib.sha256(encode(Request(events))).hexdigest()[:16]
    except OverflowError:
        return ""


def _unused(engine: Engine) -> Id:
    """Return an id that no node has."""
    if engine.store.id_kind == "text":
        return f"a node that is not there {engine.sequence} {id(engine)}"
    return (1 << 63) - 1
