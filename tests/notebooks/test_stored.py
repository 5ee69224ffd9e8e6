"""What a stored notebook must be for a reader who never runs it, and for nbval."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted([*(ROOT / "curriculum").glob("*.ipynb"), *(ROOT / "notebooks").glob("*.ipynb")])
IDS = [path.relative_to(ROOT).as_posix() for path in NOTEBOOKS]
# Paths of a machine, a kernel's temporary files, addresses of objects, and colour codes of tracebacks.
TRACES = re.compile(
    r"(?<![\w.])/(?:home|root|tmp|usr|work|opt|var|Users)/|[A-Z]:\\\\|ipykernel_\d|0x[0-9a-f]{6,}|\\u001b"
)
IGNORED = "nbval-ignore-output"
# Cells that are not compared: the device, or times and the number of a cell (which nbval does not count). Lesson 14 is
# about times (two timelines, two queues, a benchmark, a curve), and about the source that netcl generates for a device;
# and it runs Oclgrind where that is installed. Lesson 00 lists the devices, and has the doctor look at them.
# In lesson 18 progress bars tell the time of each training.
UNCOMPARED = {"00_your_device.ipynb": 4, "14_kernels_and_queues.ipynb": 9, "18_train_a_network.ipynb": 5}
WITHOUT_PICTURES = {"teaching_with_netcl.ipynb"}  # what checks say is text


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(path: Path) -> list[Any]:
    return [cell for cell in load(path)["cells"] if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert {"quickstart.ipynb", "06_reverse_mode.ipynb"} <= {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=IDS)
class TestNotebook:
    def test_is_valid_and_for_any_python(self, path: Path) -> None:
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
        assert notebook["metadata"]["kernelspec"]["name"] == "python3"
        assert "version" not in notebook["metadata"]["language_info"]

    def test_every_cell_has_an_id_of_its_own(self, path: Path) -> None:
        ids = [cell["id"] for cell in load(path)["cells"]]
        assert len(set(ids)) == len(ids)
        assert [name for name in ids if not re.fullmatch(r"[a-z0-9-]+", name)] == []

    def test_was_run_once_from_top_to_bottom(self, path: Path) -> None:
        counts = [cell["execution_count"] for cell in code_cells(path)]
        assert counts == list(range(1, len(counts) + 1))

    def test_shows_no_error_and_no_warning(self, path: Path) -> None:
        outputs = [output for cell in code_cells(path) for output in cell["outputs"]]
        assert outputs
        assert {output["output_type"] for output in outputs} <= {"execute_result", "display_data", "stream"}
        assert {output["name"] for output in outputs if output["output_type"] == "stream"} <= {"stdout"}

    def test_shows_a_picture_and_its_text(self, path: Path) -> None:
        bundles = [output["data"] for cell in code_cells(path) for output in cell["outputs"] if "data" in output]
        pictures = [data for data in bundles if {"image/svg+xml", "image/png"} & set(data)]
        assert pictures or path.name in WITHOUT_PICTURES
        for data in pictures:
            assert data["text/plain"] and "text/latex" not in data

    def test_keeps_no_view_of_a_widget(self, path: Path) -> None:
        # Without a kernel a view is "Error displaying widget" in JupyterLab. The picture before it and its words stay.
        kinds = {kind for cell in code_cells(path) for output in cell["outputs"] for kind in output.get("data", ())}
        assert {kind for kind in kinds if "widget" in kind} == set(), "delete it from the stored outputs"

    def test_says_nothing_of_the_machine_it_ran_on(self, path: Path) -> None:
        compared = [cell for cell in load(path)["cells"] if IGNORED not in cell["metadata"].get("tags", [])]
        assert TRACES.findall(json.dumps(compared, ensure_ascii=False)) == []
        assert "execution" not in json.dumps([cell["metadata"] for cell in compared])

    def test_leaves_little_uncompared(self, path: Path) -> None:
        tags = [tag for cell in code_cells(path) for tag in cell["metadata"].get("tags", [])]
        assert tags.count(IGNORED) <= UNCOMPARED.get(path.name, 2)
        assert not {tag for tag in tags if tag.startswith("nbval")} - {IGNORED}
        assert "NBVAL" not in path.read_text(encoding="utf-8")
