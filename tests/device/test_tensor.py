"""Tensor: what goes in comes out, views share one buffer, and wrong arguments are told what came."""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import netcl as nc
from netcl import autograd as ag
from netcl.device import Device
from netcl.errors import DTypeError, IndexingError, NetclError, ShapeError
from netcl.layout import CTYPES

pytestmark = pytest.mark.usefixtures("on_device")

DTYPES = [dtype for dtype in CTYPES if dtype != np.float64]
GRID = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def f32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def read_only(array: np.ndarray) -> np.ndarray:
    copy = array.copy()
    copy.setflags(write=False)
    return copy


ARRAYS: dict[str, np.ndarray] = {
    "transposed": GRID.T,
    "every other column": GRID[:, ::2],
    "backwards": GRID[::-1],
    "backwards, twice": GRID[:, ::-2, ::-1],
    "big-endian": GRID.astype(">f4"),
    "big-endian integers": np.array([1, 256, -3], ">i2"),
    "Fortran order": np.asfortranarray(GRID),
    "read-only": read_only(GRID),
    "read-only and strided": read_only(GRID)[:, 1::2].T,
    "broadcast": np.broadcast_to(f32([1, 2]), (3, 2)),
    "0-d": np.array(7, np.float32),
    "0-d big-endian": np.array(7, ">f4"),
    "no elements": np.zeros((0, 3), np.float32),
    "no elements inside": np.zeros((2, 0, 3), np.float32),
    "special values": f32([np.nan, np.inf, -np.inf, -0.0, 1e-45, 3.4028235e38]),
}


def same(tensor: Any, array: Any) -> None:
    """Require equal shape, dtype in native byte order, and every bit of every element."""
    host, expected = tensor.to_host(), np.asarray(array)
    expected = expected.astype(expected.dtype.newbyteorder("="))
    assert host.shape == expected.shape == tensor.shape
    assert host.dtype == expected.dtype == tensor.dtype
    assert host.tobytes() == expected.tobytes()


# In and out


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_what_goes_in_comes_out(array: np.ndarray) -> None:
    same(nc.Tensor.from_host(array), array)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_goes_in_and_comes_out(dtype: np.dtype) -> None:
    if dtype.kind in "iu":
        array = np.array([np.iinfo(dtype).min, 0, 1, np.iinfo(dtype).max], dtype)
    else:
        array = np.array([0, 1, 1, 0], dtype)
    same(nc.Tensor.from_host(array), array)


@pytest.mark.usefixtures("float64")
def test_a_float64_array_stays_float64_to_the_last_bit() -> None:
    array = np.array([1 / 3, np.pi, 5e-324, 1.7976931348623157e308])
    same(nc.Tensor.from_host(array), array)
    same(ag.tensor(array, requires_grad=True), array)
    same(nc.Tensor.from_host(nc.Tensor.from_host(array)), array)


def test_float64_is_refused_and_not_narrowed_where_the_device_has_none(
    on_device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_device, "has_fp64", False)
    for make in (
        lambda: nc.Tensor.from_host(np.ones(2)),
        lambda: ag.tensor(np.ones(2), requires_grad=True),
        lambda: ag.tensor([1.0]).astype(np.float64),
        lambda: ag.tensor([1.0]) * np.ones(1),
        lambda: nc.zeros(3, np.float64),
    ):
        with pytest.raises(DTypeError, match="no float64"):
            make()
    same(nc.Tensor.from_host(np.ones(2), np.float32), np.ones(2, np.float32))  # said so: then it is not silent


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, np.float32(3)),
        (3.5, np.float32(3.5)),
        ([1, 2], f32([1, 2])),
        ([[1.5], [2]], f32([[1.5], [2]])),
        ([], np.zeros(0, np.float32)),
        ((True, False), np.array([True, False])),
        (True, np.array(True)),
        (np.int64(3), np.array(3)),
        (np.float32(3), np.float32(3)),
        (range(3), f32([0, 1, 2])),
    ],
    ids=repr,
)
def test_python_numbers_and_lists_become_float32(given: Any, expected: Any) -> None:
    same(nc.Tensor.from_host(given), expected)
    same(ag.tensor(given), expected)


def test_a_dtype_that_is_named_is_the_one_that_comes() -> None:
    same(nc.Tensor.from_host([1, 2], np.int32), np.array([1, 2], np.int32))
    same(nc.Tensor.from_host(np.array([0, 5], np.int64), dtype=bool), np.array([False, True]))
    same(nc.Tensor.from_host([1, 0], "uint8"), np.array([1, 0], np.uint8))


@pytest.mark.parametrize(
    ("given", "dtype", "named"),
    [
        ([1.0], np.float16, "float16"),
        (np.ones(2, np.float16), None, "float16"),
        (np.ones(2, np.longdouble), None, str(np.dtype(np.longdouble))),
        ([1j], None, "complex128"),
        (["a"], None, "<U1"),
        (None, None, "NoneType"),
        ({"a": 1}, None, "dict"),
    ],
    ids=repr,
)
def test_a_dtype_that_no_tensor_has_is_refused_by_its_name(given: Any, dtype: Any, named: str) -> None:
    with pytest.raises(DTypeError, match=named):
        nc.Tensor.from_host(given, dtype)


def test_the_host_array_may_change_at_once_and_what_comes_back_is_the_callers_own() -> None:
    array = np.zeros(100_000, np.float32)
    tensor = nc.Tensor.from_host(array)
    array[:] = 1
    first = tensor.to_host()
    assert first.max() == 0
    first[:] = 2
    assert tensor.to_host().max() == 0
    view = tensor.reshape(10, -1)[:, ::2].to_host()
    assert view.flags.writeable and view.flags.owndata and view.flags.c_contiguous


def test_made_from_nothing() -> None:
    same(nc.zeros((2, 3)), np.zeros((2, 3), np.float32))
    same(nc.ones(3, np.int32), np.ones(3, np.int32))
    same(nc.full((), 7.5), np.float32(7.5))
    same(nc.full((2, 0), 1.0), np.ones((2, 0), np.float32))
    same(nc.full((70_000,), True, bool), np.ones(70_000, bool))


# What a tensor tells


def test_a_tensor_tells_shape_strides_offset_and_the_rest_as_numpy_does(on_device: Device) -> None:
    tensor = nc.Tensor.from_host(GRID)
    assert (tensor.shape, tensor.strides, tensor.dtype, tensor.offset) == ((2, 3, 4), (48, 16, 4), np.float32, 0)
    assert (tensor.size, tensor.ndim, tensor.nbytes) == (24, 3, 96)
    assert tensor.device is on_device
    assert tensor.buffer.size >= tensor.nbytes
    assert tensor.queue.context == on_device.context
    assert repr(tensor) == f"<Tensor (2, 3, 4) float32 on {on_device.name}>"


Make = Callable[[Any], Any]

VIEWS: dict[str, Make] = {
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose(1, 0, 2),
    "row": lambda x: x[1],
    "element": lambda x: x[1, 2, 3],
    "last": lambda x: x[-1, -1, -1],
    "columns": lambda x: x[:, :, ::2],
    "backwards": lambda x: x[::-1, :, ::-1],
    "backwards of backwards": lambda x: x[::-1][::-1],
    "part of a part": lambda x: x[:, 1:][1, :, 1::2],
    "new axes": lambda x: x[None, ..., None, 1],
    "all": lambda x: x[...],
    "nothing asked": lambda x: x[()],
    "none left": lambda x: x[:, 3:],
    "reshape": lambda x: x.reshape(6, 4),
    "reshape of a slice": lambda x: x[1].reshape(-1),
    "reshape that splits": lambda x: x.reshape(2, 3, 2, 2)[:, :, 1],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_a_view_is_numpys_view_and_shares_the_buffer(view: Make) -> None:
    tensor, array = nc.Tensor.from_host(GRID), GRID.copy()
    seen, expected = view(tensor), view(array)
    if not isinstance(expected, np.ndarray):  # NumPy copies a single element; with an Ellipsis it is a view
        expected = array[1, 2, 3, ...]
    same(seen, expected)
    assert seen.buffer is tensor.buffer
    assert seen.strides == expected.strides
    if expected.size:
        assert seen.offset == expected.ctypes.data - array.ctypes.data
    same(seen + 0.0, expected)  # a kernel finds the same elements


def test_broadcast_to_shares_the_buffer_through_strides_of_zero() -> None:
    tensor = nc.Tensor.from_host([[1.0], [2.0]])
    wide = tensor.broadcast_to((3, 2, 4))
    assert wide.buffer is tensor.buffer
    assert (wide.strides[0], wide.strides[2]) == (0, 0)
    same(wide, np.broadcast_to(f32([[1], [2]]), (3, 2, 4)))


def test_a_reshape_copies_only_where_strides_allow_no_view() -> None:
    tensor = nc.Tensor.from_host(GRID)
    flat = tensor.T.reshape(-1)
    assert flat.buffer is not tensor.buffer
    same(flat, GRID.T.reshape(-1))


def test_a_view_keeps_its_buffer_alive() -> None:
    view = nc.Tensor.from_host(np.arange(1000, dtype=np.float32))[10:20]
    gc.collect()
    others = [nc.zeros(1000) for _ in range(8)]  # would reuse the buffer if it were free
    same(view, np.arange(10, 20, dtype=np.float32))
    assert len(others) == 8


def test_one_element_of_a_large_tensor() -> None:
    tensor = nc.zeros(20_000_000, np.uint8)
    assert tensor[19_999_999].item() == 0
    assert tensor[-1].offset == 19_999_999


# Python's own questions


def test_item_and_the_number_types() -> None:
    assert ag.tensor(2.5).item() == 2.5
    assert ag.tensor([[2.5]]).item() == 2.5
    assert float(ag.tensor([2.5])) == 2.5
    assert int(ag.tensor(2.5)) == 2
    assert type(nc.Tensor.from_host(np.int64(3)).item()) is int
    assert ag.tensor(3.5, requires_grad=True).item() == 3.5
    assert nc.Tensor.from_host(GRID)[1, 0, 2].item() == 14


@pytest.mark.parametrize("make", [lambda x: ag.tensor(x), lambda x: ag.tensor(x, requires_grad=True)])
def test_bool_is_of_one_element_only(make: Make) -> None:
    assert bool(make([[2.0]])) is True
    assert bool(make(0.0)) is False
    for many in ([1.0, 2.0], [0.0, 0.0], np.zeros((0, 3), np.float32)):
        with pytest.raises(ShapeError, match=r"\((2,|0, 3)\)"):
            bool(make(many))
        with pytest.raises(ShapeError, match="elements"):
            make(many).item()
    with pytest.raises(ShapeError):
        bool(make([1.0, 2.0]) > 1.0)


def test_len_and_iteration_go_along_the_first_axis() -> None:
    tensor = nc.Tensor.from_host(GRID)
    assert len(tensor) == 2
    rows = list(tensor)
    assert len(rows) == 2
    for row, expected in zip(rows, GRID, strict=True):
        same(row, expected)
        assert row.buffer is tensor.buffer
    a, b, c = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert (a.item(), b.item(), c.item()) == (1, 2, 3)
    assert list(nc.zeros((0, 2))) == []
    with pytest.raises(TypeError, match="0-d"):
        len(ag.tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        list(ag.tensor(1.0))


@pytest.mark.parametrize("requires_grad", [False, True])
def test_equality_is_identity_and_equal_compares_elements(requires_grad: bool) -> None:
    a = ag.tensor([1.0, 2.0], requires_grad=requires_grad)
    b = ag.tensor([1.0, 2.0], requires_grad=requires_grad)
    assert (a == b) is False and (a != b) is True and (a == a) is True
    assert len({a, b}) == 2 and hash(a) == hash(a)
    assert a in [b, a] and a not in [b]
    same(ag.equal(a, ag.tensor([1.0, 3.0])), np.array([True, False]))


def test_numpy_takes_a_tensor_as_an_array() -> None:
    tensor = nc.Tensor.from_host(GRID)
    assert np.array_equal(np.asarray(tensor), GRID)
    assert np.asarray(tensor, np.int64).dtype == np.int64
    assert np.array_equal(np.array(ag.tensor([1.0], requires_grad=True)), [1])
    if int(np.__version__.partition(".")[0]) >= 2:
        with pytest.raises(ValueError, match="without a copy"):
            np.asarray(tensor, copy=False)


def test_detach_of_a_tensor_is_itself_and_of_a_node_its_value() -> None:
    tensor, node = ag.tensor([1.0]), ag.tensor([1.0], requires_grad=True)
    assert tensor.detach() is tensor
    assert node.detach() is node.value


# Refusals


@pytest.mark.parametrize(
    ("wrong", "kind", "says"),
    [
        (lambda x: x[2], IndexingError, r"\(2, 3, 4\)"),
        (lambda x: x[0, 0, 0, 0], IndexingError, r"\(2, 3, 4\)"),
        (lambda x: x[[0, 2]], IndexingError, r"2 is out of range.*\(2, 3, 4\)"),
        (lambda x: x[np.array([True])], IndexingError, r"mask.*\(1,\).*\(2, 3, 4\)"),
        (lambda x: x[True], IndexingError, "one truth value"),
        (lambda x: x[1.0], IndexingError, "float"),
        (lambda x: x.reshape(5, 5), ShapeError, r"\(2, 3, 4\).*\(5, 5\)"),
        (lambda x: x.reshape(-1, -1), ShapeError, r"\(-1, -1\)"),
        (lambda x: x.reshape("a"), ShapeError, "'a'"),
        (lambda x: x.transpose(0, 1), ShapeError, r"\(0, 1\)"),
        (lambda x: x.transpose(0, 0, 1), ShapeError, "twice"),
        (lambda x: x.broadcast_to((3, 4)), ShapeError, r"\(2, 3, 4\).*\(3, 4\)"),
        (lambda x: x + np.ones(5, np.float32), ShapeError, r"add.*\(2, 3, 4\).*\(5,\)"),
        (lambda x: x @ np.ones((3, 4), np.float32), ShapeError, r"\(2, 3, 4\).*\(3, 4\)"),
        (lambda x: x * "a", DTypeError, "str"),
        (lambda x: x * None, DTypeError, "NoneType"),
        (lambda x: nc.zeros("a"), ShapeError, "'a'"),
        (lambda x: nc.zeros((2, -1)), ShapeError, "-1"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_came(wrong: Make, kind: type[Exception], says: str) -> None:
    for x in (nc.Tensor.from_host(GRID), ag.tensor(GRID, requires_grad=True)):
        with pytest.raises(kind, match=says) as caught:
            wrong(x)
        assert isinstance(caught.value, NetclError)


def test_a_number_that_does_not_fit_an_integer_dtype_is_refused() -> None:
    with pytest.raises(DTypeError, match="300"):
        operator.add(nc.Tensor.from_host(np.array([1, 2], np.uint8)), 300)
