"""Names and colours of methods in tables and figures, without importing strategies from user files."""

from functools import cache

from ocgl.strategies._core.registry import built_in

COLORS = (
    "#4c78a8", "#7f7f7f", "#f58518", "#54a24b", "#111111", "#e45756", "#b279a2", "#9d755d", "#2f9e9a", "#d67195",
    "#c9a227", "#5b5fc7", "#1b7f3b", "#a0522d", "#006d8f", "#8c1d40", "#c44e9c", "#6b8e23",
)  # fmt: skip
"""Colours of the methods in `COLORED`, in the same order, then colours for all other methods."""

COLORED = (
    "a-gem", "bare", "er", "ewc", "joint", "linear", "lwf", "mas", "pdgnn", "ssm-a-gem", "ssm-er", "twp", "slda",
    "ridge",
)  # fmt: skip
"""Methods with a fixed colour. The name of any other method picks one of the remaining colours."""


@cache
def title_of(strategy: str, stored: str = "") -> str:
    """Return the name of a method in tables.

    Args:
        strategy: name of the strategy, or `path/to/file.py:Class`.
        stored: title in the stored result, which takes precedence.

    >>> title_of("er"), title_of("mine.py:Mine"), title_of("mine.py:Mine", "My method")
    ('ER', 'Mine', 'My method')
    """
    if stored:
        return stored
    if strategy in built_in():
        return built_in()[strategy].title
    return strategy.rpartition(":")[2] or strategy


def file_of(strategy: str) -> str:
    """Return the file of a strategy, or of its network, with the folder it is in.

    >>> file_of("er+/home/me/nets/a.py:Net"), file_of("er")
    ('nets/a.py', 'er')
    """
    parts = strategy.rpartition("+")[2].rpartition(":")[0].split("/")
    return "/".join(parts[-2:]) or strategy


def color(strategy: str) -> str:
    """Return the colour of a method, the same in every figure."""
    if strategy in COLORED:
        return COLORS[COLORED.index(strategy)]
    rest = COLORS[len(COLORED) :]
    return rest[sum(strategy.encode()) % len(rest)]


def faded(strategy: str, alpha: float) -> str:
    """Return the colour of a method with an opacity of `alpha`."""
    red, green, blue = (int(color(strategy)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
