"""Class-dependent features that drift with time and differ between domains: Gaussian or bags of words."""

import numpy as np
from scipy.sparse import csr_array

from ocgl.types import BoolArray, DoubleArray, FloatArray, IntArray, Rows

BLOCK = 1 << 16
VOCABULARY = 0.05
TOPICAL = 0.1


def draw_features(
    y: IntArray,
    time: DoubleArray,
    domain: IntArray,
    width: int,
    separation: float,
    drift: float,
    density: float,
    source: np.random.Generator,
) -> Rows:
    """Draw the features, of shape [num_nodes, width]; dense Gaussian for density 1, else sparse bags of words.

    Args:
        y: class of each node.
        time: time of each node, from 0 to 1.
        domain: domain of each node.
        width: number of features.
        separation: distance between class means, in standard deviations of the noise.
        drift: how far the class means move over time and between domains, in units of `separation`.
        density: fraction of nonzero features.
        source: generator of all draws.
    """
    if density < 1:
        return _words(y, time, domain, width, separation, drift, density, source)
    return _gaussian(y, time, domain, width, separation, drift, source)


def _directions(count: int, width: int, length: float, source: np.random.Generator) -> FloatArray:
    rows = source.standard_normal((count, width), dtype=np.float32)
    rows *= length / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _gaussian(
    y: IntArray,
    time: DoubleArray,
    domain: IntArray,
    width: int,
    separation: float,
    drift: float,
    source: np.random.Generator,
) -> FloatArray:
    """Draw x = class mean + time * class drift + domain offset + unit Gaussian noise."""
    classes, domains = int(y.max()) + 1, int(domain.max()) + 1
    # random directions are nearly orthogonal in high dimension: these means are about `separation` apart
    means = _directions(classes, width, separation / np.sqrt(2), source)
    drifts = _directions(classes, width, drift * separation, source)
    offsets = _directions(domains, width, drift * separation / np.sqrt(2), source)
    x = source.standard_normal((len(y), width), dtype=np.float32)
    for start in range(0, len(y), BLOCK):
        part = slice(start, start + BLOCK)
        x[part] += means[y[part]]
        if drift:
            x[part] += drifts[y[part]] * time[part, None].astype(np.float32) + offsets[domain[part]]
    return x


def _words(
    y: IntArray,
    time: DoubleArray,
    domain: IntArray,
    width: int,
    separation: float,
    drift: float,
    density: float,
    source: np.random.Generator,
) -> csr_array:
    """Draw binary bags of words: each word comes from the vocabulary of the class, or from all words.

    Over time a second vocabulary replaces the first one of each class. A domain shifts the words that are not topical.
    """
    classes, domains = int(y.max()) + 1, int(domain.max()) + 1
    length, size = max(1, round(density * width)), max(1, round(VOCABULARY * width))
    vocabulary = source.integers(width, size=(2 * classes, size))
    shape = (len(y), length)
    moved: BoolArray = source.random(shape) < np.minimum(drift * time, 1.0)[:, None]
    topical = vocabulary[y[:, None] + classes * moved, source.integers(size, size=shape)]
    drifted = source.random(shape) < min(drift, 1.0)
    common = source.integers(width, size=shape)
    common = np.where(drifted, (common // domains + domain[:, None] * (width // domains)) % width, common)
    words = np.where(source.random(shape) < min(TOPICAL * separation, 1.0), topical, common)
    return _rows(words, width)


def _rows(words: IntArray, width: int) -> csr_array:
    keys = np.unique(words + width * np.arange(len(words))[:, None])
    starts = np.searchsorted(keys, width * np.arange(len(words) + 1)).astype(np.int32)
    ones = np.ones(len(keys), np.float32)
    return csr_array((ones, (keys % width).astype(np.int32), starts), shape=(len(words), width))
