"""Arrays of other libraries in and out: NumPy's, PyTorch's, and by DLPack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netcl import autograd as ag
from netcl.device import Device
from netcl.tensor import Tensor

DTYPES = ["float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


class Foreign:
    """What another library's array looks like to NumPy."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self.array


@pytest.fixture
def numbers(device: Device) -> np.ndarray:
    return np.arange(6, dtype=np.float64 if device.has_fp64 else np.float32).reshape(2, 3)


def test_what_becomes_a_numpy_array_keeps_its_dtype(device: Device, numbers: np.ndarray) -> None:
    x = Tensor.from_host(Foreign(numbers), device=device)
    assert x.dtype == numbers.dtype and (x.to_host() == numbers).all()
    assert Tensor.from_host(Foreign(np.array([1, 2])), device=device).dtype == np.int64
    assert (ag.add(x, Foreign(numbers)).to_host() == 2 * numbers).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_takes_a_copy_by_dlpack(device: Device, dtype: str) -> None:
    host = np.array([[1, 0, 2], [3, 4, 5]]).astype(dtype)
    x = Tensor.from_host(host, device=device)
    for tensor, expected in ((x, host), (x.T, host.T), (x[:, ::2], host[:, ::2])):
        taken = np.from_dlpack(tensor)
        assert taken.dtype == dtype and (taken == expected).all()
    assert np.from_dlpack(ag.tensor([1.0], requires_grad=True, device=device)).tolist() == [1]


def test_dlpack_makes_no_view(device: Device) -> None:
    x = Tensor.from_host([1.0, 2.0], device=device)
    with pytest.raises(BufferError, match="can have a copy"):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError, match="on the CPU"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack_device__() == (1, 0) and x.__dlpack__(copy=True, dl_device=(1, 0), max_version=(1, 0))


def test_pytorch_s_tensors_in_and_out(device: Device, numbers: np.ndarray) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install 'netcl[oracle]'")
    theirs = torch.tensor(numbers)
    x = ag.tensor(theirs, requires_grad=True, device=device)
    assert x.dtype == numbers.dtype and (x.to_host() == numbers).all()
    assert ag.tensor(torch.tensor([1, 2]), device=device).dtype == np.int64
    assert ((x * theirs).to_host() == numbers**2).all()
    for back in (torch.from_numpy(x.to_host()), torch.tensor(np.asarray(x)), torch.from_dlpack(x)):
        assert torch.equal(back, theirs)
    back = torch.from_dlpack(x)
    back += 1
    assert (x.to_host() == numbers).all()  # what PyTorch changes is its own
