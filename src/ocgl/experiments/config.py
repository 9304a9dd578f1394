"""What a run is: everything that can move its number, in one checked object."""

import inspect
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

from ocgl.code import code_name
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.evaluation.metrics import Metric
from ocgl.nn.devices import available
from ocgl.strategies import Strategy, find
from ocgl.strategies._core.backbones import text_of_backbone
from ocgl.strategies._core.base import Fanout
from ocgl.strategies._core.registry import keys
from ocgl.streams import StreamConfig
from ocgl.types import Json
from ocgl.validation import explained, plain_numbers

Profile = Literal["paper", "textbook", "first-reading", "first-reading-textbook"]

_SECOND_READING: Json = {
    "replay_loss": "sum_of_means",
    "distil": "absent",
    "source": "batch",
    "centres": "on_top",
}
_FIRST_READING: Json = {
    "replay_loss": "one_mean",
    "distil": "known",
    "init": "glorot",
    "source": "graph",
    "centres": "counted",
}
PROFILES: dict[str, Json] = {
    "paper": {"norm": "sum"} | _SECOND_READING,
    "textbook": {"norm": "sym"} | _SECOND_READING,
    "first-reading": {"norm": "sum"} | _FIRST_READING,
    "first-reading-textbook": {"norm": "sym"} | _FIRST_READING,
}
"""Hyperparameters of each profile, for the methods that have them.

`paper` is the reading that fits the published numbers best, `textbook` the same with the standard symmetric GCN, and
`first-reading` and `first-reading-textbook` what these two were in version 0.1.0, after the paper's text alone; they
are kept for comparison. docs/protocol.md explains the options.
"""

TUNE_SEEDS: dict[str, int] = {"paper": 5, "textbook": 5, "first-reading": 1, "first-reading-textbook": 1}
"""Seeds that a configuration is selected with, by profile."""

STRADDLING = ("paper", "textbook")
"""Profiles whose batches cross task boundaries on streams where tasks exist for scoring only."""


@dataclass(frozen=True)
class Defaults:
    """What the paper uses on a dataset."""

    batch_size: int = 10
    buffer: str = "4%"
    metric: str = "accuracy"


DEFAULTS: dict[str, Defaults] = {
    "arxiv": Defaults(batch_size=50),
    "reddit": Defaults(batch_size=50),
    "products": Defaults(batch_size=250, buffer="0.4%"),
    "elliptic": Defaults(batch_size=50, metric="f1:1"),
}


def defaults_of(dataset: str) -> Defaults:
    """Return the paper's options for a dataset, or for the block model of its size."""
    return DEFAULTS.get(dataset.removeprefix("sbm:").split(",")[0], Defaults())


class RunConfig(BaseModel):
    """One run. Two runs with equal configs, on one machine, give the same bits."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dataset: str = Field(max_length=4096)
    strategy: str = Field(max_length=4096)
    stream: StreamConfig = StreamConfig()
    profile: Profile = "paper"
    seed: NonNegativeInt = 0
    hyperparameters: dict[str, Any] = Field(default_factory=dict)
    buffer: str = "4%"
    buffer_base: Literal["all", "labelled", "train"] = "all"
    metric: str = "accuracy"
    eval_every: PositiveInt = 1
    eval_cap: PositiveInt | None = None
    eval_fanout: Fanout | Literal["same"] = "same"
    eval_chunk: PositiveInt = 512
    prequential: Literal["evaluated", "every"] = "evaluated"
    device: Literal["cpu", "cuda", "mps"] = "cpu"

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, given: Any) -> Any:
        return plain_numbers(given) if isinstance(given, dict) else given

    @field_validator("buffer", mode="before")
    @classmethod
    def _buffer(cls, value: object) -> str:
        buffer_nodes(str(value), 1000)
        return str(value)

    @field_validator("device", mode="before")
    @classmethod
    def _device(cls, value: object) -> object:
        return available("auto") if value == "auto" else value

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str) -> str:
        return Metric.parse(value).name

    @property
    def network(self) -> str | None:
        """The network that was chosen instead of our GCN, as text; None if none was."""
        given = self.hyperparameters.get("backbone")
        return None if given in (None, "gcn") else str(given)

    @property
    def method(self) -> str:
        """Name of the strategy with its network, where that is not the GCN: what tables tell apart."""
        return self.strategy if self.network is None else f"{self.strategy}+{self.network}"

    @property
    def code(self) -> str | None:
        """Short name of the present code of the strategy and its network; None if it is not there (any more)."""
        return code_name(self.strategy, self.network)

    def resolved(self, base: Mapping[str, int]) -> Json:
        """Return the strategy's hyperparameters on a stream: the profile's, the buffer's size, then the user's.

        Args:
            base: node counts that a buffer size in percent is a part of (`Stream.base`).
        """
        kind = find(self.strategy)
        known = keys(kind)
        found = {key: value for key, value in PROFILES[self.profile].items() if _is_ours(kind, key)}
        if self.network is not None:
            found.pop("norm", None)  # weights of our GCN; other networks have their own
        if "buffer_size" in known:
            found["buffer_size"] = buffer_nodes(self.buffer, base[self.buffer_base])
        return found | self.hyperparameters


def buffer_nodes(text: str, base: int) -> int:
    """Turn `4%`, `0.04` or a count into a number of nodes.

    >>> buffer_nodes("4%", 13752), buffer_nodes("0.04", 13752), buffer_nodes("100", 13752)
    (550, 550, 100)
    """
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    fraction = value / 100 if text.endswith("%") else value
    if not math.isfinite(value) or value < 0 or (text.endswith("%") and fraction > 1):
        raise ConfigError(f"buffer {text!r} is neither a fraction like 4% or 0.04 nor a count")
    if text.endswith("%") or (0 < fraction < 1):
        return int(fraction * base + 1e-9)
    if fraction != int(fraction):
        raise ConfigError(f"buffer {text!r}: a count of nodes is a whole number")
    return int(fraction)


def configure(
    dataset: str,
    strategy: str,
    stream: str = "class",
    profile: str = "paper",
    seed: int = 0,
    overrides: Mapping[str, Any] | None = None,
    kind: type[Strategy] | None = None,
    **options: Any,
) -> RunConfig:
    """Make a config with the defaults of the dataset and the profile.

    Args:
        dataset: name or path of the dataset.
        strategy: name of the strategy, or `path/to/file.py:Class`.
        stream: kind of stream.
        profile: `paper`, `textbook` or `first-reading`.
        seed: seed of everything but the stream.
        overrides: values by key; each goes to the part that has the key: hyperparameters of the strategy, options of
            the stream, or options of the run.
        kind: the class of the strategy, where it is at hand and need not be found by its name.
        options: options of the run by name (`eval_every`, `metric`, ...).
    """
    usual = defaults_of(dataset)
    values: Json = {"buffer": usual.buffer, "metric": usual.metric, **options}
    values |= {"dataset": dataset, "strategy": strategy, "profile": profile, "seed": seed}
    parts: dict[str, Json] = {"stream": {"kind": stream, "batch_size": usual.batch_size}, "hyperparameters": {}}
    if stream in ("time", "order") and profile in STRADDLING:
        parts["stream"]["straddle"] = True
    for key, value in (overrides or {}).items():
        part = _part_of(key, kind or find(strategy))
        value = text_of_backbone(value) if key == "backbone" else value
        (values if part is None else parts[part])[key] = value
    own = _default(kind or find(strategy), "backbone")
    if own not in (None, "gcn"):
        parts["hyperparameters"].setdefault("backbone", own)  # its code is part of the result's identity
    return validated(values | parts)


def validated(values: Json) -> RunConfig:
    """Make a config of its values; a wrong one raises `ConfigError`."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise explained(error) from error


def parse_override(text: str) -> tuple[str, Any]:
    """Read `key=value` as the command line gives it; the value is JSON where it can be, text elsewhere.

    >>> parse_override("lr=0.01"), parse_override("buffer=4%")
    (('lr', 0.01), ('buffer', '4%'))
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{text!r} is not of the form key=value")
    try:
        return key, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return key, value
    except ValueError as error:  # a number of thousands of digits
        raise ConfigError(f"{key}: {value[:20]}... cannot be read: {error}") from error


GENERAL = (
    "buffer", "buffer_base", "metric", "eval_every", "eval_cap", "eval_fanout", "eval_chunk", "prequential", "device",
)  # fmt: skip
"""Options of a run that `--set` reaches, beside hyperparameters and options of the stream."""


def _is_ours(kind: type[Strategy], key: str) -> bool:
    """Return whether a strategy has a hyperparameter from this package; one that a user defines is the user's own."""
    owner = next((base for base in kind.__mro__ if key in inspect.get_annotations(base)), None)
    return owner is not None and owner.__module__.startswith("ocgl.")


def _default(kind: type[Strategy], key: str) -> object:
    """Return the default of a hyperparameter of a class; None if it has none."""
    return next((field.default for field in fields(kind) if field.name == key), None)


def accepts(strategy: str, key: str) -> bool:
    """Return whether a key means something to a strategy: a hyperparameter, or an option of the stream or the run."""
    try:
        _part_of(key, find(strategy))
    except UnknownNameError:
        return False
    return True


def _part_of(key: str, kind: type[Strategy]) -> str | None:
    known = keys(kind)
    streams = StreamConfig.model_fields.keys() - {"kind"}
    if key in known:
        return "hyperparameters"
    if key in streams:
        return "stream"
    if key in GENERAL:
        return None
    raise UnknownNameError(f"key for {kind.name}", key, [*known, *streams, *GENERAL])
