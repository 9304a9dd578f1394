"""Finished results on disk: one directory each, written whole or not at all, never computed again."""

import contextlib
import io
import json
import os
import re
import subprocess
import warnings
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocgl import files
from ocgl.errors import ConfigError, DamagedFileError, FileWarning, ResultError
from ocgl.experiments.results import ChoiceResult, RunResult, TrialResult, parse_result
from ocgl.types import Json

if TYPE_CHECKING:
    import polars as pl

RESULT, CURVES = "result.json", "anytime.parquet"
PACKED, PACKED_CURVES, PACK_MANIFEST = "packed.parquet", "packed-curves.parquet", "packed.json"
COLUMNS = (
    "id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T",
    "AAP_kind", "AAP_low", "AAP_high", "checksum",
)  # fmt: skip
LARGEST = 256 << 20
"""Largest Parquet file, and largest text of all results of a pack, that is read, in bytes."""
MOST_CELLS = 30_000_000
"""Most values of a Parquet file that is read."""
TOLERANCE = 1e-6
"""Largest difference, in points, between a score and the same score computed from the curve."""

AnyResult = RunResult | TrialResult | ChoiceResult
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


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
        self._packed: dict[str, str] | None = None
        self._packed_curves: dict[str, pl.DataFrame] | None = None
        self._intact: dict[str, tuple[int, int]] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether a result is there and intact; a pack that cannot be read at all raises `DamagedFileError`."""
        path, loose = self.folder / name / RESULT, self._is_loose(name)
        if not loose and name not in self._pack():
            return False
        try:
            stamp = (path.stat().st_mtime_ns, path.stat().st_size) if loose else (0, 0)
            if self._intact.get(name) != stamp:
                self._read(name)
                self._intact[name] = stamp
        except (DamagedFileError, OSError):
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
            packed = self._pack().keys()
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
        if _ID.fullmatch(name) and (self._is_loose(name) or name in self._pack()):
            return self._read(name)
        found = [known for known in self.names() if known.startswith(name)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} results in {self.folder} have an id that begins with {name!r}")
        return self._read(found[0])

    def has_curves(self, name: str) -> bool:
        """Return whether there is a curve of a result."""
        if self._is_loose(name):
            return (self.folder / name / CURVES).exists()
        return name in self._pack_curves()

    def curves(self, name: str) -> "pl.DataFrame":
        """Return the anytime scores of a run: one row per evaluated step."""
        if self._is_loose(name):
            return self._loose_curves(name, files.parse_json(self._text(name), self.folder / name / RESULT))
        found = self._pack_curves().get(name)
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
                sums[CURVES] = files.sha256_of(data)
                files.write_whole(new / CURVES, data)
            files.write_json(new / RESULT, result.sealed(sums))

    def pack(self) -> None:
        """Move everything into the pack. If this is killed, nothing is lost: directories are deleted last.

        The folder of an `ocgl run`, or one that was renamed, stays as it is.
        """
        with files.locked(self.folder):
            self._packed = self._packed_curves = None
            if any(self.folder.glob(f"[!.]*/{RESULT}")):
                self._repack()

    def _repack(self, without: Set[str] = frozenset()) -> None:
        import polars as pl

        everything = [result for result in self if result.id not in without and self._can_be_packed(result.id)]
        if self.damaged:
            raise next(iter(self.damaged.values()))  # packing would drop it
        texts = [json.dumps(json.loads(self._text(result.id))) for result in everything]  # as written, of any schema
        names = [result.id for result in everything]
        curves = [(name, self.curves(name)) for name in names if self.has_curves(name)]
        frames = [frame.with_columns(pl.lit(name).alias("id")) for name, frame in curves]
        data = {PACKED: parquet_bytes(pl.DataFrame({"id": names, "result": texts}), level=19)}
        if frames:
            data[PACKED_CURVES] = parquet_bytes(pl.concat(frames, how="diagonal"), level=19)
        self._write_pack(data)
        for name in names:
            self._remove(name)

    def _can_be_packed(self, name: str) -> bool:
        """Return whether a result is one of a bench: its directory has its id as name."""
        if not self._is_loose(name):
            return True
        stored = files.parse_json(self._text(name), self.folder / name / RESULT).get("id")
        return bool(_ID.fullmatch(name)) and stored == name

    def _remove(self, name: str) -> None:
        """Remove a result's own files, the result first: a curve without one is nobody's. What else is there stays."""
        for file in (RESULT, CURVES):
            (self.folder / name / file).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            (self.folder / name).rmdir()

    def _write_pack(self, data: dict[str, bytes]) -> None:
        """Write the files of the pack; the manifest that is written first knows the old files and the new ones."""
        new = {name: files.sha256_of(content) for name, content in data.items()}
        old = {
            name: files.sha256_of(files.read_bytes(self.folder / name, LARGEST))
            for name in (PACKED, PACKED_CURVES)
            if (self.folder / name).is_file()
        }
        either = {name: [sums[name] for sums in (old, new) if name in sums] for name in old | new}
        self._write_manifest(either, pending=True)
        for name in reversed(data):  # curves first: a run without its curve would be damaged
            files.write_whole(self.folder / name, data[name])
        self._write_manifest({name: [checksum] for name, checksum in (old | new).items()})
        self._packed = self._packed_curves = None

    def _write_manifest(self, sums: Mapping[str, list[str]], pending: bool = False) -> None:
        content = {"schema_version": 1, "files": dict(sums), "pending": pending}
        files.write_json(self.folder / PACK_MANIFEST, files.sealed(content))

    def _manifest(self) -> tuple[dict[str, list[str]], bool]:
        """Return the checksums that each file of the pack may have, and whether packing was cut short.

        An older pack has no checksums. While packing is cut short, the directories are still there.
        """
        path = self.folder / PACK_MANIFEST
        if not path.exists() and not path.is_symlink():
            return {}, False
        content = files.read_sealed(path)
        found = content.get("files")
        if not isinstance(found, dict) or not all(isinstance(sums, list) for sums in found.values()):
            raise DamagedFileError(path, "it names no files")
        return found, bool(content.get("pending"))

    def rename(self, renamed: Mapping[str, AnyResult]) -> None:
        """Replace results, by their old ids, with the same under the new ids that they have in themselves."""
        for name, result in renamed.items():
            self.put(result, self.curves(name) if isinstance(result, RunResult) and self.has_curves(name) else None)
        self._drop(renamed.keys() - {result.id for result in renamed.values()})

    def _drop(self, names: Set[str]) -> None:
        """Delete results; those in the pack stay there until the rest has been packed without them."""
        for name in names:
            self._remove(name)
        if names & self._pack().keys():
            self._repack(names)

    def rows(self, **wanted: str) -> list[Json]:
        """List the runs whose columns have the wanted values, one row each."""
        found = [_row(run) for run in self.runs]
        return [row for row in found if all(str(row[key]) == value for key, value in wanted.items())]

    def _read(self, name: str) -> AnyResult:
        loose = self._is_loose(name)
        where = self.folder / name / RESULT if loose else f"{self.folder / PACKED} ({name})"
        text = self._text(name)
        result = parse_result(text, where)
        if result.id and result.id != name and result.checked:
            raise ResultError(where, f"it is the result {result.id}, not {name}")
        if isinstance(result, RunResult):
            self._check_curves(result, name, loose, files.parse_json(text, where))
        checked = result.checked and (loose or bool(self._manifest()[0]))
        return result.model_copy(update={"id": name, "checked": checked})

    def _check_curves(self, run: RunResult, name: str, loose: bool, values: Json) -> None:
        """Raise `ResultError` if the curve and the scores of a run contradict each other."""
        where = self.folder / name / CURVES if loose else f"{self.folder / PACKED_CURVES} ({name})"
        if loose and CURVES not in _files_of(values) and not self.has_curves(name):
            return  # it was stored without one
        curves = self._loose_curves(name, values) if loose else self.curves(name)
        lacking = {"step", "task", "AP_t"} - set(curves.columns)
        if lacking:
            raise ResultError(where, f"it has no column {', '.join(sorted(lacking))}")
        if run.offline:
            return
        anytime = curves["AP_t"].to_numpy()
        defined = anytime[anytime == anytime]
        mean = float(defined.mean()) if len(defined) else None
        if (mean is None) != (run.AAP is None) or (
            mean is not None and run.AAP is not None and abs(mean - run.AAP) > TOLERANCE
        ):
            raise ResultError(where, f"its mean AP_t is {mean}, but the AAP of the result is {run.AAP}")

    def _text(self, name: str) -> bytes | str:
        return files.read_bytes(self.folder / name / RESULT) if self._is_loose(name) else self._pack()[name]

    def _loose_curves(self, name: str, values: Json) -> "pl.DataFrame":
        path = self.folder / name / CURVES
        data = files.read_bytes(path, LARGEST)
        wanted = _files_of(values).get(CURVES)
        if wanted is not None and files.sha256_of(data) != wanted:
            raise ResultError(path, "its checksum is wrong: it was changed after it was written")
        return read_parquet(data, path)

    def _pack(self) -> dict[str, str]:
        if self._packed is None:
            found: dict[str, str] = {}
            frame = self._pack_file(PACKED, ("id", "result"))
            if frame is not None:
                found = dict(frame.select("id", "result").iter_rows())
            strange = next((name for name in found if not _ID.fullmatch(name)), None)
            if strange is not None:
                raise DamagedFileError(self.folder / PACKED, f"it has a result with the id {strange[:100]!r}")
            self._packed = found
        return self._packed

    def _pack_curves(self) -> "dict[str, pl.DataFrame]":
        if self._packed_curves is None:
            frame = self._pack_file(PACKED_CURVES, ("id", "AP_t"))
            parts: dict[Any, pl.DataFrame] = {} if frame is None else frame.partition_by("id", as_dict=True)
            self._packed_curves = {str(key[0]): _own_columns(part.drop("id")) for key, part in parts.items()}
        return self._packed_curves

    def _pack_file(self, name: str, needed: tuple[str, ...]) -> "pl.DataFrame | None":
        """Read a file of the pack after comparing it with its checksum, where it has one."""
        path = self.folder / name
        known, pending = self._manifest()
        if not path.exists() and not path.is_symlink():
            if name in known and not pending:
                raise DamagedFileError(path, "it is missing")
            return None
        data = files.read_bytes(path, LARGEST)
        if known and files.sha256_of(data) not in known.get(name, []):
            raise DamagedFileError(path, "its checksum is wrong: it was changed after it was written")
        frame = read_parquet(data, path)
        texts = [column for column in needed if column != "AP_t"]
        lacking = [column for column in needed if column not in frame.columns]
        if lacking or any(str(frame.schema[column]) != "String" or frame[column].null_count() for column in texts):
            raise DamagedFileError(path, f"it has no columns {', '.join(needed)} of a pack")
        return frame


def _files_of(values: Json) -> Json:
    """Return the checksums of the files that belong to a stored result."""
    found = values.get("files")
    return found if isinstance(found, dict) else {}


def _own_columns(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Leave out the columns of tasks that only other runs of the pack have."""
    return frame.select(column for column in frame if not column.is_null().all() or column.name == "AP_t")


def _row(run: RunResult) -> Json:
    low, high = run.AAP_interval or (None, None)
    kind = None if run.AAP is None else "estimate" if run.estimated else "exact"
    values: Json = {name: getattr(run, name) for name in COLUMNS if name != "checksum" and not name.startswith("AAP_")}
    more = {"AAP_kind": kind, "AAP_low": low, "AAP_high": high}
    return values | more | {"checksum": "checked" if run.checked else "unchecked"}


def parquet_bytes(frame: "pl.DataFrame", level: int | None = None) -> bytes:
    """Return a table as the bytes of a Parquet file.

    Args:
        frame: the table.
        level: level of compression; the usual one if None.
    """
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", compression_level=level)
    return buffer.getvalue()


def read_parquet(data: bytes, path: object) -> "pl.DataFrame":
    """Return the table in the bytes of a Parquet file; what is none, or is too large, raises `DamagedFileError`."""
    import polars as pl

    try:
        lazy = pl.scan_parquet(io.BytesIO(data))
        names = lazy.collect_schema().names()
        rows = int(lazy.select(pl.len()).collect().item())
        if rows * len(names) > MOST_CELLS:
            raise DamagedFileError(path, f"it has {rows:,} rows of {len(names)} columns, more than allowed")
        texts = [name for name, kind in lazy.collect_schema().items() if kind == pl.String]
        if texts and rows:
            sizes = lazy.select(pl.col(name).str.len_bytes().sum() for name in texts).collect().row(0)
            if sum(size or 0 for size in sizes) > LARGEST:
                raise DamagedFileError(path, f"its texts have more than {LARGEST:,} bytes")
        return lazy.collect()
    except DamagedFileError:
        raise
    except BaseException as error:  # a panic of polars is no Exception
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        text = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise DamagedFileError(path, f"it is no Parquet file ({text})") from error


def revision() -> str | None:
    """Return the revision of the checkout that this package is run from, if it is one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
