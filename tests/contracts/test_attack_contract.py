"""What every registered attack keeps to; and that the contract catches those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from gossiprec.adversaries.attacks import ATTACKS, Attack, ItemSets, Ranking
from gossiprec.adversaries.attacks.findings import Finding
from gossiprec.base.errors import PluginError
from gossiprec.base.options import Options
from gossiprec.emulation import simulate
from gossiprec.emulation.scoring import ranking_scores
from gossiprec.measures.attack_accuracy import accuracies, guess_top_victims
from gossiprec.measures.communities import Communities
from gossiprec.testing import check_attack, check_ties, temporarily_registered
from tests.emulation.guessing_attack import Guessing
from tests.emulation.tiny_runs import tiny
from tests.slow import slow_except_first

RULES = ["standardized", "ndcg", "mean_score"]
CDA = {"community_size": 3, "momentum": [0, 0.9], "relevance": RULES, "reference_items": 8}
MIA = {"community_size": 3, "momentum": [0, 0.9]}
SINGLE, COORDINATOR = {"who": "single", "nodes": [0, 1, 2, 5], "refit_every": 2}, {"who": "coordinator"}
COALITION = {"who": "coalition", "members": [0, 1, 6]}
PLACED = {"who": "coalition", "fraction": 0.4, "placement": ["degree", "clustered"]}
OBSERVERS = (SINGLE, COALITION, COORDINATOR)
WHO = (COORDINATOR, {"who": "single", "nodes": [0, 1, 2, 5]}, COALITION)
OWN = {"fictive_user": "own_embedding", "refit_every": 10}
ATTRIBUTES = {"attribute": ["gender", "age"], "bins": [24], "features": ["user", "items", "updates"]}
WATCHERS = (
    {"who": "single", "nodes": [0, 5]},
    {"who": "coalition", "members": [0, 3]},
    {"who": "coordinator", "over": "all"},
)
CASES = {
    "cda": [
        *({**CDA, **who} for who in (*OBSERVERS, PLACED)),
        *({**CDA, **who, **OWN} for who in OBSERVERS),
    ],
    "entropy-mia": [{**MIA, **who, "item_scores": who is not SINGLE} for who in OBSERVERS],
    "loss-mia": [{"pairs": 6, **who} for who in WHO],
    "update-mia": [{"pairs": 6, **who} for who in WHO],
    "imia": [{"pairs": 6, "repeats": 2, **who} for who in WHO],
    "lira": [{"pairs": 6, "models": 2, "rounds": 2, **who} for who in WHO[::2]],
    "shadow-mia": [{"pairs": 6, "models": 2, "rounds": 2, **who} for who in WHO[::2]],
    "aia": [{"community_size": 3, "adversaries": 2, "models": 4, "epochs": 2}],
    "attribute-inference": [{**ATTRIBUTES, **who} for who in WATCHERS],
    "reconstruction": [{"precision_at": 5, **who} for who in WATCHERS],
}
"""Options of each attack; one that is not here is checked with its defaults."""
RANKING = [name for name in ATTACKS if ATTACKS[name].rankings is not Attack.rankings]
NOTHING = {"name": "gmf", "init_std": 1e-30}
"""A model that scores all items alike until it is trained."""


def told(part):
    """Return how a case is called."""
    if isinstance(part, dict):
        return f"{part.get('who', 'any')}-{part.get('fictive_user', 'fitted')}"
    return str(getattr(part, "__name__", part))


@pytest.mark.parametrize(
    ("name", "options"),
    slow_except_first([(name, options) for name in ATTACKS for options in CASES.get(name, [{}])]),
    ids=told,
)
@pytest.mark.cases(3)
@pytest.mark.slow
def test_an_attack_finds_the_same_where_all_that_it_must_not_see_is_overwritten(name, options):
    check_attack(name, options, every_executor=options in CASES.get(name, [{}])[:1])


MOVES = {"who": "coordinator", "moves": True, "item_scores": False}
OF_MOVES = [*(("cda", options) for options in CASES["cda"][:4]), ("reconstruction", MOVES)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), slow_except_first(OF_MOVES), ids=told)
@pytest.mark.cases(4)
def test_an_attack_on_models_of_moves_finds_the_same_likewise(name, options):
    """By the quickest executor: models differ in it, while attacks on all executors are checked above."""
    check_attack(name, options, model="prme-g", every_executor=False)


@pytest.mark.parametrize(
    ("name", "options"),
    [(name, options) for name in RANKING for options in CASES.get(name, [{}])[:3]],
    ids=told,
)
@pytest.mark.cases(6)
@pytest.mark.slow
def test_ties_give_an_attack_no_more_than_guessing_finds(name, options):
    check_ties(name, options, knows_nothing=NOTHING if name in CASES else None)


@pytest.mark.slow
def test_an_attack_that_is_credited_for_the_order_of_ids_is_caught(monkeypatch):
    """As all were: what ties is set apart by ids, too little for any other order to change."""

    def by_ids(scores, guesses, truth):
        set_apart = scores - np.float32(1e-5) * np.arange(scores.shape[1], dtype=np.float32)
        return accuracies(set_apart, guess_top_victims(set_apart, truth.k), truth)

    def of_ids(similarity, k):
        return nearest(similarity - 1e-9 * np.arange(similarity.shape[1]), k)

    nearest, coordinator = Communities.nearest, {**CDA, "who": "coordinator"}
    with monkeypatch.context() as patch:
        patch.setattr(Communities, "nearest", of_ids)
        with pytest.raises(AssertionError, match=r"cda \(federated, fused\) finds .* a guess finds 0\.273"):
            check_ties("cda", coordinator)
    monkeypatch.setattr(ranking_scores, "accuracies", by_ids)
    check_ties("cda", coordinator)  # whoever is guessed is as good as any other
    with pytest.raises(AssertionError, match="although all scores tie; a guess finds"):
        check_ties("cda", coordinator, knows_nothing=NOTHING)


class Onlooker(Attack):
    """Ranks the victims of nodes 0 and 1 by the latest number that :meth:`look` gives each delivery."""

    Options = Options

    def __init__(self, options, world):
        super().__init__(options, world)
        self.latest = np.full((2, world.n_users), np.nan, np.float32)
        self.mine = world.feed_of_nodes(self.nodes)

    @property
    def nodes(self):
        return np.array([0, 1])

    def observe(self, seen):
        of_users = np.flatnonzero(seen.senders < self.context.n_users)
        self.latest[seen.receivers[of_users], seen.senders[of_users]] = self.look(seen)[of_users]

    def rankings(self):
        return [Ranking("onlooker", "look", 0.0, (2,), self.nodes, self.latest)]

    def look(self, seen):
        """Look at what is there to be seen."""
        users = np.nan_to_num(seen.user_rows()).max(axis=1)
        own = np.array([np.isfinite(seen.own_model(k)).all() for k in range(len(seen))])
        mine = np.array([len(self.mine.positives[node]) for node in seen.receivers])
        items = seen.gather(np.arange(3, dtype=np.int32)).max(axis=(1, 2))
        return users + items + own + mine + seen.times


class ReadsHiddenRows(Onlooker):
    def look(self, seen):
        return seen.raw.rows[seen.rows, seen.layout.users].sum(axis=1)


class ReadsWhatWasNotDelivered(Onlooker):
    def look(self, seen):
        return seen.raw.rows[2, seen.layout.items].sum() + np.zeros(len(seen))


class LooksUpOtherDeliveries(Onlooker):
    def look(self, seen):
        return seen.deliveries.sender.sum() + np.zeros(len(seen))


class ReadsOtherTasks(Onlooker):
    def look(self, seen):
        return np.arange(len(seen)) + len(seen.raw.merges.node)


class ReadsOtherData(Onlooker):
    def look(self, seen):
        return np.array([len(self.mine.positives[sender % 8]) for sender in seen.senders])


class AsksForOtherData(Onlooker):
    def __init__(self, options, world):
        super().__init__(options, world)
        world.feed_of_nodes(np.array([1, 5]))


class AsksForOtherDataLater(Onlooker):
    def look(self, seen):
        return self.context.feed_of_nodes(seen.senders % 8).positives.sizes[seen.senders % 8]


class AsksForOtherModels(Onlooker):
    def rankings(self):
        self.context.models_of_nodes(np.array([5]))
        return super().rankings()


class RanksByWhatIsForetold(Onlooker):
    def look(self, seen):
        return self.context.contacts().toarray().sum(axis=0)[seen.senders % 8]


class CopiesWhatIsForetold(Onlooker):
    def __init__(self, options, world):
        super().__init__(options, world)
        self.first = float(world.deliveries.sender[0]) if len(world.deliveries.sender) else 0.0

    def look(self, seen):
        return np.full(len(seen), self.first)


class PlacedByWhatIsForetold(Onlooker):
    """Observes where most arrives, which it may; what else it does with that, it may not."""

    def __init__(self, options, world):
        met = world.deliveries.receiver[world.deliveries.receiver < world.n_users]
        self.own = np.argsort(-np.bincount(met, minlength=world.n_users), kind="stable")[:2]
        super().__init__(options, world)
        self.latest = np.full((world.n_users, world.n_users), np.nan, np.float32)

    @property
    def nodes(self):
        return np.sort(self.own)

    def rankings(self):
        return [Ranking("onlooker", "look", 0.0, (2,), self.nodes, self.latest[self.nodes])]


class RanksByItsPlacement(PlacedByWhatIsForetold):
    look = RanksByWhatIsForetold.look


class Conspires(Onlooker):
    """The coordinator ranks the clients for each user, by how many items the user has."""

    def __init__(self, options, world):
        Attack.__init__(self, options, world)
        self.hub = np.array([] if world.coordinator is None else [world.coordinator], int)
        self.mine = world.feed_of_nodes(np.arange(world.n_users if len(self.hub) else 0))
        self.heard = np.full(world.n_users, np.nan, np.float32)

    @property
    def nodes(self):
        return self.hub

    def observe(self, seen):
        self.heard[seen.senders] = seen.times

    def rankings(self):
        users = np.arange(self.context.n_users)
        return [
            Ranking("hub", "size", 0.0, (2,), users, np.outer(self.told(), self.heard).astype(np.float32))
        ]

    def told(self):
        return self.mine.positives.sizes.astype(float)


class TellsAccomplicesOfOthers(Conspires):
    def told(self):
        return super().told() + super().told().max() + super().told()[0]


class ReportsOthers(Onlooker):
    """Ranks nobody, and reports what it must not know."""

    measures = ("seen",)

    def __init__(self, options, world):
        super().__init__(options, world)
        self.seen = 0.0

    def observe(self, seen):
        self.seen = float(np.nan_to_num(seen.raw.rows[2, seen.layout.items], nan=-1.0).sum())

    def rankings(self):
        return []

    def findings(self, now):
        yield Finding("seen", {}, self.seen)


class ReportsOthersByNode(ReportsOthers):
    def findings(self, now):
        yield Finding("seen", {}, 1.0, per_node=(self.nodes, np.full(2, self.seen)))


class ReportsItsNodes(ReportsOthers):
    def observe(self, seen):
        self.seen = 2.0


class AnnouncesMore(ReportsItsNodes):
    measures = ("seen", "said")


class CallsANumberARate(ReportsItsNodes):
    measures = ("mia_precision",)

    def findings(self, now):
        yield Finding("mia_precision", {}, 3.0)


class CountsReports(Onlooker):
    def rankings(self):
        self.latest += 1
        return super().rankings()


class SeesNobody(Onlooker):
    @property
    def nodes(self):
        return np.zeros(0, np.int64)

    def rankings(self):
        return []


class RepeatsAnItem(ReportsItsNodes):
    def item_sets(self):
        yield ItemSets(np.array([6]), np.array([0, 2]), np.array([3, 3], np.int32), {"observer": "spy"})


class NamesItself(ReportsItsNodes):
    @property
    def nodes(self):
        return np.array([1])

    def item_sets(self):
        yield ItemSets(self.nodes[:1], np.array([0, 1]), np.array([3], np.int32), {"observer": "spy"})


class NamesAFindingTwice(ReportsItsNodes):
    def findings(self, now):
        yield from [Finding("seen", {}, 1.0)] * (2 if self.context.coordinator is None else 1)


class DoesNotAnnounce(ReportsItsNodes):
    def findings(self, now):
        yield from super().findings(now)
        if self.context.coordinator is None:
            yield Finding("more", {}, 1.0)


SPIES = {
    ReadsHiddenRows: "the ranking .* differs if everything that it must not see is overwritten",
    ReadsWhatWasNotDelivered: "the ranking .* differs if",
    LooksUpOtherDeliveries: "the ranking .* differs if",
    ReadsOtherTasks: "the ranking .* differs if",
    ReadsOtherData: "the ranking .* differs if",
    AsksForOtherData: r"requested the data of nodes \[5\], which are not its own",
    AsksForOtherDataLater: r"requested the data of nodes \[.*\], which are not its own",
    AsksForOtherModels: r"requested the models of nodes \[5\], which are not its own",
    RanksByWhatIsForetold: "the ranking .* differs if",
    CopiesWhatIsForetold: "the ranking .* differs if",
    RanksByItsPlacement: "the ranking .* differs if",
    TellsAccomplicesOfOthers: "the ranking .* of node 7 differs if the data of all other accomplices are overwr",
    ReportsOthers: "findings.csv differs if",
    ReportsOthersByNode: "positions.csv differs if",
    CountsReports: "its results at time .* differ if there are reports in between",
    AnnouncesMore: "announces said in `measures` but reports it in no run",
    CallsANumberARate: "mia_precision is a share, but one is 3",
    RepeatsAnItem: "names an item of a victim twice",
    NamesItself: "victim . is a node of the attack itself",
    NamesAFindingTwice: "two findings have the same name seen",
    DoesNotAnnounce: "spy reports more, which no study can collect",
    SeesNobody: "found nothing in any run, so nothing was checked",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "honest",
    slow_except_first([Onlooker, PlacedByWhatIsForetold, Conspires, ReportsItsNodes, Guessing]),
    ids=told,
)
@pytest.mark.cases(2)
def test_an_attack_may_read_what_it_was_sent_and_what_is_its_own(honest):
    with temporarily_registered(ATTACKS, {"honest": honest}):
        check_attack("honest")


@pytest.mark.parametrize("spy", slow_except_first(SPIES), ids=told)
@pytest.mark.cases(6)
def test_an_attack_that_reads_more_is_caught(spy):
    message = f"the attack spy.*{SPIES[spy]}"
    with temporarily_registered(ATTACKS, {"spy": spy}), pytest.raises(AssertionError, match=message):
        check_attack("spy")


class AsksForModelsEarly(Onlooker):
    def __init__(self, options, world):
        super().__init__(options, world)
        world.models_of_nodes(self.nodes)


@pytest.mark.parametrize(
    ("spy", "message"),
    [
        (AsksForOtherData, r"requested the data of nodes \[5\], which are not its own; expected nodes that"),
        (AsksForOtherDataLater, r"requested the data of nodes \[.*\], which are not its own"),
        (AsksForOtherModels, r"requested the models of nodes \[5\], which are not its own"),
        (AsksForModelsEarly, r"requested models before the run began"),
    ],
    ids=told,
)
def test_a_run_refuses_an_attack_that_asks_for_nodes_other_than_its_own(spy, message, tmp_path):
    with (
        temporarily_registered(ATTACKS, {"spy": spy}),
        pytest.raises(PluginError, match=f"observers: spy {message}"),
    ):
        simulate(tiny(observers=[{"name": "spy"}]), out=tmp_path / "run")


def test_a_coordinator_that_observes_may_ask_for_all_users(tmp_path):
    with temporarily_registered(ATTACKS, {"honest": Conspires}):
        run = tiny(observers=[{"name": "honest"}], protocol={"name": "fedavg", "rounds": 2})
        assert simulate(run, out=tmp_path / "run").manifest["status"] == "complete"
