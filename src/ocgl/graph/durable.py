"""A graph store that lasts: a journal of all changes in a folder, made durable by `flush`.

The folder holds `store.json`, which says how far the journal was flushed, and the journal. The arrays that samples are
read from are rebuilt from the journal when the store is opened, so nothing in them has to survive a crash.
"""

import contextlib
import os
import secrets
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from ocgl.checked import read_sealed, sealed
from ocgl.errors import DamagedFileError, FileWarning, GraphError, OcglError, StoreFolderError, WriteError
from ocgl.files import make_folder, remove_leftovers, write_json, write_whole
from ocgl.graph.ids import as_objects
from ocgl.graph.journal import Journal, Record, read_records, read_tail
from ocgl.graph.static import sparse_or_dense
from ocgl.graph.store import GraphStore
from ocgl.types import AnyArray, IntArray, Json, Rows

CONFIG = "store.json"
LOCK = "lock"
KINDS = ("add", "add_edges", "remove_edges", "update", "remove", "gap")
"""Kinds of records, by number. `gap` stands for removed nodes in a store that was written anew."""
_CHUNK = 1 << 14


class StoreConfig(BaseModel):
    """What `store.json` says.

    Args:
        schema_version: version of the folder's format.
        identity: random name of the store, which its records are bound to.
        journal: file name of the journal.
        sparse: whether features are sparse; None while no node has come.
        bytes: how many bytes of the journal were flushed.
        records: how many records these are.
        nodes: nodes that were there then; None if that is not known.
        edges: edges that were there then.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    schema_version: NonNegativeInt = 1
    identity: str = Field(default_factory=lambda: secrets.token_hex(8))
    journal: str = "journal-1"
    sparse: bool | None = None
    bytes: NonNegativeInt = 0
    records: NonNegativeInt = 0
    nodes: NonNegativeInt | None = 0
    edges: NonNegativeInt | None = 0


@dataclass(frozen=True)
class Recovery:
    """What was found when a store was opened.

    Attributes:
        records: flushed changes, all of which are there again.
        dropped: changes after the last flush, by kind, which are not.
        torn_bytes: bytes of a last change that was not written whole.
    """

    records: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    torn_bytes: int = 0

    def __str__(self) -> str:
        after = ", ".join(f"{count} {kind}" for kind, count in self.dropped.items()) or "no whole change"
        torn = f" and {self.torn_bytes:,} bytes of an unfinished one" if self.torn_bytes else ""
        return f"{self.records} flushed changes; not flushed, and dropped: {after}{torn}"


class DurableStore(GraphStore):
    """A `GraphStore` whose changes are written to a folder; made by `GraphStore.open`.

    A change is in the journal before it is made. `flush` makes all changes so far durable. A crash loses what came
    after the last flush, and nothing else. The features and ids of removed nodes stay in the journal until `compact`.

    Args:
        folder: where the store lies.
        sparse: whether features are sparse rows; None for as they are.
        in_memory: keep the arrays in memory instead of mapped files.
        flushed: open the store as of an earlier flush, given by its `mark`; later changes are dropped.

    Attributes:
        recovery: what was found when the store was opened.
    """

    def __init__(
        self, folder: Path, *, sparse: bool | None = None, in_memory: bool = False, flushed: Json | None = None
    ) -> None:
        make_folder(folder)
        self._lock_file = _locked_file(folder)
        self._journal: Journal | None = None
        self._recovering = False
        self._process = os.getpid()
        try:
            remove_leftovers(folder)
            config = _read_config(folder)
            if flushed is not None:
                config = _earlier(folder, config, flushed)
            if sparse is not None and config.sparse not in (None, sparse):
                kinds = {True: "sparse", False: "dense"}
                raise StoreFolderError(f"{folder} has {kinds[not sparse]} features, not {kinds[sparse]} ones")
            super().__init__(None if in_memory else folder, config.sparse if sparse is None else sparse)
            self.home = folder
            self._config = config
            self.recovery = self._recover()
            self._journal = Journal(self.path, config.bytes, config.records, config.identity)
            if not (folder / CONFIG).exists() or flushed is not None:
                self.flush()
        except BaseException:
            self._release()
            raise

    @property
    def path(self) -> Path:
        """The file of the journal."""
        return self.home / self._config.journal

    @property
    def mark(self) -> Json:
        """The last flush, as `flushed` takes it."""
        return self._config.model_dump(include={"identity", "journal", "bytes", "records"})

    def flush(self) -> None:
        """Make all changes so far durable."""
        with self._lock:
            journal = self._open_journal()
            try:
                journal.sync()
            except OSError as error:
                raise WriteError(self.path, error, "changes since the last flush are not durable") from error
            known = None if self._table is None else self._table.sparse
            self._config = self._config.model_copy(
                update={
                    "sparse": self.sparse if known is None else known,
                    "bytes": journal.end,
                    "records": journal.sequence,
                    "nodes": len(self),
                    "edges": self.edges,
                }
            )
            write_json(self.home / CONFIG, sealed(self._config.model_dump(mode="json")))

    def compact(self) -> None:
        """Write the journal anew, as short as the graph is: without removed nodes, edges and features.

        The graph of a saved learner cannot be: the learner knows its place in the journal. Save it to a new folder.
        """
        if self.home.name == "graph" and (self.home.parent / "learner.json").exists():
            text = f"the learner in {self.home.parent} was saved with this journal"
            raise StoreFolderError(f"{text}; save the learner to a new folder, which writes a short one")
        with self._lock:
            old, number = self._open_journal(), int(self._config.journal.rpartition("-")[2]) + 1
            fresh = Journal(self.home / f"journal-{number}", identity=self._config.identity)
            try:
                _dump(self, fresh)
            except BaseException:
                fresh.close()
                fresh.path.unlink(missing_ok=True)
                raise
            self._config = self._config.model_copy(update={"journal": fresh.path.name})
            self._journal = fresh
            self.flush()
            old.close()
            old.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Flush, and let another process open the store. It cannot be used after that."""
        if self._journal is not None and self._process == os.getpid():
            self.flush()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._release()

    def _release(self) -> None:
        if getattr(self, "_journal", None) is not None:
            assert self._journal is not None
            self._journal.close()
            self._journal = None
        if getattr(self, "_lock_file", -1) >= 0:
            os.close(self._lock_file)
            self._lock_file = -1

    def _open_journal(self) -> Journal:
        if self._process != os.getpid():
            raise StoreFolderError(f"the store in {self.home} was opened by another process; open it in this one")
        if self._journal is None:
            raise StoreFolderError(f"the store in {self.home} is closed")
        return self._journal

    def _record(self, what: str, arrays: dict[str, AnyArray], rows: Rows | None = None) -> None:
        if self._recovering:
            return
        self._open_journal().add(KINDS.index(what), _encoded(arrays, rows))

    def _recover(self) -> Recovery:
        """Make the flushed changes again, and report what follows them."""
        self._recovering = True
        config, path = self._config, self.path
        if not path.exists():
            if config.bytes:
                raise DamagedFileError(path, f"it is missing; {config.bytes:,} bytes of it were flushed")
            self._recovering = False
            return Recovery()
        _redo_all(self, path, config)
        self._recovering = False
        return self._rest(path)

    def _rest(self, path: Path) -> Recovery:
        config, dropped, end = self._config, Counter[str](), self._config.bytes
        for record in read_tail(path, config.bytes, config.records, config.identity):
            dropped[KINDS[record.kind] if record.kind < len(KINDS) else "unknown"] += 1
            end = record.end
        found = Recovery(config.records, dict(dropped), path.stat().st_size - end)
        if (found.dropped or found.torn_bytes) and config.nodes is not None:  # else said already
            warnings.warn(f"{self.home}: {found}", FileWarning, stacklevel=4)
        return found


def load_store(folder: Path) -> GraphStore:
    """Return the graph that `write_store` has written, in memory."""
    config = _read_config(folder, tidy=False)
    store = GraphStore(sparse=config.sparse)
    _redo_all(store, folder / config.journal, config)
    return store


def _redo_all(store: GraphStore, path: Path, config: StoreConfig) -> None:
    """Make the changes of a journal again."""
    for record in read_records(path, config.bytes, config.identity):
        try:
            _redo(store, record, path)
        except DamagedFileError:
            raise
        except (OcglError, KeyError, IndexError, ValueError, TypeError) as error:
            text = f"the record at byte {record.offset:,} is no change of this graph: {error}"
            raise DamagedFileError(path, text) from error
    if config.nodes is not None and (len(store), store.edges) != (config.nodes, config.edges):
        raise DamagedFileError(path, f"it makes {len(store)} nodes and {store.edges} edges, not what was flushed")


def _redo(store: GraphStore, record: Record, path: Path) -> None:
    arrays = record.arrays(path)
    kind = KINDS[record.kind]
    rows = sparse_or_dense(arrays)
    if kind == "gap":
        count, width, sparse, text = (int(arrays[name][0]) for name in ("count", "width", "sparse", "text"))
        store.add_removed(count, width, bool(sparse), "text" if text else "integer")
    elif kind == "add":
        ids = _decoded_ids(arrays)
        known = store.arrived
        ends = [_ids_with(store, ids, known, arrays[name]) for name in ("later", "earlier")]
        store.add(ids, rows, ends if len(ends[0]) else ((), ()), arrays["times"])
    elif kind in ("add_edges", "remove_edges"):
        getattr(store, kind)([_ids_of_present(store, arrays[name]) for name in ("later", "earlier")])
    elif kind == "update":
        store.update(_ids_of_present(store, arrays["positions"]), rows)
    else:
        store.remove(_ids_of_present(store, arrays["positions"]))


def _ids_of_present(store: GraphStore, positions: AnyArray) -> AnyArray:
    if not store.is_present(positions).all():
        raise GraphError("it names a node that is not there")
    return store.ids_at(positions)


def write_store(store: GraphStore, folder: Path) -> None:
    """Write the graph of any store to a new folder, which `GraphStore.open` opens."""
    make_folder(folder)
    config = StoreConfig()
    journal = Journal(folder / config.journal, identity=config.identity)
    try:
        with store.reading():
            _dump(store, journal)
            journal.sync()
            sparse = store.sparse if store.arrived == 0 else store.features.sparse
            facts = {"bytes": journal.end, "records": journal.sequence, "nodes": len(store), "edges": store.edges}
            config = config.model_copy(update={"sparse": sparse} | facts)
            write_json(folder / CONFIG, sealed(config.model_dump(mode="json")))
    finally:
        journal.close()


def _dump(store: GraphStore, journal: Journal) -> None:
    """Write records that make the graph of a store: nodes with gaps for removed ones, then edges."""
    if not store.arrived:
        return
    table, times = store.features, store.all_times
    gone = store.was_removed(np.arange(store.arrived))
    borders = np.nonzero(np.diff(gone))[0] + 1
    for begin, end in zip([0, *borders.tolist()], [*borders.tolist(), store.arrived], strict=True):
        if gone[begin]:
            text = int(store.id_kind == "text")
            facts = {"count": end - begin, "width": table.width, "sparse": int(table.sparse), "text": text}
            journal.add(KINDS.index("gap"), {key: np.array([value], np.int64) for key, value in facts.items()})
            continue
        for start in range(begin, end, _CHUNK):
            chosen = np.arange(start, min(start + _CHUNK, end), dtype=np.int32)
            none = np.empty(0, np.int32)
            arrays = {"ids": store.ids_at(chosen), "times": times[chosen], "later": none, "earlier": none}
            journal.add(KINDS.index("add"), _encoded(arrays, table.take(chosen)))
    heads, pool = store.adjacency
    for start in range(0, store.arrived, _CHUNK):
        later, earlier = _earlier_edges(heads[start : start + _CHUNK], pool, start)
        if len(later):
            journal.add(KINDS.index("add_edges"), _encoded({"later": later, "earlier": earlier}, None))


def _earlier_edges(heads: IntArray, pool: AnyArray, first: int) -> tuple[AnyArray, AnyArray]:
    """Return the edges of some nodes to earlier ones, sorted."""
    rows = [pool[begin : begin + degree] for begin, degree in heads.tolist()]
    sizes = [int(np.searchsorted(row, first + number)) for number, row in enumerate(rows)]
    later = np.repeat(np.arange(first, first + len(rows), dtype=np.int32), sizes)
    earlier = np.concatenate([row[:size] for row, size in zip(rows, sizes, strict=True)]) if rows else later
    return later, earlier.astype(np.int32)


def _encoded(arrays: dict[str, AnyArray], rows: Rows | None) -> dict[str, AnyArray]:
    """Return arrays of numbers: text as bytes with their ends, and features, dense or sparse."""
    found = dict(arrays)
    ids = found.get("ids")
    if ids is not None and ids.dtype == object:
        texts = [id.encode() for id in found.pop("ids").tolist()]
        found["text"] = np.frombuffer(b"".join(texts), np.uint8)
        found["text_ends"] = np.cumsum([len(text) for text in texts])
    if isinstance(rows, np.ndarray):
        found["x"] = rows
    elif rows is not None:
        found |= {"x_data": rows.data, "x_indices": rows.indices, "x_indptr": rows.indptr}
        found["x_shape"] = np.array(rows.shape, np.int64)
    return {name: np.ascontiguousarray(array) for name, array in found.items()}


def _decoded_ids(arrays: dict[str, AnyArray]) -> AnyArray:
    if "ids" in arrays:
        return arrays["ids"]
    data, ends = arrays["text"].tobytes(), arrays["text_ends"].tolist()
    return as_objects([data[begin:end].decode() for begin, end in zip([0, *ends[:-1]], ends, strict=True)])


def _ids_with(store: GraphStore, new: AnyArray, known: int, positions: AnyArray) -> AnyArray:
    """Return the ids of positions, those that the new nodes will get included."""
    if len(positions) and not (int(positions.min()) >= 0 and int(positions.max()) < known + len(new)):
        raise GraphError("an edge to a node that is not there")
    found = np.empty(len(positions), new.dtype)
    old = positions < known
    if old.any():
        found[old] = store.ids_at(positions[old])
    found[~old] = new[positions[~old] - known]
    return found


def _read_config(folder: Path, tidy: bool = True) -> StoreConfig:
    """Read `store.json`; journals that it does not name are left by a crash, and removed."""
    path = folder / CONFIG
    journals = [found for found in folder.glob("journal-*") if found.name[8:].isdigit()]
    if not path.exists():
        if not tidy or any(found.stat().st_size for found in journals):
            raise DamagedFileError(path, "it is missing: it says how far the journal beside it was flushed")
        return StoreConfig()
    try:
        config = StoreConfig.model_validate(read_sealed(path))
    except ValidationError as error:
        raise DamagedFileError(path, f"it does not describe a store: {error.errors()[0]['msg']}") from error
    if config.schema_version != 1:
        raise DamagedFileError(path, f"it has schema version {config.schema_version}; this version of ocgl reads 1")
    if not config.journal.startswith("journal-") or not config.journal[8:].isdigit():
        raise DamagedFileError(path, f"{config.journal!r} is no name of a journal")
    for other in journals if tidy else ():
        if other.name != config.journal:
            other.unlink()
    return config


def _earlier(folder: Path, config: StoreConfig, flushed: Json) -> StoreConfig:
    """Return the config as of an earlier flush of the same journal."""
    end, records = flushed.get("bytes"), flushed.get("records")
    sound = isinstance(end, int) and isinstance(records, int) and 0 <= end <= config.bytes
    same = all(flushed.get(name) == getattr(config, name) for name in ("identity", "journal"))
    if not same or not sound:
        raise StoreFolderError(f"{folder / CONFIG} has no flush {flushed}: the journal was written anew since")
    if flushed["bytes"] == config.bytes:
        return config
    aside = folder / f"after-record-{records}"
    with (folder / config.journal).open("rb") as journal:
        journal.seek(int(end or 0))
        write_whole(aside, journal.read(config.bytes - int(end or 0)))
    text = f"{folder}: changes after record {records} were flushed, but do not belong to what is opened"
    warnings.warn(f"{text}; they were set aside in {aside.name}", FileWarning, stacklevel=5)
    return config.model_copy(update=dict(flushed) | {"nodes": None, "edges": None})


def _locked_file(folder: Path) -> int:
    """Lock a folder until the file is closed; a second process gets a named error."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as error:
        raise StoreFolderError(f"cannot open a store in {folder}: {error}") from error
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        pass
    except OSError as error:
        os.close(descriptor)
        raise StoreFolderError(f"the store in {folder} is open elsewhere; close it first") from error
    return descriptor
