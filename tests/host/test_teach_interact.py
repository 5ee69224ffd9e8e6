"""Sliders over a drawing: what they stand at, what is drawn at each place, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.figure import Figure

from netcl.errors import ArgumentError
from netcl.teach.interaction import interact


def drawn(**_: float) -> Figure:
    return Figure(figsize=(1, 1))


def words(**values: float) -> str:
    return ", ".join(f"{name} is {value:g}" for name, value in values.items())


def test_whole_numbers_make_a_slider_over_whole_numbers() -> None:
    picture = interact(drawn, words, rows=(0, 3, 1))
    slider = picture.sliders["rows"]
    assert (slider.step, slider.readout_format) == (1.0, ".0f")
    slider.value = 2
    assert picture.values == {"rows": 2.0}
    assert picture.picture.alt == "rows is 2"


def test_other_numbers_make_a_fine_one() -> None:
    assert interact(drawn, words, h=(0.0, 1.5, 1)).sliders["h"].step == 0.01


@pytest.mark.parametrize("bounds", [(3, 0, 1), (0, 3, 4), (0, 3), ("a", "b", "c"), (0.0, float("inf"), 1.0)])
def test_what_is_no_range_is_refused(bounds: Any) -> None:
    with pytest.raises(ArgumentError):
        interact(drawn, words, rows=bounds)


def test_a_drawing_that_fails_is_told_and_the_picture_stays() -> None:
    def fails(h: float) -> Figure:
        if h > 1:
            raise ValueError("too far")
        return drawn()

    picture = interact(fails, words, h=(0.0, 2.0, 0.5))
    picture.sliders["h"].value = 1.5
    assert "too far" in picture.error.value
    assert picture.picture.alt == "h is 0.5"
