"""docs/strategies.md: every method with its idea, its memory and its cost, the latter as measured here.

What a row says of a method is taken from its class, so a new method gets its row by itself. The prose is in
templates/strategies.md.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from perf.pages import markdown_table, render
from threadpoolctl import threadpool_limits

from ocgl.strategies import ClosedForm, Strategy, find, make_strategy, names

if TYPE_CHECKING:
    from perf.timing import Call
    from perf.updates import Grown

PAGE = Path("docs/strategies.md")
TEMPLATE = Path(__file__).parent / "templates" / "strategies.md"
UPDATES = 260
MEMORY = 550  # 4 % of Amazon Computer
HEAD = ("name", "idea", "keeps", "MB", "cost per pass", "ms, 1 pass", "ms, 5 passes", "further grid", "reference")


@dataclass(frozen=True)
class Measured:
    """Seconds of an update with one pass and with five (None where there are no passes), and bytes between updates."""

    one: float
    five: float | None
    held: int


def measured(grown: "Grown") -> dict[str, Measured]:
    """Measure every method on the grown graph."""
    from perf.timing import medians

    ready = {}
    for name in names():
        known = make_strategy(name).hyperparameters()
        memory = {"buffer_size": MEMORY} if "buffer_size" in known else {}
        ready[name, 1] = grown.ready(name, **memory)
        if "passes" in known:
            ready[name, 5] = grown.ready(name, passes=5, **memory)
    times = medians({f"{n} {p}": grown.update(s) for (n, p), s in ready.items()})
    return {n: Measured(times[f"{n} 1"], times.get(f"{n} 5"), ready[n, 1].memory_bytes) for n in names()}


def row(kind: type[Strategy], found: Measured | None = None) -> tuple[str, ...]:
    """Return the row of a method; what is not measured is a dash."""
    further = [key for key in kind.grid if key not in ("lr", "passes")]
    grid = "; ".join(f"`{key}` {', '.join(map(str, kind.grid[key]))}" for key in further) or "-"
    held = "-" if found is None else f"{found.held / 1e6:.2f}"
    one, five = (None, None) if found is None else (found.one, found.five)
    times = ("-" if seconds is None else f"{1000 * seconds:.2f}" for seconds in (one, five))
    return f"`{kind.name}`", kind.idea, kind.keeps, held, kind.update_cost, *times, grid, kind.reference


def table(measure: bool = True) -> str:
    """Return the table of all registered methods, with or without measurements."""
    found: dict[str, Measured] = {}
    if measure:
        from perf.updates import Grown

        found = measured(Grown())
    return markdown_table(HEAD, (row(find(name), found.get(name)) for name in names()))


def closed_forms(grown: "Grown") -> list[tuple[str, float, float, float]]:
    """Measure what the median hides: sometimes rows are added to the moments, and a question solves again.

    Return for each method its name and milliseconds: of a mean update, of one with revisits, and of a solution.
    """
    found = []
    for name in ("slda", "ridge"):
        strategy = grown.ready(name)
        assert isinstance(strategy, ClosedForm)
        update = grown.update(strategy)
        mean, revisiting = mean_of(update), mean_of(grown.update(grown.ready(name, revisit=10, buffer_size=MEMORY)))
        solves = []
        for i in range(5):
            update(i)
            begin = time.perf_counter()
            strategy.classifier()
            solves.append(time.perf_counter() - begin)
        found.append((name, 1000 * mean, 1000 * revisiting, 1000 * min(solves)))
    return found


def mean_of(update: "Call") -> float:
    """Return the mean seconds of an update."""
    from perf.updates import BATCHES

    begin = time.perf_counter()
    for i in range(UPDATES):
        update(i % BATCHES)
    return (time.perf_counter() - begin) / UPDATES


def main() -> None:
    """Measure and write the page."""
    from perf.updates import Grown

    torch.set_num_threads(1)
    threadpool_limits(1)
    PAGE.write_text(render(TEMPLATE, table=table(), closed_forms=closed_forms(Grown()), memory=MEMORY))


if __name__ == "__main__":
    main()
