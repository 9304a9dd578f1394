"""Type aliases for arrays: ids and labels are int64, positions int32, features float32."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

IntArray = NDArray[np.int64]
PositionArray = NDArray[np.int32]
FloatArray = NDArray[np.float32]
DoubleArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
AnyArray = NDArray[Any]

Rows = FloatArray | csr_array
"""Feature rows of shape [num_nodes, num_features]: a dense float32 matrix or a scipy CSR array."""

Json = dict[str, Any]
