"""The published Amazon Computer rows of the strategies that exist so far, beside ours."""

import numpy as np
from rich.console import Console
from rich.table import Table

from ocgl.benchmark import Run, configure, stream_of
from ocgl.report.published import published

SETTINGS = {
    "linear": ["lr=0.01", "passes=5", "memory_proportion=3", "buffer=4%"],
    "bare": ["lr=0.001"],
}
SEEDS = 5


def main() -> None:
    table = Table(title="amazon-computer, profile paper, mean ± std of 5 seeds (hyperparameters given, not tuned)")
    for name in ("strategy", "AAP", "published", "AP", "published"):
        table.add_column(name, justify="right")
    for strategy, settings in SETTINGS.items():
        found = []
        for seed in range(SEEDS):
            config = configure("amazon-computer", strategy, seed=seed, settings=settings)
            result = Run(config, stream_of(config)).finish()
            found.append((result["AAP"], result["AP"]))
        ours = [f"{mean:.2f} ± {std:.2f}" for mean, std in zip(np.mean(found, 0), np.std(found, 0), strict=True)]
        theirs = ["{:.2f} ± {:.2f}".format(*published("amazon-computer", strategy, m) or ()) for m in ("AAP", "AP")]
        table.add_row(strategy, ours[0], theirs[0], ours[1], theirs[1])
    Console().print(table)


if __name__ == "__main__":
    main()
