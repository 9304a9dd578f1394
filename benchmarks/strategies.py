"""Write docs/strategies.md: every method with its idea, its memory and its cost, the latter as measured here."""

import time
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

from benchmarks.timing import Call, medians
from benchmarks.updates import BATCHES, Grown
from ocgl.strategies import find, make, names
from ocgl.strategies.closed_form import ClosedForm

PAGE = Path("docs/strategies.md")
UPDATES = 260
MEMORY = 550  # 4 % of Amazon Computer

IDEA = {
    "a-gem": "project the batch's gradient off that of remembered bare nodes",
    "bare": "plain training, the lower bound",
    "er": "train on the batch and remembered bare nodes together",
    "ewc": "hold parameters near their last values, by squared gradients of the loss",
    "joint": "offline training on everything, the upper bound",
    "linear": "logistic regression on one-hop means, with remembered means",
    "lwf": "a past copy of the model teaches the classes it knew",
    "mas": "hold parameters near their last values, by the sensitivity of the outputs",
    "pdgnn": "an MLP on parameter-free K-hop embeddings, with remembered embeddings",
    "ssm-a-gem": "A-GEM with remembered sparsified subgraphs",
    "ssm-er": "ER with remembered sparsified subgraphs",
    "twp": "EWC, and the same for the attention of the first layer",
    "slda": "Gaussian classes around running means with one covariance (not in the paper)",
    "ridge": "least squares onto the classes, from the same running sums (not in the paper)",
}
KEEPS = {
    "a-gem": "P + M F",
    "er": "P + M F",
    "ewc": "P + 2 p",
    "linear": "P + M F",
    "lwf": "P + p",
    "mas": "P + 2 p",
    "pdgnn": "P + M F",
    "ssm-a-gem": "P + M (F + b)",
    "ssm-er": "P + M (F + b)",
    "twp": "P + 3 p",
    "slda": "D^2 + 256 D; M D more with `revisit`",
    "ridge": "D^2 + 256 D; M D more with `revisit`",
}
COST = {
    "bare": "G",
    "joint": "G per batch, epochs times",
    "er": "G + mp B F H",
    "a-gem": "G + mp B F H",
    "ssm-er": "G + mp B (1 + b1) F H",
    "ssm-a-gem": "G + mp B (1 + b1) F H",
    "ewc": "G (1 + 1 / passes)",
    "mas": "G (1 + 1 / passes)",
    "twp": "G (1 + 1 / passes) + B r^2 F H / passes",
    "lwf": "3/2 G",
    "pdgnn": "(1 + mp) B F H",
    "linear": "(1 + mp) B F C",
    "slda": "B D^2",
    "ridge": "B D^2",
}

OPTIONS = [
    (
        "`view`",
        "`own+mean1`",
        (
            "features side by side, joined by `+`: `own` row, `mean1` over the sampled neighbours, `mean2` over their "
            "means, `diff1` = own - mean1 (heterophily)"
        ),
    ),
    (
        "`project`",
        "1024",
        "rows wider than that are first multiplied by a seeded Gaussian matrix of that width (0: never)",
    ),
    (
        "`shrinkage`",
        "0.1",
        (
            "how much of the covariance within classes is replaced by the mean variance of a feature (`slda`), or the "
            "penalty in units of that (`ridge`)"
        ),
    ),
    (
        "`balanced` (`ridge`)",
        "true",
        "every class has the same weight; false: every node, a prior from class counts (for an F1 of a rare class)",
    ),
    ("`revisit`", "0", "remembered nodes looked at again with every batch, whose part is corrected exactly"),
    ("`buffer_size`", "500", "nodes remembered for that"),
]


def measured(grown: Grown) -> dict[str, tuple[float, float | None, int]]:
    ready = {}
    for name in names():
        known = make(name).hyperparameters()
        memory = {"buffer_size": MEMORY} if "buffer_size" in known else {}
        ready[name, 1] = grown.ready(name, **memory)
        if "passes" in known:
            ready[name, 5] = grown.ready(name, passes=5, **memory)
    times = medians({f"{n} {p}": grown.update(s) for (n, p), s in ready.items()})
    return {n: (times[f"{n} 1"], times.get(f"{n} 5"), ready[n, 1].memory_bytes) for n in names()}


def closed_forms(grown: Grown) -> str:
    """Measure what the median hides: now and then rows are added to the moments, and a question solves anew."""
    lines = []
    for name in ("slda", "ridge"):
        strategy = grown.ready(name)
        assert isinstance(strategy, ClosedForm)
        update = grown.update(strategy)
        mean, again = mean_of(update), mean_of(grown.update(grown.ready(name, revisit=10, buffer_size=MEMORY)))
        solves = []
        for i in range(5):
            update(i)
            begin = time.perf_counter()
            strategy.classifier()
            solves.append(time.perf_counter() - begin)
        average = f"`{name}` {1000 * mean:.2f} ms on average ({1000 * again:.2f} with `revisit=10`)"
        lines.append(f"{average}, {1000 * min(solves):.0f} ms for the first question")
    return "; ".join(lines)


def mean_of(update: Call) -> float:
    begin = time.perf_counter()
    for i in range(UPDATES):
        update(i % BATCHES)
    return (time.perf_counter() - begin) / UPDATES


def row(name: str, one: float, five: float | None, held: int) -> str:
    kind = find(name)
    own = [k for k in kind.grid if k not in ("lr", "passes")]
    grid = "; ".join(f"`{k}` {', '.join(map(str, kind.grid[k]))}" for k in own) or "-"
    return (
        f"| `{name}` | {IDEA[name]} | {KEEPS.get(name, 'P')} | {held / 1e6:.2f} | {COST[name]} "
        f"| {1000 * one:.2f} | {'-' if five is None else f'{1000 * five:.2f}'} | {grid} | {kind.reference} |"
    )


def main() -> None:
    torch.set_num_threads(1)
    threadpool_limits(1)
    grown = Grown()
    found = measured(grown)
    lines = [row(name, *found[name]) for name in names()]
    options = "\n".join(f"| {name} | {usual} | {what} |" for name, usual, what in OPTIONS)
    PAGE.write_text(HEAD + "\n".join(lines) + TAIL.format(closed=closed_forms(grown), options=options))


HEAD = """# Strategies

Written by `python -m benchmarks.strategies`. Bytes and milliseconds are measured on the grown Amazon Computer graph
(F = 767 features, C = 10 classes, B = 10 nodes a batch, r = 10 neighbours, H = 256 units) with default hyperparameters,
a memory of M = 550 nodes (4 %) and one thread; medians of updates that take turns, sampling included.

P: parameters and both moments of Adam (3 p numbers, p of them parameters: F H + H C for a GCN). G = B (1 + r) F H: the
product that every GCN update makes twice per pass. mp: memories per node of the batch. All methods take `fanout`;
those with passes `lr` (1e-2, 1e-3, 1e-4, 1e-5) and `passes` (1, 5); GCN methods `layers`, `hidden`, `norm`, `degrees`;
methods with a memory `buffer_size` (or `buffer=4%` on the command line); `linear` and `pdgnn` also `view`, `project`,
`standardise` and `relu`. "Own grid" is the rest of the search space. D = 2 F: own features beside the neighbours' mean.

| name | idea | keeps | MB | cost per pass | ms, 1 pass | ms, 5 passes | own grid | reference |
|---|---|---|---|---|---|---|---|---|
"""
TAIL = """

`joint` is no online learner: `ocgl run --strategy joint` trains it offline, on everything up to the end of each task
(its curve) and of the last (its AP). The milliseconds are those of one batch of ten.

`slda` and `ridge` have no passes, and no memory of nodes unless they `revisit` some. Rows are added to the
matrix of second moments 256 at a time, which the median does not show, and the classifier is solved for at the first
question after an update: {closed}.

## The closed forms

| option | default | what |
|---|---|---|
{options}

Features are used as they are: bring columns of very different scale to one scale first, as one large column decides
the shrinkage of all. [beyond.md](beyond.md) has what each option does, on six graphs.

## Two readings

Two readings of the paper matter most. ER and A-GEM remember bare nodes: a replayed node has no neighbours. The anchors
of EWC, MAS and TWP move after every batch: with one pass their penalties do nothing; `anchor_every` changes that.
"""

if __name__ == "__main__":
    main()
