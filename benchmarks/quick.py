"""Amazon Computer, three seeds, hyperparameters as selected on the first two tasks, beside the published numbers.

Both profiles: `paper` is compared with the paper; `textbook` shows what the symmetric GCN alone is worth. Every tenth
batch is evaluated, and that is said. Ends with an error if a score has left its golden range.
"""

import json
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.select import DATASET, FOLDER
from ocgl.benchmark import configure, run_of, stream_of
from ocgl.report.published import published
from ocgl.strategies import find
from ocgl.strategies.registry import keys
from ocgl.types import Json

SEEDS = 3
EVERY = 10
OUT = Path("runs/quick.json")
PAGE = Path("docs/reproduction.md")
GOLDEN = Path(__file__).parent / "golden.json"
PROFILES = ("paper", "textbook")
ORDER = (
    ("linear", "ssm-er"),
    ("pdgnn", "ssm-er"),
    ("ssm-er", "er"),
    *(("er", m) for m in ("ewc", "mas", "twp", "lwf", "bare")),
)


def one(strategy: str, profile: str, settings: Json, seed: int) -> Json:
    text = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    config = configure(DATASET, strategy, profile=profile, seed=seed, settings=text, eval_every=EVERY)
    return run_of(config, stream_of(config)).finish()


def run_all(only: list[str] | None) -> dict[str, dict[str, list[Json]]]:
    """Run everything, or only some methods again, beside what the last time left."""
    found: dict[str, dict[str, list[Json]]] = {} if only is None else json.loads(OUT.read_text())
    for profile in PROFILES:
        found[profile] = {k: v for k, v in found.get(profile, {}).items() if only is not None and k not in only}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs: list[tuple[str, str, Future[Json]]] = []
        for profile in PROFILES:
            chosen = json.loads((FOLDER / f"{profile}.json").read_text())
            for name, choice in sorted(chosen.items(), key=lambda item: item[0] != "joint"):
                if (profile == "paper" or "norm" in keys(find(name))) and (only is None or name in only):
                    jobs += [
                        (profile, name, pool.submit(one, name, profile, choice["settings"], s)) for s in range(SEEDS)
                    ]
        for profile, name, job in jobs:
            found.setdefault(profile, {}).setdefault(name, []).append(job.result())
    return found | {"textbook": found["paper"] | found["textbook"]}  # LINEAR and PDGNN have no GCN to normalise


def mean(results: list[Json], metric: str) -> tuple[float, float] | None:
    values = [result[metric] for result in results]
    return None if None in values else (float(np.mean(values)), float(np.std(values)))


def table_of(found: dict[str, dict[str, list[Json]]]) -> Table:
    title = f"{DATASET}: mean ± std of {SEEDS} seeds, AAP over every {EVERY}th batch"
    table = Table(title=title, title_justify="left", caption="(!) beyond 3 points and two published std")
    table.add_column("method")
    for metric in ("AAP", "AP"):
        for column in ("published", "paper", "difference", "textbook"):
            table.add_column(f"{metric} {column}" if column != "difference" else "diff", justify="right")
    for name in sorted(found["paper"], key=lambda n: -(mean(found["paper"][n], "AP") or (0, 0))[0]):
        table.add_row(name, *(cell for metric in ("AAP", "AP") for cell in cells(found, name, metric)))
    return table


def page_of(found: dict[str, dict[str, list[Json]]]) -> str:
    """Write the same table for the docs."""
    head = ["method", *(f"{m} {c}" for m in ("AAP", "AP") for c in ("published", "paper", "difference", "textbook"))]
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in sorted(found["paper"], key=lambda n: -(mean(found["paper"][n], "AP") or (0, 0))[0]):
        parts = [cell for metric in ("AAP", "AP") for cell in cells(found, name, metric)]
        lines.append(f"| {' | '.join([name, *parts])} |")
    return HEAD + "\n".join(lines) + "\n"


def cells(found: dict[str, dict[str, list[Json]]], name: str, metric: str) -> list[str]:
    theirs = published(DATASET, name, metric)
    ours, textbook = (mean(found[p].get(name, [{metric: None}]), metric) for p in PROFILES)
    gap = None if ours is None or theirs is None else ours[0] - theirs[0]
    far = "" if gap is None or theirs is None or abs(gap) <= max(3, 2 * theirs[1]) else " (!)"
    shown = ["-" if pair is None else f"{pair[0]:.1f} ± {pair[1]:.1f}" for pair in (theirs, ours, textbook)]
    return [shown[0], shown[1], "-" if gap is None else f"{gap:+.1f}{far}", shown[2]]


def wrong(found: dict[str, dict[str, list[Json]]]) -> list[str]:
    """Say which scores left their golden range, and where the published order does not hold."""
    out = []
    for profile, methods in json.loads(GOLDEN.read_text()).items() if GOLDEN.exists() else ():
        for name, scores in methods.items():
            for metric, (value, tolerance) in scores.items():
                now = mean(found[profile][name], metric)
                if now is None or abs(now[0] - value) > tolerance:
                    out.append(f"{profile} {name} {metric}: {now}, golden {value} ± {tolerance}")
    for better, worse in ORDER:
        pair = [mean(found["paper"][name], "AAP") for name in (better, worse)]
        if pair[0] is None or pair[1] is None or pair[0][0] <= pair[1][0]:
            out.append(f"paper: {better} is not above {worse} in AAP")
    return out


HEAD = f"""# Amazon Computer, beside the paper

Written by `make reproduce-quick`: mean ± std of {SEEDS} seeds, hyperparameters selected on the first two tasks
(`benchmarks/selected/`), 4 % memory, AAP over every {EVERY}th batch; `textbook` is the symmetric GCN with a selection
of its own, on coarse grids ([results.md](results.md) has the whole ones; LINEAR and PDGNN have no GCN to normalise: the
same numbers). (!) marks differences beyond 3 points and two published standard deviations;
[reproduction-spread.md](reproduction-spread.md) shows what the choice of a configuration explains of them.

"""


def main() -> int:
    found = run_all(sys.argv[1].split(",") if len(sys.argv) > 1 else None)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(found, indent=1) + "\n")
    console = Console(width=150)
    console.print(table_of(found))
    PAGE.write_text(page_of(found))
    problems = wrong(found)
    for problem in problems:
        console.print(f"[red]{problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
