"""Checks that every strategy must pass (`ocgl check NAME`), and helpers to write tests of strategies."""

from ocgl.testing.strategies import CHECKS, ContractError, batches, same, small_graph, taught

__all__ = ["CHECKS", "ContractError", "batches", "same", "small_graph", "taught"]
