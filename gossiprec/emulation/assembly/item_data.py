"""What models of moves between places need from the data."""

from __future__ import annotations

import numpy as np

from gossiprec.compute.train.local_update import LocalData, Moves
from gossiprec.data.split import CheckIns, Split
from gossiprec.errors import DataError
from gossiprec.geodesy import unit_vectors
from gossiprec.models import Model

CHECK_INS = "foursquare-nyc, gowalla and synthetic-checkins"
"""The data sets whose splits have places and times."""


def on_its_data(model: Model, split: Split) -> tuple[Model, LocalData]:
    """Return the model as it knows the items of `split`, and what its nodes train on.

    Raises
    ------
    DataError
        If the model trains on moves between places and the data have no places or no times.
    """
    if not model.trains_on_moves:
        return model, LocalData(split.train, split.n_items)
    check_ins = _check_ins(split)
    moves = Moves.within(check_ins.train, 60.0 * model.options.window_hours)
    places = unit_vectors(check_ins.coordinates)
    return model.with_places(places), LocalData(split.train, split.n_items, moves)


def _check_ins(split: Split) -> CheckIns:
    advice = f"data sets with both are {CHECK_INS}"
    if split.check_ins is None:
        raise DataError(
            f"model.name: 'prme-g' learns moves between places, but {split.name} has neither places nor times; {advice}"
        )
    gaps = split.check_ins.train.gap_minutes
    if np.isnan(gaps).all():
        raise DataError(
            f"model.name: 'prme-g' learns from the order of visits, but {split.name} has places without times; {advice}"
        )
    return split.check_ins
