"""The one public entry: by name as `ocgl run`, by object as it is, on prepared streams, with callbacks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocgl
from ocgl.cli import main
from ocgl.errors import ConfigError, DatasetError, ResumeError, StreamError
from ocgl.experiments import Progress
from ocgl.experiments.parsing import parse_run
from ocgl.strategies import ER, Linear
from tests.helpers import scored, timeless


def command(*arguments: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["ocgl", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code


@pytest.mark.parametrize(
    ("strategy", "options"),
    [
        ("ridge", {}),
        ("ssm-er", {"passes": 2, "buffer": "20%", "neighbors_budget": [3, 3]}),
        ("linear", {"lr": 0.01, "batch_size": 40, "label_delay": [0, 3], "eval_cap": 30}),
        ("joint", {"epochs": 2, "hidden": 16}),
    ],
)
def test_a_name_gives_the_run_of_the_command_line_to_the_bit(
    strategy: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    texts = [f"--set={key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in options.items()]
    more = ["--eval-every", "7", "--seed", "3", "--json", str(path)]
    command("run", "--dataset", "digits", "--strategy", strategy, *texts, *more)
    result = ocgl.evaluate(strategy, ocgl.load_dataset("digits"), stream="class", seed=3, every=7, **options)
    assert timeless(result) == timeless(parse_run(path.read_text()))
    assert json.loads(path.read_text()).keys() == result.sealed().keys()


def test_an_object_is_used_as_it_is() -> None:
    stream = ocgl.class_stream(ocgl.load_dataset("digits"), batch_size=40)
    strategy = ER(lr=0.01, buffer_size=50, seed=4, norm="mean")
    result = ocgl.evaluate(strategy, stream, every=10)
    assert strategy.updates == result.updates == len(stream) and strategy.memory_nodes == 50
    assert result.seed == 4 and result.strategy == "er" and result.title == "ER"
    assert result.hyperparameters["norm"] == "mean" and result.hyperparameters["buffer_size"] == 50
    same = ocgl.evaluate("er", stream, every=10, seed=4, lr=0.01, buffer_size=50, norm="mean")
    assert (same.AAP, same.matrix) == (result.AAP, result.matrix)
    assert result.buffer == "50"
    with pytest.raises(ConfigError, match="lr: a strategy object has its seed and hyperparameters already"):
        ocgl.evaluate(ER(), stream, lr=0.1)
    with pytest.raises(ConfigError, match="profile, seed: a strategy object"):
        ocgl.evaluate(ER(), stream, seed=1, profile="textbook")


def test_an_object_of_a_class_without_a_file_runs() -> None:
    class Mine(Linear):
        def own_features(self, neighborhood: Any) -> Any:
            return 2 * super().own_features(neighborhood)

    result = ocgl.evaluate(Mine(), "digits", batch_size=60, every=10)
    assert scored(result, "AP") > 0 and "Mine" in result.strategy


def test_a_prepared_stream_has_its_options_already() -> None:
    stream = ocgl.make_stream(ocgl.load_dataset("digits"), "order", batch_size=50)
    result = ocgl.evaluate("linear", stream, every=5)
    assert result.stream == "order" and result.config.stream.batch_size == 50
    assert result.stream_hash == stream.content_hash
    with pytest.raises(StreamError, match="stream, batch_size: a prepared stream"):
        ocgl.evaluate("linear", stream, stream="order", batch_size=10)
    prefix = ocgl.evaluate("linear", stream.prefix(2))
    assert prefix.statistics.tasks == 2


def test_callbacks_and_the_progress_bar_follow_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    heard: list[Progress] = []
    result = ocgl.evaluate("linear", "digits", batch_size=60, every=4, callbacks=[heard.append], progress=True)
    assert [p.step for p in heard] == list(range(1, result.statistics.steps + 1))
    evaluated = [p for p in heard if p.evaluated]
    assert len(evaluated) < len(heard) and heard[-1].nodes == result.statistics.nodes
    anytime = [p.anytime for p in evaluated if p.anytime is not None]
    assert 100 * np.mean(anytime) == pytest.approx(scored(result, "AAP"))


def test_a_folder_keeps_the_run_and_resume_reads_it(tmp_path: Path) -> None:
    result = ocgl.evaluate("slda", "digits", batch_size=60, every=5, out=tmp_path / "r")
    assert timeless(ocgl.resume(tmp_path / "r")) == timeless(result)
    with pytest.raises(ResumeError, match="already"):
        ocgl.evaluate("slda", "digits", out=tmp_path / "r")


def test_wrong_options_have_names() -> None:
    for wrong in ({"lrr": 1}, {"profile": "papr"}, {"stream": "clas"}, {"every": 0}):
        with pytest.raises(ConfigError):
            ocgl.evaluate("bare", "digits", **wrong)


def test_wrong_kinds_of_arguments_have_names() -> None:
    with pytest.raises(ConfigError, match=r"ER\(\) instead of the class"):
        ocgl.evaluate(ER, "digits")  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match="from_pyg"):
        ocgl.evaluate("er", object())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="buffer: a strategy object"):
        ocgl.evaluate(ER(), "digits", buffer="10%")


def test_a_forgotten_decorator_or_name_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from ocgl.strategies import Bare\nclass Mine(Bare):\n    weight: float = 1.0\n")
    with pytest.raises(ConfigError, match="weight is no hyperparameter yet: put @strategy above the class"):
        ocgl.make_strategy(f"{file}:Mine")
