import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from ocgl.errors import ConfigError
from ocgl.evaluation.metrics import Metric, anytime, average_anytime, average_forgetting, average_performance

NAN = float("nan")
M = np.array([[0.9, NAN, NAN], [0.6, 0.8, NAN], [0.3, 0.5, 1.0]])


def test_figures_of_a_matrix_by_hand() -> None:
    assert average_performance(M) == pytest.approx(0.6)
    assert average_forgetting(M, over=2) == pytest.approx((-0.6 - 0.3) / 2)
    assert average_forgetting(M, over=3) == pytest.approx((-0.6 - 0.3) / 3)
    assert average_performance(M) - average_forgetting(M, over=3) == pytest.approx(np.diag(M).mean())
    assert np.isnan(average_forgetting(M[:1, :1], over=0))


def test_the_printed_forgetting_is_undefined_where_it_must_be() -> None:
    assert np.isnan(average_forgetting(np.full((3, 3), NAN), over=3))
    matrix = np.array([[0.9, NAN], [0.5, NAN]])
    assert average_performance(matrix) - average_forgetting(matrix, over=2) == pytest.approx(0.9)


def test_undefined_tasks_are_left_out_of_forgetting() -> None:
    matrix = np.array([[0.9, NAN, NAN], [0.6, NAN, NAN], [0.4, 0.6, 0.8]])
    assert average_forgetting(matrix, over=2) == pytest.approx(-0.5)
    assert np.isnan(average_forgetting(matrix[1:, 1:], over=1))


def test_nothing_is_forgotten_when_rows_stay_constant() -> None:
    assert average_forgetting(np.array([[0.7, NAN], [0.7, 0.2]]), over=1) == 0


def test_anytime_by_hand() -> None:
    scores = np.array([[1.0, NAN], [0.5, NAN], [0.5, 1.0]])
    assert anytime(scores).tolist() == [1.0, 0.5, 0.75]
    assert average_anytime(scores) == pytest.approx(0.75)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=30))
def test_f1_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    predicted, truth = (np.array(column) for column in zip(*pairs, strict=True))
    ours = Metric.parse("f1:1").of(predicted, truth)
    if not ((predicted == 1).any() or (truth == 1).any()):
        assert np.isnan(ours)
    else:
        assert ours == pytest.approx(f1_score(truth == 1, predicted == 1, zero_division=0))


def test_a_constant_licit_predictor_has_no_f1() -> None:
    assert Metric.parse("f1:1").of(np.zeros(9, int), np.array([0] * 8 + [1])) == 0


def test_unknown_metrics_are_refused() -> None:
    for text in ("accurcy", "f1", "f1:x"):
        with pytest.raises(ConfigError):
            Metric.parse(text)
