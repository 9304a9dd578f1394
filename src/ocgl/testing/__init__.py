"""Checks that every strategy must pass. `ocgl check NAME` runs them."""

from ocgl.testing.strategies import CHECKS, ContractError, batches, same, small_graph, taught

__all__ = ["CHECKS", "ContractError", "batches", "same", "small_graph", "taught"]
