"""Which network suits which stream: five methods with six networks on four streams, and three on a fifth.

    python -m studies.backbones [--workers N] [--budget-minutes M] [--page]

By the protocol on coarse grids: configurations selected with five seeds on the first two tasks, three seeds of runs,
anytime scores after every 20th batch. The offline bound stops after five epochs without a better validation score. All
online methods come first, then the bounds. What is finished lies in results/backbones and is never computed again. The
page is docs/backbones.md; --page writes it from what is there.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from ocgl.experiments import Sweep, run_sweep
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.forecast import forecast
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.verify import verify_and_adopt
from ocgl.reporting.terminal import forecast_text
from ocgl.types import Json
from studies import backbones_page
from studies.beyond import GRAPHS

OUT = Path("results/backbones")
ONLINE = ("bare", "er", "ssm-er", "ewc")
JOINT = "joint"
BOUND: Json = {"curve": False, "patience": 5}
"""Options of the offline bound: one network for the whole stream, and a fourth of the usual patience."""


@dataclass(frozen=True)
class Network:
    """A network as the study runs it.

    Args:
        name: its name on the page.
        backbone: the hyperparameter.
        profile: `paper` or `textbook`; they differ in the weights of edges of our GCN.
    """

    name: str
    backbone: str
    profile: str = "paper"


NETWORKS = (
    Network("gcn, sum", "gcn"),
    Network("gcn, sym", "gcn", "textbook"),
    Network("sage", "sage"),
    Network("gat", "gat"),
    Network("gin", "gin"),
    Network("mlp", "mlp"),
)
STREAMS: dict[str, tuple[str, str, tuple[Network, ...]]] = {
    "sbm, homophilous": (GRAPHS["sbm, homophilous"], "class", NETWORKS),
    "sbm, heterophilous": (GRAPHS["sbm, heterophilous"], "class", NETWORKS),
    "Amazon Computer, class": ("amazon-computer", "class", NETWORKS),
    "Amazon Computer, row order": ("amazon-computer", "order", NETWORKS),
    "Coauthor CS, class": ("coauthor-cs", "class", tuple(n for n in NETWORKS if n.name in ("gcn, sum", "sage", "mlp"))),
}
"""Dataset, kind of stream and networks by name, the cheapest first."""


def sweeps() -> dict[tuple[str, str], list[Sweep]]:
    """Return the sweeps of each stream and network: the online methods, and the offline bound."""
    found: dict[tuple[str, str], list[Sweep]] = {}
    for title, (dataset, stream, networks) in STREAMS.items():
        for network in networks:
            chosen: Json = {} if network.backbone == "gcn" else {"backbone": network.backbone}
            common: Json = {
                "stream": stream,
                "profile": network.profile,
                "seeds": 3,
                "eval_every": 20,
                "grids": "coarse",
                "ties": 0,
            }
            found[title, network.name] = [
                Sweep(dataset, ONLINE, OUT, overrides=chosen, **common),
                Sweep(dataset, (JOINT,), OUT, overrides=chosen | BOUND, **common | {"tune_seeds": 1}),
            ]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--budget-minutes", type=float)
    parser.add_argument("--page", action="store_true", help="only write the page")
    given = parser.parse_args()
    console, begin, failed = Console(width=150), time.monotonic(), []
    if not given.page:
        with LocalExecutor(given.workers) as pool:
            if OUT.is_dir():
                console.print(f"{verify_and_adopt(OUT, pool)[0]} results of other code adopted")
            planned = [(where, parts[part]) for part in (0, 1) for where, parts in sweeps().items()]
            for where, sweep in planned:
                left = None
                if given.budget_minutes is not None:
                    left = given.budget_minutes - (time.monotonic() - begin) / 60
                    if left <= 0:
                        break
                console.print(f"{', '.join(where)}: {forecast_text(forecast(sweep), given.workers)}")
                failed += run_sweep(sweep, pool, budget_minutes=left).failed
        ResultStore(OUT).pack()
    backbones_page.write()
    for failure in failed:
        console.print(failure, markup=False)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
