"""Unlearning methods judged against the counterfactual run: models, lists, cost, and what an attacker still finds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossiprec.adversaries.attacks.candidates import draw_candidates, membership_of
from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.base.options import build_registered, registered_name
from gossiprec.compute.inbox_reducer import OnAggregate, RoundAnswers
from gossiprec.compute.scorer import Scorer
from gossiprec.defences import compute_epsilons
from gossiprec.emulation.progress import Progress
from gossiprec.emulation.run.derived_run import derive, repeatable_scenario, temporary_runs, without_observers
from gossiprec.emulation.run.epsilon_coverage import NodeNoise
from gossiprec.emulation.run.influence import (
    ModelDifferences,
    check_list_length,
    compare_models,
    find_users,
    without_users,
)
from gossiprec.emulation.run.live_run import LiveRun
from gossiprec.emulation.run.run_replay import check_same, log_difference
from gossiprec.emulation.scoring.item_scores import area_under_curve, rank_groups
from gossiprec.emulation.unlearning import UNLEARNERS, FinalModels, Forgotten, Unlearner, UnlearningRequest
from gossiprec.measures.ranking import nanmean
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.runs import open_run
from gossiprec.scenario import Scenario

NOTHING, RETRAIN = "nothing", "retrain"
"""Names of the two references: the models of the run itself, and the counterfactual."""
PAIRS = 50
"""Largest number of training items of a user among its candidates, as in ``loss-mia``."""
BLOCK = 256
"""Number of models that are scored at once."""


@dataclass(frozen=True)
class Judgement:
    """One unlearning method against the counterfactual.

    Attributes
    ----------
    differences : ModelDifferences
        Of the other users' models and lists: the counterfactual first.
    membership_auc : float
        Mean AUC of ``loss-mia`` over forgotten users and attacked models; NaN if the model
        has no user rows.
    forgotten : Forgotten
        Models and cost.
    epsilon : float or None
        Largest epsilon of another user by the run and the method together; None if no other node has noise in training.
    """

    differences: ModelDifferences
    membership_auc: float
    forgotten: Forgotten
    epsilon: float | None = None

    def values(self) -> dict[str, float]:
        """Return the means over the other users, the attack's result and the cost, by name."""
        found, cost = self.differences, self.forgotten
        columns = found.columns()
        return {
            **{name: nanmean(columns[name]) for name in columns if not name.startswith("distance[")},
            f"recall@{found.k}": nanmean(found.recall),
            "membership_auc": self.membership_auc,
            **({} if self.epsilon is None else {"epsilon": self.epsilon}),
            "sent_bytes": cost.sent_bytes,
            "stored_bytes": cost.stored_bytes,
            "local_epochs": cost.local_epochs,
            "seconds": cost.seconds,
        }


@dataclass(frozen=True)
class Unlearned:
    """Unlearning methods judged against the counterfactual of the same run.

    Attributes
    ----------
    removed : ndarray of int64
        Node ids of the forgotten users, ascending.
    methods : dict of str to Judgement
        By name: ``nothing`` (the models of the run), ``retrain`` (the counterfactual), and the methods.
    """

    removed: I64
    methods: dict[str, Judgement]

    def table(self) -> dict[str, dict[str, float]]:
        """Return the values of each method; `remaining` is its distance as a fraction of that of doing nothing."""
        whole = nanmean(self.methods[NOTHING].differences.distance)
        found = {}
        for name, judgement in self.methods.items():
            values = judgement.values()
            remaining = values["distance"] / whole if whole > 0 else np.nan
            found[name] = {"distance": values.pop("distance"), "remaining": remaining, **values}
        return found


def unlearn(
    path: str | os.PathLike[str],
    without: Sequence[int | str],
    *,
    methods: Sequence[str | Mapping[str, Any]] | None = None,
    k: int = 20,
    progress: Progress | None = None,
) -> Unlearned:
    """Return unlearning methods judged against the run without the users' data, which is the exact result.

    All runs are made in a temporary directory, without observers. The run itself is repeated, because run directories
    hold no models; it must give its log again.

    Parameters
    ----------
    path : path
        The directory of a complete run.
    without : sequence of int or str
        Users to forget, all at once: a number is a node id, a text is a name in the data.
    methods : sequence of str or mapping, optional
        Methods by name, or ``{name: fru, keep: 0.5}``; all that the run allows by default.
    k : int
        Length of the lists of recommendations.
    progress : Progress, optional
        Receives progress messages.

    Raises
    ------
    DataError
        As in :func:`gossiprec.counterfactual`.
    ScenarioError
        If there is no such method or option, a method does not fit the run, or `k` does not fit the number of items.
    LogError
        If the run cannot be repeated, or gives another log.
    GossipRecError
        As in :func:`gossiprec.simulate`.
    """
    run = open_run(path)
    check_list_length(run, k)
    chosen = make_methods(methods)

    def change(scenario: Scenario) -> Scenario:
        return without_observers(without_users(run, without, scenario))

    with temporary_runs(progress) as start:
        changed = change(repeatable_scenario(run))
        removed = np.unique(np.array(find_users(run, without), np.int64))
        factual = derive(run, without_observers, start)
        if methods is None:
            chosen = {name: method for name, method in chosen.items() if _fits(method, factual)}
        for method in chosen.values():
            method.check(factual.prepared)
        factual.prepared.seams.reducer.on_aggregate = _noting(chosen, removed)
        ended = factual.finish()
        check_same(run, ended, log_difference(run, ended, True))
        request = UnlearningRequest(changed, removed, FinalModels(factual), start)
        found = {NOTHING: Forgotten(request.models)}
        for name, method in {RETRAIN: UNLEARNERS[RETRAIN](None), **chosen}.items():
            found[name] = method.forget(request)
        return _judge(found, request, k)


def make_methods(methods: Sequence[str | Mapping[str, Any]] | None) -> dict[str, Unlearner]:
    """Return new unlearning methods by name, all if `methods` is None.

    Raises
    ------
    ScenarioError
        If a method is named twice, does not exist, or has no such option.
    """
    found: dict[str, Unlearner] = {}
    for method in UNLEARNERS if methods is None else methods:
        spec = dict(method) if isinstance(method, Mapping) else method
        try:
            made = build_registered(UNLEARNERS, spec)
        except ValueError as error:
            raise ScenarioError(f"method: {error}") from None
        name = registered_name(spec)
        if name in found:
            raise ScenarioError(f"method: found {name} twice; expected each method once; remove one of them")
        found[name] = made
    return found


def _fits(method: Unlearner, factual: LiveRun) -> bool:
    try:
        method.check(factual.prepared)
    except ScenarioError:
        return False
    return True


def _noting(methods: Mapping[str, Unlearner], removed: I64) -> OnAggregate | None:
    """Return a function that shows methods each aggregation and changes nothing, or None if none stores any."""
    storing = [method for method in methods.values() if method.stores_updates]

    def note(answers: RoundAnswers) -> F32:
        for method in storing:
            method.note_round(answers, removed)
        return answers.aggregated

    return note if storing else None


def _judge(found: Mapping[str, Forgotten], request: UnlearningRequest, k: int) -> Unlearned:
    exact = found[RETRAIN].models
    others = np.flatnonzero(exact.prepared.components.split.train.sizes)
    judged = {}
    for name, one in found.items():
        differences = compare_models(exact, one.models, others, k)
        auc, epsilon = membership_auc(one.models, request, others), spent_epsilon(one, request, others)
        judged[name] = Judgement(differences, auc, one, epsilon)
    return Unlearned(request.removed, judged)


def spent_epsilon(found: Forgotten, request: UnlearningRequest, others: I64) -> float | None:
    """Return the largest epsilon of dp-sgd of any other user by the local updates of the run and of a method.

    None if no other node has noise, as in a federation without client models.
    """
    prepared = request.models.prepared
    noise = NodeNoise.of(prepared.components, prepared.executor.work.node_settings)
    nodes = others[noise.multiplier[others] > 0]
    updates = prepared.planner.update_counts + (0 if found.updates is None else found.updates)
    epochs = (updates * noise.epochs)[nodes].astype(np.float64)
    if not len(nodes):
        return None
    delta = float(np.nanmin(noise.delta[nodes]))
    return float(compute_epsilons(noise.multiplier[nodes], epochs, delta).max())


def membership_auc(models: FinalModels, request: UnlearningRequest, others: I64) -> float:
    """Return the mean AUC of ``loss-mia`` on the training items of forgotten users.

    The attacker has the models after the request, and each forgotten user's row from before it. It scores candidates
    by this row with the items and shared weights of the coordinator, or of each other user in gossip.

    Parameters
    ----------
    models : FinalModels
        The attacked models.
    request : UnlearningRequest
    others : ndarray of int64
        The other users with data.

    Returns
    -------
    float
        Mean over forgotten users and attacked nodes; NaN if the model has no user rows, or scores need more than items.
    """
    before, prepared = request.models.prepared, models.prepared
    layout, split, scenario = before.components.layout, before.components.split, before.components.scenario
    if not layout.user_width or prepared.components.model.feed.context_columns:
        return float("nan")
    candidates = draw_candidates(split.train, split.test, split.n_items, PAIRS, "popularity", scenario.seed)
    is_member = membership_of(split.train, candidates)
    servers = np.arange(prepared.components.protocol.n_users, prepared.components.protocol.n_nodes)
    nodes, scorer = servers if len(servers) else others, Scorer(prepared.executor)
    removed, aucs = request.removed, []
    places = layout.user_index(removed).tolist()
    for user, place, old in zip(removed.tolist(), places, request.models.rows(removed), strict=True):
        begin, end = candidates.offsets[user : user + 2]
        own = slice(place * layout.user_width, (place + 1) * layout.user_width)
        for low in range(0, len(nodes), BLOCK):
            rows = models.rows(nodes[low : low + BLOCK])
            rows[:, own] = old[own]
            n, items = len(rows), candidates.values[begin:end]
            offsets = np.arange(n + 1, dtype=np.int64) * len(items)
            query = ScoreQuery(layout, rows, np.arange(n), np.full(n, place), offsets, np.tile(items, n))
            found, truth = scorer.score(query).reshape(n, -1), is_member[begin:end]
            aucs += [area_under_curve(rank_groups(scores, truth)) for scores in found]
    return nanmean(np.array(aucs))
