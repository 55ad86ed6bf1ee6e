"""Great-circle distances between places."""

from __future__ import annotations

import numpy as np

from gossiprec.arrays import F64
from gossiprec.data.split import CheckIns
from gossiprec.errors import DataError


def distances_km(here: F64, there: F64) -> F64:
    """Return the great-circle distance of each pair of places.

    Parameters
    ----------
    here, there : ndarray, shape (n, 2)
        Latitude and longitude in degrees.

    Returns
    -------
    ndarray of float64, shape (n,)
        Kilometres on a sphere of the Earth's mean radius, 6,371.0088 km (the published work takes about 6,378).

    Raises
    ------
    DataError
        If a place is off the globe.
    """
    from haversine import haversine_vector

    for places in (here, there):
        good = (np.abs(places) <= (90, 180)).all(axis=1)
        if not good.all():
            row = int(np.argmin(good))
            raise DataError(
                f"place {row}: found latitude {places[row, 0]}, longitude {places[row, 1]}; "
                "allowed: -90 to 90 and -180 to 180 degrees"
            )
    if not len(here):
        return np.empty(0)
    return checked_km(np.asarray(haversine_vector(here, there, check=False), np.float64))


def checked_km(distances: F64) -> F64:
    """Return `distances` if each is a number and none is negative.

    Raises
    ------
    DataError
        Naming the first one that is wrong.
    """
    good = (distances >= 0) & np.isfinite(distances)
    if not good.all():
        bad = int(np.argmin(good))
        raise DataError(f"distance {bad}: found {distances[bad]} km; allowed: zero or more")
    return distances


def steps_km(check_ins: CheckIns) -> F64:
    """Return the length of each training move whose previous place is known, in their order."""
    moves = check_ins.train
    known = moves.previous >= 0
    places = check_ins.coordinates
    return distances_km(places[moves.previous[known]], places[moves.items.values[known]])
