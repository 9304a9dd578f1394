import numpy as np
import pytest

from ocgl.graph import growable
from ocgl.graph.growable import Growable


def test_keeps_rows_while_growing_by_remapping_and_by_moving() -> None:
    array = Growable(np.int64, 3)
    expected = np.arange(3 * 900_000).reshape(-1, 3)  # 21 MB: beyond the size at which it moves
    for begin in range(0, len(expected), 70_001):
        array.extend(expected[begin : begin + 70_001])
    assert np.array_equal(array.rows, expected)
    assert array.nbytes == expected.nbytes


def test_views_taken_before_growth_stay_valid() -> None:
    array = Growable(np.int32)
    array.extend(np.arange(10))
    view = array.rows
    array.extend(np.arange(100_000))
    assert view.tolist() == list(range(10))
    assert array.rows[:10].tolist() == list(range(10))


def test_a_system_that_refuses_large_reservations_still_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growable, "_AHEAD", 1 << 60)
    array = Growable(np.float32, 4)
    rows = np.random.default_rng(0).random((1_200_000, 4), np.float32)
    array.extend(rows[:600_000])
    array.extend(rows[600_000:])
    assert np.array_equal(array.rows, rows)
