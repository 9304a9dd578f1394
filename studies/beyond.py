"""What helps the closed forms, and what does not: every variant on six graphs, two streams, five seeds.

Writes docs/beyond/study.json and, in results/, the offline bound on the same streams and all methods on Coauthor CS by
the standard protocol; `studies.beyond_page` makes docs/beyond.md of them. What is there already is not computed
again.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ocgl import evaluate
from ocgl.code import code_hash
from ocgl.datasets import load_dataset
from ocgl.strategies import Strategy, make_strategy
from ocgl.streams import make_stream
from ocgl.types import Json
from studies import beyond_page, beyond_sweeps, variants

OUT = Path("docs/beyond/study.json")
SEEDS = 5
EVALUATIONS = {"Coauthor CS": 10, "class covariances": 10}
"""At how many places of the stream the scores are taken, by graph or variant; 25 elsewhere."""
BLOCKS = "nodes=4000,edges=24000,classes=10,width=48,separation=1.2"
GRAPHS = {
    "Amazon Computer": "amazon-computer",
    "Coauthor CS": "coauthor-cs",
    "digits": "digits",
    "sbm, homophilous": f"sbm:{BLOCKS},homophily=0.7",
    "sbm, heterophilous": f"sbm:{BLOCKS},homophily=0.02",
    "sbm, drifting": f"sbm:{BLOCKS},homophily=0.7,drift=2",
}
WITHOUT_TIMES = ("Amazon Computer", "Coauthor CS", "digits")
"""Graphs whose second stream is by row order."""
SCORES = ("AAP", "AP", "AF")
FULL: Json = {"view": "own+mean1+mean2", "revisit": 10, "buffer_size": 550}
VARIANTS: dict[str, tuple[str, Json]] = {
    "ridge (own+mean1, shrinkage 0.1)": ("ridge", {}),
    "slda": ("slda", {}),
    "view own": ("ridge", {"view": "own"}),
    "view mean1": ("ridge", {"view": "mean1"}),
    "view own+diff1": ("ridge", {"view": "own+diff1"}),
    "view own+mean1+mean2": ("ridge", {"view": "own+mean1+mean2"}),
    "revisiting 10 of 550": ("ridge", {"revisit": 10, "buffer_size": 550}),
    "revisiting 10 of 550, with mean2": ("ridge", FULL),
    "shrinkage 0.01": ("ridge", {"shrinkage": 0.01}),
    "shrinkage 0.3": ("ridge", {"shrinkage": 0.3}),
    "prior from counts": ("ridge", {"balanced": False}),
    "projected to 256": ("ridge", {"project": 256}),
    "standardised": ("Diagonal", {}),
    "shrunk part by part": ("ByPart", {}),
    "shrunk part by part, with mean2 and revisits": ("ByPart", FULL),
    "512 random ReLU features beside": ("Relu", {}),
    "rows of length one": ("Unit", {}),
    "forgetting factor 0.998": ("Forgetting", {}),
    "weighted by neighbours": ("Weighted", {}),
    "adaptive shrinkage": ("Adaptive", {}),
    "ensemble of hops": ("Ensemble", {}),
    "class covariances": ("ClassCovariances", {}),
}
SLOW = {"Coauthor CS": {"ensemble of hops", "class covariances", "adaptive shrinkage"}}
"""Left out there: several factorisations of a 2,048-wide matrix for every question."""


def made(kind: str, seed: int, settings: Json) -> Strategy:
    if hasattr(variants, kind) and kind[0].isupper():
        strategy: Strategy = getattr(variants, kind)(seed=seed, **settings)
        return strategy
    return make_strategy(kind, seed=seed, **settings)


def measured(graph: str, stream_kind: str, variant: str, seed: int) -> Json:
    """Take one variant through one stream, with anytime scores at some places."""
    kind, settings = VARIANTS[variant]
    stream = make_stream(load_dataset(GRAPHS[graph]), stream_kind)
    places = min(EVALUATIONS.get(graph, 25), EVALUATIONS.get(variant, 25))
    result = evaluate(made(kind, seed, settings), stream, every=max(len(stream) // places, 1))
    key = {"graph": graph, "stream": stream_kind, "variant": variant, "seed": seed}
    scores = {name: result.score(name) for name in SCORES}
    return key | scores | {"update_ms": 1000 * result.learn_seconds / result.updates}


def code() -> str:
    """Name the code that the figures come from."""
    here = b"".join(Path(f"studies/{name}.py").read_bytes() for name in ("variants", "beyond"))
    return hashlib.sha256(here + code_hash("ridge").encode() + code_hash("slda").encode()).hexdigest()[:12]


def streams_of(graph: str) -> tuple[str, str]:
    """Return the kinds of streams of a graph: by class, and by time or row order."""
    return "class", "order" if graph in WITHOUT_TIMES else "time"


def jobs() -> list[tuple[str, str, str, int]]:
    pairs = [(g, s, v) for g in GRAPHS for s in streams_of(g) for v in VARIANTS if v not in SLOW.get(g, ())]
    return [(*pair, seed) for seed in range(SEEDS) for pair in pairs]


def job_of(row: Json) -> tuple[str, str, str, int]:
    return row["graph"], row["stream"], row["variant"], row["seed"]


def compute(waiting: list[tuple[str, str, str, int]]) -> Iterator[Json]:
    with ProcessPoolExecutor(2) as pool:
        for number, row in enumerate(pool.map(measured, *zip(*waiting, strict=True)) if waiting else ()):
            yield row
            if number % 20 == 0 or number + 1 == len(waiting):
                print(f"{number + 1} of {len(waiting)}", flush=True)


def valid_rows(study: Json) -> list[Json]:
    """Return the stored rows that need not be computed again.

    Rows of other code are valid if its first seed, computed again for every variant, graph and stream, gives bit-equal
    scores.
    """
    rows: list[Json] = study.get("rows", [])
    if study.get("code") == code() or not rows:
        return rows
    print("rows of other code: their first seed is computed again")
    before = {job_of(row): row for row in rows}
    fresh = list(compute([job for job in jobs() if job[3] == 0]))
    same = [[row[name] == before.get(job_of(row), {}).get(name) for name in SCORES] for row in fresh]
    print(f"{sum(map(all, same))} of {len(fresh)} are bit-equal")
    return [row for row in rows if row["seed"] > 0] + fresh if all(map(all, same)) else fresh


def main() -> int:
    OUT.parent.mkdir(parents=True, exist_ok=True)
    rows = valid_rows(json.loads(OUT.read_text()) if OUT.exists() else {})
    done = set(map(job_of, rows))
    waiting = [job for job in jobs() if job not in done]
    print(f"{len(waiting)} of {len(jobs())} to do")
    for row in compute(waiting):
        rows.append(row)
        OUT.write_text(json.dumps({"code": code(), "rows": rows}) + "\n")
    OUT.write_text(json.dumps({"code": code(), "rows": rows}) + "\n")
    failed = beyond_sweeps.run([(dataset, stream) for graph, dataset in GRAPHS.items() for stream in streams_of(graph)])
    if not failed:
        beyond_page.write(rows, GRAPHS)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
