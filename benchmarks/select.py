"""Select hyperparameters on the first two tasks of Amazon Computer, and keep them with the table of all scores.

`python -m benchmarks.select paper` (or textbook) writes benchmarks/selected/PROFILE.json. Profile paper searches the
paper's whole grids (Joint all but the smallest lr); profile textbook coarse versions.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console

from benchmarks.reproduce import PUBLISHED
from ocgl.benchmark import configure, run_of, stream_of
from ocgl.benchmark.tuning import Grid, best, configurations, grid_of, score, tune_tasks
from ocgl.strategies import find
from ocgl.types import Json

DATASET = "amazon-computer"
FOLDER = Path(__file__).parent / "selected"
COARSE: Grid = {
    "lr": (1e-2, 1e-3, 1e-4),
    "passes": (1, 5),
    "memory_proportion": (1, 3),
    "neighbors_budget": ((5, 5), (10, 10)),
    "strength": (1e0, 1e2, 1e4, 1e6, 1e8),
    "lambda_dist": (1.0, 10.0),
    "temperature": (2.0, 20.0),
    "update_every": (1, 10, 100),
    "lambda_l": (1e2, 1e4, 1e6),
    "lambda_t": (1e2, 1e6),
    "beta": (1e-3,),
}


def searched(strategy: str, profile: str) -> list[Json]:
    whole = grid_of(strategy)
    if strategy == "joint":
        return configurations({"lr": COARSE["lr"], "curve": (False,)})
    if profile == "paper":
        return configurations(whole)
    return configurations({key: COARSE[key] for key in whole})


def trial(strategy: str, profile: str, settings: Json) -> float:
    text = [f"{key}={json.dumps(value)}" for key, value in settings.items()]
    config = configure(DATASET, strategy, profile=profile, settings=text)
    stream = stream_of(config)
    if find(strategy).offline:  # no stream, no prefix: its validation AP on everything decides
        return float(run_of(config, stream, test=False).finish()["AP_validation"])
    return score(config, stream.prefix(tune_tasks(stream.tasks)))


def select(profile: str, strategies: list[str]) -> None:
    console = Console()
    path = FOLDER / f"{profile}.json"
    FOLDER.mkdir(exist_ok=True)
    chosen: Json = json.loads(path.read_text()) if path.exists() else {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        jobs = {}
        for name in strategies:
            for settings in searched(name, profile):
                standing = json.dumps(find(name).representative(settings))
                if (name, standing) not in jobs:
                    jobs[name, standing] = pool.submit(trial, name, profile, json.loads(standing))
        for name in strategies:
            scores = [
                (settings, jobs[name, json.dumps(find(name).representative(settings))].result())
                for settings in searched(name, profile)
            ]
            settings, value = best(scores)
            table = [[s, v if v > float("-inf") else None] for s, v in scores]
            chosen[name] = {"settings": settings, "validation_ap": value, "trials": table}
            path.write_text(json.dumps(chosen, indent=1) + "\n")
            console.print(f"{profile} {name}: {len(scores)} configurations, {value:.2f} with {settings}")


if __name__ == "__main__":
    select(sys.argv[1], sys.argv[2].split(",") if len(sys.argv) > 2 else list(PUBLISHED))
