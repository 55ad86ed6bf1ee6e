"""Data set `foursquare-nyc`: your copy of the New York check-ins of TSMC 2014.

References
----------
D. Yang, D. Zhang, V. W. Zheng, Z. Yu, "Modeling User Activity Preference by Leveraging User Spatial Temporal
Characteristics in LBSNs", IEEE Trans. SMC: Systems 45(1), 2015.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path, PurePosixPath

import numpy as np
from pydantic import Field

from gossiprec.base.arrays import F64, I64
from gossiprec.base.errors import DataError
from gossiprec.base.options import LARGEST
from gossiprec.base.options import Options as OptionSet
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset
from gossiprec.data.check_ins import filter_active_users, published_split
from gossiprec.data.column_parsers import (
    LATITUDE,
    LONGITUDE,
    Convert,
    IdEncoder,
    TextColumn,
    integer_parser,
    parse_foursquare_times,
    single_form_time_parser,
)
from gossiprec.data.delimited_text import read_check_ins, read_columns, read_first_row, sort_positions
from gossiprec.data.sources import FileSource, find_companion_file, resolve_data_file
from gossiprec.data.split import Interactions, Split
from gossiprec.data.text_blocks import TextFormat

ORIGINAL, JOINED, VENUES = "dataset_TSMC2014_NYC.txt", "nyc_checkins.tsv", "nyc_venues.tsv"
ORIGINAL_LAYOUT = TextFormat(
    ("user", "venue", "category_id", "category", "latitude", "longitude", "offset", "time"),
    encoding="latin-1",
)
JOINED_LAYOUT = TextFormat(("user_id", "venue_idx", "minute", "flag"), header=True)
VENUE_LAYOUT = TextFormat(("venue_idx", "foursquare_venue_id", "lat", "lon", "stan_poi_id"), header=True)

MINUTE_0 = 1_333_476_000
"""Time 0 of the joined files, which count minutes: 2012-04-03 18:00 UTC, the first check-in of the original."""

MAX_NUMBER = 2**31


@DATASETS.register("foursquare-nyc")
class FoursquareNYC(Dataset):
    """Foursquare check-ins in New York, the original TSMC2014 file or the joined files: 1,083 users.

    Notes
    -----
    Times are UTC; the original's offset to local time does not affect gaps. Dense ids follow the order of the
    original ids. In the joined form every venue of the venue file is an item, visited or not, so that the items do
    not depend on `flags`.
    """

    class Options(OptionSet):
        """Path of the data, and filters of rows and users."""

        path: Path
        flags: int = Field(1, ge=0, le=2)
        """for the joined file: keep rows with a flag up to this value"""
        min_items: int = Field(3, ge=3, le=LARGEST)
        """remove users with fewer distinct venues"""

    options: Options

    @cached_property
    def _source(self) -> FileSource:
        return resolve_data_file(self.options.path, [ORIGINAL, JOINED])

    @property
    def _is_joined(self) -> bool:
        return PurePosixPath(self._source.member or self._source.path.name).name.startswith(JOINED)

    @cached_property
    def _everyone(self) -> Interactions:
        if self._is_joined:
            return self._read_joined()
        time = single_form_time_parser(parse_foursquare_times, "Tue Apr 03 18:00:09 +0000 2012")
        return read_check_ins("foursquare-nyc", self._source, ORIGINAL_LAYOUT, place="venue", time=time)

    def load(self, seed: int) -> Interactions:
        """Read the check-ins of all users with enough venues."""
        least = self.options.min_items
        return filter_active_users(self._everyone, check_ins=least, items=least)

    def published_split(self, interactions: Interactions) -> Split:
        """Split each user's shuffled venues: 80 / 10 / 10 %."""
        return published_split(interactions)

    def provenance(self) -> dict[str, str]:
        """Return the file, the rows read and the number of users left out."""
        rows = f"flag <= {self.options.flags}" if self._is_joined else "all (the original has no flags)"
        left_out = self._everyone.n_users - self.load(0).n_users
        return {"source": str(self._source), "rows": rows, "users_left_out": str(left_out)}

    def _read_joined(self) -> Interactions:
        venues, coordinates = self._venues()
        users = IdEncoder()
        most = self.options.flags
        _require_header(self._source, JOINED_LAYOUT)
        table = read_columns(
            self._source,
            JOINED_LAYOUT,
            {
                "user_id": users.make_parser("user_id"),
                "venue_idx": _place_among(venues),
                "minute": integer_parser("minute", -1, MAX_NUMBER),
                "flag": integer_parser("flag", 0, 2),
            },
            keep=lambda block: block["flag"] <= most,
        )
        minutes = table["minute"]
        return Interactions(
            name="foursquare-nyc",
            users=sort_positions(tuple(users.ids))[table["user_id"]],
            items=table["venue_idx"],
            n_users=len(users.ids),
            n_items=len(venues),
            times=np.where(minutes < 0, -1, MINUTE_0 + 60 * minutes),
            coordinates=coordinates,
        )

    def _venues(self) -> tuple[I64, F64]:
        """Return the ids of the venue file, ascending, and the coordinates of each venue."""
        path = self.options.path
        source = find_companion_file(path, [VENUES])
        if source is None:
            raise DataError(
                f"{path}: no venue file; expected {VENUES} or {VENUES}.gz next to {JOINED}, with the "
                "coordinates of every venue"
            )
        _require_header(source, VENUE_LAYOUT)
        readers = {"venue_idx": integer_parser("venue_idx", 0, MAX_NUMBER), "lat": LATITUDE, "lon": LONGITUDE}
        table = read_columns(source, VENUE_LAYOUT, readers)
        venues, first = np.unique(table["venue_idx"], return_index=True)
        if len(venues) < len(table["venue_idx"]):
            twice = int(venues[np.argmax(np.bincount(np.searchsorted(venues, table["venue_idx"])))])
            raise DataError(f"{source}: venue_idx {twice} occurs more than once; expected each venue once")
        return venues, np.stack([table["lat"][first], table["lon"][first]], axis=1)


def _require_header(source: FileSource, layout: TextFormat) -> None:
    """Refuse a file without the header, the first row of which would silently be lost."""
    found, wanted = (
        layout.delimiter.join(names) for names in (read_first_row(source, layout), layout.columns)
    )
    if found != wanted:
        raise source.error(1, repr(found), f"the header {wanted!r}")


def _place_among(venues: I64) -> Convert:
    """Return the parser of venue ids: the position of each in the venue file."""

    def read(cells: TextColumn) -> I64:
        ids = integer_parser("venue_idx", 0, MAX_NUMBER)(cells)
        found: I64 = np.minimum(np.searchsorted(venues, ids), len(venues) - 1)
        if (venues[found] != ids).any():
            bad = int(np.argmax(venues[found] != ids))
            raise cells.block.error(
                bad, f"venue_idx {ids[bad]}", f"the {len(venues)} venues that {VENUES} holds"
            )
        return found

    return read
