"""Data set `synthetic`, the default: interactions similar to MovieLens-100k, of any size.

The draws from a mixture of communities also serve `synthetic-checkins`. They take memory linear in the interactions.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from gossiprec.base.arrays import F32, F64, I64
from gossiprec.base.machine import usable_cores
from gossiprec.base.options import Count
from gossiprec.base.options import Options as OptionSet
from gossiprec.base.ragged import Ragged
from gossiprec.base.rng import generator
from gossiprec.data import DATASETS
from gossiprec.data.base import Dataset, SyntheticSizes
from gossiprec.data.split import (
    Interactions,
    Split,
    count_items_per_user,
    first_interactions,
    split_by_position,
)

USERS_PER_BLOCK = 4096
ROUNDS = 5
"""Rounds of rejection sampling before the few users who lack popular items are completed one by one."""


def draw_items(seed: int, counts: I64, members: F64, tastes: F64) -> tuple[I64, I64]:
    """Draw `counts[u]` distinct items for each user u, like draws one by one without replacement.

    Parameters
    ----------
    seed : int
    counts : ndarray of int, shape (n_users,)
        Each below n_items.
    members : ndarray, shape (n_users, n_communities)
        Proportions; rows add up to 1.
    tastes : ndarray, shape (n_communities, n_items)
        Item probabilities, all positive; rows add up to 1.

    Returns
    -------
    users, items : ndarray of int64, shape (counts.sum(),)
        Sorted by user, then item.
    """
    n_users, n_items = len(counts), tastes.shape[1]

    def keys(start: int) -> I64:
        rows, block = slice(start, start + USERS_PER_BLOCK), start // USERS_PER_BLOCK
        draws = generator(seed, "data.synthetic.draws", node=block)
        return np.sort(_draw_block(draws, counts[rows], members[rows], tastes)) + start * n_items

    with ThreadPoolExecutor(
        usable_cores()
    ) as threads:  # numpy does most of the work without the interpreter lock
        users, items = np.divmod(
            np.concatenate([*threads.map(keys, range(0, n_users, USERS_PER_BLOCK))]), n_items
        )
    return users, items


def _draw_block(draws: np.random.Generator, counts: I64, members: F64, tastes: F64) -> I64:
    """Return keys user * n_items + item; rejecting repeated items is drawing without replacement."""
    n_users, n_items = len(counts), tastes.shape[1]
    member_table, taste_table = _stacked_cdf(members), _stacked_cdf(tastes)
    kept = np.empty(0, np.int64)
    missing = counts
    for attempt in range(ROUNDS):
        users = np.repeat(np.arange(n_users), np.where(missing > 0, missing * (2 * attempt + 3) // 2 + 8, 0))
        communities = _pick(draws, member_table, users, members.shape[1])
        drawn = users * n_items + _pick(draws, taste_table, communities, n_items)
        fresh = _first_seen(kept, drawn)
        owners = fresh // n_items
        rank = np.arange(len(fresh)) - np.searchsorted(owners, owners)
        kept = np.concatenate([kept, fresh[rank < missing[owners]]])
        missing = counts - np.bincount(kept // n_items, minlength=n_users)
        if not missing.any():
            break
    return _complete(draws, kept, missing, members, tastes)


def _stacked_cdf(probabilities: F64) -> F64:
    """Return the cumulative probabilities of row r plus r, concatenated: one sorted array for all rows."""
    cumulative = np.cumsum(probabilities, axis=1)
    cumulative /= cumulative[:, -1:]
    return (cumulative + np.arange(len(cumulative))[:, None]).ravel()


def _pick(draws: np.random.Generator, table: F64, rows: I64, width: int) -> I64:
    found: I64 = np.searchsorted(table, rows + draws.random(len(rows)), side="right") - rows * width
    np.minimum(found, width - 1, out=found)  # a sum just below the next whole number may round up to it
    return found


def _first_seen(kept: I64, drawn: I64) -> I64:
    """Return the drawn keys that are neither kept nor repeated, in the order drawn."""
    _, first = np.unique(np.concatenate([kept, drawn]), return_index=True)
    return drawn[np.sort(first[first >= len(kept)]) - len(kept)]


def _complete(draws: np.random.Generator, kept: I64, missing: I64, members: F64, tastes: F64) -> I64:
    """Draw the missing items of users by an exponential race over all items: the earliest arrivals win."""
    n_items = tastes.shape[1]
    keys, own = [kept], Ragged.from_pairs(kept // n_items, kept % n_items, len(missing))
    for user in np.flatnonzero(missing).tolist():
        arrival = draws.standard_exponential(n_items) / (members[user] @ tastes)
        arrival[own[user]] = np.inf
        keys.append(user * n_items + np.argsort(arrival, kind="stable")[: missing[user]])
    return np.concatenate(keys)


ACTIVITY_MIXES = 0.2
"""Active users mix communities more: concentration grows as (items / mean items) to this power."""

AXIS_DECAY = 0.6
"""Spread of communities along a latent axis, relative to the axis before."""

OWN_NOISE = 1.2
"""Standard deviation of a community's taste that no axis explains."""

MAINSTREAM = 0.5
"""Standard deviation, between communities, of the exponent of popularity: some prefer popular items."""

MAX_LIFT = 4.0
"""Bound of the log odds that this preference adds; without it the rarest items would become the most popular."""

MARGIN_PULL = 0.45
"""Exponent by which tastes are pulled back to the popularity distribution: 0 not at all, 1 exactly."""

EXPLORATION = 0.01
"""Share of picks that ignore the community, so that every user can get every item."""


def draw_user_activity(seed: int, *, n_users: int, total: int, least: int, most: int, shape: float) -> I64:
    """Return the number of items of each user: `least` plus a gamma distribution, capped at `most`.

    The sum is exactly `total`. Requires n_users * least <= total <= n_users * most.
    """
    excess = _quantiles(n_users, shape)
    counts = least + _shares_up_to(excess, total - n_users * least, most - least)
    return generator(seed, "data.synthetic.activity").permutation(counts)


def draw_item_popularity(seed: int, *, n_items: int, shape: float) -> F64:
    """Return the share of each item, from a gamma distribution."""
    values = _quantiles(n_items, shape) + 1e-5
    return generator(seed, "data.synthetic.popularity").permutation(values / values.sum())


def draw_memberships(seed: int, counts: I64, *, n_communities: int, mixing: float) -> F64:
    """Return each user's proportions of communities, shape (n_users, n_communities): Dirichlet draws."""
    concentration = mixing * (counts / counts.mean()) ** ACTIVITY_MIXES
    draws = generator(seed, "data.synthetic.memberships").standard_gamma(
        concentration[:, None], (len(counts), n_communities)
    )
    draws += 1e-12  # a user with draws that all underflow belongs to all communities
    return np.asarray(draws / draws.sum(axis=1, keepdims=True))


def community_item_probabilities(seed: int, popular: F64, *, weights: F64, contrast: float) -> F64:
    """Return the probability of each item in each community, shape (n_communities, n_items).

    Parameters
    ----------
    seed : int
    popular : ndarray, shape (n_items,)
        Shares that the average over communities should approximate.
    weights : ndarray, shape (n_communities,)
        Share of all interactions in each community.
    contrast : float
        Standard deviation of the log odds along the latent axes.
    """
    n_communities, n_items = len(weights), len(popular)
    draws = generator(seed, "data.synthetic.tastes")
    log_odds = _spread_positions(draws, n_communities, contrast) @ draws.standard_normal(
        (n_communities - 1, n_items)
    )
    if contrast > 0:
        log_odds += OWN_NOISE * draws.standard_normal((n_communities, n_items))
        log_odds += _leaning_to_hits(draws, n_communities, popular)
    tastes = popular * np.exp(log_odds - log_odds.max(axis=1, keepdims=True))
    tastes /= tastes.sum(axis=1, keepdims=True)
    tastes *= (popular / (weights @ tastes)) ** MARGIN_PULL
    tastes /= tastes.sum(axis=1, keepdims=True)
    anything = 0.9 * popular + 0.1 / n_items
    return np.asarray((1 - EXPLORATION) * tastes + EXPLORATION * anything)


def _spread_positions(draws: np.random.Generator, n_communities: int, contrast: float) -> F64:
    """Return positions of communities on n - 1 orthogonal axes; none are similar by chance."""
    n_axes = n_communities - 1
    raw = draws.standard_normal((n_communities, n_axes))
    axes = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(n_communities)
    scale = AXIS_DECAY ** np.arange(n_axes)
    return np.asarray(axes * (contrast * scale / max(float(np.linalg.norm(scale)), 1e-12)))


def _leaning_to_hits(draws: np.random.Generator, n_communities: int, popular: F64) -> F64:
    """Return log odds that change the exponent of popularity from 1 by normally distributed amounts."""
    from scipy.special import ndtri  # checking a scenario does without

    normal: F64 = ndtri((np.arange(n_communities) + 0.5) / n_communities)
    leanings = MAINSTREAM * draws.permutation(normal)
    values = np.log(popular)
    return np.asarray(np.minimum(leanings[:, None] * (values - popular @ values), MAX_LIFT))


def _quantiles(count: int, shape: float) -> F64:
    from scipy.special import gammaincinv

    return np.asarray(gammaincinv(shape, (np.arange(count) + 0.5) / count))


LEAST_VALUE = 1e-280
"""Least quantile of a user's activity: those of very unequal users underflow."""


def _shares_up_to(values: F64, total: int, most: int) -> I64:
    """Divide `total` into whole parts proportional to `values`, none above `most`."""
    values = np.maximum(values, LEAST_VALUE)
    low, high = 0.0, (total + 1) / values.min() if total else 0.0
    while (
        low < (middle := (low + high) / 2) < high
    ):  # bisection of the factor that makes the capped parts add up
        low, high = (middle, high) if np.minimum(middle * values, most).sum() < total else (low, middle)
    exact = np.minimum(low * values, most)
    parts = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(parts - exact, kind="stable")
    parts[by_remainder[: total - int(parts.sum())]] += 1
    return parts


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

        users: int = Field(943, ge=1, le=100_000_000)
        items: int = Field(1682, ge=2, le=1_000_000)
        interactions: Count = Field(100_000)
        communities: int = Field(10, ge=1, le=256)
        mixing: PositiveFloat = 0.13
        """Dirichlet concentration of community memberships; lower values give purer memberships"""
        contrast: float = Field(4.5, ge=0, le=100)
        """distance between the tastes of communities; 0: all equal"""
        popularity: PositiveFloat = 0.38
        """gamma shape of item popularity; lower values are more unequal"""
        activity: PositiveFloat = 0.66
        """gamma shape of items per user; lower values are more unequal"""

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
    def synthetic_sizes(self) -> SyntheticSizes:
        """The size that the options request."""
        return SyntheticSizes.of(self.options, "interactions")

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
