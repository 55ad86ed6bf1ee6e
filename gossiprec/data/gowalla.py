"""Data set `gowalla`: your copy of the check-ins that SNAP distributes.

References
----------
E. Cho, S. A. Myers, J. Leskovec, "Friendship and Mobility: User Movement in Location-Based Social Networks",
KDD 2011.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt
from pydantic import Field, field_validator

from gossiprec.base.arrays import Bools
from gossiprec.base.errors import DataError
from gossiprec.base.options import LARGEST, Count
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset
from gossiprec.data.check_ins import drop_unvisited_items, filter_active_users, published_split
from gossiprec.data.column_parsers import parse_zoned_times, single_form_time_parser
from gossiprec.data.delimited_text import read_check_ins
from gossiprec.data.sources import FileSource, resolve_data_file
from gossiprec.data.split import Interactions, Split
from gossiprec.data.text_blocks import TextFormat

FILE = "loc-gowalla_totalCheckins.txt"
LAYOUT = TextFormat(("user", "time", "latitude", "longitude", "location"))
Box = tuple[float, float, float, float]


@DATASETS.register("gowalla")
class Gowalla(Dataset):
    """Gowalla check-ins as SNAP publishes them, optionally within a box of latitudes and longitudes.

    Notes
    -----
    The box is applied first, then users with too few check-ins or places inside it are removed, then places without a
    check-in. Dense ids follow the order of the original ids.
    """

    class Options(OptionSet):
        """Path of the data, and filters of check-ins and users."""

        path: Path
        bounding_box: Box | None = None
        """south, west, north, east in degrees; null: all"""
        min_checkins: Count = 10
        """remove users with fewer check-ins in the box"""
        min_items: int = Field(3, ge=3, le=LARGEST)
        """remove users with fewer distinct places in the box"""

        @field_validator("bounding_box")
        @classmethod
        def _lie_on_the_globe(cls, box: Box | None) -> Box | None:
            if box is not None and not (-90 <= box[0] < box[2] <= 90 and -180 <= box[1] < box[3] <= 180):
                raise ValueError(
                    f"found {list(box)}; expected [south, west, north, east] in degrees with south below north "
                    "(-90 to 90) and west below east (-180 to 180), as [40.5, -74.3, 41.0, -73.6] for New York"
                )
            return box

    options: Options

    @cached_property
    def _source(self) -> FileSource:
        return resolve_data_file(self.options.path, [FILE])

    @cached_property
    def _everyone(self) -> Interactions:
        time = single_form_time_parser(parse_zoned_times, "2010-10-19T23:55:27Z")
        found = read_check_ins(
            "gowalla", self._source, LAYOUT, place="location", time=time, keep=self._in_box
        )
        if not len(found.users):
            raise DataError(
                f"{self._source}: no check-in is in bounding_box {list(self.options.bounding_box or ())}; "
                "expected a box [south, west, north, east] that contains some"
            )
        return found

    def load(self, seed: int) -> Interactions:
        """Read the check-ins in the box of all users with enough of them."""
        options = self.options
        return drop_unvisited_items(
            filter_active_users(self._everyone, check_ins=options.min_checkins, items=options.min_items)
        )

    def published_split(self, interactions: Interactions) -> Split:
        """Split each user's shuffled places: 80 / 10 / 10 %."""
        return published_split(interactions)

    def provenance(self) -> dict[str, str]:
        """Return the file, the box and the number of users left out."""
        box = self.options.bounding_box
        left_out = self._everyone.n_users - self.load(0).n_users
        return {
            "source": str(self._source),
            "bounding_box": "all" if box is None else str(list(box)),
            "users_left_out": str(left_out),
        }

    def _in_box(self, block: dict[str, npt.NDArray[Any]]) -> Bools:
        south, west, north, east = self.options.bounding_box or (-90.0, -180.0, 90.0, 180.0)
        latitude, longitude = block["latitude"], block["longitude"]
        return (latitude >= south) & (latitude <= north) & (longitude >= west) & (longitude <= east)
