from pathlib import Path

import pytest

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.experiments import RunConfig, configure
from ocgl.experiments.config import buffer_nodes, parse_override
from ocgl.strategies import make_strategy
from tests.helpers import options


def test_settings_find_the_part_that_has_them() -> None:
    config = configure(
        "arxiv",
        "linear",
        overrides=options("lr=0.01", "batch_size=7", "buffer=2%", "class_order=[1,0]", "eval_fanout=all"),
    )
    assert config.hyperparameters == {"lr": 0.01}
    assert config.stream.batch_size == 7 and config.stream.class_order == (1, 0)
    assert config.buffer == "2%" and config.eval_fanout == "all"


@pytest.mark.parametrize(
    ("dataset", "batch", "buffer", "metric"),
    [
        ("amazon-computer", 10, "4%", "accuracy"),
        ("arxiv", 50, "4%", "accuracy"),
        ("products", 250, "0.4%", "accuracy"),
        ("elliptic", 50, "4%", "f1:1"),
        ("sbm:products,nodes=9", 250, "0.4%", "accuracy"),
    ],
)
def test_the_paper_s_settings_are_the_defaults(dataset: str, batch: int, buffer: str, metric: str) -> None:
    config = configure(dataset, "bare")
    assert (config.stream.batch_size, config.buffer, config.metric) == (batch, buffer, metric)


def test_profiles_differ_in_the_aggregation() -> None:
    base = {"all": 13752, "labelled": 100, "train": 50}
    assert configure("digits", "bare").resolved(base) == {"norm": "sum"}
    assert configure("digits", "bare", profile="textbook").resolved(base) == {"norm": "sym"}
    two = {"replay_loss": "sum_of_means", "buffer_size": 550}
    assert configure("digits", "linear", profile="textbook").resolved(base) == two
    self_weight = configure("digits", "linear", overrides=options("buffer=10%", "buffer_base=train"))
    assert self_weight.resolved(base) == two | {"buffer_size": 5}


def test_profiles_are_readings_of_the_paper() -> None:
    base = {"all": 1000, "labelled": 100, "train": 50}
    resolved = {
        profile: {name: configure("digits", name, profile=profile).resolved(base) for name in ("ssm-er", "lwf")}
        for profile in ("paper", "textbook", "first-reading", "first-reading-textbook")
    }
    second = {"replay_loss": "sum_of_means", "source": "batch", "centres": "on_top", "buffer_size": 40}
    first = {
        "replay_loss": "one_mean", "source": "graph", "centres": "counted", "init": "glorot", "buffer_size": 40,
    }  # fmt: skip
    assert resolved["paper"]["ssm-er"] == {"norm": "sum"} | second
    assert resolved["textbook"]["ssm-er"] == {"norm": "sym"} | second
    assert resolved["first-reading"]["ssm-er"] == {"norm": "sum"} | first
    assert resolved["first-reading-textbook"]["ssm-er"] == {"norm": "sym"} | first
    assert resolved["paper"]["lwf"] == {"norm": "sum", "distil": "absent"}
    assert make_strategy("lwf").hyperparameters()["init"] == "kaiming"
    assert resolved["first-reading"]["lwf"] == {"norm": "sum", "distil": "known", "init": "glorot"}


def test_batches_straddle_on_streams_by_time_in_the_second_reading() -> None:
    cases = [("paper", "time", True), ("textbook", "order", True), ("paper", "class", False)]
    for profile, kind, straddle in [*cases, ("first-reading", "time", False)]:
        assert configure("arxiv", "bare", kind, profile).stream.straddle is straddle
    assert not configure("arxiv", "bare", "time", overrides={"straddle": False}).stream.straddle


def test_a_profile_leaves_the_options_of_a_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from ocgl.strategies import ER, strategy\n\n\n@strategy\nclass Mine(ER):\n    name = 'mine'\n"
        "    source: str = 'web'\n"
    )
    base = {"all": 1000, "labelled": 100, "train": 50}
    resolved = configure("digits", f"{file}:Mine").resolved(base)
    assert resolved == {"norm": "sum", "replay_loss": "sum_of_means", "buffer_size": 40}


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ("lrr=1", UnknownNameError),
        ("lr", ConfigError),
        ("batch_size=-1", ConfigError),
        ("buffer=many", ConfigError),
        ("buffer=400%", ConfigError),
        ("buffer=1.5", ConfigError),
        ("eval_every=0", ConfigError),
        ("memory_proportion=2", UnknownNameError),
    ],
)
def test_bad_settings_have_names(setting: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        configure("digits", "bare", overrides=options(setting))


def test_bad_names() -> None:
    with pytest.raises(UnknownNameError):
        configure("digits", "baer", overrides=options("lr=1"))
    for wrong in ({"stream": "classs"}, {"profile": "papr"}, {"seed": -1}, {"device": "tpu"}):
        with pytest.raises(ConfigError):
            configure("digits", "bare", **wrong)


def test_a_config_survives_json() -> None:
    config = configure("digits", "linear", overrides=options("lr=0.01", "label_delay=[1,3]", "fanout=all"))
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_values_and_buffers() -> None:
    assert parse_override("fanout=all") == ("fanout", "all")
    assert parse_override("a==b") == ("a", "=b")
    assert [buffer_nodes(t, 19793) for t in ("1%", "2%", "4%", "0", "1")] == [197, 395, 791, 0, 1]
    assert [buffer_nodes(t, 2449028) for t in ("0.1%", "0.2%", "0.4%")] == [2449, 4898, 9796]
