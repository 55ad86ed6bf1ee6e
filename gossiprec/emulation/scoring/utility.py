"""Utility of the models of a run: the evaluator of recommendations, its target items, and the training loss.

References
----------
CDA paper (arXiv 2306.08929), section 5: HR@20; candidates as in its published code: each test item against 99 fixed
items the user has not interacted with. Exposure of targets: items with which the user has interacted in any part of the
split are no candidates (the published code of PoisonFedDLRS masks training and test items).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gossiprec.base.arrays import F32, F64, I32, I64
from gossiprec.base.machine import ThreadPool
from gossiprec.base.ragged import Ragged, row_entries
from gossiprec.compute.executors.base import Executor
from gossiprec.data.split import Split
from gossiprec.emulation.assembly.executor_selection import thread_count
from gossiprec.emulation.assembly.poisoners import attacked_items
from gossiprec.emulation.scoring.metric_inputs import (
    ORDERS,
    FullRanker,
    MetricInputs,
    RankedLists,
    collect_lists,
    concat_lists,
    draw_candidates,
    sampled_negatives,
)
from gossiprec.measures.base import RelevantRanks, TargetRanks, ValidationRanks
from gossiprec.measures.metric import MetricSpec, read_metric
from gossiprec.measures.ranking import PADDING, candidate_ranks, nanmean, user_means
from gossiprec.measures.selectors import baseline_metric_name
from gossiprec.models.base.graph import GraphModel
from gossiprec.models.base.kernel_interface import ScoreQuery
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds.base import Columns
from gossiprec.scenario.sections import LeastPopular, Targets

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun

MAX_CANDIDATES = 2**23
"""Number of test items and candidates of which scores are held at the same time."""
MAX_LOSS_USERS = 512
"""Number of users whose models are read together to find their training loss."""
MAX_BLOCK = 512
"""Number of users of whom all item scores are held; fewer if there are more than 8,000 items."""


@dataclass(frozen=True)
class UtilityOptions:
    """The options of an evaluation of recommendations.

    Attributes
    ----------
    targets : ndarray of int64, shape (n_targets,), optional
        Target items, if a metric needs them.
    beside : sequence of str
        Baseline orders of the items that are also measured, once (:data:`.orders.ORDERS`).
    mask : str
        Parts of the split, joined by ``+``, of which no item is in a full list of a user who has it.
    threads : int
        Number of threads that score full lists.
    attacked : ndarray of int64, optional
        Items that poisoners promote: if these are the targets, each has a metric of its own, ``er@K[item]``.
    keep_users : bool
        Whether :attr:`by_user` is kept.
    """

    targets: I64 | None = None
    beside: Sequence[str] = ()
    mask: str = "train"
    threads: int = 1
    attacked: I64 | None = None
    keep_users: bool = False


class UtilityEvaluator:
    """The evaluator of recommendations by each node's model for its own user.

    Parameters
    ----------
    split : Split
    metrics : sequence of str
        Such as ``hr@20`` or ``recall@20`` (:mod:`gossiprec.measures.metric`). Those of sampled items rank each test
        item against 99 fixed negatives (all that the user leaves, if these are fewer), others all items except those in
        the masked parts; those of validation items all but training items.
    executor : Executor
    seed : int
    options : UtilityOptions

    Attributes
    ----------
    by_user : dict of str to ndarray of float64, shape (n_users_with_test_items,)
        Each metric of test items of the models as last measured, user by user, ascending; their means were returned.
        A metric is missing if its measure does not have one value per list.

    Notes
    -----
    A model of moves is asked for each test item after the visit that came before it, if that was within the model's
    window. A whole list has no visit of its own before it: it is the answer to "where to next?" at the place of the
    user's last training visit, as in Feng et al. (IJCAI 2015), where a list is recommended for a current place.

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
        targets, attacked = options.targets, options.attacked
        self._split = split
        self._keep_users = options.keep_users
        self.by_user: dict[str, F64] = {}
        apart = (
            targets is not None and attacked is not None and len(targets) and set(targets) <= set(attacked)
        )
        self._each: list[int] = targets.tolist() if apart and targets is not None else []
        self._executor = executor
        self._threads = ThreadPool(options.threads)
        self._users = np.flatnonzero(split.test.sizes > 0)
        asked = [read_metric(metric) for metric in metrics]
        self._metrics = [m for m in asked if m.looks_at is not RelevantRanks or len(self._users)]
        full = [metric for metric in self._metrics if metric.full]
        wanted = np.zeros(0, np.int64) if targets is None else targets
        feed = executor.work.feed
        self._before_tests, self._before_next = feed.test_contexts(split), feed.next_contexts(split)
        self._histories = {part: feed.histories(split, part) for part in ("test", "validation")}
        self._seed, self._mask = seed, options.mask.split("+")
        self._whole = [
            (part, FullRanker(split, some, wanted, self._mask))
            for part, some in _by_part(full, apart=bool(self._histories["test"])).items()
        ]
        self._sampled = len(full) < len(self._metrics)
        if self._sampled:
            self._tests_of = np.concatenate([[0], np.cumsum(split.test.sizes[self._users])])
            self._candidates = draw_candidates(split, self._users, seed)
            self._real = self._candidates != PADDING
            self._n_candidates = np.count_nonzero(self._real, axis=1)
        self._tied: list[I64] = []
        self._orders: dict[str, dict[str, float]] = {name: self._of_order(name) for name in options.beside}
        self._beside = {
            baseline_metric_name(metric, name): value
            for name, found in self._orders.items()
            for metric, value in found.items()
        }

    def measure(self, current: I64, looks: Sequence[MetricInputs] = ()) -> dict[str, float]:
        """Return each metric for the models at arena rows `current`, shape (n_nodes,), then for baseline orders.

        Metrics of test items are left out if no user has any. If several shards have looked at all users' models, each
        at some of them, their inputs are used instead.
        """
        self._tied = [look.tied for look in looks]
        own = self._judged(*self._joined(looks)) if looks else self._values(*self._scoring(current))
        if self._keep_users:
            tested = ((metric.name, own[metric.name]) for metric in self._metrics if metric.of_test_items)
            self.by_user = {name: values for name, values in tested if len(values) == len(self._users)}
        return self._means(own) | self._beside

    def look(self, current: I64, users: I64) -> MetricInputs:
        """Return the metric inputs from the models of some users, ascending."""
        self._tied = []
        of_all, of_candidates = self._scoring(current)
        parts: list[RankedLists] = []
        for part, lists in self._whole:
            for some in self._blocks(np.intersect1d(lists.users, users)):
                parts += collect_lists(lists, some, lists.seen([(some, of_all(some, part))]))
        if not self._sampled:
            return MetricInputs(concat_lists(parts), np.zeros(0, np.int64), np.zeros(0, np.int32), self.tied)
        at = np.flatnonzero(np.isin(self._users, users))
        ranks = self._sampled_ranks(of_candidates, at)
        return MetricInputs(concat_lists(parts), row_entries(self._tests_of, at)[0], ranks, self.tied)

    @property
    def tied(self) -> I64:
        """The users for whom all scores were equal at the last measurement, ascending."""
        return np.unique(np.concatenate([np.zeros(0, np.int64), *self._tied]))

    def baselines(self) -> dict[str, dict[str, float]]:
        """Return the metrics of test items for each baseline order (:data:`.orders.ORDERS`)."""
        names = [metric.name for metric in self._metrics if metric.of_test_items]
        if not names:
            return {}
        orders = {name: self._orders.get(name) or self._of_order(name) for name in ORDERS}
        return {order: {name: found[name] for name in names} for order, found in orders.items()}

    def few_candidates(self) -> dict[str, int]:
        """Return the number of users for whom K reaches the number of candidates, by metric of relevant items."""
        users, split = self._users, self._split
        found = {}
        for metric in self._metrics:
            if not issubclass(metric.looks_at, RelevantRanks):
                continue
            masked = ["train"] if metric.on_validation else self._mask
            some = np.flatnonzero(split.validation.sizes) if metric.on_validation else users
            left = split.n_items - sum(getattr(split, part).sizes[some] for part in masked)
            sizes = left if metric.full else sampled_negatives(split, users)
            found[metric.name] = int(np.count_nonzero(sizes <= metric.k))
        return {name: count for name, count in found.items() if count}

    def _of_order(self, name: str) -> dict[str, float]:
        """Return the metrics of a baseline order of the items."""
        order = ORDERS[name](self._split, self._seed)
        return self._means(self._values(order.before, order.of_candidates))

    def _joined(
        self, looks: Sequence[MetricInputs]
    ) -> tuple[dict[type[Any], list[Any]], list[RelevantRanks]]:
        """Return the metric inputs of all users, joined from parts."""
        whole: dict[type[Any], list[Any]] = {}
        found = concat_lists([lists for look in looks for lists in look.lists])
        for _, lists in self._whole:
            blocks = [*self._blocks(lists.users)]
            own = (each for each in found if each.kind in lists.kinds)
            whole |= {each.kind: each.as_seen(blocks, self._split.n_items) for each in own}
        if not self._sampled:
            return whole, []
        ranks = np.empty(len(self._candidates), np.int32)
        for look in looks:
            ranks[look.tests] = look.ranks
        return whole, [RelevantRanks(ranks[:, None])]

    def _scoring(self, current: I64) -> tuple[Callable[[I64, str], F32], Callable[[I64, Ragged], F32]]:
        """Return the functions that score items by the present models."""
        return (
            lambda users, part: self._scores_of_all(current, users, part),
            lambda users, candidates: self._scores_of_candidates(current, users, candidates),
        )

    def _values(
        self, of_all: Callable[[I64, str], F32], of_candidates: Callable[[I64, Ragged], F32]
    ) -> dict[str, F64]:
        """Return the values of which each metric is the mean, by name; for test items usually one per user.

        Parameters
        ----------
        of_all, of_candidates : callable
            Return the scores that make the lists: of all items for some users before a part of the split, and of each
            user's candidates.
        """
        whole: dict[type[Any], list[Any]] = {}
        for part, lists in self._whole:
            seen = lists.seen((some, of_all(some, part)) for some in self._blocks(lists.users))
            whole |= {kind: ranks for kind, ranks in seen.items() if ranks}
        everybody = np.arange(len(self._users))
        sampled = (
            [RelevantRanks(self._sampled_ranks(of_candidates, everybody)[:, None])] if self._sampled else []
        )
        return self._judged(whole, sampled)

    def _judged(
        self, whole: Mapping[type[Any], list[Any]], sampled: Sequence[RelevantRanks]
    ) -> dict[str, F64]:
        """Return the values of each metric, from full lists and from test items among candidates."""
        found: dict[str, F64] = {}
        for metric in self._metrics:
            ranks = whole[metric.looks_at] if metric.full else sampled
            values = np.concatenate([metric.measure.of(some, metric.k) for some in ranks])
            found[metric.name] = values if metric.full else user_means(values, self._tests_of)
        return found

    def _means(self, values: Mapping[str, F64]) -> dict[str, float]:
        """Return each metric, and those of target items per item if these are attacked."""
        found: dict[str, float] = {}
        for metric in self._metrics:
            own = values[metric.name]
            found[metric.name] = nanmean(own)
            if metric.measure.wants is TargetRanks:
                found |= {
                    f"{metric.name}[{item}]": float(v) for item, v in zip(self._each, own, strict=False)
                }
        return found

    def _blocks(self, users: I64) -> Iterator[I64]:
        """Yield the users who need lists, in blocks."""
        size = min(MAX_BLOCK, max(1, 2**22 // self._split.n_items))
        return (users[low : low + size] for low in range(0, len(users), size))

    def _sampled_ranks(self, scores_of: Callable[[I64, Ragged], F32], at: I64) -> I32:
        """Return the ranks of test items among their candidates, for the users at the given positions."""
        ranks = [np.zeros(0, np.int32)]
        for some in self._sampled_blocks(at):
            tests, place = row_entries(self._tests_of, some)
            real = self._real[tests]
            sizes = np.bincount(place, weights=self._n_candidates[tests], minlength=len(some)).astype(
                np.int64
            )
            candidates = Ragged.from_sizes(sizes, self._candidates[tests][real])
            scores = np.full(real.shape, np.inf, np.float32)  # a padded entry never beats an item
            scores[real] = scores_of(self._users[some], candidates)
            missing = real.shape[1] - self._n_candidates[tests]
            ranks.append((candidate_ranks(scores[:, 0], scores[:, 1:]) - missing).astype(np.int32))
        return np.concatenate(ranks)

    def _sampled_blocks(self, at: I64) -> Iterator[I64]:
        """Yield positions in blocks of at most :data:`MAX_CANDIDATES` candidates; at least one user each."""
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
        about = (models.layout, models.rows, models.row, models.user, candidates.offsets, candidates.values)
        scores = self._executor.score(ScoreQuery(*about, contexts, None, models.together, histories))
        begins = candidates.offsets[:-1]
        level = np.minimum.reduceat(scores, begins) == np.maximum.reduceat(scores, begins)
        self._tied.append(users[level])
        return scores

    def _scores_of_all(self, current: I64, users: I64, part: str) -> F32:
        """Return the scores of all items by the users' own models before a part, shape (n_users, n_items)."""
        contexts = {name: column[users] for name, column in self._before_next.items()}
        models = self._executor.store.scoring_view(current, users)
        histories = {name: column[users] for name, column in self._histories[part].items()}
        scores = self._executor.score_all(models, contexts, self._threads, histories)
        level = scores[:, 0] == scores[:, -1]  # checked with two columns, so that few rows are read in full
        level[level] = (scores[level] == scores[level, :1]).all(axis=1)
        self._tied.append(users[level])
        return scores


def _by_part(metrics: Sequence[MetricSpec], *, apart: bool) -> dict[str, list[MetricSpec]]:
    """Return the metrics by the part before which users are scored; all before tests, if that makes no difference."""
    if not apart:
        return {"test": list(metrics)}
    found: dict[str, list[MetricSpec]] = {}
    for metric in metrics:
        part = "validation" if metric.looks_at is ValidationRanks else "test"
        found.setdefault(part, []).append(metric)
    return found


def select_target_items(chosen: Targets | None, split: Split) -> I64:
    """Return the target items of a scenario, ascending; on equal popularity lower ids are chosen."""
    if not isinstance(chosen, LeastPopular):
        return np.unique(np.array(chosen or (), np.int64))
    popularity = np.bincount(split.train.values, minlength=split.n_items)
    return np.sort(np.argsort(popularity, kind="stable")[: chosen.least_popular])


def train_loss(executor: Executor, current: I64, n_users: int) -> float:
    """Return the mean over users of the model's loss on their own training samples.

    The samples are those of each user's first local update, with the same negatives at every report. What a recommender
    adds to the loss, drift penalties and noise do not count; rows do not drop out. Users without samples are left out.

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
    found = [
        loss
        for low in range(0, len(users), MAX_LOSS_USERS)
        for loss in _losses(executor, users[low : low + MAX_LOSS_USERS], current)
    ]
    return float(np.mean(found)) if found else float("nan")


def _losses(executor: Executor, users: I64, current: I64) -> Iterator[float]:
    import torch

    from gossiprec.compute.executors.tensors import constants_to_tensors, table_views, to_tensor
    from gossiprec.numerics.torch_setup import single_torch_thread

    work, readable = executor.work, executor.store.scoring_view(current, users)
    model, constants, layout = work.model, constants_to_tensors(work.model.constants), readable.layout
    negatives = work.training.negatives
    # with only the rows of its own items, a user's loss takes a tenth of the time
    whole = bool(constants) or (isinstance(model, SequenceModel) and model.needs_all_items)
    with torch.no_grad(), single_torch_thread():
        for place, node in enumerate(users.tolist()):
            samples = work.feed.samples(node, update=0, negatives=negatives, seed=work.seed)
            some = None if whole else _touched(samples, work.feed.item_columns)
            if some is not None:
                samples = {**samples, **_renumbered(samples, work.feed.item_columns, some)}
            batch = {name: to_tensor(column) for name, column in samples.items()}
            batch["user"] = torch.zeros(1, dtype=torch.int64)
            batch["weights"] = torch.ones(len(next(iter(samples.values()))))
            row = np.asarray(readable.rows[readable.row[place]], np.float32)  # float16 alone is copied
            tables, user = table_views(layout, torch.from_numpy(row)), int(readable.user[place])
            own = {**tables, "users": tables["users"][user : user + 1]} if "users" in tables else tables
            if some is not None:
                own = {**own, "items": own["items"][torch.from_numpy(some)]}
            p = {**layout.named(own), **constants}
            if isinstance(model, GraphModel):
                p = dict(model.encode_own(p, batch))
            yield float(model.loss(p, batch))


def _touched(samples: Columns, names: tuple[str, ...]) -> I64:
    """Return all items in some samples, ascending."""
    items = np.unique(np.concatenate([samples[name].ravel() for name in names]))
    return np.asarray(items[items >= 0], np.int64)


def _renumbered(samples: Columns, names: tuple[str, ...], items: I64) -> Columns:
    """Return the columns of items as positions among `items`; -1 means no item."""
    return {
        name: np.where(samples[name] >= 0, np.searchsorted(items, samples[name]), -1).astype(np.int32)
        for name in names
    }


def make_utility_evaluator(prepared: PreparedRun, *, beside: bool = True) -> UtilityEvaluator:
    """Return the evaluator of recommendations; `beside` adds baseline orders, unless other shards measure them."""
    scenario, split, evaluate = prepared.scenario, prepared.split, prepared.scenario.evaluate
    attacked = attacked_items(prepared.attackers)
    targets = attacked if evaluate.targets == "attacked" else select_target_items(evaluate.targets, split)
    options = UtilityOptions(
        targets=targets,
        beside=evaluate.beside if beside else (),
        mask=evaluate.mask,
        threads=thread_count(scenario),
        attacked=attacked,
        keep_users=evaluate.activity_groups is not None,
    )
    return UtilityEvaluator(split, evaluate.metrics, prepared.executor, scenario.seed, options)
