import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ocgl.buffers import Reservoir, VectorBuffer


@given(st.integers(0, 20), st.lists(st.integers(1, 7), max_size=12), st.integers(0, 99))
def test_size_and_slots(capacity: int, offers: list[int], seed: int) -> None:
    slots = Reservoir(capacity, np.random.default_rng(seed))
    given_slots = np.concatenate([slots.offer(n) for n in offers]) if offers else np.empty(0)
    assert len(slots) == min(sum(offers), capacity)
    assert given_slots[:capacity].tolist() == list(range(min(capacity, len(given_slots))))
    assert ((given_slots >= -1) & (given_slots < max(capacity, 1))).all()


def test_every_item_survives_equally_often() -> None:
    """Chi-square over the items of 4000 reservoirs of 5 among 20, offered in uneven portions."""
    capacity, items, repeats = 5, 20, 4000
    counts = np.zeros(items)
    for seed in range(repeats):
        buffer = VectorBuffer(capacity, 1, seed)
        for part in np.split(np.arange(items), [3, 4, 11]):
            buffer.offer(part[:, None].astype(np.float32), part)
        counts[buffer.draw(capacity)[1]] += 1
    expected = repeats * capacity / items
    statistic = ((counts - expected) ** 2 / (expected * (1 - capacity / items))).sum() * (items - 1) / items
    assert statistic < chi2.ppf(0.999, items - 1)


def test_draws_are_distinct_and_bounded() -> None:
    buffer = VectorBuffer(8, 2, seed=0)
    assert len(buffer.draw(5)[1]) == 0
    buffer.offer(np.zeros((6, 2), np.float32), np.arange(6))
    for count in (1, 4, 6, 9):
        labels = buffer.draw(count)[1]
        assert len(labels) == len(set(labels.tolist())) == min(count, 6)


def test_no_capacity_keeps_nothing() -> None:
    buffer = VectorBuffer(0, 2, seed=0)
    buffer.offer(np.ones((3, 2), np.float32), np.arange(3))
    assert len(buffer) == 0 and buffer.nbytes == 0


def test_state_goes_on_bit_equal() -> None:
    buffer = VectorBuffer(4, 2, seed=5)
    rows = np.random.default_rng(6).random((30, 2), np.float32)
    buffer.offer(rows[:10], np.arange(10))
    twin = VectorBuffer(4, 2, seed=99)
    twin.load_state(buffer.state())
    for one in (buffer, twin):
        one.offer(rows[10:], np.arange(10, 30))
    assert np.array_equal(buffer.state().arrays["vectors"], twin.state().arrays["vectors"])
