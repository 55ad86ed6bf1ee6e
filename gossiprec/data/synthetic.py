"""Data set `synthetic`, the default: interactions similar to MovieLens-100k, of any size."""

from __future__ import annotations

import numpy as np
from pydantic import Field, model_validator

from gossiprec.base.arrays import F32, I64
from gossiprec.base.options import LARGEST
from gossiprec.base.options import Options as OptionSet
from gossiprec.base.rng import generator
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, SyntheticSizes
from gossiprec.data.split import Interactions, Split
from gossiprec.data.split_helpers import count_items_per_user, first_interactions, split_by_position
from gossiprec.data.synthetic_draws import (
    community_item_probabilities,
    draw_item_popularity,
    draw_items,
    draw_memberships,
    draw_user_activity,
)

MIN_PER_USER = 20
"""Least number of ratings per user in MovieLens."""

RATING_SHARES = (0.06, 0.11, 0.27, 0.34, 0.22)
"""Shares of the ratings 1 to 5 in MovieLens-100k, rounded."""

FIRST_DAY, DAYS = 874_713_600, 213
"""Midnight before the first rating of MovieLens-100k (Unix seconds), and the days it spans."""

SECONDS_PER_RATING = 30
"""Length of a user's only session, per rating; real users rate that fast."""


@DATASETS.register("synthetic")
class Synthetic(Dataset):
    """Users of a few latent communities, with the shape of MovieLens-100k by default.

    Each user belongs to communities in a proportion (few users to more than three). An interaction picks a community
    in that proportion, then an item by that community's taste, and no item twice. Taste is item popularity, modified
    by the distance between the item and the community on a few latent axes, by the community's preference for popular
    items, and by noise.

    Notes
    -----
    The default distributions were fitted to summary figures of MovieLens-100k (Gini index of items; mean, 10 %, 50 %
    and 90 % of users' top-50 Jaccard and its correlation with activity; eleven of the first 64 singular values;
    spread of users' mean log popularity) by random search and then by hand. Those figures do not determine how pure
    memberships are, which decides how much community detection finds under gossip. Therefore ``mixing`` and the
    number of communities were chosen by runs of the emulator itself, so that Rand-Gossip and FedAvg both give about
    the same results as on the real data. ``docs/data.md`` has the figures, ``tests/data/test_calibration.py`` checks
    them. Ratings and the order in time do not depend on taste.
    """

    class Options(OptionSet):
        """Sizes and distributions; the defaults are fitted to MovieLens-100k."""

        users: int = Field(943, ge=1, le=1_000_000)
        items: int = Field(1682, ge=2, le=1_000_000)
        interactions: int = Field(100_000, ge=1, le=LARGEST)
        communities: int = Field(10, ge=1, le=256)
        mixing: float = Field(
            0.13,
            gt=0,
            description="Dirichlet concentration of community memberships; lower values give purer memberships",
        )
        contrast: float = Field(
            4.5, ge=0, le=100, description="distance between the tastes of communities; 0: all equal"
        )
        popularity: float = Field(
            0.38, gt=0, description="gamma shape of item popularity; lower values are more unequal"
        )
        activity: float = Field(
            0.66, gt=0, description="gamma shape of items per user; lower values are more unequal"
        )

        @model_validator(mode="after")
        def _fit_the_grid(self) -> Synthetic.Options:
            most = self.users * self.items // 2
            if not self.users <= self.interactions <= most:
                raise ValueError(
                    f"interactions is {self.interactions}; allowed for {self.users} users and "
                    f"{self.items} items: {self.users} (one each) to {most} (half of all pairs)"
                )
            return self

    options: Options

    @property
    def drawn(self) -> SyntheticSizes:
        """The size that the options request."""
        opt = self.options

        def like(users: int) -> OptionSet:
            return opt.model_copy(
                update={"users": users, "interactions": round(users * opt.interactions / opt.users)}
            )

        return SyntheticSizes(opt.users, opt.interactions, like)

    def load(self, seed: int) -> Interactions:
        """Draw the interactions; equal seeds and options give equal ones."""
        opt = self.options
        least = min(MIN_PER_USER, opt.interactions // (2 * opt.users) + 1)
        counts = draw_user_activity(
            seed,
            n_users=opt.users,
            total=opt.interactions,
            least=least,
            most=max(least, opt.items * 3 // 4),
            shape=opt.activity,
        )
        members = draw_memberships(seed, counts, n_communities=opt.communities, mixing=opt.mixing)
        tastes = community_item_probabilities(
            seed,
            draw_item_popularity(seed, n_items=opt.items, shape=opt.popularity),
            weights=counts @ members / counts.sum(),
            contrast=opt.contrast,
        )
        users, items = draw_items(seed, counts, members, tastes)
        return Interactions(
            name="synthetic",
            users=users,
            items=items,
            n_users=opt.users,
            n_items=opt.items,
            ratings=_ratings(seed, len(users)),
            times=_times(seed, counts, users),
        )

    def published_split(self, interactions: Interactions) -> Split:
        """Hold out items like the published split of MovieLens-100k, by the drawn times.

        Each user has ten test items (or half of the least active user's items if that is fewer), and a tenth of the
        rest, rounded down, for validation.
        """
        pairs = first_interactions(interactions)
        counts = count_items_per_user(pairs)
        n_test = np.full(pairs.n_users, min(10, int(counts.min()) // 2))
        order = np.zeros(len(pairs.users)) if pairs.times is None else pairs.times
        return split_by_position(pairs, order, n_test=n_test, n_validation=(counts - n_test) // 10)


def _ratings(seed: int, count: int) -> F32:
    draws = generator(seed, "data.synthetic.ratings").random(count)
    return (1 + np.searchsorted(np.cumsum(RATING_SHARES)[:-1], draws)).astype(np.float32)


def _times(seed: int, counts: I64, users: I64) -> I64:
    draws = generator(seed, "data.synthetic.times")
    start = FIRST_DAY + draws.integers(0, DAYS * 86_400, len(counts))
    return start[users] + (draws.random(len(users)) * SECONDS_PER_RATING * counts[users]).astype(np.int64)
