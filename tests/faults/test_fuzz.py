"""Everything that reads bytes, fed with bytes that nobody has written: a named error, or something sound.

`make test` runs a bounded number of examples, `make fuzz` many more (HYPOTHESIS_PROFILE=fuzz).
"""

import io
import json
import os
import random
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ocgl.checked import parse_json, sealed, unsealed
from ocgl.code import code_name
from ocgl.datasets import load_dataset, sbm
from ocgl.errors import DamagedFileError, OcglError
from ocgl.evaluation.metrics import Metric
from ocgl.experiments import configure, make_experiment, stream_of
from ocgl.experiments.config import buffer_nodes, parse_override
from ocgl.experiments.expansion import parse_hops
from ocgl.experiments.parsing import parse_result
from ocgl.experiments.run_directory import curves_of
from ocgl.parquet import parquet_bytes, parse_unchecked
from ocgl.state import State
from ocgl.streams import Stream

quiet = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large]
settings.register_profile("fuzz", max_examples=20_000, deadline=None, suppress_health_check=quiet)
settings.register_profile("bounded", max_examples=100, deadline=None, suppress_health_check=quiet, derandomize=True)
PROFILE = settings.get_profile("fuzz" if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else "bounded")
pytestmark = pytest.mark.slow
GRAPH = "sbm:nodes=80,edges=160,classes=4,width=4"


@cache
def samples() -> dict[str, bytes]:
    """Return a file of each kind."""
    config = configure(GRAPH, "linear", overrides={"batch_size": 20})
    experiment = make_experiment(config, stream_of(config))
    result = experiment.finish()
    graph = load_dataset(GRAPH)
    assert graph.x is not None
    edges = np.stack([np.repeat(np.arange(graph.nodes), np.diff(graph.indptr)), graph.indices])
    buffer = io.BytesIO()
    np.savez(buffer, x=graph.x, y=graph.y, edge_index=edges)
    with tempfile.TemporaryDirectory() as folder:
        names = {name: Path(folder) / name for name in ("state", "stream")}
        experiment.state().save(names["state"])
        experiment.stream.save(names["stream"])
        found = {name: path.read_bytes() for name, path in names.items()}
    result_text = json.dumps(result.sealed()).encode()
    return found | {"npz": buffer.getvalue(), "result": result_text, "curves": parquet_bytes(curves_of(experiment))}


def mutated(data: bytes, seed: int) -> bytes:
    """Change a file in a few places, as bytes or, where it is JSON, as values."""
    rng = random.Random(seed)
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 5, 50))):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] = rng.randrange(256)
            case 1:
                del changed[at : at + rng.choice((1, 8, 100))]
            case 2:
                changed[at:at] = rng.randbytes(rng.choice((1, 4, 64)))
            case 3:
                other = rng.randrange(len(changed))
                changed[at : at + 8] = changed[other : other + 8]
        if not changed:
            return b""
    return bytes(changed)


anything = st.one_of(st.binary(max_size=400), st.integers(0, 10**9))
"""Random bytes, or the seed of a mutation of a real file."""


def content(kind: str, given_bytes: bytes | int) -> bytes:
    return given_bytes if isinstance(given_bytes, bytes) else mutated(samples()[kind], given_bytes)


def read(kind: str, data: bytes, read_it: Callable[[bytes], Any], same: Callable[[Any, Any], bool]) -> None:
    """Read bytes: a `DamagedFileError`, or what the real file holds, or (for other bytes) anything sound."""
    try:
        found = read_it(data)
    except DamagedFileError:
        return
    assert same(found, read_it(samples()[kind]))


@given(anything)
@settings(PROFILE)
def test_states(given_bytes: bytes | int) -> None:
    data = content("state", given_bytes)
    read("state", data, State.parse, lambda a, b: bool(a.checksum() == b.checksum()))


@given(anything)
@settings(PROFILE)
def test_results(given_bytes: bytes | int) -> None:
    data = content("result", given_bytes)
    read("result", data, parse_result, lambda a, b: bool(a.dump() == b.dump()) or not a.checked)


@given(anything)
@settings(PROFILE)
def test_curves(given_bytes: bytes | int) -> None:
    data = content("curves", given_bytes)
    try:
        parse_unchecked(data, "a curve")  # as one is read that has no checksum
    except DamagedFileError as error:
        assert "a curve cannot be used" in str(error)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "f.npz"


@given(anything)
@settings(PROFILE)
def test_graphs(file: Path, given_bytes: bytes | int) -> None:
    file.write_bytes(content("npz", given_bytes))
    right = samples()["npz"]
    try:
        graph = load_dataset(file)
    except DamagedFileError as error:
        assert str(file) in str(error)
        return
    file.write_bytes(right)
    assert graph.content_hash == load_dataset(file).content_hash  # the archive compares its own checksums


@given(anything)
@settings(PROFILE)
def test_streams(file: Path, given_bytes: bytes | int) -> None:
    file.write_bytes(content("stream", given_bytes))
    try:
        found = Stream.load(file)
    except DamagedFileError as error:
        assert str(file) in str(error)
        return
    file.write_bytes(samples()["stream"])
    assert found.content_hash == Stream.load(file).content_hash


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(["AAP", "matrix", "config", "id", "kind", "buffer", "statistics", "curve", "title"]), values)
@settings(PROFILE)
def test_results_with_any_value_and_a_right_checksum(key: str, value: Any) -> None:
    """What a stranger writes: the checksum fits, the content need not."""
    given_values = json.loads(samples()["result"]) | {key: value}
    try:
        found = parse_result(json.dumps(sealed(given_values)))
    except OcglError:
        return
    found.dump()


@given(values)
@settings(PROFILE)
def test_a_seal_breaks_with_any_change(value: Any) -> None:
    try:
        whole = parse_json(json.dumps({"value": value}), "a file")
    except DamagedFileError:  # a number that is too large
        return
    assert unsealed(sealed(whole), "a file") == (whole, True)
    with pytest.raises(DamagedFileError):
        unsealed(sealed(whole) | {"another": 1}, "a file")


texts = st.text(max_size=40) | st.from_regex(r"[a-z_]{1,12}=[\[\]0-9,.\-e\"a-z{}: ]{0,20}", fullmatch=True)
KEYS = [
    "lr",
    "passes",
    "fanout",
    "split",
    "batch_size",
    "metric",
    "buffer",
    "eval_fanout",
    "class_order",
    "label_delay",
]


@given(texts)
@settings(PROFILE)
def test_configuration_strings(text: str) -> None:
    for read_it in (parse_override, Metric.parse, parse_hops, lambda t: buffer_nodes(t, 100), sbm.parameters):
        try:
            read_it(text if read_it is not sbm.parameters else f"sbm:{text}")
        except OcglError as error:
            assert str(error)


@given(st.sampled_from(KEYS), values)
@settings(PROFILE)
def test_options_of_any_type(key: str, value: Any) -> None:
    try:
        config = configure(GRAPH, "linear", overrides={key: value})
        config.resolved({"all": 100, "labelled": 90, "train": 50})
    except OcglError as error:
        assert "pydantic" not in str(error) and "validation error" not in str(error)


@given(st.text(max_size=60))
@settings(PROFILE)
def test_names_of_strategies(name: str) -> None:
    assert code_name(name) is None or code_name(name)
