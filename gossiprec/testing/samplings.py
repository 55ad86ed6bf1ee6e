"""Contract of view exchanges: views hold other nodes, and draws belong to the wake."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from gossiprec.data.loading import keep_first_users
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.network.overlay.base import OverlayContext, UserProfiles
from gossiprec.network.overlay.view_exchange import ExchangedViews, ExchangeOptions
from gossiprec.network.sim.availability import Availability
from gossiprec.scenario import load_scenario
from gossiprec.testing.contract_checks import check_claims
from gossiprec.testing.tiny_runs import CITY, tiny_scenario

FANOUT = 3


@dataclass(frozen=True)
class SamplingCase:
    """A sampling with its options, and users with known likes and homes."""

    sampling: type[ExchangedViews]
    options: ExchangeOptions
    split: Split

    @property
    def fewest(self) -> int:
        """Number of nodes that fill a view and include its owner."""
        return self.options.size + 1

    def views(self, n_nodes: int, seed: int = 1, gone: Sequence[int] = ()) -> ExchangedViews:
        """Return views of nodes, some of which are permanently offline."""
        online = [node not in gone for node in range(n_nodes)]
        availability = Availability(online, [np.zeros(0)] * n_nodes)
        profiles = UserProfiles.of(keep_first_users(self.split, n_nodes))
        return self.sampling(self.options, OverlayContext(n_nodes, FANOUT, seed, availability, profiles))


def check_sampling(sampling: type[ExchangedViews], options: Mapping[str, Any] | None = None) -> None:
    """Check a way of exchanging views by playing it.

    Parameters
    ----------
    sampling : type of ExchangedViews
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario's ``view``, without the name. By default views hold 4 peers.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    (name,) = get_args(sampling.Options.model_fields["sampling"].annotation)
    chosen = sampling.Options.model_validate({"sampling": name, "size": 4, **(options or {})})
    city = {**CITY, "users": chosen.size + 16, "checkins": 20 * (chosen.size + 16)}
    data = load_data(load_scenario(tiny_scenario(dataset=city)))
    check_claims(f"the sampling {sampling.__name__}", SamplingCase(sampling, chosen, data), CLAIMS)


def _wakes(case: SamplingCase) -> Iterator[tuple[ExchangedViews, int, list[int]]]:
    """Yield the views of small networks after each wake, the node that woke, and its receivers."""
    for more, seed, gone in itertools.product((0, 3, 7), range(4), ((), (0,), (1, 4), (0, 2, 3))):
        n_nodes = case.fewest + more
        views = case.views(n_nodes, seed, gone)
        for number, node in itertools.product(range(6), range(n_nodes)):
            if node not in gone:
                yield views, node, list(views.next_receivers(node, float(number)))


def views_hold_distinct_others(case: SamplingCase) -> None:
    """Hold in each view up to `size` distinct existing nodes, never the node itself."""
    for views, _, _ in _wakes(case):
        for owner, own in enumerate(views.views):
            assert len(own) <= case.options.size, f"The view of node {owner} holds {len(own)} peers."
            assert owner not in own, f"Node {owner} has itself in its view."
            assert set(own) <= set(range(views.n_nodes)), f"The view of node {owner} holds {sorted(own)}."


def wakes_send_to_peers_of_the_view(case: SamplingCase) -> None:
    """Send to as many distinct peers of the view as the fanout says, or to all of it."""
    for views, node, receivers in _wakes(case):
        due = min(FANOUT, len(views.views[node]))
        assert len(set(receivers)) == len(receivers) == due, f"Found {receivers}, must be {due} peers."
        assert set(receivers) <= set(views.views[node]), f"Found {receivers} of {sorted(views.views[node])}."


def views_follow_from_the_seed(case: SamplingCase) -> None:
    """Be played equally with the same seed, and otherwise with another."""

    def played(seed: int) -> Any:
        nodes = range(case.split.n_users)
        views = case.views(len(nodes), seed)
        sent = [list(views.next_receivers(node, float(n))) for n, node in itertools.product(range(5), nodes)]
        return sent, [list(own.items()) for own in views.views]

    assert played(1) == played(1), "Two plays of the same seed differ."
    assert played(1) != played(2), "Another seed changes nothing."


def a_missed_wake_takes_its_draws_with_it(case: SamplingCase) -> None:
    """Draw for a node's wake the same words, whether the wake before it happened or not."""
    awake, away = case.views(case.fewest), case.views(case.fewest)
    awake.next_receivers(2, 0.0)
    away.on_missed_wake(2, 0.0)
    assert awake._words.take(2) == away._words.take(2), "The words of wake 1 differ."


def a_node_alone_sends_to_nobody(case: SamplingCase) -> None:
    """Send to no node, and know no node, after some wakes without others."""
    views = case.views(case.fewest, gone=range(1, case.fewest))
    for number in range(2 * case.options.size):
        receivers = list(views.next_receivers(0, float(number)))
    assert receivers == [], f"Found {receivers} after {number + 1} wakes."
    assert not views.views[0], f"The view holds {sorted(views.views[0])} after {number + 1} wakes."


def a_node_that_knows_nobody_is_introduced(case: SamplingCase) -> None:
    """Send to a node that is online, if to any, after a node has lost all its peers."""
    other = case.fewest - 1
    for seed in range(4):
        views = case.views(case.fewest, seed, gone=range(1, other))
        views.views = [{} for _ in views.views]
        receivers = list(views.next_receivers(0, 1.0))
        assert receivers in ([other], []), f"Found {receivers}, where node {other} alone is online."


CLAIMS = (
    views_hold_distinct_others,
    wakes_send_to_peers_of_the_view,
    views_follow_from_the_seed,
    a_missed_wake_takes_its_draws_with_it,
    a_node_alone_sends_to_nobody,
    a_node_that_knows_nobody_is_introduced,
)
