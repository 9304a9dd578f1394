"""Finished results on disk: one directory each, written whole or not at all, never computed again."""

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING

from ocgl.errors import ConfigError
from ocgl.experiments.results import ChoiceResult, RunResult, TrialResult, parse_result
from ocgl.types import Json

if TYPE_CHECKING:
    import polars as pl

RESULT, CURVES = "result.json", "anytime.parquet"
PACKED, PACKED_CURVES = "packed.parquet", "packed-curves.parquet"
COLUMNS = (
    "id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T",
    "AAP_kind", "AAP_low", "AAP_high",
)  # fmt: skip

AnyResult = RunResult | TrialResult | ChoiceResult


class ResultStore:
    """A folder of finished runs, tuning trials and choices, by their ids.

    Each is a directory of small files, or a row of the pack: two Parquet files that `pack` makes of all directories,
    small enough to be committed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packed: dict[str, str] | None = None

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / RESULT).is_file() or name in self._pack()

    def __iter__(self) -> Iterator[AnyResult]:
        loose = {path.parent.name for path in self.folder.glob(f"[!.]*/{RESULT}")}
        for name in sorted(loose | self._pack().keys()):
            yield self._read(name)

    @property
    def runs(self) -> Iterator[RunResult]:
        """The runs, without trials and choices."""
        return (result for result in self if isinstance(result, RunResult))

    def get(self, name: str) -> AnyResult:
        """Return a result by its id, or by the beginning of one."""
        if name in self:
            return self._read(name)
        found = [result for result in self if result.id.startswith(name)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} runs in {self.folder} have an id that begins with {name!r}")
        return found[0]

    def curves(self, name: str) -> "pl.DataFrame":
        """Return the anytime scores of a run: one row per evaluated step."""
        import polars as pl

        if (self.folder / name / CURVES).is_file():
            return pl.read_parquet(self.folder / name / CURVES)
        found = pl.scan_parquet(self.folder / PACKED_CURVES).filter(pl.col("id") == name).drop("id").collect()
        return found.select(column for column in found if not column.is_null().all() or column.name == "AP_t")

    def put(self, result: AnyResult, write_curves: Callable[[Path], object] | None = None) -> None:
        """Store a result under its id; if there is one of that id already, that one stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        building = self.folder / f".{result.id}.{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        try:
            if write_curves is not None:
                write_curves(building / CURVES)
            (building / RESULT).write_text(json.dumps(result.dump(), indent=1) + "\n")
            building.rename(self.folder / result.id)
        except OSError as error:
            shutil.rmtree(building, ignore_errors=True)
            another = error.errno in (errno.EEXIST, errno.ENOTEMPTY) and (self.folder / result.id / RESULT).is_file()
            if not another:  # another process was first: what it wrote is the same
                raise

    def pack(self) -> None:
        """Move everything into the pack. If this is killed, nothing is lost: directories are deleted last."""
        if any(self.folder.glob(f"[!.]*/{RESULT}")):
            self._repack()

    def _repack(self, without: Set[str] = frozenset()) -> None:
        import polars as pl

        everything = [result for result in self if result.id not in without]
        texts = [json.dumps(json.loads(self._text(result.id))) for result in everything]  # as written, of any schema
        curves = [(result.id, self.curves(result.id)) for result in everything if isinstance(result, RunResult)]
        frames = [frame.with_columns(pl.lit(name).alias("id")) for name, frame in curves]
        if frames:
            _write_parquet(pl.concat(frames, how="diagonal"), self.folder / PACKED_CURVES)
        names = [result.id for result in everything]
        _write_parquet(pl.DataFrame({"id": names, "result": texts}), self.folder / PACKED)
        self._packed = None
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def rename(self, renamed: Mapping[str, AnyResult]) -> None:
        """Replace results, by their old ids, with the same under the new ids that they have in themselves."""
        for name, result in renamed.items():
            self.put(result, self.curves(name).write_parquet if isinstance(result, RunResult) else None)
        self._drop(renamed.keys() - {result.id for result in renamed.values()})

    def _drop(self, names: Set[str]) -> None:
        """Delete results; those in the pack stay there until the rest has been packed without them."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        if names & self._pack().keys():
            self._repack(names)

    def rows(self, **wanted: str) -> list[Json]:
        """List the runs whose columns have the wanted values, one row each."""
        found = [_row(run) for run in self.runs]
        return [row for row in found if all(str(row[key]) == value for key, value in wanted.items())]

    def _read(self, name: str) -> AnyResult:
        return parse_result(self._text(name), str(self.folder / name)).model_copy(update={"id": name})

    def _text(self, name: str) -> str:
        path = self.folder / name / RESULT
        return path.read_text() if path.is_file() else self._pack()[name]

    def _pack(self) -> dict[str, str]:
        if self._packed is None:
            self._packed = {}
            if (self.folder / PACKED).is_file():
                import polars as pl

                self._packed = dict(pl.read_parquet(self.folder / PACKED).iter_rows())
        return self._packed


def _row(run: RunResult) -> Json:
    low, high = run.AAP_interval or (None, None)
    kind = None if run.AAP is None else "estimate" if run.estimated else "exact"
    values: Json = {name: getattr(run, name) for name in COLUMNS if not name.startswith("AAP_")}
    return values | {"AAP_kind": kind, "AAP_low": low, "AAP_high": high}


def _write_parquet(frame: "pl.DataFrame", path: Path) -> None:
    temporary = path.with_suffix(".part")
    frame.write_parquet(temporary, compression="zstd", compression_level=19)
    temporary.replace(path)


def revision() -> str | None:
    """Return the revision of the checkout that this package is run from, if it is one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
