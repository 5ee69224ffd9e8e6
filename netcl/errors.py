"""The exceptions that netcl raises.

Every one of them is a `NetclError`, and also the built-in exception that a Python user would expect, so that both
`except NetclError` and `except ValueError` read naturally.
"""

from __future__ import annotations

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "DTypeError",
    "DeviceError",
    "ExprError",
    "GradFnError",
    "GraphError",
    "IndexingError",
    "NetclError",
    "ShapeError",
]


class NetclError(Exception):
    """Base of every error that netcl raises on purpose.

    >>> issubclass(ShapeError, NetclError)
    True
    """


class ShapeError(NetclError, ValueError):
    """Shapes do not fit the operation; the message names them all.

    >>> raise ShapeError("add: shapes (2, 3) and (4,) do not broadcast")
    Traceback (most recent call last):
    netcl.errors.ShapeError: add: shapes (2, 3) and (4,) do not broadcast
    """


class DTypeError(NetclError, TypeError):
    """A dtype is not supported here, or two do not go together.

    >>> issubclass(DTypeError, TypeError)
    True
    """


class DeviceError(NetclError, RuntimeError):
    """No OpenCL device can do what was asked; the message says what to install or to choose.

    >>> issubclass(DeviceError, RuntimeError)
    True
    """


class GraphError(NetclError, RuntimeError):
    """The graph cannot be differentiated: it was released, or the loss needs no gradient.

    >>> issubclass(GraphError, RuntimeError)
    True
    """


class GradFnError(NetclError, ValueError):
    """A `grad_fn` returned the wrong count, shape or dtype; the message names the op.

    >>> issubclass(GradFnError, ValueError)
    True
    """


class AnomalyError(NetclError, RuntimeError):
    """Anomaly mode found a NaN or an infinity; the message names the op and where it was created.

    >>> issubclass(AnomalyError, RuntimeError)
    True
    """


class ArgumentError(NetclError, ValueError):
    """An argument has a value that the function does not accept.

    >>> issubclass(ArgumentError, ValueError)
    True
    """


class IndexingError(NetclError, IndexError):
    """An index is out of range, or of a kind that tensors do not take.

    >>> issubclass(IndexingError, IndexError)
    True
    """


class ExprError(NetclError, ValueError):
    """A scalar expression of the op table uses something outside the common subset of Python and C.

    >>> issubclass(ExprError, ValueError)
    True
    """


class GradcheckError(NetclError, ValueError):
    """A gradient disagrees with a finite difference; `report` holds every entry that was compared."""

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report
