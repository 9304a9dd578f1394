"""The base class of all strategies: learn from batches, predict for nodes, and nothing else."""

import dataclasses
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, TypeVar, cast, dataclass_transform

import numpy as np
from pydantic import ConfigDict, Field, PositiveInt, model_validator
from pydantic.dataclasses import dataclass
from pydantic_core import ArgsKwargs
from scipy.special import softmax

from ocgl.errors import DeviceWarning, NeedsStoreError, StateError, WrongSamplingError, WrongWidthError
from ocgl.graph import UNKNOWN, Batch, Cost, Neighborhood, NeighborSampling
from ocgl.graph.features import Table
from ocgl.graph.neighbor_sampling import Degrees, Norm
from ocgl.rng import restore, seeded_torch, state_of
from ocgl.state import State, Stateful
from ocgl.strategies._core.identity import check_identity, identity_of, report_differences
from ocgl.types import DoubleArray, FloatArray, IntArray, Json
from ocgl.validation import plain_numbers

if TYPE_CHECKING:
    from torch import Tensor

Cap = PositiveInt | Literal["all"]
Fanout = Cap | tuple[Cap, ...]
"""Neighbours per node, or one such cap for each hop, first hop first."""

Kind = TypeVar("Kind", bound=type)


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
def strategy(cls: Kind) -> Kind:
    """Make the annotated fields of a class its hyperparameters: keyword arguments, checked by type and range."""
    strict = ConfigDict(extra="forbid", strict=True, validate_default=True, allow_inf_nan=False)
    return cast(Kind, dataclass(kw_only=True, config=strict)(cls))


def caps_of(fanout: Fanout) -> int | tuple[int | None, ...] | None:
    """Return a fan-out as `NeighborSampling` takes it."""
    if isinstance(fanout, tuple):
        return tuple(None if cap == "all" else cap for cap in fanout)
    return None if fanout == "all" else fanout


class Part(Protocol):
    """Something a strategy holds between batches.

    A part with `state` and `load_state` is saved and loaded with the strategy. A part with `grow` is told when the
    network has new outputs. A part with `nodes` counts as memory of past nodes.
    """

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        ...


@strategy
class Strategy(ABC):
    """A learner of node labels. Its annotated fields are its hyperparameters.

    A strategy gets batches: a sampled neighbourhood of some nodes, and their labels. It cannot ask for tasks, for the
    stream or for held-out labels.

    Parts that carry state are registered by assignment, as in `torch.nn.Module`: a generator of numpy, or any object
    with `nbytes` (see `Part`). Plain numbers are registered with `register_value`. Saving, loading, cloning, byte
    counts and growth follow from that. Parts that depend on the number of features are made in `build`.

    Args:
        seed: seed of everything random in the strategy.
        fanout: most neighbours to sample per node, one number or one for each hop.
    """

    name: ClassVar[str]
    """The name on the command line."""
    title: ClassVar[str] = ""
    """The name in tables, as the method's paper writes it; the name if empty."""
    reference: ClassVar[str] = ""
    """Authors, title and year of the paper."""
    idea: ClassVar[str] = ""
    """What the method does, in one line."""
    keeps: ClassVar[str] = "P"
    """Numbers kept between batches; docs/strategies.md explains the letters."""
    update_cost: ClassVar[str] = "-"
    """Cost of one pass over a batch; docs/strategies.md explains the letters."""
    grid: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """The search space, in the order in which ties are broken."""
    offline: ClassVar[bool] = False
    """Whether the method is an offline bound and no online learner."""
    replays: ClassVar[str] = "nothing"
    """What a remembered node comes back as."""
    without_store: ClassVar[str] = "it cannot do without"
    """How to set the method up so that it needs no store."""

    seed: int = Field(default=0, ge=0)
    fanout: Fanout = 10

    @model_validator(mode="before")
    @classmethod
    def _plain_values(cls, given: Any) -> Any:
        """Take numpy's numbers and lists; a number as text, or true for 1, is refused."""
        return ArgsKwargs(given.args, plain_numbers(given.kwargs or {})) if isinstance(given, ArgsKwargs) else given

    def __post_init__(self) -> None:
        self.setup()

    def setup(self) -> None:
        """Make the parts that do not depend on the number of features."""
        self._width = 0
        self.updates = 0
        self.register_value("updates")

    def build(self, width: int) -> None:
        """Make the parts that depend on the number of features, before the first batch is learned."""
        self._width = width

    # What a method defines

    @property
    @abstractmethod
    def sampling(self) -> NeighborSampling:
        """How neighbourhoods are sampled for this strategy."""

    @abstractmethod
    def update(self, batch: Batch) -> None:
        """Learn from a checked batch with at least one label."""

    @property
    @abstractmethod
    def labels(self) -> IntArray:
        """The classes known so far, one per column of the scores."""

    @abstractmethod
    def scores(self, neighborhood: Neighborhood) -> FloatArray:
        """Score every known class for every seed. Changes nothing."""

    @property
    def needs_store(self) -> bool:
        """Whether the strategy reads more of the graph than its batch; it then gets a metered handle to the store."""
        return False

    @property
    def extra_seeds(self) -> int:
        """How many nodes an update may sample beside those of its batch."""
        return 0

    def extra_bound(self, nodes: int, row_bytes: int) -> Cost:
        """Return the most that an update on `nodes` nodes reads from the store beside the batch's own sample."""
        return self.sampling.bound(self.extra_seeds, row_bytes) if self.extra_seeds else Cost()

    def supports_cached_aggregates(self, table: Table) -> bool:
        """Return whether `scores` reads no more than aggregated features and what lies before the last hop.

        Then the sums of nodes that are asked about again and again can be cached while the graph around them stays.
        """
        return False

    @classmethod
    def canonical_config(cls, config: Json) -> Json:
        """Return the first configuration of the grid that provably gives the same run as this one."""
        return config

    # What follows from it

    def learn(self, batch: Batch) -> None:
        """Learn from one batch. Nodes without a label teach nothing; a batch that does not fit changes nothing."""
        self.check_neighborhood(batch.neighborhood)
        if self.needs_store and (batch.store is None or not batch.store.holds(batch.neighborhood)):
            raise NeedsStoreError(f"{self.name} reads the store that its batch was sampled from: {self.without_store}")
        if not batch.known.any():
            return
        if not self._width:
            self._build(batch.neighborhood.width)
        try:
            self.update(batch)
        except SystemExit as error:  # it would look as if the command had ended well
            raise RuntimeError(f"{self.name} has called sys.exit in an update") from error
        self.updates += 1

    def predict(self, neighborhood: Neighborhood, candidates: IntArray | None = None) -> IntArray:
        """Return the best label of each seed, -1 before any is known. Changes nothing.

        Args:
            neighborhood: the sampled neighbourhood of the nodes to predict for.
            candidates: classes that each node can have (nodes x k), where the setting tells.
        """
        if len(self.labels) == 0:
            return np.full(neighborhood.seeds, UNKNOWN, np.int64)
        return self.chosen(self.scores(neighborhood), candidates)

    def chosen(self, scores: FloatArray, candidates: IntArray | None = None) -> IntArray:
        """Return the label with the best score of each row, among the candidates where they are given."""
        labels = self.labels
        if candidates is not None:
            possible = (candidates[:, :, None] == labels).any(1)
            scores = np.where(possible, scores, -np.inf)
            return np.where(possible.any(1), labels[scores.argmax(1)], UNKNOWN)
        best: IntArray = labels[scores.argmax(1)]
        return best

    def probabilities(self, scores: FloatArray) -> DoubleArray:
        """Return scores as probabilities, not calibrated: their softmax."""
        found: DoubleArray = softmax(scores.astype(np.float64), axis=1)
        return found

    @property
    def device_name(self) -> str:
        """Name of the device that the method computes on."""
        return "cpu"

    def to(self, device: str) -> Self:
        """Compute on a device from now on. A method that has no part on a device stays on the CPU and warns."""
        if device not in ("cpu", "auto"):
            warnings.warn(f"{self.name} computes on the CPU, not on {device}", DeviceWarning, stacklevel=2)
        return self

    def update_bound(self, nodes: int, row_bytes: int) -> Cost:
        """Return the most that an update on `nodes` nodes reads, whatever the graph."""
        return self.sampling.bound(nodes, row_bytes) + self.extra_bound(nodes, row_bytes)

    def hyperparameters(self) -> Json:
        """Return the constructor's arguments without the seed."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        values.pop("seed")
        return values

    def check_neighborhood(self, neighborhood: Neighborhood) -> None:
        """Refuse a neighbourhood that was not sampled as the method asks."""
        if self._width and neighborhood.width != self._width:
            raise WrongWidthError(f"got features of width {neighborhood.width}, learned from {self._width} so far")
        wanted = self.sampling
        if (neighborhood.hops, neighborhood.norm) != (wanted.hops, wanted.norm):
            given = f"{neighborhood.hops} hops with {neighborhood.norm} weights"
            needed = f"{wanted.hops} hops with {wanted.norm} weights"
            raise WrongSamplingError(f"got a neighbourhood of {given}; {self.name} needs {needed}")

    def sampling_of(self, hops: int, norm: Norm, degrees: Degrees = "sampled") -> NeighborSampling:
        """Return a sampling of some depth and weights with the strategy's own fan-out."""
        return NeighborSampling(hops, caps_of(self.fanout), norm, degrees)

    # Parts

    def __setattr__(self, name: str, value: Any) -> None:
        if _is_part(value):
            self._parts[name] = value
        elif name in self._parts:
            del self._parts[name]
        object.__setattr__(self, name, value)

    @property
    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = self.__dict__.setdefault("_registered_parts", {})
        return parts

    @property
    def _values(self) -> list[str]:
        names: list[str] = self.__dict__.setdefault("_registered_values", [])
        return names

    def register_value(self, name: str) -> None:
        """Save and load an attribute, a plain number or text, with the strategy."""
        if name not in self._values:
            self._values.append(name)

    def grow_parts(self, parameters: "list[Tensor]") -> None:
        """Tell every part that follows the network that it has new outputs."""
        for part in self._parts.values():
            grow: Callable[[list[Any]], None] | None = getattr(part, "grow", None)
            if grow is not None:
                grow(parameters)

    @property
    def memory_bytes(self) -> int:
        """Bytes kept between batches: parameters, optimizer, buffers and all."""
        return sum(int(getattr(part, "nbytes", 0)) for part in self._parts.values())

    @property
    def memory_nodes(self) -> int:
        """Number of past nodes that the strategy holds."""
        return sum(int(getattr(part, "nodes", 0)) for part in self._parts.values())

    def identity(self) -> Json:
        """Return what a saved state says of itself: strategy, hyperparameters, seed, code and schema version."""
        return identity_of(type(self), self.name, self.hyperparameters(), self.seed)

    def state(self) -> State:
        """Return a copy of everything that learning has changed, with the identity of the strategy."""
        values = {name: getattr(self, name) for name in self._values}
        state = State({}, {"identity": self.identity(), "width": self._width, "values": values})
        for name, part in self._parts.items():
            if isinstance(part, np.random.Generator):
                state.include(name, State({}, state_of(part)))
            elif isinstance(part, Stateful):
                state.include(name, part.state())
        return state

    def load_state(self, state: State) -> None:
        """Become what the state was taken from, or stay as it is and raise `StateError`.

        The state of another strategy, width or schema version is refused. One of other hyperparameters, another seed
        or other code is taken where it fits, with a `StateWarning`.
        """
        own = self.identity()
        check_identity(state, own, self._width)
        before = self.state()
        try:
            self._take(state)
        except (StateError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            self._take(before)
            raise StateError(f"the state does not fit {self.name} with these hyperparameters: {error!r}") from error
        report_differences(state.facts["identity"], own)

    def _build(self, width: int) -> None:
        with seeded_torch(self.seed):  # a network of torch's own layers draws its weights by the seed, too
            self.build(width)

    def _take(self, state: State) -> None:
        self._parts.clear()
        self.setup()
        if state.facts["width"]:
            self._build(state.facts["width"])
        wanted = {name for name, part in self._parts.items() if isinstance(part, np.random.Generator | Stateful)}
        given = state.facts.keys() - {"identity", "width", "values"}
        if given != wanted or state.facts["values"].keys() != set(self._values):
            raise StateError(f"it holds {', '.join(sorted(given))}, not {', '.join(sorted(wanted))}")
        for name in [name for name in self._parts if name in wanted]:  # in order of registration
            part, saved = self._parts[name], state.part(name)
            if isinstance(part, np.random.Generator):
                restore(part, saved.facts)
            else:
                part.load_state(saved)
        for name, value in state.facts["values"].items():
            setattr(self, name, value)

    def clone(self) -> Self:
        """Return a copy that goes on independently."""
        twin = type(self)(seed=self.seed, **self.hyperparameters())
        twin.to(self.device_name)
        twin.load_state(self.state())
        return twin


_PLAIN = (int, float, str, bool, type(None))


def _is_part(value: object) -> bool:
    """Return whether a value carries state: a generator, or an object with `nbytes` that is no array or tensor."""
    if type(value) in _PLAIN:
        return False
    if isinstance(value, np.random.Generator):
        return True
    return hasattr(value, "nbytes") and not hasattr(value, "dtype")
