"""Finished results on disk: one directory each, written whole or not at all, never computed again."""

import contextlib
import json
import os
import subprocess
import warnings
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING

from ocgl import files
from ocgl.checked import parse_json, read_bytes, sha256_of
from ocgl.errors import ConfigError, DamagedFileError, FileWarning, ResultError
from ocgl.experiments.consistency import contradictions_of_curve
from ocgl.experiments.pack import CURVES as PACKED_CURVES
from ocgl.experiments.pack import RESULTS as PACKED
from ocgl.experiments.pack import SAFE_ID, Pack
from ocgl.experiments.parsing import parse_result
from ocgl.experiments.results import AnyResult, RunResult
from ocgl.parquet import parquet_bytes, read_parquet
from ocgl.types import Json

if TYPE_CHECKING:
    import polars as pl

RESULT, CURVES = "result.json", "anytime.parquet"
COLUMNS = (
    "id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T",
    "AAP_kind", "AAP_low", "AAP_high", "checksum", "selection",
)  # fmt: skip
Stamp = tuple[tuple[int, int], ...] | None


class ResultStore:
    """A folder of finished runs, tuning trials and choices, by their ids.

    Each is a directory of small files, or a row of the pack: two Parquet files that `pack` makes of all directories,
    small enough to be committed. Everything is checked when it is read: checksums, and scores against the matrix and
    the curve they are made of. Iterating leaves out what is damaged and lists it in `damaged`.

    Args:
        folder: the folder; it need not exist.

    Attributes:
        damaged: what was found damaged so far, by file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.damaged: dict[str, DamagedFileError] = {}
        self._pack = Pack(folder)
        self._known: dict[str, tuple[Stamp, AnyResult]] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether a result is there and intact; a pack that cannot be read at all raises `DamagedFileError`."""
        if not self._is_loose(name) and name not in self._pack.texts:
            return False
        try:
            self._read(name)
        except DamagedFileError:
            return False
        return True

    def __iter__(self) -> Iterator[AnyResult]:
        for name in self.names():
            try:
                yield self._read(name)
            except DamagedFileError as error:
                self.damaged[str(error.path)] = error

    def names(self) -> list[str]:
        """List the ids of all results, damaged ones included; a damaged pack is noted in `damaged`."""
        loose = {path.parent.name for path in self.folder.glob(f"[!.]*/{RESULT}")}
        try:
            packed = self._pack.texts.keys()
        except DamagedFileError as error:
            self.damaged[str(error.path)] = error
            packed = {}.keys()
        return sorted(loose | packed)

    def _is_loose(self, name: str) -> bool:
        """Return whether a result has a directory, whatever its file is."""
        return os.path.lexists(self.folder / name / RESULT)

    @property
    def runs(self) -> Iterator[RunResult]:
        """The runs, without trials and choices."""
        return (result for result in self if isinstance(result, RunResult))

    def get(self, name: str) -> AnyResult:
        """Return a result by its id, or by the beginning of one."""
        if SAFE_ID.fullmatch(name) and (self._is_loose(name) or name in self._pack.texts):
            return self._read(name)
        found = [known for known in self.names() if known.startswith(name)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} results in {self.folder} have an id that begins with {name!r}")
        return self._read(found[0])

    def has_curves(self, name: str) -> bool:
        """Return whether there is a curve of a result."""
        if self._is_loose(name):
            return (self.folder / name / CURVES).exists()
        return name in self._pack.curves

    def curves(self, name: str) -> "pl.DataFrame":
        """Return the anytime scores of a run: one row per evaluated step."""
        if self._is_loose(name):
            return read_curves(self.folder / name, self._values(name))
        found = self._pack.curves.get(name)
        if found is None:
            raise ResultError(self.folder / PACKED_CURVES, f"it has no curve of {name}")
        return found

    def put(self, result: AnyResult, curves: "pl.DataFrame | None" = None) -> None:
        """Store a result under its id; if there is an intact one of that id already, that one stays.

        Args:
            result: the result.
            curves: its anytime scores, for a run.
        """
        target = self.folder / result.id
        if os.path.lexists(target) and result.id not in self:
            warnings.warn(f"{target} is damaged; it was set aside as {files.set_aside(target)}", FileWarning, 2)
        with files.building(target, lambda _: False) as new:
            sums = {}
            if curves is not None:
                data = parquet_bytes(curves)
                sums[CURVES] = sha256_of(data)
                files.write_whole(new / CURVES, data)
            files.write_json(new / RESULT, result.sealed(sums))

    def pack(self) -> None:
        """Move everything into the pack. If this is killed, nothing is lost: directories are deleted last.

        The folder of an `ocgl run`, or one that was renamed, stays as it is.
        """
        with files.locked(self.folder):
            self._pack = Pack(self.folder)
            if any(self.folder.glob(f"[!.]*/{RESULT}")):
                self._repack()

    def _repack(self, without: Set[str] = frozenset()) -> None:
        names = [result.id for result in self if result.id not in without and self._can_be_packed(result.id)]
        if self.damaged:
            raise next(iter(self.damaged.values()))  # packing would drop it
        texts = {name: json.dumps(self._values(name)) for name in names}  # as written, of any schema
        self._pack.write(texts, {name: self.curves(name) for name in names if self.has_curves(name)})
        self._pack = Pack(self.folder)
        for name in names:
            self._remove(name)

    def _can_be_packed(self, name: str) -> bool:
        """Return whether a result is one of a bench: its directory has its id as name."""
        return not self._is_loose(name) or (bool(SAFE_ID.fullmatch(name)) and self._values(name).get("id") == name)

    def _remove(self, name: str) -> None:
        """Remove a result's own files, the result first: a curve without one is nobody's. What else is there stays."""
        for file in (RESULT, CURVES):
            (self.folder / name / file).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.folder / name).rmdir()

    def rename(self, renamed: Mapping[str, AnyResult]) -> None:
        """Replace results, by their old ids, with the same under the new ids that they have in themselves."""
        for name, result in renamed.items():
            self.put(result, self.curves(name) if isinstance(result, RunResult) and self.has_curves(name) else None)
        self._drop(renamed.keys() - {result.id for result in renamed.values()})

    def _drop(self, names: Set[str]) -> None:
        """Delete results; those in the pack stay there until the rest has been packed without them."""
        for name in names:
            self._remove(name)
        if names & self._pack.texts.keys():
            self._repack(names)

    def rows(self, **wanted: str) -> list[Json]:
        """List the runs whose columns have the wanted values, one row each."""
        found = [_row(run) for run in self.runs]
        return [row for row in found if all(str(row[key]) == value for key, value in wanted.items())]

    def _read(self, name: str) -> AnyResult:
        """Read and check a result, once per content."""
        stamp = self._stamp(name)
        if stamp is not None and name in self._known and self._known[name][0] == stamp:
            return self._known[name][1]
        result = self._checked(name)
        self._known[name] = (stamp, result)
        return result

    def _stamp(self, name: str) -> Stamp:
        """Return time and size of the files of a result, none of a packed one; None if a file is missing."""
        try:
            facts = [(self.folder / name / file).stat() for file in (RESULT, CURVES) if self._is_loose(name)]
        except OSError:
            return None
        return tuple((fact.st_mtime_ns, fact.st_size) for fact in facts)

    def _checked(self, name: str) -> AnyResult:
        loose = self._is_loose(name)
        where = self.folder / name / RESULT if loose else f"{self.folder / PACKED} ({name})"
        values = self._values(name)
        result = parse_result(values, where)
        if result.id and result.id != name and result.checked:
            raise ResultError(where, f"it is the result {result.id}, not {name}")
        stored_with_curve = not loose or CURVES in files_of(values) or self.has_curves(name)
        if isinstance(result, RunResult) and stored_with_curve:
            wrong = contradictions_of_curve(result, self.curves(name))
            if wrong:
                curve = self.folder / name / CURVES if loose else f"{self.folder / PACKED_CURVES} ({name})"
                raise ResultError(curve, wrong[0])
        return result.model_copy(update={"id": name, "checked": result.checked and (loose or self._pack.checked)})

    def _values(self, name: str) -> Json:
        """Return a result as it was written."""
        if self._is_loose(name):
            return parse_json(read_bytes(self.folder / name / RESULT), self.folder / name / RESULT)
        return parse_json(self._pack.texts[name], f"{self.folder / PACKED} ({name})")


def files_of(values: Json) -> Json:
    """Return the checksums of the files that belong to a stored result."""
    found = values.get("files")
    return found if isinstance(found, dict) else {}


def read_curves(folder: Path, values: Json) -> "pl.DataFrame":
    """Read the anytime scores that lie beside a stored result, after comparing them with their checksum.

    Args:
        folder: the folder of the result.
        values: the result as it was written; an older one has no checksum of its curve.
    """
    known = files_of(values).get(CURVES)
    return read_parquet(folder / CURVES, None if known is None else [str(known)])


def _row(run: RunResult) -> Json:
    low, high = run.AAP_interval or (None, None)
    kind = None if run.AAP is None else "estimate" if run.estimated else "exact"
    own = [name for name in COLUMNS if name not in ("checksum", "selection") and not name.startswith("AAP_")]
    values: Json = {name: getattr(run, name) for name in own}
    tied = None if run.selection is None else "tied" if run.selection.tied else "selected"
    more = {"AAP_kind": kind, "AAP_low": low, "AAP_high": high}
    return values | more | {"checksum": "checked" if run.checked else "unchecked", "selection": tied}


def revision() -> str | None:
    """Return the revision of the checkout that this package is run from, if it is one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
