"""The laws of latencies, sessions and computation times. Levels and tolerances as in ``test_draw_laws``."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.rng import normals, purpose_id
from gossiprec.network.sim.availability import AlternatingAvailability, Availability, PeriodicAvailability
from gossiprec.network.sim.clock import Constant, Empirical, Exponential, Lognormal, Uniform, Weibull
from gossiprec.network.sim.network import Latency, Network

LEVEL = 0.001
N = 20_000
LAWS = {
    "uniform": (Uniform(0.5, 2.0), stats.uniform(0.5, 1.5)),
    "exponential": (Exponential(0.7), stats.expon(scale=0.7)),
    "weibull": (Weibull(2.0, 0.6), stats.weibull_min(0.6, scale=2.0)),
    "lognormal": (Lognormal(0.3, 0.8), stats.lognorm(0.8, scale=0.3)),
}
laws = pytest.mark.parametrize(("law", "known"), LAWS.values(), ids=LAWS)


def draws(law, n=N):
    return law.draw(1, np.arange(n), 3, purpose_id("test"))


def test_normal_draws_are_normal():
    """Kolmogorov-Smirnov on 20,000 draws."""
    assert stats.kstest(normals(1, np.arange(N), 3, 7), "norm").pvalue > LEVEL


@laws
def test_draws_follow_the_law(law, known):
    """Kolmogorov-Smirnov on 20,000 draws."""
    assert stats.kstest(draws(law), known.cdf).pvalue > LEVEL


@laws
def test_the_mean_is_the_laws(law, known):
    assert law.mean == pytest.approx(known.mean())


@laws
def test_times_in_progress_are_biased_by_their_length(law, known):
    """Their distribution function is the integral of ``t f(t)`` over the mean, here by numbers at nine quantiles."""
    levels = np.linspace(0.1, 0.9, 9)
    for level, time in zip(levels, law.length_biased_quantiles(levels), strict=True):
        assert known.expect(lambda t: t, ub=float(time)) / known.mean() == pytest.approx(level, abs=1e-4)


def test_a_trace_is_drawn_with_replacement():
    """Four values in 20,000 draws: chi-squared with three degrees of freedom."""
    law = Empirical(np.array([1.0, 2.0, 3.0, 4.0]))
    counts = np.unique(draws(law), return_counts=True)[1]

    assert stats.chisquare(counts).pvalue > LEVEL
    assert law.mean == 2.5


@pytest.mark.parametrize(
    ("end", "tail"), [("repeat", [5.0, 7.0]), ("hold", [6.0, 6.0]), ("refuse", [6.0, 6.0])]
)
def test_a_trace_in_sequence_gives_every_node_its_values_in_turn(end, tail):
    law = Empirical(np.array([5.0, 7.0, 6.0]), order="sequence", end=end)

    assert law.draw(1, np.arange(5), 9, 0).tolist() == [5.0, 7.0, 6.0, *tail]
    assert law.length == (3 if end == "refuse" else None)


def test_times_in_progress_of_a_trace_are_met_as_often_as_they_are_long():
    law = Empirical(np.array([3.0, 1.0]))

    assert law.length_biased_quantiles(np.array([0.1, 0.24, 0.26, 0.9])).tolist() == [1.0, 1.0, 3.0, 3.0]


@pytest.mark.parametrize(("per", "distinct"), [("message", 20 * 50), ("node", 20), ("pair", 20 * 10)])
def test_latencies_are_drawn_per_message_node_or_pair(per, distinct):
    latency = Latency(Exponential(1.0), per=per, n_nodes=20, seed=1)
    network = Network(latency, seed=1)
    found = [network.message_delay(sender, k % 10, 0.0) for sender in range(20) for k in range(50)]

    assert len(set(found)) == distinct
    if per != "message":
        repeated = Network(latency, seed=1)
        assert [repeated.message_delay(3, k % 10, 0.0) for k in range(20)] == found[150:170]


@pytest.mark.parametrize("per", ["message", "node", "pair"])
def test_a_hub_draws_what_it_would_draw_as_any_node(per):
    latency = Latency(Exponential(1.0), per=per, n_nodes=4, seed=1)
    plain, star = (Network(latency, loss=0.2, hub=hub, seed=1) for hub in (False, True))

    for sender in (3, 0, 3):
        drawn = [
            [network.message_delay(sender, k % 3, 0.0) for k in range(1500)] for network in (plain, star)
        ]
        assert drawn[0] == drawn[1]


def test_messages_are_copied_and_held_back_with_the_stated_probabilities():
    """20,000 messages: deviations sqrt(0.3 * 0.7 / 20000) = 0.0032 and sqrt(0.1 * 0.9 / 20000) = 0.0021; five each."""
    latency = Latency(Constant(1.0), n_nodes=2, seed=1)
    network = Network(latency, duplication=0.3, reordering=(0.1, 5.0), seed=1)
    copies = sum(len(network.with_copies(0, [1])) - 1 for _ in range(N))
    delays = np.array([network.message_delay(0, 1, 0.0) for _ in range(N)])

    assert copies / N == pytest.approx(0.3, abs=0.016)
    assert (delays == 6.0).mean() == pytest.approx(0.1, abs=0.011)
    assert set(delays) == {1.0, 6.0}


SESSIONS = {
    "exponential": (Exponential(3.0), Exponential(1.0)),
    "weibull": (Weibull(4.0, 0.7), Weibull(1.0, 2.0)),
    "lognormal and constant": (Lognormal(2.0, 1.0), Constant(1.5)),
    "uniform": (Uniform(1.0, 3.0), Uniform(0.5, 0.6)),
}


@pytest.mark.parametrize("online_at", [0.0, 0.3, 7.0])
@pytest.mark.parametrize(("online", "offline"), SESSIONS.values(), ids=SESSIONS)
def test_stationary_sessions_have_the_same_share_online_at_every_time(online, offline, online_at):
    """4,000 independent nodes: deviation sqrt(p (1 - p) / 4000), at most 0.0079; five of them."""
    nodes = np.arange(4000)
    availability = Availability(
        *AlternatingAvailability(online, offline, stationary=True).draw_sessions(nodes, 10.0, 1)
    )

    share = online.mean / (online.mean + offline.mean)
    deviation = math.sqrt(share * (1 - share) / 4000)
    assert availability.online_at(online_at).mean() == pytest.approx(share, abs=5 * deviation)


def test_sessions_that_begin_with_the_run_last_as_the_law_says():
    """Kolmogorov-Smirnov on the first session of 4,000 nodes, and on the absence that follows."""
    online, offline = Weibull(2.0, 0.7), Exponential(0.5)
    starts, changes = AlternatingAvailability(online, offline, stationary=False).draw_sessions(
        np.arange(4000), 200.0, 1
    )

    assert starts.all()
    first = np.array([times[0] for times in changes])
    second = np.array([times[1] - times[0] for times in changes])
    assert stats.kstest(first, stats.weibull_min(0.7, scale=2.0).cdf).pvalue > LEVEL
    assert stats.kstest(second, stats.expon(scale=0.5).cdf).pvalue > LEVEL


def test_more_nodes_shift_nobodys_sessions():
    law = AlternatingAvailability(Exponential(3.0), Exponential(1.0), stationary=True)
    few, many = law.draw_sessions(np.arange(3, 5), 50.0, 1), law.draw_sessions(np.arange(50), 50.0, 1)

    assert few[0].tolist() == many[0][3:5].tolist()
    assert [times.tolist() for times in few[1]] == [times.tolist() for times in many[1][3:5]]


def test_nights_come_every_period():
    availability = Availability(
        *PeriodicAvailability(period=10.0, begin=0.0, end=4.0, jitter=0.0).draw_sessions(
            np.arange(2), 25.0, 1
        )
    )

    assert [availability.is_online(0, t) for t in (0.0, 3.9, 4.0, 9.9, 10.0, 14.0, 23.0, 24.0)] == [
        0,
        0,
        1,
        1,
        0,
        1,
        0,
        1,
    ]


def test_nights_vary_by_no_more_than_the_jitter():
    _, changes = PeriodicAvailability(period=10.0, begin=3.0, end=6.0, jitter=0.5).draw_sessions(
        np.arange(50), 1000.0, 1
    )
    shifts = np.concatenate([times % 10.0 - np.where(times % 10.0 < 4.5, 3.0, 6.0) for times in changes])

    assert np.abs(shifts).max() <= 0.5
    assert stats.kstest(shifts, stats.uniform(-0.5, 1.0).cdf).pvalue > LEVEL
