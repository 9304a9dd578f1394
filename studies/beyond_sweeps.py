"""What docs/beyond.md compares with: the offline bound on every stream of the study, all methods on Coauthor CS."""

from pathlib import Path

from ocgl.experiments import Sweep, run_sweep
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.verify import verify_and_adopt
from ocgl.strategies import find, names
from ocgl.types import Json

BOUNDS = Path("results/bounds")
COAUTHOR = Path("results/coauthor-cs-first-reading")
REPRODUCED = ("amazon-computer", "class")
"""Its bound comes with `make reproduce`."""
WORKERS = 2


def sweeps(pairs: list[tuple[str, str]]) -> list[Sweep]:
    """List what is run by the protocol, given pairs of dataset and stream."""
    bound: Json = {"profile": "first-reading-textbook", "overrides": {"curve": False}, "grids": "coarse"}
    slow = {"amazon-computer": 2, "coauthor-cs": 1}  # seeds of those that take minutes, which come last
    wanted = sorted(set(pairs) - {REPRODUCED}, key=lambda pair: (-slow.get(pair[0], 3), pair))
    joint = [Sweep(d, ("joint",), BOUNDS, stream, seeds=slow.get(d, 3), **bound) for d, stream in wanted]
    online = tuple(name for name in names() if not find(name).offline)
    whole = Sweep("coauthor-cs", online, COAUTHOR, eval_every=10, halving=True, profile="first-reading")
    return [whole, *joint]


def run(pairs: list[tuple[str, str]]) -> list[str]:
    """Run the sweeps, or what is missing of them; return what failed."""
    failed: list[str] = []
    with LocalExecutor(WORKERS) as pool:
        for folder in (BOUNDS, COAUTHOR):
            adopted, _ = verify_and_adopt(folder, pool)
            print(f"{folder}: {adopted} results of other code adopted", flush=True)
        for sweep in sweeps(pairs):
            status = run_sweep(sweep, pool)
            print(f"{sweep.dataset}, {sweep.stream}: {status.done} done, {status.reused} of them before", flush=True)
            failed += status.failed
    for folder in (BOUNDS, COAUTHOR):
        ResultStore(folder).pack()
    print(*failed, sep="\n")
    return failed
