"""How methods are named and coloured in tables and figures. Nothing here executes a stranger's file."""

from functools import cache

from ocgl.strategies._core.registry import built_in

COLORS = (
    "#4c78a8", "#7f7f7f", "#f58518", "#54a24b", "#111111", "#e45756", "#b279a2", "#9d755d", "#2f9e9a", "#d67195",
    "#c9a227", "#5b5fc7", "#1b7f3b", "#a0522d", "#006d8f", "#8c1d40", "#c44e9c", "#6b8e23",
)  # fmt: skip
"""Colours of the methods of `COLORED`, in their order, then those of other methods."""

COLORED = (
    "a-gem", "bare", "er", "ewc", "joint", "linear", "lwf", "mas", "pdgnn", "ssm-a-gem", "ssm-er", "twp", "slda",
    "ridge",
)  # fmt: skip
"""Methods that have a colour of their own; every other method gets one of the remaining colours by its name."""


@cache
def title_of(strategy: str, stored: str = "") -> str:
    """Return the name of a method in tables: what its result says, its class, or the end of its name.

    >>> title_of("er"), title_of("mine.py:Mine"), title_of("mine.py:Mine", "My method")
    ('ER', 'Mine', 'My method')
    """
    if stored:
        return stored
    if strategy in built_in():
        return built_in()[strategy].title
    return strategy.rpartition(":")[2] or strategy


def color(strategy: str) -> str:
    """Return the colour of a method, the same in every figure."""
    if strategy in COLORED:
        return COLORS[COLORED.index(strategy)]
    rest = COLORS[len(COLORED) :]
    return rest[sum(strategy.encode()) % len(rest)]


def faded(strategy: str, alpha: float) -> str:
    """Return the colour of a method, transparent."""
    red, green, blue = (int(color(strategy)[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
