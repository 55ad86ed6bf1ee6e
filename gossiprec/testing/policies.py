"""Contract of policies: they affect only their own nodes, and messages have the declared size."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from gossiprec.base.arrays import I64
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.train.local_update import TrainingSettings
from gossiprec.compute.train.node_settings import NodeSettings
from gossiprec.defences import POLICIES, Policy, PrivacySpent
from gossiprec.testing import policy_messages
from gossiprec.testing.blinding import refuse_reach
from gossiprec.testing.contract_checks import check_claims
from gossiprec.testing.policy_messages import N_NODES, NODES, PolicyCase
from gossiprec.testing.tiny_runs import (
    PROTOCOLS,
    UPDATES,
    current_models,
    registered_as,
    run_to_end,
    tiny_scenario,
)


def check_policy(
    policy: type[Policy], options: Mapping[str, Any] | None = None, *, model: str = "gmf"
) -> None:
    """Check a policy's effect on messages and training, and run it under each protocol that it accepts.

    Parameters
    ----------
    policy : type of Policy
        The class; it need not be registered.
    options : mapping, optional
        Options as in a scenario, without ``name`` and ``nodes``.
    model : str
        The name of the model that is trained and sent.

    Raises
    ------
    AssertionError
        If a claim does not hold; the message lists all of them.
    """
    with registered_as(POLICIES, policy) as name:
        run = tiny_scenario(model={"name": model})
        check_claims(f"the policy {policy.__name__}", PolicyCase(name, policy, options or {}, run), CLAIMS)


def _configured(case: PolicyCase, *, updates: int | None = 12) -> tuple[Policy, NodeSettings]:
    """Return the policy, and the settings that it made, given each node's number of local updates."""
    policy, settings = case.made(), NodeSettings.none(N_NODES)
    known: I64 | None = None if updates is None else np.full(N_NODES, updates)
    policy.configure(settings, training=TrainingSettings(), updates=known)
    return policy, settings


def other_nodes_train_as_before(case: PolicyCase) -> None:
    """Change the settings of only its own nodes, to numbers from 0 on."""
    _, settings = _configured(case)
    others = np.setdiff1d(np.arange(N_NODES), NODES)
    for name, plain in vars(NodeSettings.none(N_NODES)).items():
        found = getattr(settings, name)
        assert (found[others] == plain[others]).all(), f"{name} of other nodes is {found[others]}."
        assert (found >= 0).all(), f"Found {name} {found}."


def unknown_updates_are_taken_or_refused(case: PolicyCase) -> None:
    """Accept an unknown number of local updates, which can depend on values, or refuse it by a ScenarioError."""
    try:
        _configured(case, updates=None)
    except ScenarioError:
        return


def spent_privacy_grows(case: PolicyCase) -> None:
    """Account for the privacy of its own nodes, if for any, and never less after more updates and pushes."""
    policy, _ = _configured(case)
    counts = [np.full(N_NODES, count) for count in (0, 6, 12)]
    _grows([policy.spent(count, count) for count in counts])
    _grows([policy.spent_by_coordinates(count) for count in counts])


def _grows(spent: list[PrivacySpent | None]) -> None:
    """Check the privacy spent after three increasing counts."""
    known = [entry for entry in spent if entry is not None]
    assert len(known) in (0, len(spent)), "It accounts for privacy at some times alone."
    for entry in known:
        assert entry.nodes.tolist() == NODES, f"Found nodes {entry.nodes.tolist()}."
        assert np.shape(entry.epsilon) == np.shape(entry.noise_multiplier) == (len(NODES),), (
            "Found another shape."
        )
    for before, after in pairwise(known):
        assert (after.epsilon >= before.epsilon).all(), f"Found {before.epsilon}, later {after.epsilon}."
    assert not known or (known[0].epsilon >= 0).all(), f"Found {known[0].epsilon}."


def inboxes_are_apart(case: PolicyCase) -> None:
    """Make a separate rule for each receiver, if its nodes have inboxes."""
    rule = case.made().inbox()
    if rule is not None:
        assert rule.make() is not rule.make(), "Two receivers share one object."
        assert rule.buffer is None or rule.buffer >= 1, f"Found buffer {rule.buffer}."


def it_runs_alike_with_any_threads(case: PolicyCase) -> None:
    """Be accepted under some protocol, and give the same numbers there for any number of threads."""
    refused = []
    for protocol in PROTOCOLS.values():
        run = {
            **case.run,
            "protocol": protocol,
            "policies": [{"name": case.name, "nodes": NODES, **case.options}],
        }
        try:
            one, other = (current_models(run_to_end(run, threads=n, wave_size=2 + n)[0]) for n in (1, 2))
        except ScenarioError as error:
            refused.append(f"{protocol['name']}: {error}")
        else:
            assert np.isfinite(one).all(), f"With {protocol['name']} models are no numbers."
            assert one.tobytes() == other.tobytes(), f"With {protocol['name']} threads change models."
    assert len(refused) < len(PROTOCOLS), "\n".join(["All refuse it:", *refused])


def what_it_is_given_leads_nowhere_else(case: PolicyCase) -> None:
    """Reach no data of the run from what its transform is given, as from an array that is a view of another."""
    transform = case.made().transform()
    if transform is None or not transform.rewrites:
        return
    refused = []
    for protocol in (*PROTOCOLS.values(), UPDATES):
        policies = [{"name": case.name, "nodes": NODES, **case.options}]
        try:
            refuse_reach({**case.run, "protocol": protocol, "policies": policies}, type(transform), "encode")
        except ScenarioError as error:
            refused.append(str(error))
    assert len(refused) <= len(PROTOCOLS), "\n".join(["All refuse it:", *refused])


CLAIMS = (
    *policy_messages.CLAIMS,
    other_nodes_train_as_before,
    unknown_updates_are_taken_or_refused,
    spent_privacy_grows,
    inboxes_are_apart,
    it_runs_alike_with_any_threads,
    what_it_is_given_leads_nowhere_else,
)
