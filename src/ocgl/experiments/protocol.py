"""The protocol card: how the numbers of a result were measured."""

import numpy as np

from ocgl.evaluation.estimate import FEWEST, FIRST, stratified
from ocgl.experiments.config import RunConfig
from ocgl.strategies import Learner, Strategy
from ocgl.strategies._core.backbones import GCN_NAME, title_of_backbone
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
    s, values = config.stream, learner.strategy.hyperparameters()
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
        "sampling in training": _sampling(sampling.hops, sampling.fanout)
        + (", anew for every pass" if values.get("resample_passes") else ", once per batch, reused by all passes"),
        "sampling in evaluation": _sampling(query_sampling.hops, query_sampling.fanout)
        + ", fixed per node and degree"
        + (f"; weights over the {config.eval_chunk} nodes sampled together" if query_sampling.norm == "sym" else ""),
        "network": _network(learner.strategy),
        "device": learner.strategy.device_name,
        "aggregation": _aggregation(learner.strategy),
        **_reading(learner.strategy),
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
            "resample": "pass" if values.get("resample_passes") else "batch",
            "straddle": s.straddle,
            "replays": learner.strategy.replays,
            **{name: values[name] for name in READINGS if name in values},
            "extra_seeds": learner.strategy.extra_seeds,
            "anchor_every": values.get("anchor_every"),
            "af_denominator": {"AF": "T-1", "AF_T": "T"},
        },
    }


READINGS = (
    "replay_loss", "reservoir", "source", "centres", "distil", "init", "sgc_degrees", "self_counts", "power",
    "average_outputs",
)  # fmt: skip
"""Hyperparameters in which readings of the paper differ; the card names those that a method has."""


def _reading(strategy: Strategy) -> Json:
    """Describe the hyperparameters in which readings of the paper differ."""
    values, lines = strategy.hyperparameters(), {}
    if "replay_loss" in values:
        two = values["replay_loss"] == "sum_of_means"
        lines["replay loss"] = "CE(batch) + CE(memories), each a mean" if two else "one mean over batch and memories"
    if "reservoir" in values:
        kept = {"uniform": "uniform over all nodes offered", "off_by_one": "item n drawn from n - 1 slots (off by one)"}
        lines["reservoir"] = kept[values["reservoir"]]
    if "centres" in values:
        cut = "the batch's sample, sampled edges only" if values["source"] == "batch" else "the store, all edges"
        count = "b1 + b2, centres on top" if values["centres"] == "on_top" else "1 + b1 + b2"
        lines["subgraphs"] = f"cut out of {cut}; as many as M holds at {count} nodes each"
    if "distil" in values:
        classes = {"absent": "that are absent from the batch", "known": "that it knows"}
        lines["distillation"] = f"of the teacher's classes {classes[values['distil']]}"
    if "init" in values:
        lines["initial weights"] = {"glorot": "Glorot uniform", "kaiming": "Kaiming normal"}[values["init"]]
    if values.get("sgc_degrees") == "block":
        lines["degrees"] = "those of each hop's block, without self-loops"
    if values.get("self_counts"):
        lines["node itself"] = "one of the sampled nodes that are averaged"
    if "power" in values:
        outputs = "mean" if values["average_outputs"] else "sum"
        lines["importance"] = f"{outputs} of squared outputs, gradient to the power {values['power']}"
    return lines


def _prequential(config: RunConfig) -> str:
    nodes = "training nodes of a batch, predicted before they are learned"
    if config.prequential == "every" or config.eval_every == 1:
        return nodes
    return f"{nodes}; only in the first batch and in each batch right after an evaluation"


def _aggregation(strategy: Strategy) -> str:
    values, sampling = strategy.hyperparameters(), strategy.sampling
    if values.get("backbone", GCN_NAME) != GCN_NAME:
        weights = f"edges weighted ({sampling.norm})" if sampling.norm != "sum" else "edges not weighted"
        return f"that of the network; {weights}, features raw"
    if not values.get("view"):
        return f"{sampling.norm} (self included), degrees {sampling.degrees}, features raw"
    narrowed = f"; rows wider than {values['project']} projected first" if values["project"] else ""
    scaled = "standardised with running statistics" if values.get("standardise") else "raw"
    return f"{values['view']} side by side, means without the node itself, features {scaled}{narrowed}"


def _network(strategy: Strategy) -> str:
    values = strategy.hyperparameters()
    if "backbone" not in values:
        return "the method's own"
    shape = f"{values['layers']} layers, {values['hidden']} hidden units"
    options = [key for key in ("bias", "dropout", "residual", "layer_norm") if values[key]]
    return f"{title_of_backbone(values['backbone'])}, {shape}" + (f", with {', '.join(options)}" if options else "")


def _labels(config: RunConfig, stream: Stream) -> str:
    s = config.stream
    training_nodes = len(stream.held_out(TRAIN))
    lost = f"{training_nodes - len(stream.label_order):,} of {training_nodes:,}"
    missing = f"; {s.missing_labels:.0%} drawn at random never come" if s.missing_labels else ""
    own = stream.graph.label_time is not None and s.kind == "time"
    if s.label_delay == 0 and not own:
        return f"with the node{missing}" + (f" ({lost})" if missing else "")
    low, high = s.label_delay if isinstance(s.label_delay, tuple) else (s.label_delay,) * 2
    delay = f"{low}" if low == high else f"{low} to {high}"
    after = "their own time (label_time)" if own else "the node"
    when = f"{delay} steps after {after}" if high else "at their own time (label_time)"
    return (
        f"{when}; at most {s.batch_size} (batch_size) come, and are learned, per step, the rest "
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
    if stream.timeline is not None:
        notes.append(f"the graph changes: {stream.timeline.description}; removed nodes are neither learned nor scored")
    if config.stream.kind == "order":
        notes.append("nodes arrive in the order of the dataset's rows, which is no time")
    return notes
