"""A service from its log alone: the same state, or the state as if a node had never been there."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ocgl.errors import ConfigError
from ocgl.files import make_folder
from ocgl.graph import GraphStore
from ocgl.serving.config import ServiceConfig
from ocgl.serving.engine import Engine
from ocgl.serving.events import (
    Abandon,
    Batch,
    Edge,
    Event,
    Id,
    Learn,
    Node,
    Publish,
    Record,
    RemoveEdge,
    Request,
    Solve,
    decode,
    encode,
)
from ocgl.serving.keys import FILE as KEYS
from ocgl.serving.log import LOG, Log, read_log


def replayed(folder: Path, until: int | None = None) -> Engine:
    """Return the state of a service from its log alone, in memory."""
    config = ServiceConfig.read(folder)
    engine = Engine(config, GraphStore(sparse=config.sparse))
    for sequence, payload in read_log(folder / LOG, 0, until):
        engine.apply(decode(payload), sequence)
    return engine


def without(records: Iterator[Record], ids: set[Id]) -> Iterator[Record]:
    """Strip ids from records: their events, their edges, their labels; what is empty then is dropped."""
    for record in records:
        if isinstance(record, Request):
            kept = [found for event in record.events if (found := _stripped(event, ids)) is not None]
            empty = all(isinstance(event, Learn) for event in kept)
            if not empty or record.key is not None or record.source is not None:  # what was taken stays taken
                kept = [] if empty else kept
                key = record.key
                if key is not None and kept != record.events:
                    key = f"{key.rpartition('#')[0]}#"  # the hash of what was sent is a trace of it
                yield msgspec.structs.replace(record, events=kept, key=key)
        elif isinstance(record, Batch):
            left = [id for id in record.ids if id not in ids]
            if left:
                yield Batch(left)
        else:
            yield record


def _stripped(event: Event, ids: set[Id]) -> Event | None:
    if isinstance(event, Edge | RemoveEdge):
        return None if event.source in ids or event.target in ids else event
    if isinstance(event, Learn):
        return event
    if event.id in ids:
        return None
    if isinstance(event, Node) and any(neighbor in ids for neighbor in event.neighbors):
        return msgspec.structs.replace(event, neighbors=[other for other in event.neighbors if other not in ids])
    return event


def _named(folder: Path) -> set[Id]:
    """Return the ids of all nodes that a log has ever added."""
    records = (decode(payload) for _, payload in read_log(folder / LOG))
    return {
        event.id
        for record in records
        if isinstance(record, Request)
        for event in record.events
        if isinstance(event, Node)
    }


def write_without(folder: Path, ids: set[Id], out: Path) -> int:
    """Write a service whose log has no trace of some nodes; return the number of its records."""
    config = ServiceConfig.read(folder)
    if out.resolve().is_relative_to(folder.resolve()):
        raise ConfigError(f"{out} lies inside the service; give a folder elsewhere")
    if out.exists() and any(out.iterdir()):
        raise ConfigError(f"{out} is not empty")
    missing = ids - _named(folder)
    if missing:
        raise ConfigError(f"the log does not know {', '.join(sorted(map(repr, missing)))}; nothing was written")
    make_folder(out)
    config.write(out)
    if (folder / KEYS).exists():
        shutil.copyfile(folder / KEYS, out / KEYS)
        (out / KEYS).chmod(0o600)
    log = Log(out / LOG)
    records = (decode(payload) for _, payload in read_log(folder / LOG))
    engine = Engine(config, GraphStore(sparse=config.sparse))
    for record in without(records, ids):
        if isinstance(record, Solve) and not engine.solve_due(record.strategy):
            continue
        if isinstance(record, Publish | Abandon) and engine.models[record.strategy].solving is None:
            continue
        engine.apply(record, log.append(encode(record)))
    log.close()
    return log.sequence
