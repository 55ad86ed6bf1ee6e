"""Utility of the models of a run: the evaluator of recommendations, its target items, and the training loss.

References
----------
CDA paper (arXiv 2306.08929), section 5: HR@20; candidates as in its published code: each test item against 99 fixed
items the user has not interacted with. Exposure of targets: items with which the user has interacted in any part of the
split are no candidates (the published code of PoisonFedDLRS masks training and test items).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged, row_entries
from gossiprec.base.rng import generator
from gossiprec.compute.executors.base import Executor
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.user_groups import UserGroup, make_groups
from gossiprec.emulation.scoring.metric_inputs import (
    ORDERS,
    FullRanker,
    MetricInputs,
    RankedLists,
    concat_lists,
    draw_candidates,
    sampled_negatives,
    to_measure_inputs,
)
from gossiprec.measures import MeasureData, RelevantRanks, TargetRanks, TopItems, ValidationRanks
from gossiprec.measures.ranking import PADDING, candidate_ranks, nanmean, user_means
from gossiprec.measures.selectors import MetricSpec, baseline_metric_name, read_metric
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns, select_sets
from gossiprec.scenario.sections import LeastPopular, Targets

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun

MAX_CANDIDATES = 2**23
"""Number of test items and candidates of which scores are held at the same time."""
MAX_LOSS_USERS = 512
"""Number of users for whom the models are read together to find the training loss."""
MAX_BLOCK = 512
"""Number of users of whom all item scores are held; fewer if there are more than 8,000 items."""


@dataclass(frozen=True)
class UtilityOptions:
    """The options of an evaluation of recommendations.

    Attributes
    ----------
    targets : ndarray of int64, shape (n_targets,), optional
        Target items, if a metric needs them.
    baselines : sequence of str
        Baseline orders of the items that are also measured, once (:data:`.metric_inputs.ORDERS`).
    mask : str
        Parts of the split, joined by ``+``, of which no item is in a full list of a user who has it.
    threads : int
        Number of threads that score full lists.
    attacked : ndarray of int64, optional
        Items that poisoners promote: if these are the targets, each has a metric of its own, ``er@K[item]``.
    groups : sequence of UserGroup
        Groups of users for which each metric is computed, too.
    keep_lists : int
        Length of the recommendation lists that :attr:`UtilityEvaluator.lists` holds; 0 for none.
    sample : int or None
        Number of users, drawn uniformly from the seed, who are measured; None for all.
    train_loss : bool
        Whether the loss on the users' own training samples is measured, too.
    """

    targets: I64 | None = None
    baselines: Sequence[str] = ()
    mask: str = "train"
    threads: int = 1
    attacked: I64 | None = None
    groups: Sequence[UserGroup] = ()
    keep_lists: int = 0
    sample: int | None = None
    train_loss: bool = False


class UtilityEvaluator:
    """The evaluator of recommendations by each node's model for its own user.

    Parameters
    ----------
    split : Split
    metrics : sequence of str
        Such as ``hr@20`` or ``recall@20`` (:mod:`gossiprec.measures.selectors`). Metrics of sampled items rank each
        test item against 99 fixed negatives (all that the user leaves, if these are fewer), others rank all items
        except those in the masked parts, and metrics of validation items all except training items.
    executor : Executor
    seed : int
    options : UtilityOptions

    Attributes
    ----------
    by_user : dict of str to pair of ndarrays, shape (n_users_with_lists,)
        Users, ascending, and each one's value (NaN if undefined) of each metric as last measured; their means were
        returned. A metric is missing if its measure does not have one value per list.
    lists : pair of ndarrays, or None
        Users, and their recommended items, shape (n_users, keep_lists), best first, as last measured.

    Notes
    -----
    A model of moves scores each test item after the visit that came before it, if that was within the model's window.
    A whole list has no visit of its own before it: it ranks the places to visit after the user's last training visit,
    as in Feng et al. (IJCAI 2015), in which a list is recommended for a current place.

    Raises
    ------
    DataError
        If a user leaves no item to be a negative.
    """

    def __init__(
        self,
        split: Split,
        metrics: Sequence[str],
        executor: Executor,
        seed: int,
        options: UtilityOptions = UtilityOptions(),
    ) -> None:
        none = np.zeros(0, np.int64)
        targets = none if options.targets is None else options.targets
        attacked = none if options.attacked is None else options.attacked
        feed = executor.work.feed
        self._before_tests, self._before_next = feed.test_contexts(split), feed.next_contexts(split)
        self._histories = {part: feed.histories(split, part) for part in ("test", "validation")}
        data, self._n_tested = MeasureData.of(split), int(np.count_nonzero(split.test.sizes))
        measured = None if options.sample is None else draw_sample(split.n_users, options.sample, seed)
        if measured is not None:
            tests, _ = row_entries(split.test.offsets, measured)
            self._before_tests = {name: column[tests] for name, column in self._before_tests.items()}
            test, validation = (select_sets(part, measured) for part in (split.test, split.validation))
            split = replace(split, test=test, validation=validation)
        self._split, self.is_sample = split, measured is not None
        self._groups = options.groups
        self.by_user: dict[str, tuple[I64, F64]] = {}
        self.lists: tuple[I64, I32] | None = None
        self._keep, self._measures_loss = options.keep_lists, options.train_loss
        self._separate_targets: list[int] = targets.tolist() if set(targets) <= set(attacked) else []
        self._executor = executor
        self._threads = ThreadPool(options.threads)
        self._users = np.flatnonzero(split.test.sizes > 0)
        specs = [read_metric(metric) for metric in metrics]
        self._metrics = [spec for spec in specs if spec.input_type is not RelevantRanks or len(self._users)]
        self._measures = {spec.name: spec.measure(data) for spec in self._metrics}
        full = [metric for metric in self._metrics if metric.full]
        self._seed, self._mask = seed, options.mask.split("+")
        parts = _by_part(full, separately=bool(self._histories["test"]))
        if self._keep:
            parts.setdefault("test", [])
        kept = {"test": self._keep}
        self._whole = [
            (part, FullRanker(split, of_part, targets, self._mask, kept.get(part, 0), measured))
            for part, of_part in parts.items()
        ]
        self._sampled = len(full) < len(self._metrics)
        if self._sampled:
            self._tests_of = np.concatenate([[0], np.cumsum(split.test.sizes[self._users])])
            self._candidates = draw_candidates(split, self._users, seed)
            self._real = self._candidates != PADDING
            self._n_candidates = np.count_nonzero(self._real, axis=1)
        self._tied: list[I64] = []
        self._orders = {name: self._measure_order(name) for name in options.baselines}
        self._baselines = {
            baseline_metric_name(metric, name): value
            for name, values in self._orders.items()
            for metric, value in values.items()
        }

    def measure(self, current: I64, inputs: Sequence[MetricInputs] = ()) -> dict[str, float]:
        """Return each metric for the models at arena rows `current`, shape (n_nodes,), then for baseline orders.

        Metrics of test items are left out if no user has any. The inputs of several shards, each from the models of
        some users, are used instead if there are any.
        """
        self._tied = [part.tied for part in inputs]
        seen = self._joined(inputs) if inputs else self._inputs(*self._scoring(current))
        values = self._metric_values(*seen)
        if self._keep:
            (top,) = seen[0][TopItems]
            self.lists = (top.users, top.items[:, : self._keep])
        self.by_user = {
            metric.name: (users, values[metric.name])
            for metric in self._metrics
            if metric.measure.per_user and metric.input_type is not TargetRanks
            for users in [self._users_of(metric, seen[0])]
            if len(users) == len(values[metric.name])
        }
        means = self._means(values) | self._of_groups(*seen) | self._baselines
        if self._measures_loss:
            means["train_loss"] = train_loss(self._executor, current, self._split.n_users)
        return means

    def _users_of(self, metric: MetricSpec, whole: Mapping[type[Any], list[Any]]) -> I64:
        """Return the user of each list of a metric."""
        if not metric.full:
            return self._users
        return np.concatenate([np.zeros(0, np.int64), *(part.users for part in whole[metric.input_type])])

    @property
    def values_of_tested_users(self) -> dict[str, F64]:
        """The values in :attr:`by_user` of metrics of test items that all users with test items have."""
        tested = (metric.name for metric in self._metrics if metric.uses_test_items)
        found = {name: self.by_user[name][1] for name in tested if name in self.by_user}
        return {name: values for name, values in found.items() if len(values) == len(self._users)}

    def standard_errors(self) -> dict[str, float]:
        """Return the standard error of each metric with a value per user, as an estimate of the mean over all users.

        It has the correction for a sample without repetition: it is 0 if all users are measured.
        """
        found = {}
        for name, (_, values) in self.by_user.items():
            defined = values[~np.isnan(values)]
            if len(defined) > 1:
                left = max(0.0, 1 - len(self._users) / self._n_tested)
                found[name] = float(defined.std(ddof=1) * np.sqrt(left / len(defined)))
        return found

    def sample_summary(self) -> dict[str, Any]:
        """Return the number of measured users and the standard errors; empty if all users are measured."""
        if not self.is_sample:
            return {}
        users = {"users": len(self._users), "of": self._n_tested}
        return {"measured": {**users, "standard_errors": self.standard_errors()}}

    def _of_groups(
        self, whole: Mapping[type[Any], list[Any]], sampled: Sequence[RelevantRanks]
    ) -> dict[str, float]:
        """Return each metric for the lists of each group of users; NaN if none of them has a list."""
        means: dict[str, float] = {}
        for group in self._groups:
            own = {kind: _lists_of(group.users, parts) for kind, parts in whole.items()}
            values = self._metric_values(own, _lists_of(group.users, sampled))
            means |= {group.metric_name(name): nanmean(found) for name, found in values.items()}
        return means

    def metric_inputs(self, current: I64, users: I64) -> MetricInputs:
        """Return the metric inputs from the models of some users, ascending."""
        self._tied = []
        of_all, of_candidates = self._scoring(current)
        parts: list[RankedLists] = []
        for part, ranker in self._whole:
            for block in self._blocks(np.intersect1d(ranker.users, users)):
                parts += self._rank(ranker, block, of_all(block, part))
        tests, ranks = np.zeros(0, np.int64), np.zeros(0, np.int32)
        if self._sampled:
            at = np.flatnonzero(np.isin(self._users, users))
            tests, ranks = row_entries(self._tests_of, at)[0], self._sampled_ranks(of_candidates, at)
        return MetricInputs(concat_lists(parts), tests, ranks, self.users_with_tied_scores)

    @property
    def users_with_tied_scores(self) -> I64:
        """The users for whom all scores were equal at the last measurement, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._tied]))

    def baseline_metrics(self) -> dict[str, dict[str, float]]:
        """Return the metrics of test items for each baseline order (:data:`.metric_inputs.ORDERS`)."""
        names = [metric.name for metric in self._metrics if metric.uses_test_items]
        if not names:
            return {}
        orders = {name: self._orders.get(name) or self._measure_order(name) for name in ORDERS}
        return {order: {name: values[name] for name in names} for order, values in orders.items()}

    def count_users_with_few_candidates(self) -> dict[str, int]:
        """Return the number of users for whom K reaches the number of candidates, by metric of relevant items."""
        split, counts = self._split, {}
        for metric in self._metrics:
            if not issubclass(metric.input_type, RelevantRanks):
                continue
            masked = ["train"] if metric.on_validation else self._mask
            users = np.flatnonzero(split.validation.sizes) if metric.on_validation else self._users
            unmasked = split.n_items - sum(getattr(split, part).sizes[users] for part in masked)
            sizes = unmasked if metric.full else sampled_negatives(split, users)
            counts[metric.name] = int(np.count_nonzero(sizes <= metric.k))
        return {name: count for name, count in counts.items() if count}

    def _measure_order(self, name: str) -> dict[str, float]:
        """Return the metrics of a baseline order of the items."""
        order = ORDERS[name](self._split, self._seed)
        return self._means(self._metric_values(*self._inputs(order.scores_before, order.candidate_scores)))

    def _joined(
        self, inputs: Sequence[MetricInputs]
    ) -> tuple[dict[type[Any], list[Any]], list[RelevantRanks]]:
        """Return the metric inputs of all users, joined from parts."""
        joined = concat_lists([lists for part in inputs for lists in part.lists])
        in_blocks = [
            part
            for _, ranker in self._whole
            for lists in joined
            if lists.kind in ranker.kinds
            for part in lists.iter_blocks([*self._blocks(ranker.users)])
        ]
        whole = to_measure_inputs(in_blocks, self._split.n_items)
        if not self._sampled:
            return whole, []
        ranks = np.empty(len(self._candidates), np.int32)
        for part in inputs:
            ranks[part.tests] = part.ranks
        return whole, [self._of_tests(ranks)]

    def _scoring(self, current: I64) -> tuple[Callable[[I64, str], F32], Callable[[I64, Ragged], F32]]:
        """Return the functions that score items by the present models."""
        return partial(self.scores_of_all, current), partial(self._scores_of_candidates, current)

    def _inputs(
        self, of_all: Callable[[I64, str], F32], of_candidates: Callable[[I64, Ragged], F32]
    ) -> tuple[dict[type[Any], list[Any]], list[RelevantRanks]]:
        """Return the inputs of measures: full lists by kind, and test items among candidates.

        Parameters
        ----------
        of_all, of_candidates : callable
            Return the scores that make the lists: of all items for some users before a part of the split, and of each
            user's candidates.
        """
        lists = (
            of_block
            for part, ranker in self._whole
            for block in self._blocks(ranker.users)
            for of_block in self._rank(ranker, block, of_all(block, part))
        )
        whole = to_measure_inputs(lists, self._split.n_items)
        sampled: list[RelevantRanks] = []
        if self._sampled:
            ranks = self._sampled_ranks(of_candidates, np.arange(len(self._users)))
            sampled.append(self._of_tests(ranks))
        return whole, sampled

    def _rank(self, ranker: FullRanker, block: I64, scores: F32) -> list[RankedLists]:
        """Return the inputs of metrics from the lists of a block of users, of whom each thread ranks a part."""
        found: list[list[RankedLists]] = [[] for _ in range(self._threads.size)]

        def rank(part: int) -> None:
            some = self._threads.part_range(len(block), part)
            if some:
                found[part] = ranker.rank(block[some.start : some.stop], scores[some.start : some.stop])

        self._threads.run(rank)
        return concat_lists([lists for part in found for lists in part])

    def _metric_values(
        self, whole: Mapping[type[Any], list[Any]], sampled: Sequence[RelevantRanks]
    ) -> dict[str, F64]:
        """Return the values of which each metric is the mean, by name; for test items usually one per user."""
        by_metric: dict[str, F64] = {}
        for metric in self._metrics:
            ranks = whole[metric.input_type] if metric.full else sampled
            found = [self._measures[metric.name].compute_values(part, metric.k) for part in ranks]
            values = np.concatenate(found) if found else np.zeros(0)
            if not metric.full and found:
                ends = np.flatnonzero(np.diff(ranks[0].users, append=-1)) + 1
                values = user_means(values, np.concatenate([[0], ends]))
            by_metric[metric.name] = values
        return by_metric

    def _means(self, values: Mapping[str, F64]) -> dict[str, float]:
        """Return each metric, and metrics of target items per item if these are attacked."""
        means: dict[str, float] = {}
        for metric in self._metrics:
            means[metric.name] = nanmean(values[metric.name])
            if metric.measure.wants is TargetRanks:
                by_item = zip(self._separate_targets, values[metric.name], strict=False)
                means |= {f"{metric.name}[{item}]": float(value) for item, value in by_item}
        return means

    def _of_tests(self, ranks: I32) -> RelevantRanks:
        """Return the ranks of test items among their candidates as one list each."""
        return RelevantRanks(ranks[:, None], np.repeat(self._users, np.diff(self._tests_of)))

    def _blocks(self, users: I64) -> Iterator[I64]:
        """Yield the users who need lists, in blocks."""
        size = min(MAX_BLOCK, max(1, 2**22 // self._split.n_items))
        return (users[low : low + size] for low in range(0, len(users), size))

    def _sampled_ranks(self, scores_of: Callable[[I64, Ragged], F32], at: I64) -> I32:
        """Return the ranks of test items among their candidates, for the users at the given positions."""
        ranks = [np.zeros(0, np.int32)]
        for block in self._sampled_blocks(at):
            tests, user = row_entries(self._tests_of, block)
            real = self._real[tests]
            sizes = np.bincount(user, weights=self._n_candidates[tests], minlength=len(block))
            candidates = Ragged.from_sizes(sizes.astype(np.int64), self._candidates[tests][real])
            scores = np.full(real.shape, np.inf, np.float32)  # a padded entry never beats an item
            scores[real] = scores_of(self._users[block], candidates)
            missing = real.shape[1] - self._n_candidates[tests]
            ranks.append((candidate_ranks(scores[:, 0], scores[:, 1:]) - missing).astype(np.int32))
        return np.concatenate(ranks)

    def _sampled_blocks(self, at: I64) -> Iterator[I64]:
        """Yield positions in blocks of up to :data:`MAX_CANDIDATES` candidates, each of one user or more."""
        ends = np.concatenate([[0], np.cumsum(np.diff(self._tests_of)[at])])
        most, low = MAX_CANDIDATES // self._candidates.shape[1], 0
        while low < len(at):
            full = int(np.searchsorted(ends, ends[low] + most, side="right")) - 1
            high = min(max(full, low + 1), len(at))
            yield at[low:high]
            low = high

    def _scores_of_candidates(self, current: I64, users: I64, candidates: Ragged) -> F32:
        """Return the scores of test items and their candidates by the users' own models.

        The users are some of those with test items.
        """
        tests, _ = row_entries(self._split.test.offsets, users)
        counts = self._n_candidates[tests]
        contexts = {name: column[tests].repeat(counts) for name, column in self._before_tests.items()}
        histories = {name: column[users] for name, column in self._histories["test"].items()}
        models = self._executor.store.scoring_view(current, users)
        query = ScoreQuery(
            models.layout, models.rows, models.row, models.user, candidates.offsets, candidates.values, contexts,
            None, models.together, histories,
        )  # fmt: skip
        scores = self._executor.score(query)
        begins = candidates.offsets[:-1]
        level = np.minimum.reduceat(scores, begins) == np.maximum.reduceat(scores, begins)
        self._tied.append(users[level])
        return scores

    def scores_of_all(self, current: I64, users: I64, part: str) -> F32:
        """Return the scores of all items by the users' own models before a part, shape (n_users, n_items).

        Parameters
        ----------
        current : ndarray of int64, shape (n_nodes,)
            The row of each node's present model.
        users : ndarray of int64, shape (n_users,)
        part : str
        """
        contexts = {name: column[users] for name, column in self._before_next.items()}
        histories = {name: column[users] for name, column in self._histories[part].items()}
        models = self._executor.store.scoring_view(current, users)
        models = replace(models, contexts=contexts, histories=histories)
        scores = self._executor.score_all(models, self._threads)
        level = scores[:, 0] == scores[:, -1]  # checked with two columns, so that few rows are read in full
        level[level] = (scores[level] == scores[level, :1]).all(axis=1)
        self._tied.append(users[level])
        return scores


def draw_sample(n_users: int, size: int, seed: int) -> I64:
    """Return the users who are measured, ascending."""
    return np.sort(generator(seed, "measured-users").permutation(n_users)[:size])


def _lists_of(users: I64, parts: Iterable[Any]) -> list[Any]:
    """Return the lists of some users, part by part, without empty parts."""
    found = []
    for part in parts:
        chosen = np.isin(part.users, users)
        if chosen.any():
            name = "items" if isinstance(part, TopItems) else "ranks"
            found.append(replace(part, users=part.users[chosen], **{name: getattr(part, name)[chosen]}))
    return found


def _by_part(metrics: Sequence[MetricSpec], *, separately: bool) -> dict[str, list[MetricSpec]]:
    """Return the metrics by the part before which users are scored; all before tests, if that makes no difference."""
    parts: dict[str, list[MetricSpec]] = {}
    for metric in metrics:
        part = "validation" if separately and metric.input_type is ValidationRanks else "test"
        parts.setdefault(part, []).append(metric)
    return parts


def select_target_items(chosen: Targets | None, split: Split) -> I64:
    """Return the target items of a scenario, ascending; on equal popularity lower ids are chosen."""
    if not isinstance(chosen, LeastPopular):
        return np.unique(np.array(chosen or (), np.int64))
    return chosen.items([split.train], split.n_items)


def train_loss(executor: Executor, current: I64, n_users: int) -> float:
    """Return the mean over users of the model's loss on their own training samples.

    The samples of a user are the samples of its first local update, with the same negatives at every report. Additions
    of a recommender to the loss, terms and noise do not count; rows do not drop out. Users without samples
    are left out.

    Parameters
    ----------
    executor : Executor
    current : ndarray of int64, shape (n_nodes,)
        The row of each node's present model.
    n_users : int

    Returns
    -------
    float
        NaN if no user has a sample.
    """
    work = executor.work
    users = np.flatnonzero(work.feed.n_samples(work.training.negatives)[:n_users])
    parts = (users[low : low + MAX_LOSS_USERS] for low in range(0, len(users), MAX_LOSS_USERS))
    losses = [loss for part in parts for loss in _losses(executor, part, current)]
    return float(np.mean(losses)) if losses else float("nan")


def _losses(executor: Executor, users: I64, current: I64) -> Iterator[float]:
    import torch

    from gossiprec.compute.executors.tensors import loss_of_samples, table_views
    from gossiprec.numerics.torch_setup import single_torch_thread

    work, readable = executor.work, executor.store.scoring_view(current, users)
    model, layout = work.model, readable.layout
    negatives = work.training.negatives
    # with only the rows of its own items, a user's loss takes a tenth of the time
    whole = bool(model.constants) or (isinstance(model, SequenceModel) and model.needs_all_items)
    with torch.no_grad(), single_torch_thread():
        for index, node in enumerate(users.tolist()):
            samples = work.feed.samples(node, update=0, negatives=negatives, seed=work.seed)
            items = None if whole else _touched_items(samples, work.feed.item_columns)
            if items is not None:
                samples = {**samples, **_renumber(samples, work.feed.item_columns, items)}
            row = np.asarray(readable.rows[readable.row[index]], np.float32)  # only float16 is copied
            tables, user = table_views(layout, torch.from_numpy(row)), int(readable.user[index])
            if "users" in tables:
                tables = {**tables, "users": tables["users"][user : user + 1]}
            if items is not None:
                tables = {**tables, "items": tables["items"][torch.from_numpy(items)]}
            yield float(loss_of_samples(model, layout, tables, samples))


def _touched_items(samples: Columns, names: tuple[str, ...]) -> I64:
    """Return all items in some samples, ascending."""
    items = np.unique(np.concatenate([samples[name].ravel() for name in names]))
    return np.asarray(items[items >= 0], np.int64)


def _renumber(samples: Columns, names: tuple[str, ...], items: I64) -> Columns:
    """Return the columns of items as positions among `items`; -1 means no item."""
    own = ((name, samples[name]) for name in names)
    return {name: np.where(ids >= 0, np.searchsorted(items, ids), -1).astype(np.int32) for name, ids in own}


def make_utility_evaluator(prepared: PreparedRun, *, baselines: bool = True) -> UtilityEvaluator:
    """Return the evaluator of recommendations; `baselines` adds baseline orders, which one shard measures."""
    components, evaluate = prepared.components, prepared.components.scenario.evaluate
    scenario, split = components.scenario, components.split
    attacked = components.attacked_items
    targets = attacked if evaluate.targets == "attacked" else select_target_items(evaluate.targets, split)
    options = UtilityOptions(
        targets=targets,
        baselines=evaluate.beside if baselines else (),
        mask=evaluate.mask,
        threads=scenario.executor.thread_count(),
        attacked=attacked,
        groups=make_groups(scenario, split),
        keep_lists=evaluate.keep_lists or 0,
        sample=evaluate.sample,
        train_loss=evaluate.train_loss,
    )
    return UtilityEvaluator(split, evaluate.metrics, prepared.executor, scenario.seed, options)
