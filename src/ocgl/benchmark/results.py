"""Finished runs on disk: one directory each, written whole or not at all, never computed again."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.identity import code_name
from ocgl.benchmark.keep import CURVES, RESULT, TIMINGS, write_curves
from ocgl.benchmark.run import Run
from ocgl.errors import ConfigError
from ocgl.types import Json

if TYPE_CHECKING:
    import polars as pl

PACKED, PACKED_CURVES = "packed.parquet", "packed-curves.parquet"
COLUMNS = (
    "id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T",
    "AAP_kind", "AAP_low", "AAP_high",
)  # fmt: skip


class Results:
    """A folder of finished runs, tuning trials and choices, by their ids.

    Each is a directory of small files, or a row of the pack: two Parquet files that `pack` makes of all directories,
    small enough to be kept with the code.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._packed: dict[str, Json] | None = None

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / RESULT).is_file() or name in self._pack()

    def __iter__(self) -> Iterator[Json]:
        loose = {path.parent.name for path in self.folder.glob(f"[!.]*/{RESULT}")}
        for name in sorted(loose | self._pack().keys()):
            yield self._read(name)

    def get(self, name: str) -> Json:
        """Give a result by its id, or by the beginning of one."""
        if name in self:
            return self._read(name)
        found = [result for result in self if result["id"].startswith(name)]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} runs in {self.folder} have an id that begins with {name!r}")
        return found[0]

    def curves(self, name: str) -> "pl.DataFrame":
        """Give the anytime scores of a run: one row per evaluated step."""
        import polars as pl

        if (self.folder / name / CURVES).is_file():
            return pl.read_parquet(self.folder / name / CURVES)
        found = pl.scan_parquet(self.folder / PACKED_CURVES).filter(pl.col("id") == name).drop("id").collect()
        return found.select(column for column in found if not column.is_null().all() or column.name == "AP_t")

    def put(self, name: str, result: Json, run: Run | None = None) -> None:
        """Keep a result; the first one of a name stays."""
        self._keep(name, result, lambda path: None if run is None else write_curves(run, path))

    def _keep(self, name: str, result: Json, draw: Callable[[Path], object]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        building = self.folder / f".{name}.{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        draw(building / CURVES)
        (building / RESULT).write_text(json.dumps(result, indent=1) + "\n")
        try:
            building.rename(self.folder / name)
        except OSError:  # another process was first; what it wrote is the same
            shutil.rmtree(building)

    def pack(self) -> None:
        """Move everything into the pack. Killed at any moment, nothing is lost: directories go last."""
        if any(self.folder.glob(f"[!.]*/{RESULT}")):
            self._repack()

    def _repack(self, without: Set[str] = frozenset()) -> None:
        import polars as pl

        everything = [result for result in self if result["id"] not in without]
        names = [result["id"] for result in everything]
        texts = [json.dumps(result) for result in everything]
        drawn = [(r["id"], self.curves(r["id"])) for r in everything if r["kind"] == "run"]
        frames = [frame.with_columns(pl.lit(name).alias("id")) for name, frame in drawn]
        if frames:
            _write_parquet(pl.concat(frames, how="diagonal"), self.folder / PACKED_CURVES)
        _write_parquet(pl.DataFrame({"id": names, "result": texts}), self.folder / PACKED)
        self._packed = None
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def rename(self, renamed: Mapping[str, Json]) -> None:
        """Replace results, by their old ids, with the same under the new ids that they have in themselves."""
        for name, result in renamed.items():
            curves = self.curves(name).write_parquet if result["kind"] == "run" else lambda _: None
            self._keep(result["id"], result, curves)
        self._drop(renamed.keys() - {result["id"] for result in renamed.values()})

    def _drop(self, names: Set[str]) -> None:
        """Forget results; what is in the pack stays there until the rest has been packed without them."""
        for name in names:
            shutil.rmtree(self.folder / name, ignore_errors=True)
        if names & self._pack().keys():
            self._repack(names)

    def rows(self, **wanted: str) -> list[Json]:
        """List the runs (not the trials) whose columns have the wanted values."""
        runs = [_row(result) for result in self if result["kind"] == "run"]
        return [row for row in runs if all(str(row[key]) == value for key, value in wanted.items())]

    def _read(self, name: str) -> Json:
        path = self.folder / name / RESULT
        found = cast(Json, json.loads(path.read_text())) if path.is_file() else self._pack()[name]
        return found | {"id": name}

    def _pack(self) -> dict[str, Json]:
        if self._packed is None:
            self._packed = {}
            if (self.folder / PACKED).is_file():
                import polars as pl

                rows = pl.read_parquet(self.folder / PACKED).iter_rows()
                self._packed = {name: json.loads(text) for name, text in rows}
        return self._packed


def estimate_in(result: Json) -> Json | None:
    """Give what a result says of its evaluation where its AAP is an estimate; None where AAP is exact, or none.

    >>> estimate_in({"AAP": 90.0, "evaluation": {"anytime": "exact", "nodes": 5, "of": 5}})
    """
    asked: Json = result.get("evaluation", {})
    return asked if asked.get("anytime") == "estimate" and result["AAP"] is not None else None


def interval_in(result: Json) -> tuple[float, float] | None:
    """Give the bootstrap interval of an estimated AAP, where there is one."""
    ends = (estimate_in(result) or {}).get("AAP_interval")
    return None if ends is None else (ends[0], ends[1])


def _row(result: Json) -> Json:
    low, high = interval_in(result) or (None, None)
    kind = None if result["AAP"] is None else "exact" if estimate_in(result) is None else "estimate"
    found = result | {"AAP_kind": kind, "AAP_low": low, "AAP_high": high}
    return {key: found.get(key) for key in COLUMNS}


def _write_parquet(frame: "pl.DataFrame", path: Path) -> None:
    temporary = path.with_suffix(".part")
    frame.write_parquet(temporary, compression="zstd", compression_level=19)
    temporary.replace(path)


def stamp(result: Json, name: str, kind: str, setting: str, config: RunConfig, selection: Json | None = None) -> Json:
    """Add what a result must say of itself; `selection` is how its hyperparameters were found."""
    facts: Json = {"id": name, "kind": kind, "setting": setting, "buffer": config.buffer, "revision": revision()}
    facts["code"] = code_name(config.strategy)
    return result | facts | ({"selection": selection} if selection is not None else {})


def bit_equal(first: Json, second: Json) -> bool:
    """Tell whether two results are the same but for clocks and memory.

    A result may be older than a key that the other has; the protocol card is words.
    """
    ignored = {*TIMINGS, "revision", "code", "id", "setting", "kind", "buffer", "versions", "selection", "protocol"}
    pair = [result | {"config": _complete(result.get("config"))} for result in (first, second)]
    return all(pair[0][key] == pair[1][key] for key in (pair[0].keys() & pair[1].keys()) - ignored)


def _complete(config: Json | None) -> Json | None:
    """Give a config with all options that there are now, at their defaults where it has none."""
    return None if config is None else RunConfig.model_validate(config).model_dump(mode="json")


def of_one_code(results: Iterable[Json]) -> list[Json]:
    """Leave out what was run by other code: of each method's runs the present code's stay, or those most in number."""
    groups: dict[tuple[str, ...], dict[str | None, list[Json]]] = {}
    for result in results:
        place = tuple(str(result[key]) for key in ("dataset", "stream", "profile", "strategy", "setting", "buffer"))
        groups.setdefault(place, {}).setdefault(result.get("code"), []).append(result)
    kept = []
    for place, by_code in groups.items():
        chosen: list[Json] = by_code.get(code_name(place[3])) or max(by_code.values(), key=len)
        kept += chosen
    return kept


def revision() -> str | None:
    """Give the revision of the checkout this package is run from, if it is one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
