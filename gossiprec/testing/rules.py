"""Contracts of rules: aggregators, servers and item similarities.

Aggregators return one finite model within the range of those received, in any order of arrival. Servers push what they
announce, change only by answers, and have resumable state. Rows of similarities depend only on their item.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.base.ragged import Ragged
from gossiprec.data.split import Split
from gossiprec.models import BlockRole, Layout, ParameterBlock
from gossiprec.rules import RootData, UsesRootData, aggregators
from gossiprec.rules.aggregators import AGGREGATORS, Aggregator, Inbox, ModelDelta, RoundSums
from gossiprec.rules.servers import SERVERS, ClientAnswers, Downlink, RoundContext, Server
from gossiprec.rules.similarities import Similarity
from gossiprec.testing.blinding import refuse_reach_in_runs
from gossiprec.testing.tiny_runs import FEDERATED, UPDATES, check_claims, registered_as, tiny_scenario

Make = Callable[[], Aggregator]
MakeServer = Callable[[], Server]
MakeSimilarity = Callable[[], Similarity]
Part = TypeVar("Part")


@dataclass(frozen=True)
class _InboxCase:
    """A receiver's model and its inbox."""

    own: F32
    models: F32
    inbox: Inbox

    def aggregated(self, rule: Aggregator, *, step: int = 2) -> F32:
        """Return the result of a rule, with all inputs read-only; a delta touches every `step`-th item."""
        self.own.setflags(write=False)
        self.models.setflags(write=False)
        return rule.aggregate(self.own, self._as_deltas(step) if rule.uses_deltas else self.inbox)

    def _as_deltas(self, step: int) -> Inbox:
        """Return the inbox as deltas: of every `step`-th item, and of one shared weight."""
        n_items, changes = len(self.own) - 1, []
        for place in self.inbox.row_index:
            change = (self.models[place] - self.own).astype(np.float32)
            items = np.arange(place % step, n_items, step, dtype=np.int32)
            changes.append(ModelDelta(items, change[items, None], change[n_items:]))
        return replace(self.inbox, deltas=changes)

    def __str__(self) -> str:
        n, columns = self.models.shape
        return f"{n} models of {columns} numbers, the own one counting {self.inbox.own_weight:g}"


def check_aggregator(aggregator: type[Aggregator], options: Mapping[str, Any] | None = None) -> None:
    """Check an aggregation rule on small inboxes.

    Parameters
    ----------
    aggregator : type of Aggregator
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = aggregator.Options.model_validate(options or {})
    about = f"the aggregator {aggregator.__name__}"
    check_claims(about, __name__, make=lambda: with_stand_in_root(aggregator(chosen)))
    if not aggregator.streaming:
        with registered_as(AGGREGATORS, aggregator) as name:
            rule = {"name": name, **(options or {})}
            check_claims(about, __name__, rule=(aggregator, rule))


def with_stand_in_root(part: Part) -> Part:
    """Return a rule or server, with root data on which every local update makes about the same step if it needs any."""
    if isinstance(part, UsesRootData):
        part.root = RootData(
            users=np.arange(2), first_rows=np.zeros((2, 3), np.float32), train=_stand_in_update,
            loss=lambda model, rows, number: float(np.square(model).mean() + rows.sum()),
            gradient=lambda model, rows, number: (2 * model / model.size).astype(np.float32),
            scores=lambda model, rows: np.zeros((2, model.size), np.float32),
        )  # fmt: skip
    return part


def _stand_in_update(model: F32, rows: F32, number: int) -> tuple[F32, F32]:
    step = np.cos(np.arange(model.size) + number) + rows.sum()
    return (model + 0.5 * step).astype(np.float32), (rows + 0.125).astype(np.float32)


def _case(seed: int, n: int, columns: int, own_weight: float = 0.0) -> _InboxCase:
    draw = np.random.default_rng(seed)
    own, models = draw.normal(size=columns), draw.normal(size=(n, columns))
    received = models.astype(np.float32)
    inbox = Inbox(received, np.arange(n), draw.uniform(0.5, 9.0, n), own_weight)
    return _InboxCase(own.astype(np.float32), received, inbox)


def _cases() -> Iterator[_InboxCase]:
    for seed, n, columns, own_weight in itertools.product(range(3), range(1, 10), (1, 6), (0.0, 2.0)):
        yield _case(seed, n, columns, own_weight)


def weights_are_above_zero(make: Make) -> None:
    """Give every user's models a finite weight above 0."""
    found = make().weights(np.array([3, 1, 7]))
    assert np.shape(found) == (3,), f"Found shape {np.shape(found)} for 3 users."
    assert (np.isfinite(found) & (found > 0)).all(), f"Found {found}."


def an_empty_inbox_leaves_the_own_model(make: Make) -> None:
    """Leave the own model as it is if nothing was received."""
    nothing = _case(0, 0, 3, own_weight=1.0)
    found = nothing.aggregated(make())
    assert np.array_equal(found, nothing.own), f"Found {found}, the own model is {nothing.own}."


def one_finite_model_comes_out(make: Make) -> None:
    """Return one finite model in float32, of the same length, and change nothing that was given."""
    for case in _cases():
        found = case.aggregated(make())
        assert found.shape == case.own.shape, f"Found shape {found.shape} of {case}."
        assert found.dtype == np.float32, f"Found {found.dtype} of {case}."
        assert np.isfinite(found).all(), f"Found {found} of {case}."


def the_order_of_arrival_does_not_matter(make: Make) -> None:
    """Return the same model whatever the order of arrival."""
    for seed, case in enumerate(_cases()):
        order, inbox = np.random.default_rng(seed).permutation(len(case.inbox)), case.inbox
        shuffled = replace(inbox, row_index=inbox.row_index[order], weights=inbox.weights[order])
        found, expected = replace(case, inbox=shuffled).aggregated(make()), case.aggregated(make())
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(case))


def the_result_is_in_the_range_of_the_models(make: Make) -> None:
    """Return values between the smallest and the largest of all models, unless the rule adds deltas or root data."""
    if make().uses_deltas or isinstance(make(), UsesRootData):
        return
    for case in _cases():
        everyone, found = np.vstack([case.models, case.own]), case.aggregated(make())
        above = np.max([everyone.min(axis=0) - found, found - everyone.max(axis=0)])
        assert above <= 1e-4, f"A value is {above:.3g} outside the range of {case}."


def no_change_changes_nothing(make: Make) -> None:
    """Return the own model if all deltas are zero."""
    if not make().uses_deltas:
        return
    case = _case(3, 4, 6)
    same = replace(case, models=np.tile(case.own, (4, 1)))
    assert np.array_equal(same.aggregated(make()), case.own), f"Found {same.aggregated(make())}."


def an_item_that_no_client_touched_stays(make: Make) -> None:
    """Leave items unchanged that no client has touched."""
    if not make().uses_deltas:
        return
    case = _case(3, 5, 9)
    inbox = replace(case.inbox, row_index=np.array([0, 2, 4]), weights=np.ones(3))
    found = replace(case, inbox=inbox).aggregated(make())
    assert np.array_equal(found[1:8:2], case.own[1:8:2]), f"Found {found[1:8:2]} of {case.own[1:8:2]}."


def blocks_of_columns_change_nothing(make: Make) -> None:
    """Return the same model if the columns are processed block by block."""
    case = _case(1, 7, 50, own_weight=1.0)
    whole = case.aggregated(make())
    with patch.object(aggregators, "BLOCK", 40):
        np.testing.assert_allclose(case.aggregated(make()), whole, rtol=1e-6)


def halves_are_reduced_in_float32(make: Make) -> None:
    """Return float32 for rows of float16."""
    rows = np.arange(12, dtype=np.float16).reshape(4, 3)
    case = _InboxCase(np.zeros(3, np.float32), rows, Inbox(rows, np.arange(4), np.ones(4)))  # type: ignore[arg-type]
    found = case.aggregated(make())
    assert found.dtype == np.float32, f"Found {found.dtype}."


def what_it_remembers_is_in_its_state(make: Make) -> None:
    """Continue from its state() after restore() as if it had not been interrupted."""
    whole, first, second = make(), make(), make()
    before, after = (_case(seed, 5, 4, own_weight=1.0) for seed in (1, 2))
    for rule in (whole, first):
        before.aggregated(rule)
    second.restore(first.state())
    one, other = (after.aggregated(rule) for rule in (whole, second))
    np.testing.assert_array_equal(other, one)


def one_invalid_model_in_seven_does_no_harm(make: Make) -> None:
    """Withstand one invalid model in seven (NaN, infinite or huge), as `is_robust` declares."""
    if not make().is_robust or make().streaming:
        return
    for evil in (np.nan, np.inf, -np.inf, 1e30):
        case = _case(2, 7, 4, own_weight=1.0)
        case.models[3] = evil
        found = case.aggregated(make())
        assert (np.abs(found) < 10).all(), f"Found {found} if one model is {evil}."


def invalid_models_up_to_the_breakdown_point_do_no_harm(make: Make) -> None:
    """Withstand as many invalid models (NaN, infinite or huge) as `breakdown` says."""
    if make().streaming:
        return
    for n, evil in itertools.product((1, 2, 3, 7, 12, 25), (np.nan, np.inf, -np.inf, 1e30)):
        rule, case = make(), _case(4, n, 7)
        count = rule.breakdown(n)
        assert 0 <= count <= n, f"Found breakdown({n}) = {count}."
        signs = np.where(np.arange(count) % 3, 1.0, -1.0)
        case.models[:count] = (signs * evil)[:, None]
        found = case.aggregated(rule, step=1)
        assert not count or (np.abs(found) < 10).all(), f"Found {found} if {count} of {n} models are {evil}."


def a_value_that_is_not_finite_is_propagated(make: Make) -> None:
    """Propagate a value that is not finite, in one model or in two, as `propagates_nonfinite` declares."""
    if not make().propagates_nonfinite:
        return
    for column, evils in itertools.product((1, 3), ((np.nan,), (np.inf,), (-np.inf,), (np.inf, -np.inf))):
        case = _case(2, 7, 4)
        for place, evil in zip((3, 5), evils, strict=False):
            case.models[place, column] = evil
        with np.errstate(invalid="ignore"):
            found = case.aggregated(make())
        assert not np.isfinite(found).all(), f"Found {found} for {', '.join(map(str, evils))}."


def sums_give_the_same_model(make: Make) -> None:
    """Return the same model for the sums of a round as for its answers, as `from_sums` declares."""
    if not make().from_sums:
        return
    for case in _cases():
        n, columns = case.models.shape
        if case.inbox.own_weight:
            continue
        case = replace(case, inbox=replace(case.inbox, weights=np.ones(n)))
        touched = np.ones((n, columns), np.bool_)
        if make().uses_deltas:  # every second item, and the shared weight
            touched[:, :-1] = np.arange(n)[:, None] % 2 == np.arange(columns - 1) % 2
        total = np.where(touched, case.models.astype(np.float64) - case.own, 0.0).sum(axis=0)
        sums = RoundSums(total, float(n), touched.sum(axis=0).astype(np.float64))
        found, expected = make().reduce_sums(case.own, sums), case.aggregated(make())
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(case))


def its_inputs_give_no_access_to_the_run(rule: tuple[type[Aggregator], dict[str, Any]]) -> None:
    """Get inputs from which no data of the run can be reached, for example through a view of another array."""
    _refuse_reach(*rule, key="merge", method="reduce")


def _refuse_reach(cls: type, section: dict[str, Any], *, key: str, method: str) -> None:
    runs = {
        name: tiny_scenario(protocol={**protocol, key: section})
        for name, protocol in {"models": FEDERATED, "updates": UPDATES}.items()
    }
    refuse_reach_in_runs(runs, cls, method)


N_CLIENTS, SEED = 4, 1
BLOCKS = (
    ParameterBlock("users", BlockRole.USER, (2,)),
    ParameterBlock("items", BlockRole.ITEM, (2,)),
    ParameterBlock("weights", BlockRole.SHARED, (1,)),
)
LAYOUT = Layout(BLOCKS, n_items=3, n_users=1)
WIDTH = LAYOUT.merged.stop - LAYOUT.merged.start
"""Columns of a version."""


def check_server(server: type[Server], options: Mapping[str, Any] | None = None) -> None:
    """Check a server by playing some rounds.

    Parameters
    ----------
    server : type of Server
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = server.Options.model_validate(options or {})
    about = f"the server {server.__name__}"
    check_claims(about, __name__, make_server=lambda: with_stand_in_root(server(chosen)))
    with registered_as(SERVERS, server) as name:
        section = {"name": name, **(options or {})}
        check_claims(about, __name__, named=(server, section))


def _downlink(server: Server, published: F32, number: int, aggregated: F32 | None) -> Downlink:
    """Return the server's downlink after a round with the answers of two clients, or with none."""
    clients = np.array([] if aggregated is None else [0, 2], np.int64)
    rows = np.tile(published if aggregated is None else aggregated, (len(clients), 1))
    answers = ClientAnswers(clients, Inbox(rows, np.arange(len(clients)), np.ones(len(clients))))
    result = published.copy() if aggregated is None else aggregated
    return server.round(published.copy(), result, answers, RoundContext(SEED, number, N_CLIENTS, LAYOUT))


def _played(
    server: Server, targets: Iterable[float | None], first: int = 0, start: F32 | None = None
) -> list[Downlink]:
    """Play some rounds, each with the aggregate of its answers, or None if there are none."""
    published, pushed = np.zeros(WIDTH, np.float32) if start is None else start, []
    for number, target in enumerate(targets, first):
        aggregated = None if target is None else np.full(WIDTH, target, np.float32)
        pushed.append(_downlink(server, published, number, aggregated))
        published = pushed[-1].versions[0]
    return pushed


def it_pushes_what_it_announces(make_server: MakeServer) -> None:
    """Push n_versions finite versions in float32 and extras of extra_bytes, and select existing versions."""
    due, due_bytes = (make_server().n_versions, WIDTH), make_server().extra_bytes
    for number, downlink in enumerate(_played(make_server(), [None, 1.0, None, 2.0])):
        versions, chosen = downlink.versions, downlink.version_of
        assert versions.shape == due, f"Found versions of shape {versions.shape} for {due} in round {number}."
        assert versions.dtype == np.float32, f"Found versions in {versions.dtype}."
        assert np.isfinite(versions).all(), f"Found {versions} in round {number}."
        size = sum(extra.nbytes for extra in downlink.extras.values())
        assert size == due_bytes, f"Found extras of {size} bytes for {due_bytes}."
        if chosen is not None:
            assert np.shape(chosen) == (N_CLIENTS,), f"Found version_of in shape {np.shape(chosen)}."
            exist = np.isin(chosen, np.arange(due[0]))
            assert exist.all(), f"Found version_of {chosen} for {due[0]} versions."


def without_answers_nothing_moves(make_server: MakeServer) -> None:
    """Leave the first version as it is in a round without answers."""
    before, after = _played(make_server(), [1.0, None])
    np.testing.assert_array_equal(after.versions[0], before.versions[0])


def what_a_server_remembers_is_in_its_state(make_server: MakeServer) -> None:
    """Continue from its state() after restore() as if it had not been interrupted."""
    whole, first, second = make_server(), make_server(), make_server()
    expected = _played(whole, [None, 1.0, 2.0, -1.0])
    published = _played(first, [None, 1.0])[-1].versions[0]
    second.restore(first.state())
    for found, due in zip(_played(second, [2.0, -1.0], 2, published), expected[2:], strict=True):
        np.testing.assert_array_equal(found.versions, due.versions)


def answers_that_agree_are_followed(make_server: MakeServer) -> None:
    """Approach the value to which the answers of 400 rounds agree."""
    server, version = make_server(), np.zeros(WIDTH, np.float32)
    for number in range(400):
        version = _downlink(server, version, number, version + np.float32(0.1) * (1 - version)).versions[0]
    off = np.abs(version - 1).max()
    assert off < 0.1, f"It is {off:.3g} off."


def inputs_of_a_server_give_no_access_to_the_run(named: tuple[type[Server], dict[str, Any]]) -> None:
    """Get inputs from which no data of the run can be reached, for example through a view of another array."""
    _refuse_reach(*named, key="server", method="round")


TEXTS = ("the red house drama", "the blue house", "", "night train crime", "red night drama", "a b c")
N_USERS, N_ITEMS, SPLIT_SEED = 8, len(TEXTS), 3
EVERY = np.arange(N_ITEMS)


def check_similarity(similarity: type[Similarity], options: Mapping[str, Any] | None = None) -> None:
    """Check a similarity on a few items.

    Parameters
    ----------
    similarity : type of Similarity
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    chosen = similarity.Options.model_validate(options or {})

    def make() -> Similarity:
        return similarity(chosen).fit(tiny_split().training_data(), seed=SPLIT_SEED)

    check_claims(f"the similarity {similarity.__name__}", __name__, make_similarity=make)


def tiny_split() -> Split:
    """Return data of which the items have names and texts, one of them empty."""
    users, items = np.nonzero(np.random.default_rng(SPLIT_SEED).random((N_USERS, N_ITEMS)) < 0.5)
    train = Ragged.sets_from_pairs(users, items, N_USERS)
    nothing = Ragged.from_sizes(np.zeros(N_USERS, np.int64), np.empty(0, np.int32))
    names = tuple(f"item-{item}" for item in range(N_ITEMS))
    return Split("tiny", N_USERS, N_ITEMS, train, nothing, nothing, item_names=names, item_texts=TEXTS)


def _whole(make_similarity: MakeSimilarity) -> F32:
    return make_similarity().rows(EVERY)


def rows_are_finite_numbers(make_similarity: MakeSimilarity) -> None:
    """Return finite float32, a row for each requested item and a column for each item."""
    for items in (EVERY, EVERY[:0], np.array([2, 2, 1])):
        rows = make_similarity().rows(items)
        assert rows.shape == (len(items), N_ITEMS), f"Found shape {rows.shape} for {len(items)} items."
        assert rows.dtype == np.float32, f"Found {rows.dtype}."
        assert np.isfinite(rows).all(), f"Found {rows[~np.isfinite(rows)][0]}."


def a_row_depends_on_its_item_only(make_similarity: MakeSimilarity) -> None:
    """Return a bit-identical row whatever other items are requested, and whenever it is fitted again."""
    fitted, whole = make_similarity(), _whole(make_similarity)
    for items in (EVERY[::-1], np.array([4]), np.array([1, 1, 3])):
        off = np.flatnonzero((fitted.rows(items) != whole[items]).any(axis=1))
        assert not len(off), f"The row of item {items[off[0]]} differs among {items.tolist()}."


def nothing_is_nearer_than_the_item_itself(make_similarity: MakeSimilarity) -> None:
    """Return no higher similarity of an item to another than to itself."""
    whole = _whole(make_similarity)
    item = int(np.argmax(whole.max(axis=1) - whole.diagonal()))
    assert whole[item].max() <= whole[item, item], (
        f"Found {whole[item].max():g} for item {item}, and {whole[item, item]:g} with itself."
    )


def its_sensitivity_holds(make_similarity: MakeSimilarity) -> None:
    """Return similarities of two items to a third that differ by no more than `sensitivity`, unless it is None."""
    known, spread = make_similarity().sensitivity, float(np.ptp(_whole(make_similarity), axis=0).max())
    assert known is None or 0 < spread <= known, f"They differ by {spread:g}, but the sensitivity is {known}."
