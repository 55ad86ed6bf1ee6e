"""What a study file may say of its first picture: the one that answers the study's question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, field_validator

from gossiprec.errors import suggestion
from gossiprec.figures.study.quantity import shown
from gossiprec.measures.names import read_measure
from gossiprec.options import Options


def _readable(text: str) -> str:
    read_measure(text)
    return text


class Picture(Options):
    """A figure of a study, as the options of ``gossiprec plot study`` describe it."""

    kind: Literal["lines", "heat", "front", "paired"] = Field(
        default="lines", description="Kind of figure: lines, heat, front or paired."
    )
    x: str | None = Field(default=None, description="Axis shown along x.")
    by: str | None = Field(
        default=None, description="Axis that distinguishes lines, rows or colours; `measure`: the measures."
    )
    y: list[str] | None = Field(
        default=None, description="Measures to draw, such as max_aac[single].  [default: max_aac]"
    )
    against: str | None = Field(default=None, description="Utility metric of the figure `front`.")
    to: dict[str, Any] | None = Field(
        default=None, description="Baseline of the figure `paired`, instead of the baseline of the study."
    )
    where: dict[str, Any] | None = Field(default=None, description="Only runs with these values of axes.")

    @field_validator("y")
    @classmethod
    def _are_measures(cls, measures: list[str] | None) -> list[str] | None:
        return None if measures is None else [_readable(text) for text in measures]

    @field_validator("against")
    @classmethod
    def _is_measure(cls, measure: str | None) -> str | None:
        return None if measure is None else _readable(measure)

    def check(self, axes: Mapping[str, Sequence[Any] | None], measures: Sequence[str] | None) -> None:
        """Refuse a picture of what the study does not have.

        Parameters
        ----------
        axes : mapping of str to sequence
            The labels of each axis; None where they are drawn from a range.
        measures : sequence of str, optional
            Those that the study collects; None: all.

        Raises
        ------
        ValueError
            If it names an axis, a value of an axis or a measure that the study lacks.
        """
        by = None if self.by == "measure" else self.by
        chosen = [*(self.to or {}).items(), *(self.where or {}).items()]
        for name in (self.x, by, *(name for name, _ in chosen)):
            if name is not None and name not in axes:
                known = ", ".join(axes) or "none"
                raise ValueError(f"found the axis {name!r}; the axes are: {known}{suggestion(name, axes)}")
        for name, value in chosen:
            labels = axes[name]
            if labels is not None and shown(value) not in map(shown, labels):
                there = ", ".join(map(shown, labels))
                raise ValueError(f"found {name}: {shown(value)}; the values of {name} are: {there}")
        if measures is not None:
            collected = [_name_of(text) for text in measures]
            for text in (*(self.y or ()), *([self.against] if self.against else ())):
                if _name_of(text) not in collected:
                    there = ", ".join(dict.fromkeys(collected))
                    raise ValueError(f"found the measure {text!r}; the study collects: {there}")


def _name_of(text: str) -> str:
    try:
        return read_measure(text).name
    except ValueError:
        return text  # what is wrong with it is said of the measures
