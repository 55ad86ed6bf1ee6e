"""Contract of recommenders: equal training in all executors, independent of the batch, with resumable state."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.emulation import PreparedRun, prepare, simulate
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.unlearning import UNLEARNERS, Unlearner
from gossiprec.emulation.unlearning.judge import NOTHING, unlearn
from gossiprec.federated import (
    RECOMMENDERS,
    ClientContext,
    CoordinatorContext,
    CoordinatorHook,
    Recommender,
    missing_gradient,
)
from gossiprec.models import MODELS
from gossiprec.rules.aggregators import Inbox, ModelDelta
from gossiprec.rules.servers import ClientAnswers, RoundContext
from gossiprec.scenario import load_scenario
from gossiprec.testing.tiny_runs import (
    FEDERATED,
    GOSSIP,
    UPDATES,
    check_claims,
    check_some_run_accepts,
    play_to_end,
    registered_as,
    tiny_scenario,
)

MIN_EFFECT = 3e-5
"""Fraction of the run's movement by which a fourfold loss weight must shift its end: thirty times float32 rounding."""
SAME = 1e-3
"""Tolerance relative to a version's movement (Frobenius norm): float32 rounding over some tens of steps."""
TRAINING = {"optimizer": "adam", "learning_rate": 0.01, "batch_size": "full", "local_epochs": 2}
PLAIN = {**TRAINING, "optimizer": "sgd", "learning_rate": 0.5}
SLICES = {"name": "fedavg", "rounds": 2, "slice": 3, "client_model": "none", "merge": "touched-mean"}
MODEL = {"name": "ncf", "dim": 6, "hidden": [8, 4]}


@dataclass(frozen=True)
class _Checked:
    """A recommender, its name and its section of a scenario."""

    recommender: type[Recommender]
    section: dict[str, Any]
    model: dict[str, Any]

    @functools.cached_property
    def executors(self) -> tuple[str, ...]:
        """The reference, and the executors that must agree with it."""
        work = self.prepared().executor.work
        assert work.recommender is not None
        missing = missing_gradient(work.model, work.recommender)
        return ("reference", "batched", *(() if missing else ("fused",)))

    @functools.cached_property
    def trained(self) -> dict[str, PreparedRun]:
        """A finished run by executor, for claims that do not change it."""
        return {name: self.run(executor=_on_cpu(name)) for name in self.executors}

    @property
    def quickest(self) -> str:
        """The executor with compiled kernels, if they can."""
        return self.executors[-1]

    def prepared(self, **sections: Any) -> PreparedRun:
        """Return a tiny run before its start."""
        run = {"model": self.model, "training": TRAINING, "protocol": SLICES, "recommender": self.section}
        return prepare(load_scenario(tiny_scenario(**{**run, **sections})))

    def run(self, **sections: Any) -> PreparedRun:
        """Return a tiny run at its end."""
        prepared = self.prepared(**sections)
        play_to_end(prepared)
        return prepared

    def coordinator(self) -> tuple[CoordinatorHook | None, F32, CoordinatorContext, int]:
        """Return the coordinator's part, a version for it, its context, and the width of the users' uploads."""
        model = MODELS["gmf"](MODELS["gmf"].Options())
        layout = model.layout(30)
        plain = {key: value for key, value in self.section.items() if key != "name"}
        options = self.recommender.Options.model_validate(plain)
        made = self.recommender(options, model, negatives=4, learning_rate=0.01)
        split = load_data(load_scenario(tiny_scenario()))
        contribution = made.initial_contribution(split.training_data(), 5)
        popularity = np.arange(30, dtype=np.int64)[::-1]
        known = CoordinatorContext(model, layout, popularity, 2, 5, split.n_users, contribution)
        version = np.random.default_rng(3).normal(0, 0.3, layout.merged.stop - layout.merged.start)
        return made.coordinator_hook(known), version.astype(np.float32), known, made.user_upload_width(layout)


def check_recommender(
    recommender: type[Recommender],
    options: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
) -> None:
    """Check a recommender: train clients of tiny runs with it, and play some rounds of its coordinator.

    Parameters
    ----------
    recommender : type of Recommender
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario. There are eight users and 30 items.
    model : mapping, optional
        Section of a scenario; a small ``ncf`` if it is left out.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    with registered_as(RECOMMENDERS, recommender) as name:
        checked = _Checked(recommender, {"name": name, **(options or {})}, dict(model or MODEL))
        about = f"the recommender {recommender.__name__}"
        check_claims(about, __name__, checked=checked)


def executors_agree(checked: _Checked) -> None:
    """Train equally one client after the other, many at once, and by the analytic term, if any."""
    executors = [{"name": name, "threads": 1} for name in checked.executors]
    plain = {each["name"]: checked.run(training=PLAIN, executor=each) for each in executors}
    for runs in (checked.trained, plain):  # Adam is invariant to the factor of a row's gradients
        one, *others = runs.values()
        expected = _version(one)
        moved = np.linalg.norm(expected - _version(one, first=True))
        assert 0 < moved < np.inf, "The version has not moved, or is not finite."
        for name, other in zip(checked.executors[1:], others, strict=True):
            distance = np.linalg.norm(_version(other) - expected) / moved
            assert distance < SAME, f"The reference and {name} end {distance:.2g} of their movement apart."


def loss_weights_count(checked: _Checked) -> None:
    """Name the options that multiply a loss in `loss_weights`; each changes results by more than rounding."""
    cls = checked.recommender
    named = [name for name in cls.Options.model_fields if "weight" in name and name not in cls.loss_weights]
    assert not named, f"Found {', '.join(named)} among the options, but not in loss_weights."
    options = cls.Options.model_validate({k: v for k, v in checked.section.items() if k != "name"})
    known = checked.trained[checked.quickest]
    expected = _ended(known)
    movement = np.linalg.norm(_version(known) - _version(known, first=True))
    for name in cls.loss_weights:
        weight = getattr(options, name)
        if weight:  # a loss that is left out has no weight
            weighted = {**checked.section, name: 4 * weight}
            found = _ended(checked.run(recommender=weighted, executor=_on_cpu(checked.quickest)))
            moved = np.linalg.norm(found - expected) / movement
            assert moved > MIN_EFFECT, f"Four times {name} moves the result by {moved:.2g} of its movement."


def other_clients_change_nothing(checked: _Checked) -> None:
    """Train a client to the same bytes whatever other clients are trained with it."""
    for name in checked.executors[1:]:
        one = _version(checked.trained[name])
        other = _version(checked.run(executor={**_on_cpu(name), "threads": 2, "wave_size": 2}))
        assert one.tobytes() == other.tobytes(), f"Bytes of {name} depend on threads or on the size of waves."


def the_coordinator_sends_the_declared_bytes(checked: _Checked) -> None:
    """Give finite versions of the same shape, and extras of extra_bytes, without changing its arguments."""
    hook, version, known, user_upload_width = checked.coordinator()
    for number in range(5 if hook is not None else 0):
        assert hook is not None
        before = version.copy()
        answers = _answers(version, number, known, user_upload_width)
        found, extras = hook.step(version, answers, _round(number, known))
        np.testing.assert_array_equal(version, before)
        assert found.shape == version.shape
        assert np.isfinite(found).all()
        sizes = {name: extra.nbytes for name, extra in extras.items()}
        assert all(len(extras[name]) == known.n_clients for name in hook.own_extras)
        for name in hook.own_extras | hook.one_of:
            sizes[name] //= len(extras[name])
        sent = sum(size for name, size in sizes.items() if name not in hook.stands_for)
        assert sent + hook.answer_bytes == hook.extra_bytes
        version = found


def the_coordinators_state_is_complete(checked: _Checked) -> None:
    """Continue from state() after restore() as if it had not been interrupted."""
    whole, version, known, user_upload_width = checked.coordinator()
    first, second = checked.coordinator()[0], checked.coordinator()[0]
    if whole is None or first is None or second is None:
        return
    for number in range(3):
        answers = _answers(version, number, known, user_upload_width)
        expected, _ = whole.step(version, answers, _round(number, known))
        first.step(version, answers, _round(number, known))
        version = expected
    second.restore(first.state())
    for number in range(3, 6):
        answers = _answers(version, number, known, user_upload_width)
        expected, due = whole.step(version, answers, _round(number, known))
        found, extras = second.step(version, answers, _round(number, known))
        np.testing.assert_array_equal(found, expected)
        bytes_of = [{name: extra.tobytes() for name, extra in each.items()} for each in (extras, due)]
        assert bytes_of[0] == bytes_of[1]
        version = expected


def clients_change_none_of_their_inputs(checked: _Checked) -> None:
    """Transform samples, and upload about a user, without changing the inputs; both depend on the draws only."""
    run = checked.trained[checked.quickest]
    work, store = run.executor.work, run.executor.store
    recommender, drawn = work.recommender, work.feed.samples(3, update=0, negatives=1, seed=5)
    assert recommender is not None
    assert isinstance(store, UpdateStore)
    before = {name: column.copy() for name, column in drawn.items()}
    latest, width = int(run.planner.current_rows[-1]), recommender.user_upload_width(work.layout)
    clients = [
        ClientContext(
            5, node, 0, work.layout, work.feed.positives[node], work.feed.history(node),
            store.own[node, : work.layout.user_width], store.version(latest), store.extras(latest),
        )
        for node in range(4)
    ]  # fmt: skip
    held = [client.own.tobytes() + client.version.tobytes() for client in clients]

    def played(some: list[ClientContext]) -> list[bytes]:
        uploads = np.asarray(recommender.user_uploads(some), np.float32) if width else None
        assert uploads is None or uploads.shape == (len(some), width)
        client = replace(some[-1], user_upload=None if uploads is None else uploads[-1])
        changed = recommender.transform_samples(drawn, client, np.random.default_rng(4))
        assert changed.keys() == drawn.keys()
        last = [] if uploads is None else [uploads[-1]]
        return [column.tobytes() for column in (*changed.values(), *last)]

    assert played(clients) == played(clients) == played(clients[-1:])
    assert [client.own.tobytes() + client.version.tobytes() for client in clients] == held
    for name, column in drawn.items():
        np.testing.assert_array_equal(column, before[name])


def _on_cpu(name: str) -> dict[str, Any]:
    """Return an executor of one thread; on CUDA bytes may depend on waves."""
    return {"name": name, "threads": 1, "device": "cpu"}


def _version(run: PreparedRun, *, first: bool = False) -> F32:
    """Return the coordinator's present version, or the run's first version."""
    store, model = run.executor.store, run.executor.work.model
    if first:
        return model.initial_rows(store.layout, 1, run.components.scenario.seed)[0, store.layout.merged]
    return store.load(run.planner.current_rows[-1:])[0, store.layout.merged]


def _ended(run: PreparedRun) -> F32:
    """Return the coordinator's last version and the rows of users that clients keep, as one array."""
    store = run.executor.store
    assert isinstance(store, UpdateStore)
    return np.concatenate([_version(run), store.own.ravel()])


def _answers(version: F32, number: int, context: CoordinatorContext, user_upload_width: int) -> ClientAnswers:
    """Return the answers of a round: none, or the uploads of some clients with unchanged models."""
    draw, layout = np.random.default_rng(number), context.layout
    n = context.n_clients // 2 if user_upload_width and number else 0
    rows, shared = np.zeros((0, layout.item_width), np.float32), np.zeros(layout.n_shared, np.float32)
    nothing = ModelDelta(np.zeros(0, np.int32), rows, shared)
    inbox = Inbox(np.tile(version, (n, 1)), np.arange(n), np.ones(n), deltas=[nothing] * n)
    users = draw.normal(0, 1, (n, user_upload_width)).astype(np.float32) if n else None
    return ClientAnswers(draw.permutation(context.n_clients)[:n], inbox, users)


def _round(number: int, context: CoordinatorContext) -> RoundContext:
    return RoundContext(context.seed, number, 8, context.layout)


Judged: TypeAlias = Mapping[str, Mapping[str, float]]
"""The values of the method, of the method ``again``, of doing ``nothing``, and of doing nothing in a run ``apart``."""


def check_unlearner(unlearner: type[Unlearner], **options: Any) -> None:
    """Check an unlearning method on tiny runs of gossip and federations, of which one must accept it.

    Parameters
    ----------
    unlearner : type of Unlearner
        The class; it need not be registered.
    **options
        Its options.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    protocols = {"gossip": GOSSIP, "federated": FEDERATED, "updates": UPDATES}
    runs = {name: tiny_scenario(protocol=protocols[name], observers=[]) for name in protocols}
    with TemporaryDirectory() as folder, registered_as(UNLEARNERS, unlearner) as name:

        def play(run: str, scenario: Mapping[str, Any]) -> None:
            path = simulate(scenario, out=Path(folder, run)).path
            tables = [unlearn(path, [1], methods=[{"name": name, **options}], k=3).table() for _ in range(2)]
            alone = unlearn(path, [1], methods=[], k=3).table()
            judged = {"method": tables[0][name], "again": tables[1][name], "nothing": tables[0][NOTHING]}
            about = f"the unlearning method {unlearner.__name__}"
            check_claims(about, __name__, judged={**judged, "apart": alone[NOTHING]})

        check_some_run_accepts(runs, play)


def models_are_numbers_and_costs_are_not_negative(judged: Judged) -> None:
    """Return models that are finite, and costs from 0."""
    method = judged["method"]
    assert np.isfinite(method["distance"]), f"Found the distance {method['distance']}."
    for cost in ("sent_bytes", "stored_bytes", "local_epochs", "seconds"):
        assert method[cost] >= 0, f"Found {cost} {method[cost]}."


def results_repeat(judged: Judged) -> None:
    """Give the same models and costs again, but for the time."""
    first, second = ({**judged[name], "seconds": 0.0} for name in ("method", "again"))
    np.testing.assert_equal(first, second)


def the_run_stays_as_it_was(judged: Judged) -> None:
    """Leave the models of the run as they were, while it runs and afterwards."""
    np.testing.assert_equal(judged["nothing"], judged["apart"])
