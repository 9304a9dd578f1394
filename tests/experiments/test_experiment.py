import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ocgl.errors import DamagedFileError, ResumeError
from ocgl.experiments import Experiment, configure, make_experiment, resume, run_config, stream_of
from ocgl.experiments.parsing import parse_run
from ocgl.experiments.result_store import CURVES, RESULT
from ocgl.experiments.results import Evaluation
from ocgl.experiments.run_directory import CHECKPOINT, CONFIG, MODEL
from ocgl.state import State
from ocgl.strategies import find, names
from ocgl.strategies._core.registry import keys
from ocgl.testing import same
from ocgl.types import Json
from tests.helpers import options, scored, timeless


@pytest.mark.parametrize("strategy", ["bare", "linear"])
@pytest.mark.parametrize("stream", ["class", "order", "task", "blurry", "iid"])
def test_every_stream_runs_and_says_everything(strategy: str, stream: str) -> None:
    config = configure("digits", strategy, stream, overrides=options("batch_size=40", "fanout=3"))
    result = Experiment(config, stream_of(config)).finish()
    for key in ("AP", "AF", "AF_T", "AAP", "prequential"):
        assert -100 <= scored(result, key) <= 100
    assert len(result.matrix) == result.statistics.tasks
    assert result.updates == result.statistics.steps
    most, bound = result.cost_per_update.most, result.cost_per_update.bound
    assert bound is not None and most.within(bound) and min(most.nodes, most.edges, most.bytes) > 0
    json.dumps(result.dump(), allow_nan=False)


@pytest.mark.parametrize("strategy", names())
@pytest.mark.parametrize("dataset", ["digits", "sbm:nodes=400,edges=1200,classes=4,width=8"])
@pytest.mark.parametrize("stream", ["class", "order"])
def test_every_strategy_runs(strategy: str, dataset: str, stream: str) -> None:
    few = ["epochs=3"] if strategy == "joint" else ["passes=2"] if "passes" in keys(find(strategy)) else []
    config = configure(dataset, strategy, stream, overrides=options("batch_size=60", "fanout=3", *few), eval_every=5)
    result = make_experiment(config, stream_of(config)).finish()
    assert 0 <= scored(result, "AP") <= 100 and result.updates > 0
    assert (result.AAP is None) == (strategy == "joint")


def test_domain_streams_run_on_the_block_model() -> None:
    config = configure("sbm:nodes=300,edges=900,classes=4", "linear", "domain", overrides=options("batch_size=30"))
    assert Experiment(config, stream_of(config)).finish().statistics.tasks == 5


def test_the_card_says_what_the_features_are_and_what_is_sampled_again() -> None:
    config = configure("digits", "ridge", overrides=options("batch_size=60", "revisit=5", "view=own+mean1+mean2"))
    card = Experiment(config, stream_of(config)).finish().protocol
    assert card["aggregation"].startswith("own+mean1+mean2 side by side, means without the node itself")
    assert card["options"]["extra_seeds"] == 5
    config = configure("digits", "linear", overrides=options("batch_size=60"))
    assert "self included" in Experiment(config, stream_of(config)).finish().protocol["aggregation"]


def test_late_and_missing_labels_run() -> None:
    config = configure("digits", "linear", overrides=options("label_delay=[0,5]", "missing_labels=0.3"))
    result = Experiment(config, stream_of(config)).finish()
    assert 0 < result.statistics.labels < 0.75 * result.statistics.train
    assert "never come" in result.protocol["labels"]


def test_a_run_repeats_bit_equal_and_seeds_differ() -> None:
    def go(seed: int) -> tuple[Json, State]:
        config = configure("digits", "bare", seed=seed, overrides=options("batch_size=30"))
        run = Experiment(config, stream_of(config))
        return timeless(run.finish()), run.learner.state()

    (first, a), (again, b), (other, _) = go(1), go(1), go(2)
    assert first == again and same(a, b)
    assert first["AAP"] != other["AAP"] and first["stream_hash"] == other["stream_hash"]


def test_tuning_on_the_prefix_is_the_beginning_of_the_whole_run() -> None:
    config = configure("digits", "linear", overrides=options("batch_size=20"))
    stream = stream_of(config)
    prefix = Experiment(config, stream.prefix(2))
    prefix.finish()
    whole = Experiment(config, stream)
    for _ in range(len(prefix.stream)):
        whole.step()
    assert same(prefix.learner.state(), whole.learner.state())


SPARSE = "sbm:nodes=600,edges=2400,width=64,density=0.1"


RESUMED = [
    ("bare", "digits", {}),
    ("linear", "digits", {"eval_every": 4}),
    ("er", SPARSE, {}),
    ("ridge", "digits", {"revisit": 5, "eval_every": 3}),
    ("ssm-er", "digits", {"buffer": "20%"}),
    ("lwf", "digits", {"update_every": 3, "passes": 2, "eval_every": 2}),
    ("twp", "digits", {"passes": 2, "anchor_every": 2}),
]


@pytest.mark.parametrize(("strategy", "dataset", "more"), RESUMED, ids=[name for name, _, _ in RESUMED])
def test_a_run_resumes_from_any_batch_bit_equal(
    strategy: str, dataset: str, more: dict[str, Any], tmp_path: Path
) -> None:
    config = configure(dataset, strategy, overrides={"batch_size": 40, **more})
    stream = stream_of(config)
    whole = Experiment(config, stream)
    states = []
    while whole.done < len(stream):
        whole.step()
        states.append(whole.state())
    for cut in (0, 3, len(stream) // 2, len(stream) - 1):
        states[cut].save(tmp_path / "c.safetensors")
        rest = Experiment(config, stream)
        rest.load_state(State.load(tmp_path / "c.safetensors"))
        assert timeless(rest.finish()) == timeless(whole.result())
        assert same(rest.learner.state(), whole.learner.state())


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "ocgl.cli", "run", *arguments]


@pytest.mark.parametrize("moments", [3, 10])
def test_kill_9_at_random_moments_ends_bit_equal(moments: int, tmp_path: Path) -> None:
    settings = ["--dataset", "digits", "--strategy", "linear", "--set", "passes=5", "--set", "batch_size=1"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    begin = time.monotonic()
    subprocess.run(command(*settings, "--out", str(whole)), check=True, capture_output=True)
    full = time.monotonic() - begin
    rng = random.Random(0)
    kills = attempts = 0
    while kills < moments and attempts < 40:
        attempts += 1
        again = ["--resume", str(broken)] if (broken / CONFIG).exists() else [*settings, "--out", str(broken)]
        process = subprocess.Popen(
            command(*again, "--checkpoint-every", "7"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        wait_for = broken / CHECKPOINT
        before = wait_for.stat().st_mtime_ns if wait_for.exists() else 0
        while process.poll() is None and (not wait_for.exists() or wait_for.stat().st_mtime_ns == before):
            time.sleep(0.002)
        time.sleep(rng.random() * full / 80)
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            kills += 1
        process.wait()
        if (broken / RESULT).exists():
            break
    assert kills == moments, f"the run ended after {kills} kills"
    subprocess.run(command("--resume", str(broken)), check=True, capture_output=True)
    ours, theirs = (parse_run((d / RESULT).read_text()) for d in (broken, whole))
    assert timeless(ours) == timeless(theirs)
    assert same(State.load(broken / MODEL), State.load(whole / MODEL))
    assert (broken / CURVES).read_bytes() == (whole / CURVES).read_bytes()
    assert not (broken / CHECKPOINT).exists()


def test_a_finished_run_is_read_not_run_again_and_never_overwritten(tmp_path: Path) -> None:
    config = configure("digits", "linear", overrides=options("batch_size=50"))
    result = run_config(config, out=tmp_path / "r")
    assert resume(tmp_path / "r") == result
    with pytest.raises(ResumeError, match="already"):
        run_config(config, out=tmp_path / "r")
    with pytest.raises(ResumeError, match="no run"):
        resume(tmp_path)


def test_a_checkpoint_of_another_stream_is_refused() -> None:
    config = configure("digits", "linear", overrides=options("batch_size=50"))
    run = Experiment(config, stream_of(config))
    run.step()
    other = configure("digits", "linear", overrides=options("batch_size=50", "stream_seed=1"))
    with pytest.raises(ResumeError, match="stream differs"):
        Experiment(other, stream_of(other)).load_state(run.state())


def test_curves_hold_what_the_figures_need(tmp_path: Path) -> None:
    import polars as pl

    config = configure("digits", "linear", overrides=options("batch_size=50"))
    result = run_config(config, out=tmp_path / "r")
    curves = pl.read_parquet(tmp_path / "r" / CURVES)
    assert curves.height == result.statistics.steps
    assert curves["AP_t"].mean() == pytest.approx(scored(result, "AAP"))
    assert curves["nodes"][-1] == result.statistics.nodes
    assert np.isnan(curves["task_4"][0]) and curves["task_4"][-1] >= 0


def test_revisits_are_counted() -> None:
    config = configure("digits", "ridge", overrides=options("batch_size=100", "revisit=20", "buffer=100"))
    result = make_experiment(config, stream_of(config)).finish()
    most, bound = result.cost_per_update.most, result.cost_per_update.bound
    assert result.memory_nodes == 100
    plain = configure("digits", "ridge", overrides=options("batch_size=100"))
    less = make_experiment(plain, stream_of(plain)).finish().cost_per_update
    assert bound is not None and less.bound is not None
    assert most.within(bound) and less.most.within(most) and less.bound.within(bound) and less.bound != bound


def test_an_estimate_is_said_and_resumed_and_an_offline_bound_has_none(tmp_path: Path) -> None:
    from ocgl.reporting.terminal import result_table

    settings = ["batch_size=60", "eval_cap=25"]
    config = configure("digits", "linear", overrides=options(*settings))
    run = make_experiment(config, stream_of(config))
    whole = make_experiment(config, stream_of(config)).finish()
    for _ in range(6):
        run.step()
    run.state().save(tmp_path / "state.safetensors")
    again = make_experiment(config, stream_of(config))
    again.load_state(State.load(tmp_path / "state.safetensors"))
    assert timeless(again.finish()) == timeless(whole)
    said = whole.evaluation
    assert said.anytime == "estimate" and said.nodes < said.of == whole.statistics.validation
    assert said.AAP_interval is not None
    assert said.AAP_interval[0] < scored(whole, "AAP") < said.AAP_interval[1]
    assert whole.protocol["AAP"].startswith("estimate")
    assert "bootstrap" in str(result_table(whole).renderables[1])
    joint = configure("digits", "joint", overrides=options(*settings, "epochs=1"))
    offline = make_experiment(joint, stream_of(joint)).finish()
    assert offline.evaluation.AAP_interval is None
    exact = whole.model_copy(update={"evaluation": Evaluation()})
    for other in (offline, exact):
        assert "bootstrap" not in str(result_table(other).renderables[1])


def test_a_run_goes_on_where_its_store_was(tmp_path: Path) -> None:
    config = configure("digits", "linear", overrides=options("batch_size=100"))
    run_config(config, out=tmp_path / "run", store="disk")
    (tmp_path / "run" / RESULT).unlink()
    assert resume(tmp_path / "run").store == "disk"
    (tmp_path / "run" / RESULT).unlink()
    assert resume(tmp_path / "run", store="memory").store == "memory"
    (tmp_path / "run" / RESULT).unlink()
    (tmp_path / "run" / CONFIG).write_text("{")
    with pytest.raises(DamagedFileError, match=r"config\.json cannot be used"):
        resume(tmp_path / "run")
