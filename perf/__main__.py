"""Measure everything, print one table, and leave the figures as JSON and as a page."""

import json
import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from perf import (
    backbones,
    changes,
    checksums,
    evaluation,
    performance_page,
    scale,
    sizes,
    sparse,
    updates,
    whole,
    workers,
)
from perf.updates import HEADS, Row

OUT = Path("runs/bench.json")


def table_of(rows: list[Row]) -> Table:
    table = Table(title="ocgl: one thread, ratios against a reference in the same run", title_justify="left")
    for name in HEADS:
        table.add_column(name, justify="right" if name in ("ours", "theirs", "ratio", "wanted") else "left")
    for row in rows:
        table.add_row(*row.cells, {True: "met", False: "[red]missed", None: ""}[row.met])
    return table


def processor() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return f"{names[0]}, {len(names)} processors" if names else platform.machine()


def main() -> int:
    rows = (
        updates.measure()
        + backbones.measure()
        + evaluation.measure()
        + sparse.measure()
        + scale.measure()
        + workers.measure()
        + checksums.measure()
        + changes.measure()
    )
    long, runs = whole.measure()
    rows += long
    Console(width=180).print(table_of(rows))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([row.record for row in rows], indent=1) + "\n")  # should the rest fail
    performance_page.write(rows, runs, sizes.measure(), processor())
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
