"""The pack of a results folder: all results in two Parquet files, with their checksums in a manifest."""

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ocgl.checked import read_bytes, read_sealed, sealed, sha256_of
from ocgl.errors import DamagedFileError
from ocgl.files import write_json, write_whole
from ocgl.parquet import LARGEST, parquet_bytes, read_parquet

if TYPE_CHECKING:
    import polars as pl

RESULTS, CURVES, MANIFEST = "packed.parquet", "packed-curves.parquet", "packed.json"
SAFE_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
"""Ids that a pack may hold: none of them is a path."""


class Pack:
    """The packed results of a folder, read when they are first asked for.

    Args:
        folder: the results folder; it need not hold a pack.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def texts(self) -> dict[str, str]:
        """The results as they were written, by their ids."""
        frame = self._read(RESULTS, ("id", "result"))
        found = {} if frame is None else dict(frame.select("id", "result").iter_rows())
        strange = next((name for name in found if not SAFE_ID.fullmatch(name)), None)
        if strange is not None:
            raise DamagedFileError(self.folder / RESULTS, f"it has a result with the id {strange[:100]!r}")
        return found

    @cached_property
    def curves(self) -> "dict[str, pl.DataFrame]":
        """The anytime scores of the runs, by their ids."""
        frame = self._read(CURVES, ("id",))
        parts: dict[Any, pl.DataFrame] = {} if frame is None else frame.partition_by("id", as_dict=True)
        return {str(key[0]): _own_columns(part.drop("id")) for key, part in parts.items()}

    @property
    def checked(self) -> bool:
        """Whether the pack has checksums; an older one has none."""
        return bool(self._manifest[0])

    def write(self, texts: Mapping[str, str], curves: "Mapping[str, pl.DataFrame]") -> None:
        """Replace the pack. If this is killed, what is there is the old pack or the new one."""
        import polars as pl

        frames = [frame.with_columns(pl.lit(name).alias("id")) for name, frame in curves.items()]
        data = {RESULTS: parquet_bytes(pl.DataFrame({"id": list(texts), "result": list(texts.values())}), level=19)}
        if frames:
            data[CURVES] = parquet_bytes(pl.concat(frames, how="diagonal"), level=19)
        new = {name: sha256_of(content) for name, content in data.items()}
        old = {
            name: sha256_of(read_bytes(self.folder / name, LARGEST))
            for name in (RESULTS, CURVES)
            if (self.folder / name).is_file()
        }
        either = {name: [sums[name] for sums in (old, new) if name in sums] for name in old | new}
        self._write_manifest(either, pending=True)
        for name in reversed(data):  # curves first: a run without its curve would be damaged
            write_whole(self.folder / name, data[name])
        self._write_manifest({name: [checksum] for name, checksum in (old | new).items()}, pending=False)

    def _write_manifest(self, sums: Mapping[str, list[str]], pending: bool) -> None:
        write_json(self.folder / MANIFEST, sealed({"schema_version": 1, "files": dict(sums), "pending": pending}))

    @cached_property
    def _manifest(self) -> tuple[dict[str, list[str]], bool]:
        """The checksums that each file may have, and whether packing was cut short: then the directories are there."""
        path = self.folder / MANIFEST
        if not os.path.lexists(path):
            return {}, False
        content = read_sealed(path)
        found = content.get("files")
        if not isinstance(found, dict) or not all(isinstance(sums, list) for sums in found.values()):
            raise DamagedFileError(path, "it names no files")
        return found, bool(content.get("pending"))

    def _read(self, name: str, texts: tuple[str, ...]) -> "pl.DataFrame | None":
        """Read a file of the pack; `texts` are the columns of text that it must have."""
        path = self.folder / name
        known, pending = self._manifest
        if not os.path.lexists(path):
            if name in known and not pending:
                raise DamagedFileError(path, "it is missing")
            return None
        frame = read_parquet(path, known.get(name, []) if known else None)
        if any(str(frame.schema.get(column)) != "String" or frame[column].null_count() for column in texts):
            raise DamagedFileError(path, f"it has no columns {', '.join(texts)} of a pack")
        return frame


def _own_columns(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Leave out the columns of tasks that only other runs of the pack have."""
    return frame.select(column for column in frame if not column.is_null().all() or column.name == "AP_t")
