"""Checks that every strategy must pass (`ocgl check NAME`), those of every graph store, and helpers to write tests."""

from ocgl.testing.stores import STORE_CHECKS, follows_the_reference
from ocgl.testing.strategies import CHECKS, ContractError, batches, same, small_graph, taught

__all__ = [
    "CHECKS", "STORE_CHECKS", "ContractError", "batches", "follows_the_reference", "same", "small_graph", "taught",
]  # fmt: skip
