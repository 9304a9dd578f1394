import pytest

from ocgl.benchmark import configure, stream_of
from ocgl.benchmark.tuning import best, score
from ocgl.evaluation import judge
from ocgl.streams import TEST, Stream


def test_the_score_is_the_validation_ap_at_the_end_of_the_prefix_and_tests_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = configure("digits", "linear", settings=["batch_size=20"])
    prefix = stream_of(config).prefix(2)
    expected = score(config, prefix)
    held_out = Stream.held_out

    def guarded(self: Stream, role: int) -> object:
        if role == TEST:
            raise AssertionError("test nodes were read")
        return held_out(self, role)

    monkeypatch.setattr(Stream, "held_out", guarded)
    monkeypatch.setattr(Stream, "statistics", lambda self: {})
    assert score(config, prefix) == expected
    assert judge.Judge(prefix, test=False)._test is None


def test_a_diverged_configuration_loses() -> None:
    config = configure("digits", "bare", settings=["lr=1e30", "batch_size=40"])
    assert score(config, stream_of(config).prefix(2)) == float("-inf")


def test_ties_go_to_the_first() -> None:
    assert best([({"a": 1}, 2.0), ({"a": 2}, 3.0), ({"a": 3}, 3.0)]) == ({"a": 2}, 3.0)
