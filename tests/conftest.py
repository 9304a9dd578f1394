"""What all tests share: small graphs, real data where it lies, a cache of their own, one thread."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from ocgl.graph import Graph
from ocgl.testing import small_graph

settings.register_profile("ocgl", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("ocgl")
torch.set_num_threads(1)

SLOW = {
    "test_sweep", "test_cli", "test_report", "test_experiment", "test_golden", "test_faults", "test_estimate",
    "test_one_file", "test_moments", "test_package", "test_sharding", "test_loggers", "test_estimates", "test_evaluate",
    "test_verify", "test_run_page", "test_terminal", "test_offline", "test_feature_replay", "test_strategies",
    "test_cached_predictor", "test_closed_form", "test_expansion", "test_loading", "test_saved_learner", "test_changes",
    "test_durable", "test_networks", "test_backbones",
}  # fmt: skip
"""Test files that `make quick` leaves out: they start processes, stream whole graphs, or read the real data."""


LONG = {
    "test_a_damaged_file_is_named_or_does_no_harm[1]", "test_a_damaged_file_is_named_or_does_no_harm[2]",
    "test_a_damaged_file_is_named_or_does_no_harm[3]", "test_kill_9_at_random_moments_ends_bit_equal[10]",
    "test_a_full_disk_during_a_bench_loses_nothing", "test_killed_parents_and_workers_lose_nothing",
    "test_a_call_that_cannot_write_says_so_and_the_next_one_continues[report]",
    "test_a_killed_run_goes_on_bit_equal[ewc]", "test_the_checks_pass[ewc]",
    "test_an_edited_network_is_no_longer_the_run_that_was_begun",
    "test_a_bench_that_is_ended_goes_on_bit_equal[SIGTERM]",
    "test_a_run_that_is_ended_goes_on_bit_equal[SIGTERM]", "test_a_bench_that_is_ended_goes_on_bit_equal[SIGINT]",
    "test_ten_thousand_histories[2]", "test_ten_thousand_histories[3]",
    "test_shares_learned_on_a_dask_cluster_equal_one_pass[slda]", "test_the_first_run_says_that_it_compiles",
    "test_a_million_updates_later_the_sums_are_still_exact", "test_names_in_a_report_are_text_and_not_markup",
    "test_nothing_is_wrong_or_lost[a master stops for longer than the time-out]",
}  # fmt: skip
"""Tests that `make test` leaves to `make long`: a shorter one does the same in another way, or at fewer moments."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files, and the long ones."""
    for item in items:
        if item.name in LONG:
            item.add_marker(pytest.mark.long)
        if item.path.stem in SLOW and "tests" in item.path.parts:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def data_root() -> Path:
    """Return the folder of the real datasets. With OCGL_REQUIRE_DATA set, its absence is a failure."""
    beside = Path(__file__).parents[2] / "shared" / "datasets"
    root = Path(os.environ.get("OCGL_DATA") or beside)
    if not (root / "Computers").is_dir():
        if os.environ.get("OCGL_REQUIRE_DATA"):
            pytest.fail(f"no real data in {root}: set OCGL_DATA")
        pytest.skip("no real data: set OCGL_DATA")
    return root


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the tests out of the user's cache."""
    patch = pytest.MonkeyPatch()
    patch.setenv("OCGL_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def random_graph(seed: int = 0, nodes: int = 120, edges: int = 400) -> Graph:
    """Make a graph with class-dependent features, times and domains, and a few unlabelled nodes."""
    return small_graph(nodes, edges, seed=seed)


@pytest.fixture
def graph() -> Graph:
    """Return a random graph of 120 nodes, 6 classes and 5 features."""
    return small_graph()
