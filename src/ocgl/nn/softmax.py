"""Multinomial logistic regression without autograd, whose overhead dominates for small models."""

import numpy as np

from ocgl.kernels import summing
from ocgl.types import BoolArray, FloatArray, IntArray


@summing
def narrow_logits(vectors: FloatArray, weight: FloatArray, bias: FloatArray) -> FloatArray:
    """Return Wz + b for many vectors and few outputs; a row's result does not depend on the other rows.

    Blocks of two rows by five outputs read each vector once per five outputs. Memory bandwidth limits this product,
    and BLAS would copy the matrix first.

    Args:
        vectors: z, of shape [num_rows, width].
        weight: W, of shape [num_outputs, width].
        bias: b, of shape [num_outputs].
    """
    rows, width = vectors.shape
    outputs = len(weight)
    out = np.empty((rows, outputs), np.float32)
    for i in range(0, rows, 2):
        second = min(i + 1, rows - 1)
        x, y = vectors[i], vectors[second]
        for k in range(0, outputs, 5):
            a0 = a1 = a2 = a3 = a4 = b0 = b1 = b2 = b3 = b4 = np.float32(0)
            last = outputs - 1
            w0, w1, w2 = weight[k], weight[min(k + 1, last)], weight[min(k + 2, last)]
            w3, w4 = weight[min(k + 3, last)], weight[min(k + 4, last)]
            for j in range(width):
                u, v = x[j], y[j]
                a0 += u * w0[j]
                a1 += u * w1[j]
                a2 += u * w2[j]
                a3 += u * w3[j]
                a4 += u * w4[j]
                b0 += v * w0[j]
                b1 += v * w1[j]
                b2 += v * w2[j]
                b3 += v * w3[j]
                b4 += v * w4[j]
            for q, (a, b) in enumerate(((a0, b0), (a1, b1), (a2, b2), (a3, b3), (a4, b4))):
                if k + q < outputs:
                    out[i, k + q] = a + bias[k + q]
                    out[second, k + q] = b + bias[k + q]
    return out


def softmax_gradient(
    vectors: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    targets: IntArray,
    allowed: BoolArray | None = None,
    batch: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the gradients of the mean cross-entropy of p = softmax(Wz + b) by W and b: (p - e_y) z' and p - e_y.

    Args:
        vectors: z, of shape [num_rows, width].
        weight: W, of shape [num_outputs, width].
        bias: b, of shape [num_outputs].
        targets: output index y of each row; rows with a negative target are ignored.
        allowed: mask of the outputs that each of the first rows can have, of shape [<= num_rows, num_outputs].
        batch: take the mean over the first `batch` rows plus the mean over the others; None for one mean over all.
    """
    logits = vectors @ weight.T + bias
    if allowed is not None:
        logits[: len(allowed)][~allowed] = -np.inf
    error = np.exp(logits - logits.max(1, keepdims=True))
    error /= error.sum(1, keepdims=True)
    counted = targets >= 0
    error[counted, targets[counted]] -= 1
    share = counted / np.float32(counted[:batch].sum())
    if batch is not None:
        share[batch:] = counted[batch:] / np.float32(max(counted[batch:].sum(), 1))
    error *= share[:, None]
    return error.T @ vectors, error.sum(0)
