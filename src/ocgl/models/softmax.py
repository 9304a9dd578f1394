"""Multinomial logistic regression in closed form, for models so small that autograd would cost more than the sums."""

import numpy as np

from ocgl.types import BoolArray, FloatArray, IntArray


def softmax_gradient(
    vectors: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    targets: IntArray,
    allowed: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Give the gradient of the mean cross-entropy of softmax(Wz + b) by W and by b: (p - e_y) z' and p - e_y.

    Negative targets have no part in it. `allowed` (for the first nodes) masks the outputs a node cannot have.
    """
    logits = vectors @ weight.T + bias
    if allowed is not None:
        logits[: len(allowed)][~allowed] = -np.inf
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    counted = targets >= 0
    error[counted, targets[counted]] -= 1
    error *= (counted / np.float32(counted.sum()))[:, None]
    return error.T @ vectors, error.sum(0)
