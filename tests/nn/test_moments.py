import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ocgl.errors import StateError, WrongWidthError
from ocgl.nn.moments import PENDING, Moments
from ocgl.types import DoubleArray, IntArray


def lower(matrix: DoubleArray) -> DoubleArray:
    return np.tril(matrix)


def batch_formula(rows: DoubleArray, labels: IntArray) -> tuple[DoubleArray, DoubleArray]:
    """Means and pooled covariance in one go, in order of first appearance of sorted batches: by label."""
    classes = np.unique(labels)
    means = np.array([rows[labels == c].mean(0) for c in classes])
    centred = rows - means[np.searchsorted(classes, labels)]
    return means, centred.T @ centred / len(rows)


def drawn(count: int, width: int, classes: int, seed: int) -> tuple[DoubleArray, IntArray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=count)
    return rng.normal(size=(count, width)) + 3 * rng.normal(size=(classes, width))[labels] + 5, labels


def by_label(moments: Moments) -> DoubleArray:
    return moments.means[np.argsort(moments.labels)]


@given(st.integers(1, 700), st.integers(1, 6), st.integers(1, 5), st.integers(1, 300), st.integers(0, 5))
def test_streamed_sums_equal_the_batch_formula(count: int, width: int, classes: int, size: int, seed: int) -> None:
    rows, labels = drawn(count, width, classes, seed)
    moments = Moments(width)
    for begin in range(0, count, size):
        moments.add(rows[begin : begin + size], labels[begin : begin + size])
    means, within = batch_formula(rows, labels)
    np.testing.assert_allclose(by_label(moments), means, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(lower(moments.within()), lower(within), rtol=1e-8, atol=1e-8)


def test_order_and_halves_do_not_matter_and_rows_can_be_taken_back() -> None:
    rows, labels = drawn(3 * PENDING + 7, 5, 4, 0)
    whole, turned, first, second = (Moments(5) for _ in range(4))
    whole.add(rows, labels)
    turned.add(rows[::-1], labels[::-1])
    first.add(rows[:300], labels[:300])
    second.add(rows[300:], labels[300:])
    first.merge(second)
    extra, kinds = drawn(40, 5, 6, 1)
    taken = Moments(5)
    taken.add(np.concatenate([extra, rows]), np.concatenate([kinds, labels]))
    taken.remove(extra, kinds)
    for other in (turned, first):
        np.testing.assert_allclose(by_label(other), by_label(whole), rtol=1e-10)
        np.testing.assert_allclose(lower(other.within()), lower(whole.within()), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(by_label(taken)[:4], by_label(whole), rtol=1e-9)
    np.testing.assert_allclose(lower(taken.within()), lower(whole.within()), rtol=1e-7, atol=1e-7)


def test_a_million_updates_later_the_sums_are_still_exact() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3)) * [1, 10, 0.1] + [100, -5, 0]
    labels = rng.integers(2, size=1000)
    moments = Moments(3)
    for turn in range(1_000_000):
        at = turn % 1000
        moments.add(rows[at : at + 1], labels[at : at + 1])
    means, within = batch_formula(rows, labels)
    np.testing.assert_allclose(by_label(moments), means, rtol=1e-6)
    np.testing.assert_allclose(lower(moments.within()), lower(within), rtol=1e-6, atol=1e-9)


def test_a_state_continues_bit_equal() -> None:
    rows, labels = drawn(1000, 4, 3, 2)
    straight, stopped = Moments(4), Moments(4)
    straight.add(rows[:100], labels[:100])
    stopped.load_state(straight.state())
    for moments in (straight, stopped):
        moments.add(rows[100:], labels[100:])
    assert np.array_equal(straight.within(), stopped.within()) and np.array_equal(straight.means, stopped.means)


def test_what_does_not_fit_is_refused() -> None:
    moments = Moments(2)
    moments.add(np.ones((1, 2)), np.array([0]))
    with pytest.raises(WrongWidthError):
        moments.add(np.ones((1, 3)), np.array([0]))
    with pytest.raises(WrongWidthError):
        moments.merge(Moments(3))
    with pytest.raises(StateError):
        moments.remove(np.ones((1, 2)), np.array([1]))
    with pytest.raises(StateError):
        Moments(3).load_state(moments.state())
    assert moments.counts.tolist() == [1]
