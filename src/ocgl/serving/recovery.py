"""Snapshots of a service, and its state after a start: a snapshot, and the records of the log after it."""

import logging
import shutil
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

from ocgl.checked import read_sealed, sealed
from ocgl.errors import DamagedFileError, OcglError
from ocgl.files import building, make_folder, remove_leftovers, write_json
from ocgl.graph.durable import DurableStore
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Engine
from ocgl.serving.events import Begin, decode
from ocgl.serving.log import Log, read_log, segments
from ocgl.state import State
from ocgl.types import Json

LOG, SNAPSHOTS, GRAPH = "log", "snapshots", "graph"
KEPT = 2
"""Snapshots that are kept."""
logger = logging.getLogger("ocgl.serving")


@dataclass
class Recovered:
    """What a start has found.

    Attributes:
        engine: the state after the last record.
        store: its graph.
        snapshot: record of the snapshot that was used; 0 for none.
        facts: what was found, for the logs and the status.
    """

    engine: Engine
    store: DurableStore
    snapshot: int
    facts: Json


def write_snapshot(folder: Path, engine: Engine, store: DurableStore) -> None:
    """Write the state beside the graph, so that a start need not read the whole log; the log must be durable so far."""
    store.flush()
    target = folder / SNAPSHOTS / f"{engine.sequence:020d}"
    if not target.exists():
        make_folder(target.parent)
        facts = {"sequence": engine.sequence, "graph": store.mark, "config": engine.config.fixed()}
        with building(target, lambda _: True) as part:
            engine.state().save(part / "state.safetensors")
            write_json(part / "snapshot.json", sealed(facts))
    for old in _snapshots(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path, config: ServiceConfig, log: Log) -> Recovered:
    """Return the state after the last record of the log.

    A snapshot that cannot be used is passed over. A log that ends before a snapshot, and a configuration other than
    that the log was begun with, are errors.
    """
    begin = time.perf_counter()
    remove_leftovers(folder / SNAPSHOTS)
    taken = _snapshots(folder)
    if taken and int(taken[-1].name) > log.sequence:
        text = f"it ends with record {log.sequence}, but there is a snapshot of record {int(taken[-1].name)}"
        raise DamagedFileError(folder / LOG, f"{text}: acknowledged records are missing")
    _check_begun(folder, config)
    tried: list[str] = []
    found = None
    for path in reversed(taken):
        try:
            found = _from_snapshot(folder, path, config)
            break
        except (OcglError, KeyError) as error:
            tried.append(f"{path.name}: {error}")
            logger.warning("snapshot %s cannot be used: %s", path.name, error)
    if found is None:
        shutil.rmtree(folder / GRAPH, ignore_errors=True)
        store = DurableStore(folder / GRAPH, sparse=config.sparse)
        found = Engine(config, store), store
    engine, store = found
    snapshot = engine.sequence
    try:
        for sequence, payload in read_log(folder / LOG, engine.sequence):
            engine.apply(decode(payload), sequence)
    except BaseException:
        store._release()
        raise
    facts: Json = {
        "snapshot": snapshot,
        "records": engine.sequence - snapshot,
        "seconds": time.perf_counter() - begin,
        "torn": None if log.torn is None else str(log.torn),
        "unusable_snapshots": tried,
    }
    logger.info("recovered", extra={"facts": facts})
    return Recovered(engine, store, snapshot, facts)


def _check_begun(folder: Path, config: ServiceConfig) -> None:
    """Compare the configuration with that of the first record, which may have been archived."""
    files = segments(folder / LOG)
    if files and int(files[0].stem) == 1:
        for _, payload in read_log(folder / LOG, 0, 1):
            first = decode(payload)
            if isinstance(first, Begin):
                config.check_begun(first.config)


def _from_snapshot(folder: Path, path: Path, config: ServiceConfig) -> tuple[Engine, DurableStore]:
    facts = read_sealed(path / "snapshot.json")
    config.check_begun(facts["config"])
    state = State.load(path / "state.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # changes after the snapshot are in the log
        store = DurableStore(folder / GRAPH, flushed=facts["graph"])
    try:
        engine = Engine(config, store)
        engine.load_state(state)
        if engine.sequence != facts["sequence"]:
            raise DamagedFileError(path, f"its state is of record {engine.sequence}, not of {facts['sequence']}")
    except BaseException:
        store._release()
        raise
    return engine, store


def _snapshots(folder: Path) -> list[Path]:
    found = folder / SNAPSHOTS
    return sorted(path for path in found.glob("[0-9]*") if path.is_dir()) if found.is_dir() else []
