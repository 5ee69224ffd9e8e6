"""Which dtype an op computes in: NumPy's promotion, except that integers and booleans do not widen float32."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
BOOL = np.dtype(np.bool_)
INT64 = np.dtype(np.int64)


def promote(a: np.dtype, b: np.dtype) -> np.dtype:
    """Return the dtype of an op on two arrays.

    >>> promote(np.dtype(np.int64), FLOAT32)
    dtype('float32')
    """
    if a == b:
        return a
    if (a == FLOAT32 and b.kind in "biu") or (b == FLOAT32 and a.kind in "biu"):
        return FLOAT32
    return np.promote_types(a, b)


def common(dtypes: Iterable[np.dtype], numbers: Iterable[type], *, integers: bool) -> np.dtype:
    """Return the dtype of an op on arrays of `dtypes` and Python numbers of the types `numbers`.

    A number takes the arrays' dtype; a float among integers gives float32, and an int among booleans int64. Without
    `integers` the op is defined on floats alone, and integers become float32.
    """
    result: np.dtype | None = None
    for dtype in dtypes:
        result = dtype if result is None else promote(result, dtype)
    kinds = set(numbers)
    if result is None:  # only numbers
        return FLOAT32 if float in kinds or not integers else INT64 if int in kinds else BOOL
    if result.kind in "biu" and (float in kinds or not integers):
        return FLOAT32
    return INT64 if result == BOOL and int in kinds else result
