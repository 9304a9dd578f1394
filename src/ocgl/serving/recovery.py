"""Snapshots of a service, and its state after a start: a snapshot, and the records of the log after it."""

import logging
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from ocgl.checked import read_sealed, sealed
from ocgl.errors import DamagedFileError, OcglError, StoreRefusedError, StoreUnreachableError
from ocgl.files import building, make_folder, remove_leftovers, write_json
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Engine
from ocgl.serving.events import Begin, decode
from ocgl.serving.graphs import Graphs
from ocgl.serving.log import LOG, Log, read_log, segments
from ocgl.state import State
from ocgl.types import Json

SNAPSHOTS = "snapshots"
KEPT = 2
"""Snapshots that are kept."""
logger = logging.getLogger("ocgl.serving")


@dataclass
class Recovered:
    """What a start has found.

    Attributes:
        engine: the state after the last record, with its graph.
        snapshot: record of the snapshot that was used; 0 for none.
        facts: what was found, for the logs and the status.
    """

    engine: Engine
    snapshot: int
    facts: Json


def write_snapshot(folder: Path, engine: Engine, graphs: Graphs) -> None:
    """Write the state beside the graph, so that a start need not read the whole log; the log must be durable so far."""
    mark = graphs.mark(engine.store)
    target = folder / SNAPSHOTS / f"{engine.sequence:020d}"
    if not target.exists():
        make_folder(target.parent)
        facts = {"sequence": engine.sequence, "graph": mark, "config": engine.config.fixed()}
        with building(target, lambda _: True) as part:
            engine.state().save(part / "state.safetensors")
            write_json(part / "snapshot.json", sealed(facts))
    for old in _snapshots(folder)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def recover(folder: Path, config: ServiceConfig, log: Log, graphs: Graphs) -> Recovered:
    """Return the state after the last record of the log.

    A snapshot that cannot be used is passed over, and so is one whose graph is not there any more: then the log builds
    it anew. A log that ends before a snapshot, and a configuration other than that the log was begun with, are errors.
    """
    begin = time.perf_counter()
    remove_leftovers(folder / SNAPSHOTS)
    taken = _snapshots(folder)
    if taken and int(taken[-1].name) > log.sequence:
        text = f"it ends with record {log.sequence}, but there is a snapshot of record {int(taken[-1].name)}"
        raise DamagedFileError(folder / LOG, f"{text}: acknowledged records are missing")
    _check_begun(folder, config)
    tried: list[str] = []
    for path in [*reversed(taken), None]:
        try:
            engine = Engine(config, graphs.new()) if path is None else _from_snapshot(path, config, graphs)
        except (StoreUnreachableError, StoreRefusedError):
            raise
        except (OcglError, KeyError) as error:
            if path is None:
                raise
            tried.append(f"{path.name}: {error}")
            logger.warning("snapshot %s cannot be used: %s", path.name, error)
            continue
        snapshot = engine.sequence
        try:
            for sequence, payload in read_log(folder / LOG, engine.sequence):
                engine.apply(decode(payload), sequence)
            graphs.settle(engine.store)
            break
        except BaseException as error:
            graphs.release(engine.store)
            if path is None or not graphs.is_elsewhere(error):
                raise
            tried.append(f"{path.name}: {error}")
            logger.warning("the graph is not that of snapshot %s any more: %s", path.name, error)
    facts: Json = {
        "snapshot": snapshot,
        "records": engine.sequence - snapshot,
        "seconds": time.perf_counter() - begin,
        "torn": None if log.torn is None else str(log.torn),
        "unusable_snapshots": tried,
    }
    logger.info("recovered", extra={"facts": facts})
    return Recovered(engine, snapshot, facts)


def _check_begun(folder: Path, config: ServiceConfig) -> None:
    """Compare the configuration with that of the first record, which may have been archived."""
    files = segments(folder / LOG)
    if files and int(files[0].stem) == 1:
        for _, payload in read_log(folder / LOG, 0, 1):
            first = decode(payload)
            if isinstance(first, Begin):
                config.check_begun(first.config)


def _from_snapshot(path: Path, config: ServiceConfig, graphs: Graphs) -> Engine:
    """Return the state of a snapshot."""
    facts = read_sealed(path / "snapshot.json")
    config.check_begun(facts["config"])
    state = State.load(path / "state.safetensors")
    store = graphs.at(facts["graph"])
    try:
        engine = Engine(config, store)
        engine.load_state(state)
        if engine.sequence != facts["sequence"]:
            raise DamagedFileError(path, f"its state is of record {engine.sequence}, not of {facts['sequence']}")
    except BaseException:
        graphs.release(store)
        raise
    return engine


def _snapshots(folder: Path) -> list[Path]:
    found = folder / SNAPSHOTS
    return sorted(path for path in found.glob("[0-9]*") if path.is_dir()) if found.is_dir() else []
