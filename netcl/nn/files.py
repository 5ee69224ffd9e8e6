"""Arrays by name in one .npz file, which NumPy reads: no pickle, and never half a file."""

from __future__ import annotations

import os
import secrets
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from netcl.errors import ArgumentError


def save_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name. The file appears whole or not at all, and the same arrays give the same bytes.

    It is written beside `path` and then takes its place, so a crash leaves what was there. `np.load` reads it.

    Raises: OSError if the folder is not there or cannot be written
    """
    target = Path(os.path.realpath(path))  # through a symbolic link, which os.replace would replace
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(unfinished, "xb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                for name, array in arrays.items():
                    # Not np.savez: an array could not be named `file` there. ZipInfo has no time of day in it.
                    with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                        np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def load_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read arrays by name; objects, which only pickle could bring back, are refused.

    Raises: ArgumentError if the file is damaged or no .npz; FileNotFoundError if there is none
    """
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                arrays = {}
                for name in archive.namelist():
                    with archive.open(name) as entry:
                        arrays[name.removesuffix(".npy")] = np.lib.format.read_array(entry, allow_pickle=False)
                return arrays
        except Exception as error:  # one wrong byte can ask for encryption, a newer zip, a seek to nowhere …
            raise ArgumentError(f"{os.fspath(path)} is damaged, or no .npz file of arrays: {error}") from error
