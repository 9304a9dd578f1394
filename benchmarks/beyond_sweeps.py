"""What docs/beyond.md compares with: the offline bound on every stream of the study, all methods on Coauthor CS."""

from pathlib import Path

from ocgl.benchmark import Sweep, carry_out
from ocgl.benchmark.executors import LocalExecutor
from ocgl.benchmark.results import Results
from ocgl.benchmark.verify import carry_over
from ocgl.strategies import find
from ocgl.strategies.registry import names
from ocgl.types import Json

BOUNDS = Path("results/bounds")
COAUTHOR = Path("results/coauthor-cs")
REPRODUCED = ("amazon-computer", "class")
"""Its bound comes with `make reproduce`."""
WORKERS = 2


def sweeps(pairs: list[tuple[str, str]]) -> list[Sweep]:
    """List what is run by the protocol, given pairs of dataset and stream."""
    bound: Json = {"profile": "textbook", "overrides": ("curve=false",), "grids": "coarse"}
    slow = {"amazon-computer": 2, "coauthor-cs": 1}  # seeds of those that take minutes, which come last
    wanted = sorted(set(pairs) - {REPRODUCED}, key=lambda pair: (-slow.get(pair[0], 3), pair))
    joint = [Sweep(d, ("joint",), BOUNDS, stream, seeds=slow.get(d, 3), **bound) for d, stream in wanted]
    online = tuple(name for name in names() if not find(name).offline)
    return [Sweep("coauthor-cs", online, COAUTHOR, eval_every=10, halving=True), *joint]


def run(pairs: list[tuple[str, str]]) -> list[str]:
    """Carry the sweeps out, or what is missing of them; gives what failed."""
    failed: list[str] = []
    with LocalExecutor(WORKERS) as pool:
        for folder in (BOUNDS, COAUTHOR):
            standing, _ = carry_over(folder, pool)
            print(f"{folder}: {standing} results of other code stand", flush=True)
        for sweep in sweeps(pairs):
            tally = carry_out(sweep, pool)
            print(f"{sweep.dataset}, {sweep.stream}: {tally.done} done, {tally.reused} of them before", flush=True)
            failed += tally.failed
    for folder in (BOUNDS, COAUTHOR):
        Results(folder).pack()
    print(*failed, sep="\n")
    return failed
