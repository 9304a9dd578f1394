import pytest

from ocgl.errors import ConfigError, UnknownNameError
from ocgl.experiments import RunConfig, configure
from ocgl.experiments.config import buffer_nodes, parse_override
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
    assert configure("digits", "linear", profile="textbook").resolved(base) == {"buffer_size": 550}
    self_weight = configure("digits", "linear", overrides=options("buffer=10%", "buffer_base=train"))
    assert self_weight.resolved(base) == {"buffer_size": 5}


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
    for wrong in ({"stream": "classs"}, {"profile": "papr"}, {"seed": -1}, {"device": "cuda"}):
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
