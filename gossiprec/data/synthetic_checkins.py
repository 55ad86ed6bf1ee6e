"""Data set `synthetic-checkins`: visits in an invented city, for next-place models without any file."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F64, I64
from gossiprec.base.options import Count
from gossiprec.base.options import Options as OptionSet
from gossiprec.base.rng import generator
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, SyntheticSizes
from gossiprec.data.check_ins import published_split
from gossiprec.data.split import Interactions, Split
from gossiprec.data.synthetic import (
    community_item_probabilities,
    draw_item_popularity,
    draw_items,
    draw_memberships,
    draw_user_activity,
)

CITY, SPREAD = (40.75, -73.95), (0.12, 0.15)
"""Centre of the city, and the standard deviation of its areas from it, in degrees."""

AREA_SPREAD = 0.008
"""Standard deviation of places from the centre of their area, in degrees: about 0.8 km."""

HOME_SHARE, WORK_SHARE, SESSION_ENDS = 0.5, 0.3, 0.3
"""Share of a user's places in the home and work areas (the rest are anywhere); chance that an outing ends."""

FIRST_DAY = 1_333_476_000
"""The first day of Foursquare's New York check-ins (Unix seconds)."""

STEP_MINUTES, MOST_STEP_MINUTES, BETWEEN_HOURS, MEAN_EXTRA_HOURS = 45, 300, 8, 24
"""Median and maximum step of an outing (below PRME's six hours); minimum pause after it, and mean extra pause."""

MIN_PLACES = 4
"""Number of different places of the least active user, so that every split is possible."""


@DATASETS.register("synthetic-checkins")
class SyntheticCheckIns(Dataset):
    """Synthetic check-ins of users who share tastes and areas of an invented city, with places and times.

    Half of the check-ins are at new places, half are returns. A user's places follow the taste of communities, and
    are mostly in the user's home and work area; an outing stays in one area, with minutes between its check-ins.

    Notes
    -----
    It is meant for tests and demonstrations: no distribution is fitted to real check-ins; do not quote results.
    """

    class Options(OptionSet):
        """Sizes of the data."""

        users: int = Field(120, ge=2, le=100_000)
        items: int = Field(600, ge=20, le=100_000)
        checkins: Count = Field(9_600)
        communities: int = Field(6, ge=1, le=64)
        areas: int = Field(8, ge=1, le=64)

        @model_validator(mode="after")
        def _fit_the_grid(self) -> SyntheticCheckIns.Options:
            least, most = 2 * MIN_PLACES * self.users, self.users * self.items
            if not least <= self.checkins <= most:
                raise ValueError(
                    f"checkins is {self.checkins}; allowed for {self.users} users and {self.items} items: "
                    f"{least} ({2 * MIN_PLACES} each) to {most}"
                )
            return self

    options: Options

    @property
    def synthetic_sizes(self) -> SyntheticSizes:
        """The size that the options request."""
        return SyntheticSizes.of(self.options, "checkins")

    def load(self, seed: int) -> Interactions:
        """Draw the check-ins; equal seeds and options give equal ones."""
        opt = self.options
        draws = generator(seed, "data.synthetic-checkins")
        areas = draws.integers(0, opt.areas, opt.items)
        centres = np.array(CITY) + draws.standard_normal((opt.areas, 2)) * SPREAD
        coordinates = centres[areas] + AREA_SPREAD * draws.standard_normal((opt.items, 2))
        users, items = self._places_of_users(seed, areas)
        visits = np.concatenate(
            [np.arange(len(users)), _returns(draws, len(users), opt.checkins - len(users))]
        )
        users, items = users[visits], items[visits]
        order, times = _outings(draws, users, areas[items])
        return Interactions(
            name="synthetic-checkins",
            users=users[order],
            items=items[order],
            n_users=opt.users,
            n_items=opt.items,
            times=times,
            coordinates=coordinates,
        )

    def published_split(self, interactions: Interactions) -> Split:
        """Split each user's shuffled places 80 / 10 / 10 %, like the real check-ins."""
        return published_split(interactions)

    def _places_of_users(self, seed: int, areas: I64) -> tuple[I64, I64]:
        """Draw each user's different places by taste and by area, sorted by user."""
        opt = self.options
        counts = draw_user_activity(
            seed,
            n_users=opt.users,
            total=opt.checkins // 2,
            least=MIN_PLACES,
            most=opt.items * 3 // 4,
            shape=0.9,
        )
        members = draw_memberships(seed, counts, n_communities=opt.communities, mixing=0.15)
        tastes = community_item_probabilities(
            seed,
            draw_item_popularity(seed, n_items=opt.items, shape=0.4),
            weights=counts @ members / counts.sum(),
            contrast=2.0,
        )
        near = np.eye(opt.areas)[:, areas] + 1e-3  # one row per area; the last one is for all areas
        local = tastes[:, None] * np.concatenate([near, np.ones((1, opt.items))])
        local /= local.sum(axis=2, keepdims=True)
        mixed = members[:, :, None] * _area_shares(seed, opt.users, opt.areas)[:, None]
        return draw_items(seed, counts, mixed.reshape(opt.users, -1), local.reshape(-1, opt.items))


def _area_shares(seed: int, n_users: int, n_areas: int) -> F64:
    """Return each user's share of places in each area and, last, anywhere, shape (n_users, n_areas + 1)."""
    home, work = generator(seed, "data.synthetic-checkins.areas").integers(0, n_areas, (2, n_users))
    shares = np.zeros((n_users, n_areas + 1))
    shares[np.arange(n_users), home] += HOME_SHARE
    shares[np.arange(n_users), work] += WORK_SHARE
    shares[:, -1] = 1 - HOME_SHARE - WORK_SHARE
    return shares


def _returns(draws: np.random.Generator, n_pairs: int, count: int) -> I64:
    """Draw the (user, place) pairs that are visited again; a few are visited often."""
    weights = draws.standard_exponential(n_pairs) ** 2
    return draws.choice(n_pairs, count, p=weights / weights.sum())


def _outings(draws: np.random.Generator, users: I64, areas: I64) -> tuple[I64, I64]:
    """Return each user's check-ins as outings in one area, in order of time, and their times in seconds."""
    n = len(users)
    by_area = np.lexsort((draws.random(n), areas, users))
    users, areas = users[by_area], areas[by_area]
    same = np.zeros(n, bool)
    same[1:] = (users[1:] == users[:-1]) & (areas[1:] == areas[:-1])
    outing = np.cumsum(~same | (draws.random(n) < SESSION_ENDS)) - 1
    place_in_time = np.lexsort((np.arange(n), draws.random(int(outing[-1]) + 1)[outing], users))
    outing, users = outing[place_in_time], users[place_in_time]
    inside = np.zeros(n, bool)
    inside[1:] = outing[1:] == outing[:-1]
    step = np.minimum(STEP_MINUTES * np.exp(0.8 * draws.standard_normal(n)), MOST_STEP_MINUTES) * 60
    pause = (BETWEEN_HOURS + MEAN_EXTRA_HOURS * draws.standard_exponential(n)) * 3600
    elapsed = np.cumsum(np.where(inside, step, pause).astype(np.int64))
    first = np.searchsorted(users, users)  # each user's clock starts at zero
    return by_area[place_in_time], FIRST_DAY + elapsed - elapsed[first]
