"""What was silently wrong in 0.1.0: each test here was seen failing on that code."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ocgl
from ocgl.datasets import load_dataset, sbm
from ocgl.errors import OcglError
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.executors import LocalExecutor
from ocgl.experiments.result_store import ResultStore
from ocgl.experiments.sweep import Sweep, run_sweep
from ocgl.experiments.trials import name_of
from ocgl.state import State
from ocgl.strategies import Learner, make_strategy
from ocgl.testing import CHECKS, small_graph
from ocgl.types import Json
from tests.test_cli import ocgl as cli

pytestmark = pytest.mark.slow
GRAPH = "sbm:nodes=300,edges=900,classes=4,width=6"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cached graph."""
    monkeypatch.setenv("OCGL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sbm, "CACHED_NODES", 100)
    load_dataset(GRAPH)
    (folder,) = (tmp_path / "cache").iterdir()
    return folder


# 1. The cache of parsed graphs


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_changed_rows_of_a_cached_graph_change_no_number(cached: Path) -> None:
    right = ocgl.evaluate("linear", GRAPH, batch_size=20)
    rows = np.load(cached / "x.npy", mmap_mode="r+")
    rows[:200] = 3.0
    rows.flush()
    del rows
    again = ocgl.evaluate("linear", GRAPH, batch_size=20)
    assert (again.AAP, again.graph_hash) == (right.AAP, right.graph_hash)


def test_bad_indices_of_a_cached_graph_do_not_crash(cached: Path) -> None:
    indices = np.load(cached / "indices.npy")
    indices[::3] = 2**31 - 5
    np.save(cached / "indices.npy", indices)
    code = "from ocgl.datasets import sbm; import ocgl; sbm.CACHED_NODES = 100;"
    code += f"print(ocgl.evaluate('linear', {GRAPH!r}, batch_size=20).AAP)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done
    assert float(done.stdout) == ocgl.evaluate("linear", GRAPH, batch_size=20).AAP


def test_index_ranges_are_checked_even_where_the_checksum_fits(cached: Path) -> None:
    from ocgl.errors import GraphError
    from ocgl.graph import Graph

    columns = dict(load_dataset(GRAPH).columns())
    columns["indices"] = np.where(columns["indices"] == 7, 300, columns["indices"]).astype(np.int32)
    with pytest.raises(GraphError, match=r"indices holds indices outside 0\.\.299"):
        Graph.from_columns("g", columns)


def probe(graph: str) -> bool:
    """Load a cached graph in a worker; return whether its checksums were computed there."""
    from ocgl.datasets import cache

    computed = []
    real = cache._checksum
    cache._checksum = lambda column: computed.append(1) or real(column)  # type: ignore[func-returns-value]
    sbm.CACHED_NODES = 100
    load_dataset(graph)
    return bool(computed)


def test_a_worker_does_not_compare_what_its_parent_has_compared(cached: Path) -> None:
    load_dataset(GRAPH)
    with LocalExecutor(1) as pool:
        assert not pool.submit(probe, GRAPH).result()
    os.utime(cached / "x.npy")  # touched since: the next worker compares
    with LocalExecutor(1) as pool:
        assert pool.submit(probe, GRAPH).result()


# 2. Checkpoints and states

MINE = """
from typing import ClassVar
from ocgl.strategies import Bare, strategy

@strategy
class Mine(Bare):
    name: ClassVar[str] = "mine"

    def loss(self, examples):
        return {factor} * super().loss(examples)
"""


class Stop(Exception):
    """Ends a run early."""


def begun(out: Path, strategy: str = "linear", **options: Any) -> None:
    """Leave a run in the middle."""

    def stop(progress: Any) -> None:
        if progress.step == 6:
            raise Stop

    with pytest.raises(Stop):
        ocgl.evaluate(strategy, GRAPH, batch_size=20, out=out, checkpoint_every=3, callbacks=[stop], **options)


def refused(out: Path, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert cli("run", "--resume", str(out), *more) == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


def test_flipped_bytes_of_a_checkpoint_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path / "r")
    path = tmp_path / "r" / "checkpoint.safetensors"
    data = bytearray(path.read_bytes())
    for i in range(400):
        data[-1 - i] ^= 1
    path.write_bytes(data)
    said = refused(tmp_path / "r", capsys)
    assert "checkpoint.safetensors cannot be used" in said and "checksum is wrong" in said


def test_an_edited_seed_of_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun(tmp_path / "r")
    path = tmp_path / "r" / "config.json"
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    assert "config.json cannot be used: its checksum is wrong" in refused(tmp_path / "r", capsys)


def test_an_edited_seed_with_a_new_checksum_does_not_fit_the_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from ocgl.checked import sealed

    begun(tmp_path / "r")
    path = tmp_path / "r" / "config.json"
    values = json.loads(path.read_text())
    values["config"]["seed"] = 1
    path.write_text(json.dumps(sealed(values)))
    assert "the checkpoint is of another run: seed 0 instead of 1" in refused(tmp_path / "r", capsys)


def test_an_edited_strategy_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.format(factor=1))
    begun(tmp_path / "r", f"{file}:Mine")
    file.write_text(MINE.format(factor=2))
    said = refused(tmp_path / "r", capsys, "--trust")
    assert "the code has changed since the run began" in said and str(file) in said


def trained(name: str, width: int = 5, **options: Any) -> State:
    learner = Learner(make_strategy(name, **options))
    stream = ocgl.class_stream(small_graph(width=width))
    for step in stream:
        learner.arrive(step.arrival)
        if step.labels is not None:
            learner.learn(step.labels)
    return learner.strategy.state()


def test_the_state_of_another_strategy_is_refused() -> None:
    state = trained("bare")
    state.facts.get("identity", {})["strategy"] = "er"
    with pytest.raises(OcglError, match="the state is of er, not of bare"):
        make_strategy("bare").load_state(state)


def test_the_state_of_ridge_is_not_one_of_slda() -> None:
    """Two methods with the same parts: only their names tell them apart."""
    with pytest.raises(OcglError, match="the state is of ridge, not of slda"):
        make_strategy("slda").load_state(trained("ridge"))


def test_the_state_of_another_width_or_schema_is_refused() -> None:
    strategy = make_strategy("bare")
    strategy.load_state(trained("bare"))
    with pytest.raises(OcglError, match="features of width 7, not of 5"):
        strategy.load_state(trained("bare", width=7))
    state = trained("bare")
    state.facts["identity"]["schema_version"] = 99
    with pytest.raises(OcglError, match="schema version 99, not of schema version"):
        strategy.load_state(state)


def test_other_code_of_a_state_is_reported() -> None:
    from ocgl.errors import StateWarning

    state = trained("bare")
    state.facts["identity"]["code"] = "0123456789abcdef"
    with pytest.warns(StateWarning, match="other code"):
        make_strategy("bare").load_state(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_strategy("bare").load_state(trained("bare"))


# 3. Modules with buffers

MODULE = '''
"""A network of torch's own layers, with batch normalisation, dropout and a parameter that is not used."""
from typing import ClassVar

import torch
from torch import nn

from ocgl.nn import GrowingHead
from ocgl.rng import generator
from ocgl.strategies import GradientStrategy, strategy
from ocgl.strategies._core.trainer import Trainer


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.5)
        self.unused = nn.Parameter(torch.ones(3))
        self.head = GrowingHead(8, bias=True)

    def forward(self, neighborhood):
        rows = torch.from_numpy(neighborhood.aggregated[: neighborhood.seeds])
        hidden = self.inner(rows)
        if len(rows) > 1 or not self.training:  # one row has no variance
            hidden = self.norm(hidden)
        return self.head(self.dropout(torch.relu(hidden)))


@strategy
class Deep(GradientStrategy):
    name: ClassVar[str] = "deep"
    layers: int = 1

    def build(self, width):
        super().build(width)
        self.trainer = Trainer(Net(width), self.lr, generator(self.seed, "init"))
'''


@pytest.fixture
def deep(tmp_path: Path) -> str:
    (tmp_path / "deep.py").write_text(MODULE)
    return f"{tmp_path / 'deep.py'}:Deep"


def test_a_resumed_run_of_a_module_with_buffers_is_bit_equal(deep: str, tmp_path: Path) -> None:
    config = configure(GRAPH, deep, overrides={"batch_size": 20})
    whole, first, rest = (make_experiment(config, stream_of(config)) for _ in range(3))
    right = whole.finish()
    for _ in range(5):
        first.step()
    first.state().save(tmp_path / "s.safetensors")
    rest.load_state(State.load(tmp_path / "s.safetensors"))
    found = rest.finish()
    assert found.matrix == right.matrix and found.AAP == right.AAP
    norms = [run.strategy.model.norm.running_mean.numpy() for run in (whole, rest)]  # type: ignore[attr-defined]
    assert np.array_equal(*norms) and norms[0].any()


def test_dropout_is_off_in_predictions(deep: str) -> None:
    learner = Learner(make_strategy(deep))
    for step in ocgl.class_stream(small_graph()):
        learner.arrive(step.arrival)
        if step.labels is not None:
            learner.learn(step.labels)
    neighborhood = learner.store.sample(learner.store.ids, learner.strategy.sampling, 0)
    first = learner.strategy.scores(neighborhood)
    assert all(np.array_equal(first, learner.strategy.scores(neighborhood)) for _ in range(5))


def test_a_module_with_buffers_and_dropout_passes_every_check(deep: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("check", deep) == 0, capsys.readouterr().out


HIDDEN = """
from typing import ClassVar
from ocgl.strategies import Bare, strategy

SEEN = []  # of the process, not of the strategy

@strategy
class Hidden(Bare):
    name: ClassVar[str] = "hidden"

    def after_batch(self, examples, batch):
        if not SEEN:
            SEEN.append(1.5)

    def scores(self, neighborhood):
        return super().scores(neighborhood) * (SEEN[0] if SEEN else 1)
"""


def test_ocgl_check_compares_predictions_of_a_new_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a process remembers beside the state is not there in the next one."""
    (tmp_path / "hidden.py").write_text(HIDDEN)
    assert cli("check", f"{tmp_path / 'hidden.py'}:Hidden") == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if " holds" not in line]
    assert len(failed) == 1 and "new process" in failed[0], failed
    assert len(CHECKS) == 18


# 4. Results that were changed


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("swept") / "r"
    sweep = Sweep(GRAPH, ("linear",), out, seeds=2, overrides={"batch_size": 40}, grids="coarse", tune_seeds=1)
    with ThreadPoolExecutor(1) as pool:
        assert not run_sweep(sweep, pool).failed
    return out


@pytest.fixture
def folder(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "r"))


def edit(folder: Path, kind: str, seal: bool = False, **values: Any) -> Path:
    """Change a stored result; with a new checksum if wanted."""
    path = next(p for p in sorted(folder.glob("*/result.json")) if json.loads(p.read_text())["kind"] == kind)
    changed = json.loads(path.read_text()) | values
    if seal:
        from ocgl.checked import sealed

        changed = sealed(changed)
    path.write_text(json.dumps(changed))
    return path


@pytest.mark.parametrize("command", [("results",), ("verify", "--workers", "0"), ("report", "-o", "r.html")])
def test_an_edited_score_is_left_out_and_said(
    command: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    path = edit(folder, "run", AAP=99.99)
    assert cli(command[0], str(folder), *command[1:]) == 3
    printed = capsys.readouterr()
    assert str(path) in printed.err and "1 damaged file was left out" in printed.err
    assert "99.99" not in printed.out


@pytest.mark.parametrize("values", [{"AP": 99.99}, {"AAP": 99.99}, {"AF_T": 0.5}, {"AP": 101.0}, {"seed": 7}])
def test_a_score_that_contradicts_matrix_or_curve_is_left_out_even_with_a_new_checksum(
    values: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = edit(folder, "run", seal=True, **values)
    assert cli("results", str(folder)) == 3
    assert str(path.parent) in capsys.readouterr().err


def test_verify_runs_results_of_the_present_code_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("verify", str(folder), "--each", "9", "--workers", "0") == 0
    assert capsys.readouterr().out.count("bit-equal") == 2  # the runs and the trials
    edit(folder, "trial", seal=True, score=12.5)
    assert cli("verify", str(folder), "--each", "9", "--workers", "0") == 1
    assert "DIFFERENT" in capsys.readouterr().out


def without_checksum(values: Json) -> Json:
    """Return a result as version 0.1.0 wrote it, whose profile `paper` is called `first-reading` now."""
    older = {key: value for key, value in values.items() if key not in ("checksum", "files")}
    older |= {"schema_version": 2, "config": values["config"] | {"profile": "paper"}}
    if values["kind"] == "choice":
        older["table"] = [[row["configuration"], row["mean"], row["share"]] for row in values["table"]]
    return older | ({"profile": "paper"} if "profile" in values else {})


def test_results_without_a_checksum_are_called_unchecked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, options = tmp_path / "r", {"batch_size": 40}
    sweep = Sweep(GRAPH, ("linear",), folder, seeds=2, overrides=options, grids="coarse", profile="first-reading")
    with ThreadPoolExecutor(1) as pool:
        assert not run_sweep(sweep, pool).failed
    for path in folder.glob("*/result.json"):
        path.write_text(json.dumps(without_checksum(json.loads(path.read_text()))))
    assert cli("results", str(folder), "--format", "json") == 0
    assert {row["checksum"] for row in json.loads(capsys.readouterr().out)} == {"unchecked"}
    assert cli("verify", str(folder), "--workers", "0") == 0
    assert "are unchecked" in capsys.readouterr().out


def test_a_result_that_lost_the_name_of_its_checksum_is_damaged(folder: Path) -> None:
    path = next(iter(sorted(folder.glob("*/result.json"))))
    path.write_text(path.read_text().replace('"checksum"', '"checksun"'))
    store = ResultStore(folder)
    assert len(list(store)) == len(store.names()) - 1
    assert "it has no checksum" in str(next(iter(store.damaged.values())))


# 5. Helper modules


def test_a_helper_module_is_part_of_a_result_s_identity(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("from deeper import FACTOR\n")
    (tmp_path / "deeper.py").write_text("FACTOR = 1\n")
    text = MINE.format(factor="FACTOR").replace("from typing", "from helper import FACTOR\nfrom typing", 1)
    (tmp_path / "mine.py").write_text(text)
    (tmp_path / "unrelated.py").write_text("X = 1\n")
    config = configure(GRAPH, f"{tmp_path / 'mine.py'}:Mine")
    before = name_of(config, None, None)
    (tmp_path / "unrelated.py").write_text("X = 2\n")
    assert name_of(config, None, None) == before
    (tmp_path / "deeper.py").write_text("FACTOR = 2  # of two\n")
    changed = name_of(config, None, None)
    assert changed != before
    (tmp_path / "deeper.py").write_text("# a comment does not count\nFACTOR = 2\n")
    assert name_of(config, None, None) == changed


def test_helpers_of_two_strategies_do_not_mix(tmp_path: Path) -> None:
    for name, factor in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mixed_helper.py").write_text(f"FACTOR = {factor}\n")
        text = MINE.format(factor="FACTOR").replace("from typing", "from mixed_helper import FACTOR\nfrom typing", 1)
        (tmp_path / name / "mine.py").write_text(text)
    make_strategy(f"{tmp_path / 'a' / 'mine.py'}:Mine")
    with pytest.raises(OcglError, match="another module of that name is loaded already"):
        make_strategy(f"{tmp_path / 'b' / 'mine.py'}:Mine")


def test_a_module_that_is_imported_unseen_is_refused(tmp_path: Path) -> None:
    (tmp_path / "unseen_helper.py").write_text("FACTOR = 1\n")
    text = "import importlib, sys\nsys.path.insert(0, __file__.rpartition('/')[0])\n"
    text += "FACTOR = importlib.import_module('unseen_helper').FACTOR\n"
    (tmp_path / "mine.py").write_text(text + MINE.format(factor="FACTOR"))
    try:
        with pytest.raises(OcglError, match="write a plain import"):
            make_strategy(f"{tmp_path / 'mine.py'}:Mine")
    finally:
        sys.path.remove(str(tmp_path))


def test_an_edit_within_the_same_second_is_seen(tmp_path: Path) -> None:
    """Bytecode on disk is compared by second and size only."""
    file = tmp_path / "mine.py"
    losses = []
    for factor in (1, 2):
        file.write_text(MINE.format(factor=factor))
        os.utime(file, (1e9, 1e9))
        state = trained(f"{file}:Mine")
        losses.append({name: array.tobytes() for name, array in state.arrays.items() if "second" in name})
    assert losses[0] != losses[1]


# 9. One damaged file does not break the folder


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\x00\xff\x00"])
@pytest.mark.parametrize("file", ["result.json", "anytime.parquet"])
def test_a_damaged_file_is_named_skipped_and_counted(
    file: str, content: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = next(ResultStore(folder).runs).id
    (folder / name / file).write_bytes(content)
    assert cli("results", str(folder), "--format", "json") == 3
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 1 and f"{name}/{file}" in printed.err


@pytest.mark.parametrize("file", ["packed.parquet", "packed-curves.parquet"])
def test_a_damaged_pack_is_named(file: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ResultStore(folder).pack()
    path = folder / file
    path.write_bytes(path.read_bytes()[:-100])
    assert cli("results", str(folder)) == 3
    assert file in capsys.readouterr().err


def test_a_bench_computes_a_damaged_result_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = ResultStore(folder).rows()
    name = before[0]["id"]
    (folder / name / "result.json").write_text("{")
    arguments = ["bench", GRAPH, "--strategies", "linear", "--seeds", "2", "--tune-seeds", "1", "--grids", "coarse"]
    arguments += ["--set", "batch_size=40", "--out", str(folder), "--workers", "0"]
    assert cli(*arguments) == 0
    assert name in capsys.readouterr().err and (folder / f".damaged-{name}").is_dir()
    assert ResultStore(folder).rows() == before


# What an attack on this version found


def test_the_table_of_a_bench_has_the_runs_of_that_bench_alone(tmp_path: Path) -> None:
    from ocgl.experiments.sweep import finished

    def sweep(size: int) -> Sweep:
        return Sweep(GRAPH, ("slda",), tmp_path, seeds=2, overrides={"batch_size": size}, grids="coarse", tune_seeds=1)

    with ThreadPoolExecutor(1) as pool:
        for size in (40, 20):
            run_sweep(sweep(size), pool)
    assert [run.config.stream.batch_size for run in finished(sweep(20))] == [20, 20]


def test_a_checkpoint_of_other_evaluation_options_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun(tmp_path / "a")
    begun(tmp_path / "b", every=3)
    shutil.copy(tmp_path / "b" / "checkpoint.safetensors", tmp_path / "a")
    assert "the checkpoint is of another run: it has another eval_every" in refused(tmp_path / "a", capsys)
    (tmp_path / "a" / "config.json").unlink()
    with pytest.raises(OcglError, match=r"holds checkpoint\.safetensors of another run"):
        ocgl.evaluate("linear", GRAPH, out=tmp_path / "a")


def test_helpers_of_a_linked_strategy_file_count(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "linked_helper.py").write_text("FACTOR = 1\n")
    text = MINE.format(factor="FACTOR").replace("from typing", "from linked_helper import FACTOR\nfrom typing", 1)
    (tmp_path / "real" / "mine.py").write_text(text)
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "mine.py")
    config = configure(GRAPH, f"{tmp_path / 'link.py'}:Mine")
    before = name_of(config, None, None)
    (tmp_path / "real" / "linked_helper.py").write_text("FACTOR = 22\n")
    assert name_of(config, None, None) != before


def test_what_is_set_is_not_searched(tmp_path: Path) -> None:
    from ocgl.experiments.results import ChoiceResult

    sweep = Sweep(
        GRAPH, ("linear",), tmp_path, seeds=1, overrides={"batch_size": 40, "lr": 0.5}, grids="coarse", tune_seeds=1
    )
    with ThreadPoolExecutor(1) as pool:
        run_sweep(sweep, pool)
    (choice,) = [result for result in ResultStore(tmp_path) if isinstance(result, ChoiceResult)]
    assert "lr" not in choice.settings and choice.config.hyperparameters["lr"] == 0.5


def test_packing_leaves_other_folders_alone(folder: Path, tmp_path: Path) -> None:
    ocgl.evaluate("linear", GRAPH, batch_size=40, out=folder / "mine")
    name = next(run.id for run in ResultStore(folder).runs if run.id != "mine")
    (folder / name / "notes.txt").write_text("mine")
    strange = folder / "a copy (1)"
    shutil.copytree(folder / name, strange)
    values = json.loads((strange / "result.json").read_text())
    (strange / "result.json").write_text(json.dumps(without_checksum(values)))
    before = len(ResultStore(folder).names())
    ResultStore(folder).pack()
    assert (folder / "mine" / "model.safetensors").exists() and (strange / "result.json").exists()
    assert (folder / name / "notes.txt").exists() and not (folder / name / "result.json").exists()
    store = ResultStore(folder)
    assert len(list(store)) == before and not store.damaged


def test_a_pack_without_its_manifest_is_unchecked(folder: Path) -> None:
    ResultStore(folder).pack()
    assert all(result.checked for result in ResultStore(folder))
    (folder / "packed.json").unlink()
    assert not any(result.checked for result in ResultStore(folder))


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    from ocgl.files import write_whole

    os.mkfifo(tmp_path / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((tmp_path / "pipe").read_bytes)
        write_whole(tmp_path / "pipe", b"hello")
        assert read.result(10) == b"hello"
    assert (tmp_path / "pipe").is_fifo()


def test_arrays_of_any_byte_order_come_back(tmp_path: Path) -> None:
    State({"a": np.arange(3, dtype=">i4")}).save(tmp_path / "s")
    assert State.load(tmp_path / "s").arrays["a"].tolist() == [0, 1, 2]
    with pytest.raises(OcglError, match="arrays of numbers"):
        State({"a": np.array([object()])}).save(tmp_path / "s")


@pytest.mark.parametrize("option", ["stream_seed=9223372036854775808", "batch_size=99999999999999999999"])
def test_numbers_that_no_file_holds_are_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli("run", "--dataset", GRAPH, "--strategy", "slda", "--set", option) == 2
    assert "is too large" in capsys.readouterr().err


def test_a_strategy_that_exits_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MINE.format(factor="__import__('sys').exit(0) or 1")
    (tmp_path / "mine.py").write_text(text)
    assert cli("check", f"{tmp_path / 'mine.py'}:Mine") == 1
    assert "has called sys.exit in an update" in capsys.readouterr().out
