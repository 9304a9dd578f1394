"""Class-dependent features that drift with time and differ between domains: Gaussian rows, or bags of words."""

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
    """Give a row per node; `time` runs from 0 to 1."""
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
    """Draw x = mean of the class + time * the class's way + offset of the domain + unit noise."""
    classes, domains = int(y.max()) + 1, int(domain.max()) + 1
    # directions at right angles, as in high dimension, then lie `separation` apart
    means = _directions(classes, width, separation / np.sqrt(2), source)
    ways = _directions(classes, width, drift * separation, source)
    offsets = _directions(domains, width, drift * separation / np.sqrt(2), source)
    x = source.standard_normal((len(y), width), dtype=np.float32)
    for start in range(0, len(y), BLOCK):
        part = slice(start, start + BLOCK)
        x[part] += means[y[part]]
        if drift:
            x[part] += ways[y[part]] * time[part, None].astype(np.float32) + offsets[domain[part]]
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
    """Draw rows of 0 and 1: each word from the class's vocabulary, or from all words.

    With time the class's vocabulary gives way to a second one, and a domain moves the words that are not topical.
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
