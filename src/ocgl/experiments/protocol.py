"""The protocol card: how the numbers of a result were measured."""

import numpy as np

from ocgl.evaluation.estimate import FEWEST, FIRST, stratified
from ocgl.experiments.config import RunConfig
from ocgl.strategies import Learner, Strategy
from ocgl.streams import TRAIN, VALIDATION, Stream
from ocgl.types import Json


def protocol_card(config: RunConfig, stream: Stream, learner: Learner) -> Json:
    """Return the protocol card of a run: readable descriptions, and the exact values under `options`.

    Args:
        config: config of the run.
        stream: stream of the run.
        learner: learner of the run.
    """
    sampling, query_sampling = learner.strategy.sampling, learner.query_sampling
    s = config.stream
    when = (
        "after every batch" if config.eval_every == 1 else f"after every {config.eval_every} batches and at task ends"
    )
    return {
        "profile": config.profile,
        "split": f"{'/'.join(f'{part:.0%}' for part in s.split)} train/validation/test, {s.stratify}, "
        f"stream_seed {s.stream_seed}",
        "stream": f"{s.kind}: {stream.tasks} tasks, {len(stream)} batches of {s.batch_size} ({s.batching}), "
        f"boundaries {'crossed' if s.straddle else 'not crossed'}; hash {stream.content_hash[:16]}",
        "edges visible": "between arrived nodes; undirected; held-out nodes arrive in the stream and pass messages",
        "labels": _labels(config, stream) + "; those of validation and test nodes never",
        "sampling in training": _sampling(sampling.hops, sampling.fanout) + ", once per batch, reused by all passes",
        "sampling in evaluation": _sampling(query_sampling.hops, query_sampling.fanout)
        + ", fixed per node and degree"
        + (f"; weights over the {config.eval_chunk} nodes sampled together" if query_sampling.norm == "sym" else ""),
        "aggregation": _aggregation(learner.strategy),
        "AAP": f"{_evaluated_nodes(config, stream)} that have arrived, of tasks begun, {when}; "
        "mean over tasks, then over batches",
        "AP": "test nodes, after the last batch; mean over tasks",
        "AF": "mean over the T-1 earlier tasks of M[T,i] - M[i,i]; AF_T divides the same sum by T (published tables)",
        "prequential": _prequential(config),
        "metric": config.metric,
        "notes": list(stream.graph.notes) + _notes(config, stream, learner.strategy),
        "options": {
            "batching": s.batching,
            "gcn_norm": sampling.norm,
            "resample": "batch",
            "replays": learner.strategy.replays,
            "extra_seeds": learner.strategy.extra_seeds,
            "anchor_every": learner.strategy.hyperparameters().get("anchor_every"),
            "af_denominator": {"AF": "T-1", "AF_T": "T"},
        },
    }


def _prequential(config: RunConfig) -> str:
    nodes = "training nodes of a batch, predicted before they are learned"
    if config.prequential == "every" or config.eval_every == 1:
        return nodes
    return f"{nodes}; only in the first batch and in each batch right after an evaluation"


def _aggregation(strategy: Strategy) -> str:
    values, sampling = strategy.hyperparameters(), strategy.sampling
    if not values.get("view"):
        return f"{sampling.norm} (self included), degrees {sampling.degrees}, features raw"
    narrowed = f"; rows wider than {values['project']} projected first" if values["project"] else ""
    scaled = "standardised with running statistics" if values.get("standardise") else "raw"
    return f"{values['view']} side by side, means without the node itself, features {scaled}{narrowed}"


def _labels(config: RunConfig, stream: Stream) -> str:
    s = config.stream
    training_nodes = len(stream.held_out(TRAIN))
    lost = f"{training_nodes - len(stream.label_order):,} of {training_nodes:,}"
    missing = f"; {s.missing_labels:.0%} drawn at random never come" if s.missing_labels else ""
    if s.label_delay == 0:
        return f"with the node{missing}" + (f" ({lost})" if missing else "")
    low, high = s.label_delay if isinstance(s.label_delay, tuple) else (s.label_delay,) * 2
    delay = f"{low}" if low == high else f"{low} to {high}"
    return (
        f"{delay} steps after the node; at most {s.batch_size} (batch_size) come, and are learned, per step, the rest "
        f"wait{missing}; labels still waiting at the end of the stream never come "
        f"({'both together ' if missing else ''}{lost})"
    )


def _evaluated_nodes(config: RunConfig, stream: Stream) -> str:
    """Describe the validation nodes that the evaluator samples; their number can differ from `eval_cap`."""
    exact = "exact: all validation nodes"
    if config.eval_cap is None:
        return exact
    nodes = stream.held_out(VALIDATION)
    nodes = nodes[(stream.scored[nodes] >= 0) & (stream.scored[nodes] < stream.tasks)]
    task = stream.scored[nodes]
    chosen, _ = stratified(task, stream.graph.y[nodes], config.eval_cap, stream.config["stream_seed"])
    if len(chosen) == len(nodes):
        return exact
    counts = np.unique(task[chosen], return_counts=True)[1]
    each = f"{counts.min():,}" if counts.min() == counts.max() else f"{counts.min():,} to {counts.max():,}"
    return (
        f"estimate: {each} validation nodes of each task ({len(chosen):,} of {len(nodes):,}; eval_cap "
        f"{config.eval_cap:,}, but always the first {FIRST} of a task and {FEWEST} of each class), stratified by class,"
    )


def _sampling(hops: int, fanout: int | tuple[int | None, ...] | None) -> str:
    reach = "1 hop" if hops == 1 else f"{hops} hops"
    caps = fanout if isinstance(fanout, tuple) else (fanout,)
    most = ", then ".join("all" if cap is None else f"at most {cap}" for cap in caps)
    return f"{reach}, {most} neighbours per node, without replacement"


def _notes(config: RunConfig, stream: Stream, strategy: Strategy) -> list[str]:
    notes = []
    if strategy.offline:
        epochs = strategy.hyperparameters()["epochs"]
        notes.append(
            f"offline bound: up to {epochs} epochs on all nodes that have arrived, early stopping on validation AP"
        )
    if config.stream.kind == "time" and stream.graph.time is None:
        notes.append("the dataset has no times: nodes arrive in the order of its rows")
    return notes
