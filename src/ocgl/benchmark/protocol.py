"""The protocol card: which nodes, which edges, which definitions a number was made with."""

from ocgl.benchmark.config import RunConfig
from ocgl.strategies import Learner, Strategy
from ocgl.streams import Stream
from ocgl.types import Json


def protocol_card(config: RunConfig, stream: Stream, learner: Learner) -> Json:
    """Say in words, and in the options' own names, how the number came about."""
    look, asked = learner.strategy.look, learner.question_look
    s = config.stream
    labels = "with the node" if s.label_delay == 0 else f"{s.label_delay} steps after the node"
    if s.missing_labels:
        labels += f"; {s.missing_labels:.0%} never come"
    scope = "after every batch" if config.eval_every == 1 else f"after every {config.eval_every}th batch and task end"
    return {
        "profile": config.profile,
        "split": f"{'/'.join(f'{share:.0%}' for share in s.split)} train/validation/test, {s.stratify}, "
        f"stream_seed {s.stream_seed}",
        "stream": f"{s.kind}: {stream.tasks} tasks, {len(stream)} batches of {s.batch_size} ({s.batching}), "
        f"boundaries {'crossed' if s.straddle else 'not crossed'}; hash {stream.content_hash[:16]}",
        "edges visible": "both ends have arrived; undirected; held-out nodes arrive in the stream and pass messages",
        "labels": labels + "; those of validation and test nodes never",
        "sampling in training": _sampling(look.hops, look.fanout) + ", once per batch, reused by all passes",
        "sampling in evaluation": _sampling(asked.hops, asked.fanout)
        + ", fixed per node and degree"
        + (f"; weights over the {config.eval_chunk} nodes of a look" if asked.norm == "sym" else ""),
        "aggregation": _aggregation(learner.strategy),
        "AAP": f"{_asked(config)} that have arrived, of tasks begun, {scope}; mean over tasks, then over batches",
        "AP": "test nodes, after the last batch; mean over tasks",
        "AF": "mean over the T-1 earlier tasks of M[T,i] - M[i,i]; AF_T divides the same sum by T (published tables)",
        "prequential": "training nodes of a batch, predicted before they are learned",
        "metric": config.metric,
        "notes": list(stream.graph.notes) + _notes(config, stream, learner.strategy),
        "options": {
            "batching": s.batching,
            "gcn_norm": look.norm,
            "resample": "batch",
            "replays": learner.strategy.replays,
            "looks again": learner.strategy.looks_again,
            "anchor_every": learner.strategy.hyperparameters().get("anchor_every"),
            "af_denominator": {"AF": "T-1", "AF_T": "T"},
        },
    }


def _aggregation(strategy: Strategy) -> str:
    values, look = strategy.hyperparameters(), strategy.look
    if not values.get("view"):
        return f"{look.norm} (self included), degrees {look.degrees}, features raw"
    narrowed = f"; rows wider than {values['project']} projected first" if values["project"] else ""
    scaled = "standardised as they run" if values.get("standardise") else "raw"
    return f"{values['view']} side by side, means without the node itself, features {scaled}{narrowed}"


def _asked(config: RunConfig) -> str:
    if config.eval_cap is None:
        return "exact: all validation nodes"
    return f"estimate: about {config.eval_cap} validation nodes of each task, stratified by class,"


def _sampling(hops: int, fanout: int | tuple[int, ...] | None) -> str:
    reach = "1 hop" if hops == 1 else f"{hops} hops"
    return f"{reach}, {'all' if fanout is None else f'at most {fanout}'} neighbours per node, without replacement"


def _notes(config: RunConfig, stream: Stream, strategy: Strategy) -> list[str]:
    notes = []
    if strategy.offline:
        epochs = strategy.hyperparameters()["epochs"]
        notes.append(f"offline bound: up to {epochs} epochs on all that has arrived, stopped by validation AP")
    if config.stream.kind == "time" and stream.graph.time is None:
        notes.append("the dataset has no times: rows arrive in the order of the file")
    return notes
