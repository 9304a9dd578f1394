"""Measure everything, print one table, and leave the figures as JSON."""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import scale, updates, workers
from benchmarks.updates import Row

OUT = Path("runs/bench.json")


def table_of(rows: list[Row]) -> Table:
    table = Table(title="ocgl: one thread, ratios against a reference in the same run", title_justify="left")
    for name in ("measured", "ours", "reference", "theirs", "ratio", "wanted", ""):
        table.add_column(name, justify="right" if name in ("ours", "theirs", "ratio", "wanted") else "left")
    for row in rows:
        sign = "≤" if row.at_most else "≥"
        wanted = "" if row.wanted is None else f"{sign} {row.wanted:g}"
        met = {True: "met", False: "[red]missed", None: ""}[row.met]
        ours, theirs = (f"{value:,.2f} {row.unit}" for value in (row.ours, row.theirs))
        table.add_row(row.what, ours, row.reference, theirs, f"{row.ratio:.2f}", wanted, met)
    return table


def main() -> int:
    rows = updates.measure() + scale.measure() + workers.measure()
    Console(width=150).print(table_of(rows))
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps([asdict(row) | {"ratio": row.ratio, "met": row.met} for row in rows], indent=1) + "\n")
    return 0 if all(row.met is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
