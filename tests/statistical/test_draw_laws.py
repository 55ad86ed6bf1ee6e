"""The laws of the control plane's draws.

Seeds are fixed, so a test passes always or never. Levels are 0.001: of a hundred changes that keep the laws but
shift the draws, one in ten breaks one of these tests. Tolerances are five deviations, derived where they stand.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from gossiprec.base.rng import NodeStreams, distinct_below, exponentials, purpose_id, uniforms
from gossiprec.compute.plan.tape import TapeEvent
from gossiprec.network.overlay.views import PoissonRefresh, RandomViews
from gossiprec.network.sim.clock import Constant, Exponential, WakeClock
from gossiprec.network.sim.network import Latency, Network
from gossiprec.testing.tapes import make_test_protocol, record_tape

LEVEL = 0.001


def network_of(n_nodes, law, loss):
    """Return a network whose latencies follow a law."""
    return Network(Latency(law, n_nodes=n_nodes, seed=1), loss=loss, seed=1)


def delays_of(network, senders=range(20), each=1000):
    """Return the delays of each sender's first messages to node 0; negative: lost."""
    return np.array([network.message_delay(sender, 0, 0.0) for sender in senders for _ in range(each)])


def test_wake_intervals_are_exponential():
    """Kolmogorov-Smirnov on 50 nodes x 400 intervals."""
    intervals = WakeClock(range(50), mean=2.0, seed=1).intervals(0, 400)

    assert stats.kstest(intervals.ravel() / 2.0, "expon").pvalue > LEVEL


def test_intervals_of_one_node_and_of_two_nodes_are_uncorrelated():
    """A correlation over n independent pairs has a deviation of 1 / sqrt(n); here n is about 20,000."""
    intervals = WakeClock(range(50), mean=1.0, seed=2).intervals(0, 400)
    in_time = np.corrcoef(intervals[:, 1:].ravel(), intervals[:, :-1].ravel())[0, 1]
    in_nodes = np.corrcoef(intervals[1:].ravel(), intervals[:-1].ravel())[0, 1]

    assert abs(in_time) < 5 / math.sqrt(50 * 399)
    assert abs(in_nodes) < 5 / math.sqrt(49 * 400)


def test_a_fixed_clock_draws_once_a_node():
    intervals = WakeClock(range(3000), mean=2.0, redraw=False, seed=1).intervals(5, 4)

    assert (intervals == intervals[:, :1]).all()
    assert stats.kstest(intervals[:, 0] / 2.0, "expon").pvalue > LEVEL


def test_a_constant_clock_ticks():
    assert (
        WakeClock(range(2), mean=0.5, distribution="constant", seed=1).intervals(0, 3).tolist()
        == [[0.5] * 3] * 2
    )


def test_wakes_of_the_whole_run_come_at_the_rate_of_a_poisson_process():
    """200 nodes for 30 periods: 6000 wakes are expected, with a deviation of sqrt(6000) = 77."""
    segments, _ = record_tape(make_test_protocol("rand-gossip", 200, wakes=100))

    assert (segments[0].time < 30.0).sum() == pytest.approx(6000, abs=5 * 77)


def views_of(n, size, wakes=64, seed=1, mean=1e-9):
    clock = WakeClock(range(n), mean=1.0, seed=seed)
    refresh = PoissonRefresh(clock, mean=mean, seed=seed)
    views = RandomViews(n, size=size, fanout=size, refresh=refresh, seed=seed)
    return np.array([[views.next_receivers(node) for _ in range(wakes)] for node in range(n)])


def test_views_hold_distinct_others():
    views = views_of(9, 8)

    assert (np.sort(views, axis=2) == [[[p for p in range(9) if p != node]] for node in range(9)]).all()


def test_peers_are_uniform_over_the_others():
    """Chi-square on 20 nodes x 640 fresh views of 3: 2021 draws expected of each node, 19 degrees of freedom.

    Peers of one view are distinct, which makes the counts less variable than the chi-square law has it, so both
    tails are looked at.
    """
    views = views_of(20, 3, wakes=640)
    found = stats.chisquare(np.bincount(views.ravel(), minlength=20))

    assert LEVEL < found.pvalue < 1 - LEVEL


@pytest.mark.parametrize("place", range(3))
def test_each_place_in_a_view_is_uniform_over_the_others(place):
    """Chi-square on 10 nodes x 1280 views, by distance on the circle of ids: 9 values, 1422 expected of each."""
    views = views_of(10, 3, wakes=1280)
    distance = (views[..., place] - np.arange(10)[:, None]) % 10

    counts = np.bincount(distance.ravel(), minlength=10)
    assert counts[0] == 0
    assert stats.chisquare(counts[1:]).pvalue > LEVEL


def test_ordered_choices_are_uniform():
    """Chi-square on 24,000 ordered choices of 3 out of 4: 24 outcomes, 1000 expected of each."""
    words = np.random.default_rng(1).integers(0, 2**32, (24_000, 3), dtype=np.uint32)
    chosen = distinct_below(words, 4) @ [16, 4, 1]

    found = np.unique(chosen, return_counts=True)[1]
    assert len(found) == 24
    assert stats.chisquare(found).pvalue > LEVEL


@pytest.mark.parametrize("mean", [0.1, 1.0, 4.0])
def test_a_wake_finds_a_fresh_view_as_often_as_the_refresh_clock_says(mean):
    """Probability over intervals L ~ Exp(1): E[1 - exp(-L / mean)] = 1 - mean / (1 + mean) = 1 / (1 + mean).

    40,000 wakes: the deviation is at most 0.5 / sqrt(40000) = 0.0025.
    """
    clock = WakeClock(range(100), mean=1.0, seed=3)
    drawn = PoissonRefresh(clock, mean=mean, seed=3).are_redrawn(0, 400)

    assert drawn.mean() == pytest.approx(1 / (1 + mean), abs=0.0125)


def test_views_change_when_they_are_refreshed_and_only_then():
    """A fresh view of 3 out of 99 equals the old one, as an ordered list, with probability 1 / 941,094."""
    views = views_of(100, 3, wakes=200, mean=1.0)
    clock = WakeClock(range(100), mean=1.0, seed=1)
    drawn = PoissonRefresh(clock, mean=1.0, seed=1).are_redrawn(0, 200)

    assert ((views[:, 1:] != views[:, :-1]).any(axis=2) == drawn[:, 1:]).all()


def test_latencies_are_exponential():
    """Kolmogorov-Smirnov on 20 senders x 1000 messages."""
    network = network_of(20, Exponential(0.3), loss=0.0)
    delays = delays_of(network)

    assert stats.kstest(delays / 0.3, "expon").pvalue > LEVEL


@pytest.mark.parametrize("law", [Constant(0.3), Exponential(0.3)])
def test_messages_are_lost_with_the_stated_probability(law):
    """20,000 messages: the deviation is sqrt(0.2 * 0.8 / 20000) = 0.0028."""
    network = network_of(20, law, loss=0.2)
    assert np.mean(delays_of(network) < 0) == pytest.approx(0.2, abs=0.014)


def test_loss_does_not_depend_on_latency():
    """Of messages with short and long latency as many are lost: the arrived ones stay exponential."""
    network = network_of(20, Exponential(0.3), loss=0.5)
    delays = delays_of(network)

    assert stats.kstest(delays[delays >= 0] / 0.3, "expon").pvalue > LEVEL


@pytest.mark.parametrize(
    "wake", [{}, {"law": "constant"}, {"redraw": False}], ids=["redrawn", "constant", "fixed"]
)
@pytest.mark.parametrize(
    "refresh", [{"mean": 0.1}, {"mean": 2.0}, {"every": 6}], ids=["fast", "slow", "every 6"]
)
@pytest.mark.parametrize("fanout", [1, 3])
@pytest.mark.cases(8)
def test_the_fraction_met_is_as_predicted(wake, refresh, fanout):
    """Receivers of N = 300 nodes after 60 wakes each, views of P = 3.

    A pair (receiver, sender) has met unless each of V views missed it: (1 - P / (N - 1))**V, which
    exp(-P V / (N - 1)) exceeds by less than P**2 V / (2 (N - 1)**2) = 0.003. V differs between senders, with a
    deviation below sqrt(60) for random intervals and of up to 15 for one slow clock a node (fresh views are
    60 L / (L + m) for intervals L ~ Exp(1)); averaging over V adds at most (P / (N - 1))**2 * 15**2 / 2 = 0.011.
    Over 300 * 299 pairs chance adds 0.5 / sqrt(300 * 60) = 0.004, as the 60 wakes of a sender decide up to 180
    of its pairs together. The tolerance is 0.003 + 0.011 + 3 * 0.004; predictions lie between 0.06 and 0.42.
    """
    options = {"fanout": fanout, "wakes": 60, "wake": wake, "view": {"size": 3, "refresh": refresh}}
    control = make_test_protocol("rand-gossip", 300, **options)
    (segment,), _ = record_tape(control)

    met = len(set(zip(segment.receiver.tolist(), segment.sender.tolist(), strict=True))) / (300 * 299)

    assert met == pytest.approx(control.predicted_fraction_met(60), abs=0.026)


def test_an_epidemic_meets_the_fraction_that_it_predicts():
    """As above with exact views: the tolerance is chance's 3 * 0.004."""
    control = make_test_protocol("epidemic", 300, receivers=2, wakes=60)
    (segment,), _ = record_tape(control)

    met = len(set(zip(segment.receiver.tolist(), segment.sender.tolist(), strict=True))) / (300 * 299)

    assert met == pytest.approx(control.predicted_fraction_met(60), abs=0.012)
    assert len(segment.receiver) == 300 * 60 * 2


def fraction_met(control, n_users):
    """Return the share of pairs of users' nodes of which one has received a model of the other."""
    (segment,), _ = record_tape(control)
    arrived = segment.kind == TapeEvent.DELIVER
    pairs = np.stack([segment.node[arrived], segment.sender[segment.message[arrived]]])
    pairs = pairs[:, (pairs < n_users).all(axis=0)]
    return len(np.unique(pairs, axis=1).T) / (n_users * (n_users - 1))


@pytest.mark.parametrize("options", [{}, {"exchange": "pull", "receivers": 2}], ids=["push-pull", "pull"])
@pytest.mark.full
def test_push_pull_meets_the_fraction_that_it_predicts(options):
    """As above; an exchange decides two pairs together, which at most doubles chance's variance."""
    control = make_test_protocol("push-pull", 300, wakes=60, **options)

    assert fraction_met(control, 300) == pytest.approx(control.predicted_fraction_met(60), abs=0.017)


@pytest.mark.parametrize("rounds", [1, 6, 20])
def test_heads_meet_the_fraction_that_they_predict(rounds):
    """Clusters are certain; of the share of 40 * 39 pairs of heads chance decides 0.5 / sqrt(40 * 39) = 0.013."""
    options = {"clusters": 40, "fanout": 3, "rounds": rounds}
    control = make_test_protocol("semi-decentralised", 120, **options)

    share_of_heads = 40 * 39 / (120 * 119)
    predicted = control.predicted_fraction_met(rounds)
    assert fraction_met(control, 120) == pytest.approx(predicted, abs=3 * 0.013 * share_of_heads)
    assert predicted > 2 * 80 / (120 * 119)


def test_fedavg_asks_every_client_equally_often():
    """Chi-square on 500 rounds that ask 3 of 10 clients; as sampling is without repetition, both tails."""
    (segment,), _ = record_tape(make_test_protocol("fedavg", 10, rounds=500, participation=0.3), every=1e9)
    asked = segment.receiver[segment.receiver < 10]

    assert LEVEL < stats.chisquare(np.bincount(asked, minlength=10)).pvalue < 1 - LEVEL


@pytest.mark.parametrize("draws", [exponentials, uniforms])
def test_draws_do_not_depend_on_the_others_that_are_made(draws):
    purpose = purpose_id("wake")
    alone = draws(1, 7, 3, purpose)

    assert draws(1, np.arange(5, 9), np.arange(10)[:, None], purpose)[3, 2] == alone
    assert (
        len({float(draws(*at)) for at in [(1, 7, 3, purpose), (2, 7, 3, purpose), (1, 8, 3, purpose)]}) == 3
    )
    assert draws(1, 7, 4, purpose) != alone
    assert draws(1, 7, 3, purpose_id("latency")) != alone


def test_more_nodes_shift_nobodys_clock():
    few, many = (WakeClock(range(n), mean=1.0, seed=1) for n in (5, 50))

    assert [few.next_interval(3) for _ in range(100)] == [many.next_interval(3) for _ in range(100)]


def test_more_nodes_shift_nobodys_latency():
    few, many = (network_of(n, Exponential(1.0), loss=0.1) for n in (5, 50))

    assert delays_of(few, [3], 100).tolist() == delays_of(many, [3], 100).tolist()


def test_streams_give_each_node_its_draws_in_any_order_of_asking():
    def stream():
        return NodeStreams(
            3, lambda first, count: np.arange(first, first + count) + 1000 * np.arange(3)[:, None]
        )

    one, other = stream(), stream()
    in_turn = [[one.next_draw(node) for node in range(3)] for _ in range(100)]
    node_by_node = [[other.next_draw(node) for _ in range(100)] for node in range(3)]

    assert node_by_node == [[1000 * node + k for k in range(100)] for node in range(3)]
    assert np.transpose(in_turn).tolist() == node_by_node
