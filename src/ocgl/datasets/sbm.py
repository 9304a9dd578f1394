"""Synthetic graphs of any size: a degree-corrected stochastic block model with class-dependent features."""

from dataclasses import asdict, dataclass, fields, replace

import numpy as np

from ocgl.datasets.cache import cached
from ocgl.datasets.sbm_edges import draw_edges
from ocgl.datasets.sbm_features import draw_features
from ocgl.errors import ConfigError, UnknownNameError
from ocgl.graph import Graph
from ocgl.graph.changes import draw_changes
from ocgl.rng import generator
from ocgl.types import IntArray, Json

NOTE = "made up: a stochastic block model, no real data"
TIMES, DOMAINS = 100, 5
SMALLEST_CLASS = 4
CACHED_NODES, CACHED_EDGES = 200_000, 5_000_000


@dataclass(frozen=True)
class Parameters:
    """Parameters of an `sbm` graph. The same parameters produce a bit-equal graph.

    Args:
        nodes: number of nodes.
        edges: exact number of distinct undirected edges.
        classes: number of classes.
        width: number of features.
        homophily: fraction of edges within a class.
        drift: how far the class means move over all times, and between domains, in units of `separation`.
        separation: distance between class means, in standard deviations of the noise.
        density: fraction of nonzero features; below 1 the features are sparse bags of words instead of Gaussian.
        seed: seed of all draws.
        churn: fraction of the edges that come after both their ends, and of the nodes that get new features; half as
            many edges and nodes are removed.
    """

    nodes: int = 2_000
    edges: int = 10_000
    classes: int = 10
    width: int = 32
    homophily: float = 0.8
    drift: float = 0.0
    separation: float = 3.0
    density: float = 1.0
    seed: int = 0
    churn: float = 0.0

    def __post_init__(self) -> None:
        limits: dict[str, tuple[float, float]] = {
            "classes": (1, np.inf),
            "nodes": (SMALLEST_CLASS * max(self.classes, 1), 2**31 - 1),
            "edges": (0, self.nodes * (self.nodes - 1) // 2),
            "width": (1, np.inf),
            "homophily": (1.0 if self.classes == 1 else 0.0, 1.0),
            "drift": (0.0, np.inf),
            "separation": (0.0, np.inf),
            "density": (1 / max(self.width, 1), 1.0),
            "seed": (0, np.inf),
            "churn": (0.0, 1.0),
        }
        for name, (low, high) in limits.items():
            if not low <= getattr(self, name) <= high:
                raise ConfigError(f"sbm: {name} must be from {low:g} to {high:g}, not {getattr(self, name)}")


PRESETS: dict[str, Parameters] = {
    "corafull": Parameters(19_793, 63_421, 70, 8_710, density=0.007),
    "arxiv": Parameters(169_343, 1_157_799, 40, 128),
    "reddit": Parameters(227_853, 57_307_946, 40, 602),
    "amazon-computer": Parameters(13_752, 245_861, 10, 767),
    "products": Parameters(2_449_028, 61_859_036, 46, 100),
    "roman-empire": Parameters(22_662, 32_927, 18, 300),
    "elliptic": Parameters(203_769, 234_355, 2, 165),
}
"""Sizes of the paper's datasets, after merging duplicate edges and dropping classes."""


def parameters(name: str) -> Parameters:
    """Parse `sbm`, `sbm:preset`, `sbm:key=value,...` or `sbm:preset,key=value,...`.

    >>> parameters("sbm:arxiv,homophily=0.5").edges
    1157799
    """
    parts = [part.strip() for part in name.partition(":")[2].split(",") if part.strip()]
    base = Parameters()
    if parts and "=" not in parts[0]:
        preset = parts.pop(0)
        if preset not in PRESETS:
            raise UnknownNameError("sbm preset", preset, PRESETS)
        base = PRESETS[preset]
    changes: Json = dict(_assignment(part) for part in parts)
    return replace(base, **changes)


def _assignment(text: str) -> tuple[str, int | float]:
    key, _, value = (part.strip() for part in text.partition("="))
    kinds = {field.name: field.type for field in fields(Parameters)}
    if key not in kinds:
        raise UnknownNameError("sbm parameter", key, kinds)
    kind = int if kinds[key] in (int, "int") else float
    try:
        return key, kind(value)
    except ValueError:
        wanted = "a whole number" if kind is int else "a number"
        raise ConfigError(f"sbm: {key} must be {wanted}, not {value!r}") from None


def load(name: str) -> Graph:
    """Return the graph of a name such as `sbm:nodes=100`; large graphs are cached on disk."""
    settings = parameters(name)
    if settings.nodes > CACHED_NODES or settings.edges > CACHED_EDGES:
        return cached(name, asdict(settings), lambda: build(name, settings))
    return build(name, settings)


def build(name: str, settings: Parameters) -> Graph:
    """Draw a graph with these parameters."""
    y = _labels(settings)
    source = generator(settings.seed, "sbm arrival")
    time = source.integers(TIMES, size=settings.nodes)
    domain = source.integers(DOMAINS, size=settings.nodes)
    edges = draw_edges(y, settings.edges, settings.homophily, generator(settings.seed, "sbm edges"))
    graph = Graph.from_edges(name, edges, y, time=time, domain=domain, notes=(NOTE,))
    # features last: the temporary arrays of the edges are freed first, which lowers the peak memory
    del edges
    x = draw_features(
        y,
        time / (TIMES - 1),
        domain,
        settings.width,
        settings.separation,
        settings.drift,
        settings.density,
        generator(settings.seed, "sbm features"),
    )
    graph = replace(graph, x=x)
    if not settings.churn:
        return graph
    return replace(graph, changes=draw_changes(graph, settings.churn, generator(settings.seed, "sbm churn")))


def _labels(settings: Parameters) -> IntArray:
    source = generator(settings.seed, "sbm classes")
    weights = source.permutation(1.0 / np.sqrt(np.arange(1, settings.classes + 1)))
    free = settings.nodes - SMALLEST_CLASS * settings.classes
    ends = np.rint(np.cumsum(weights) / weights.sum() * free).astype(np.int64)
    sizes = np.diff(ends, prepend=0) + SMALLEST_CLASS
    return source.permutation(np.repeat(np.arange(settings.classes), sizes))
