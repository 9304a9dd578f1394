import re

import numpy as np
import pytest

from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.config import RunConfig
from ocgl.experiments.results import RunResult
from ocgl.streams import TRAIN
from tests.helpers import options


def card_of(config: RunConfig) -> RunResult:
    return make_experiment(config, stream_of(config)).result()


def numbers(text: str) -> list[int]:
    return [int(part.replace(",", "")) for part in re.findall(r"\d[\d,]*", text)]


@pytest.mark.parametrize("cap", [1, 25, 40, 60, 71, 72, 100_000, None])
@pytest.mark.parametrize("stream", ["class", "blurry", "task"])
def test_the_card_says_of_aap_what_the_evaluator_does(cap: int | None, stream: str) -> None:
    config = configure("digits", "linear", stream, overrides=options("batch_size=120"), eval_cap=cap)
    result = card_of(config)
    said, asked = result.protocol["AAP"], result.evaluation
    assert said.startswith(asked.anytime)
    if asked.anytime == "estimate":
        assert f"({asked.nodes:,} of {asked.of:,}; eval_cap {cap}" in said


def test_a_cap_below_what_is_always_asked_is_not_taken_for_the_number_asked() -> None:
    config = configure("digits", "linear", overrides=options("batch_size=120"), eval_cap=1)
    run = make_experiment(config, stream_of(config))
    said = run.result().protocol["AAP"]
    assert numbers(said)[0] == 24 and "always the first 20 of a task and 2 of each class" in said


@pytest.mark.parametrize("delay", ["3", "[2,6]"])
def test_the_card_counts_late_labels_that_never_come(delay: str) -> None:
    config = configure("digits", "linear", overrides=options("batch_size=60", f"label_delay={delay}"))
    run = make_experiment(config, stream_of(config))
    said = run.result().protocol["labels"]
    trained, given = np.sum(run.stream.role == TRAIN), len(run.stream.label_order)
    assert said.startswith("3 steps after" if delay == "3" else "2 to 6 steps after")
    assert "at most 60 (batch_size) come, and are learned, per step" in said
    assert given < trained and f"never come ({trained - given} of {trained:,})" in said
    assert max(np.diff(run.stream.label_cuts, prepend=0)) <= 60


def test_the_card_counts_missing_labels_alone_and_together_with_late_ones() -> None:
    settings = ["batch_size=60", "missing_labels=0.3"]
    for more, text in (([], "30% drawn at random never come (%d of"), (["label_delay=4"], "(both together %d of")):
        config = configure("digits", "linear", overrides=options(*settings, *more))
        result = card_of(config)
        lost = result.statistics.train - result.statistics.labels
        assert text.replace("%d", str(lost)) in result.protocol["labels"]
    plain = card_of(configure("digits", "linear", overrides=options("batch_size=60"))).protocol["labels"]
    assert plain == "with the node; those of validation and test nodes never"


def test_caps_per_hop_are_named_in_order() -> None:
    from ocgl.experiments.protocol import _sampling

    assert _sampling(2, (10, None)).startswith("2 hops, at most 10, then all neighbours")
    assert _sampling(2, 5).startswith("2 hops, at most 5 neighbours") and "all" in _sampling(1, None)
