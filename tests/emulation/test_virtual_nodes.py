"""Virtual nodes: observers see pieces under names that do not tell the node, and results are those of its node."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.emulation import prepare, simulate
from gossiprec.measures.attack_accuracy import linked_share
from gossiprec.scenario import load_scenario
from tests.emulation.tiny_runs import SINGLE, tiny

POOL = {**SINGLE, "who": "coalition", "fraction": 0.4, "momentum": 0.5}
LOSSY = {"loss": 0.1, "duplication": 0.3, "latency": {"law": "exponential", "mean": 0.4}}


def world(*, virtual=True, **sections):
    policies = [{"name": "chunks", "nodes": "all", "pieces": 3, "virtual_nodes": virtual}]
    return tiny(**{"policies": policies, "observers": [SINGLE, POOL], "network": LOSSY, **sections})


@pytest.fixture(scope="module")
def seen():
    """Return a prepared run, its rankings at the end, and by meter the (name, sender, piece) of what its attack saw."""
    prepared = prepare(load_scenario(world()))
    layout, found = prepared.components.layout, [set() for _ in prepared.meters]
    for meter, own in zip(prepared.meters, found, strict=True):

        def observe(shown, own=own, attack=meter.attack, kept=meter.attack.observe):
            names, messages = shown.senders.tolist(), shown.messages.tolist()
            for name, message, row in zip(names, messages, shown.rows.tolist(), strict=True):
                pieces.append((message, np.asarray(shown.raw.rows[row, :])[: layout.shared.stop].copy()))
                own.add((name, int(prepared.deliveries.sender[message]), message))
            kept(shown)

        meter.attack.observe = observe
    pieces = []
    for _ in prepared.schedule.play(prepared.tape_runner().run_segment):
        pass
    return prepared, [r for meter in prepared.ranking_meters for r in meter.rankings_by_node()], found


def test_each_view_names_a_node_by_one_name_and_no_two_nodes_by_the_same(seen):
    prepared, _, found = seen
    views = [{(name, sender) for name, sender, _ in own} for own in found]

    assert len(prepared.meters) == 6  # two observers, three pieces
    for pairs in views:
        assert len({name for name, _ in pairs}) == len({sender for _, sender in pairs}) == len(pairs)
    names = [{sender: name for name, sender in pairs} for pairs in views]
    assert sum(name != sender for own in names for sender, name in own.items()) > 40
    assert all(names[one] != names[other] for one, other in ((1, 3), (1, 5), (3, 5)))


def test_the_views_of_an_observer_share_no_message_and_lack_none(seen):
    prepared, _, found = seen
    messages = [{message for *_, message in own} for own in found]
    received = prepared.schedule.deliveries.message[
        np.isin(prepared.schedule.deliveries.receiver, prepared.meters[1].attack.pools[0])
    ]

    parts = messages[1::2]
    assert sum(map(len, parts)) == len(set.union(*parts))
    copies = set(received.tolist()) - set.union(*parts)
    assert len(copies) < len(received) / 4  # a pool sees each copy once


def test_scores_are_given_by_node_and_never_of_the_adversary_itself(seen):
    _, rankings, found = seen
    pool = rankings[1]

    for view, scores in enumerate((pool.scores, *pool.views)):
        heard = {sender for _, sender, _ in found[2 * view + 1]}
        assert set(np.flatnonzero(~np.isnan(scores).all(axis=0)).tolist()) == heard
        own = scores[np.arange(len(pool.adversaries)), pool.adversaries]
        assert np.isnan(own).all()
        assert np.isnan(scores[:, sorted(heard)]).sum() == len(heard & set(pool.adversaries.tolist()))


def test_models_are_those_without_virtual_nodes_and_the_link_is_reported(tmp_path):
    runs = {v: simulate(world(virtual=v), out=tmp_path / str(v)) for v in (False, True)}

    assert (runs[True].path / "metrics.csv").read_bytes() == (runs[False].path / "metrics.csv").read_bytes()
    linked = [found for found in runs[True].summary["findings"] if found["measure"] == "linked_share"]
    assert [found["labels"]["observer"] for found in linked] == ["coalition-40%"]
    assert 0 <= linked[0]["value"] <= 1
    assert "findings" not in runs[False].summary


def test_virtual_nodes_are_linked_by_their_profiles_and_ties_are_guesses():
    rng = np.random.default_rng(4)
    profile = rng.normal(size=(6, 40)).astype(np.float32)
    unknown = profile.copy()
    unknown[:, ::2] = np.nan

    assert linked_share([profile, 3 * profile + 1]) == 1.0
    assert linked_share([profile, unknown]) == 1.0
    assert linked_share([profile, rng.normal(size=(6, 40))]) < 0.2
    assert linked_share([np.ones((3, 5)), np.ones((3, 5))]) == pytest.approx(1 / 5)


SHARE_LESS = {"name": "share-less", "nodes": "all"}
CHUNKS = world()["policies"][0]


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"observers": [{**POOL, "name": "entropy-mia"}]}, "entropy-mia draws conclusions about nodes"),
        ({"policies": [CHUNKS, SHARE_LESS]}, "withholds users' rows"),
        (
            {"protocol": {"name": "rand-gossip", "wakes": 4, "user_table": "averaged"}},
            "holds rows of all users",
        ),
        (
            {"policies": [{**CHUNKS, "nodes": [0, 1]}, {**CHUNKS, "nodes": [2, 3], "pieces": 2}]},
            "found 2 policies with virtual nodes",
        ),
    ],
)
def test_what_would_tell_the_node_is_refused(sections, message):
    if "observers" in sections:
        sections["observers"][0].pop("reference_items")
    with pytest.raises(ScenarioError, match=message):
        prepare(load_scenario(world(**sections)))


def test_equal_scores_link_no_virtual_nodes():
    """Each adversary scores all victims equally; their mean, less a rounding error, must not show who met whom."""
    rng = np.random.default_rng(3)
    view = np.where(rng.random((6, 40)) < 0.6, rng.normal(size=(6, 1)), np.nan).astype(np.float32)
    met = (~np.isnan(view)).any(axis=0).sum()
    assert linked_share([view, view]) == pytest.approx(1 / met)
