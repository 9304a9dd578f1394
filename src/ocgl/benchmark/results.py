"""Finished runs on disk: one directory each, written whole or not at all, never computed again."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from ocgl.benchmark.config import RunConfig
from ocgl.benchmark.keep import CURVES, RESULT, TIMINGS, write_curves
from ocgl.benchmark.run import Run
from ocgl.errors import ConfigError
from ocgl.types import Json

COLUMNS = ("id", "dataset", "stream", "strategy", "profile", "setting", "buffer", "seed", "AAP", "AP", "AF", "AF_T")


class Results:
    """A folder of finished runs and tuning trials, by their ids."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __contains__(self, name: str) -> bool:
        return (self.folder / name / RESULT).is_file()

    def __iter__(self) -> Iterator[Json]:
        for path in sorted(self.folder.glob(f"[!.]*/{RESULT}")):
            yield json.loads(path.read_text()) | {"id": path.parent.name}

    def get(self, name: str) -> Json:
        """Give a result by its id, or by the beginning of one."""
        found = [path for path in self.folder.glob(f"{name}*") if (path / RESULT).is_file()]
        if len(found) != 1:
            raise ConfigError(f"{len(found)} runs in {self.folder} have an id that begins with {name!r}")
        return cast(Json, json.loads((found[0] / RESULT).read_text())) | {"id": found[0].name}

    def put(self, name: str, result: Json, run: Run | None = None) -> None:
        """Keep a result; the first one of a name stays."""
        self.folder.mkdir(parents=True, exist_ok=True)
        building = self.folder / f".{name}.{os.getpid()}"
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        if run is not None:
            write_curves(run, building / CURVES)
        (building / RESULT).write_text(json.dumps(result, indent=1) + "\n")
        try:
            building.rename(self.folder / name)
        except OSError:  # another process was first; what it wrote is the same
            shutil.rmtree(building)

    def rows(self, **wanted: str) -> list[Json]:
        """List the runs (not the trials) whose columns have the wanted values."""
        runs = [{key: result.get(key) for key in COLUMNS} for result in self if result["kind"] == "run"]
        return [row for row in runs if all(str(row[key]) == value for key, value in wanted.items())]


def stamp(result: Json, name: str, kind: str, setting: str, config: RunConfig) -> Json:
    """Add what a result must say of itself."""
    return result | {"id": name, "kind": kind, "setting": setting, "buffer": config.buffer, "revision": revision()}


def bit_equal(first: Json, second: Json) -> bool:
    """Tell whether two results are the same but for clocks and memory."""
    ignored = {*TIMINGS, "revision", "id", "setting", "kind", "buffer", "versions"}
    return {k: v for k, v in first.items() if k not in ignored} == {k: v for k, v in second.items() if k not in ignored}


def revision() -> str | None:
    """Give the revision of the checkout this package is run from, if it is one."""
    here = Path(__file__).parent
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
