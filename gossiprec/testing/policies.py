"""Contract of policies: they affect only their own nodes, and messages have the declared size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32, I64
from gossiprec.base.errors import ScenarioError
from gossiprec.compute.local_update import NodeSettings, TrainingSettings
from gossiprec.compute.messages import (
    BYTES,
    MessagePayload,
    MessageSize,
    OutgoingTransforms,
    PushContext,
    Transform,
)
from gossiprec.defences import POLICIES, Policy, PrivacySpent
from gossiprec.models import BlockRole
from gossiprec.testing.blinding import refuse_reach_in_runs
from gossiprec.testing.tiny_runs import (
    PROTOCOLS,
    UPDATES,
    PluginCase,
    check_claims,
    check_threads,
    registered_as,
    tiny_scenario,
)

SEED, N_NODES = 3, 8
RECEIVERS = [5, 1, 6]
IN_STEP = {
    "graph": {
        "name": "rand-gossip",
        "wakes": 6,
        "fanout": 4,
        "wake": {"law": "constant"},
        "view": {"graph": {"family": "ring", "k": 4}},
    }
}
"""A protocol in which each node hears from the same nodes in every round."""
NODES = [0, 3, 4]
"""The nodes that use the policy."""


class PolicyCase(PluginCase):
    """A policy with its options, and a run without it."""

    kind: type[Policy]

    def runs(self, protocols: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the run with the policy and each of some protocols."""
        chosen = "all" if self.kind.needs_all_nodes else NODES
        policies = [{"name": self.name, "nodes": chosen, **self.options}]
        run = {**self.run, "policies": policies}
        return {name: {**run, "protocol": part} for name, part in protocols.items()}

    def made(self) -> Policy:
        """Return a new policy."""
        return self.kind(self.kind.Options.model_validate(self.options), np.array(NODES))

    def payload(self, draw: int, *, hides_user: bool) -> MessagePayload:
        """Return the payload of a random version."""
        row: F32 = np.random.default_rng(draw).normal(size=self.layout.row_size).astype(np.float32)
        return MessagePayload.of(row, self.layout, hides_user=hides_user)

    def push(self, node: int, number: int, size: int) -> PushContext:
        """Return a push of one of the policy's nodes with a message of `size` numbers; its memory is empty."""
        memory, items = np.zeros(size, np.float32), self.split.train[node]
        receivers = np.array(RECEIVERS)
        return PushContext(SEED, node, number, items, number + 1, receivers, receivers, memory)

    def encoded(
        self,
        transform: Transform,
        payload: MessagePayload,
        base: MessagePayload | None,
        push: tuple[int, int],
    ) -> MessagePayload:
        """Return the message of a push to its first receiver."""
        receiver = RECEIVERS[:1] if transform.per_receiver else []
        return transform.encode(payload, base, self.push(*push, len(payload.flat)), *receiver)


def _hides_user(transform: Transform) -> tuple[bool, ...]:
    """Return whether messages may lack the user's row, because of this policy or another one."""
    return (True,) if BlockRole.USER in transform.hides else (False, True)


def _encoded(case: PolicyCase, transform: Transform) -> Iterator[tuple[MessagePayload, MessagePayload]]:
    """Yield messages before and after a transform, with and without a version from before the local update."""
    for hides_user in _hides_user(transform):
        for number, has_base in enumerate((True, False)):
            before, base = (case.payload(draw, hides_user=hides_user) for draw in (number, 9))
            after = case.payload(number, hides_user=hides_user)
            if transform.rewrites:
                after = case.encoded(transform, after, base if has_base else None, (3, number))
            yield before, after


def only_user_rows_are_hidden(case: PolicyCase) -> None:
    """Hide nothing but the user's row."""
    transform = case.made().transform()
    hidden = set() if transform is None else transform.hides - {BlockRole.USER}
    assert not hidden, f"It hides the {' and '.join(sorted(hidden))} blocks, which receivers merge."


def a_message_keeps_its_shapes(case: PolicyCase) -> None:
    """Rewrite a message into finite numbers in float32, in the same shapes."""
    transform = case.made().transform()
    for before, after in _encoded(case, transform or Transform()):
        shapes = [[np.shape(part) for part in payload.parts] for payload in (before, after)]
        assert shapes[0] == shapes[1], f"Found shapes {shapes[1]}, must be {shapes[0]}."
        types = {part.dtype.name for part in after.parts}
        assert types == {"float32"}, f"Found {', '.join(sorted(types))}."
        assert all(np.isfinite(part).all() for part in after.parts), "Found numbers that are not finite."


def the_declared_size_is_that_of_the_message(case: PolicyCase) -> None:
    """Declare the size of its messages, and leave the messages of other nodes unchanged."""
    outgoing, transform = OutgoingTransforms(case.layout, N_NODES), case.made().transform() or Transform()
    assert transform.extra_bytes >= 0, f"Found extra_bytes {transform.extra_bytes}."
    whole = outgoing.message_bytes
    outgoing.add(case.name, transform, np.array(NODES))
    _, after = next(_encoded(case, transform))
    due = BYTES * sum(part.size for part in after.parts) + transform.extra_bytes
    found = outgoing.message_bytes
    assert (found[NODES] == due).all(), f"Found {found[NODES[0]]}, must be {due}."
    others = np.setdiff1d(np.arange(N_NODES), NODES)
    assert (found[others] == whole[others]).all(), "Messages of other nodes have another size."


def its_flags_describe_its_messages(case: PolicyCase) -> None:
    """Announce messages that lack numbers or have another size than their blocks, and plan for the largest."""
    transform = case.made().transform() or Transform()
    for before, after in _encoded(case, transform) if transform.rewrites else ():
        assert after.sent is None or transform.is_partial, "Numbers are not sent, but is_partial is False."
        changed = after.size_bytes != before.size_bytes
        assert transform.resizes or not changed, "The size of a message changes, but resizes is False."
        most, size = transform.planned_size(MessageSize(len(before.flat))).bytes, after.size_bytes
        assert size <= most or not transform.resizes, f"Found {size} bytes, planned_size is {most}."


def a_message_depends_on_node_and_push_only(case: PolicyCase) -> None:
    """Rewrite a push in the same way each time, whatever else it has rewritten before."""
    first, second = (case.made().transform() for _ in range(2))
    if first is None or second is None or not first.rewrites:
        return
    hides_user = _hides_user(first)[0]
    pushes = [(node, number) for node in NODES for number in range(3)]

    def bytes_of(transform: Transform, push: tuple[int, int]) -> list[bytes]:
        payload, base = (case.payload(draw, hides_user=hides_user) for draw in (1, 2))
        encoded = case.encoded(transform, payload, base, push)
        sent = b"" if encoded.sent is None else encoded.sent.tobytes()
        return [*(part.tobytes() for part in encoded.parts), sent]

    found = {push: bytes_of(first, push) for push in pushes}
    again = {push: bytes_of(second, push) for push in reversed(pushes)}
    wrong = [push for push in pushes if found[push] != again[push]]
    assert not wrong, f"Push {wrong[0][1]} of node {wrong[0][0]} differs in another order."


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
        If a claim does not hold; the message lists all of them, those about runs only if all others hold.
    """
    with registered_as(POLICIES, policy) as name:
        case = PolicyCase(name, policy, options or {}, tiny_scenario(model={"name": model}))
        about = f"the policy {policy.__name__}"
        check_claims(about, __name__, case=case)
        check_claims(about, __name__, run_case=case)


def _configured(case: PolicyCase, *, updates: int | None = 12) -> tuple[Policy, NodeSettings]:
    """Return the policy, and the settings that it made, given each node's number of local updates."""
    policy, settings = case.made(), NodeSettings.without_policies(N_NODES)
    known: I64 | None = None if updates is None else np.full(N_NODES, updates)
    policy.configure(settings, training=TrainingSettings(), updates=known)
    return policy, settings


def other_nodes_train_as_before(case: PolicyCase) -> None:
    """Change only the settings of its own nodes, to numbers that are not negative."""
    _, settings = _configured(case)
    others = np.setdiff1d(np.arange(N_NODES), NODES)
    plain_settings = vars(NodeSettings.without_policies(N_NODES))
    del plain_settings["terms"]
    for factors in settings.terms.values():
        assert not factors[others].any(), "Other nodes have a term in their loss."
    for name, plain in plain_settings.items():
        found = getattr(settings, name)
        assert (found[others] == plain[others]).all(), f"{name} of other nodes is {found[others]}."
        assert (found >= 0).all(), f"Found {name} {found}."


def unknown_updates_are_accepted_or_refused(case: PolicyCase) -> None:
    """Accept an unknown number of local updates, or refuse it by a ScenarioError."""
    try:
        _configured(case, updates=None)
    except ScenarioError:
        return


def spent_privacy_grows(case: PolicyCase) -> None:
    """Report the privacy spent by all its own nodes or by none, never less after more updates and pushes."""
    policy, _ = _configured(case)
    counts = [np.full(N_NODES, count) for count in (0, 6, 12)]
    _grows([policy.privacy_spent(count, count) for count in counts])
    _grows([policy.privacy_spent_by_coordinate(count) for count in counts])


def _grows(spent: list[PrivacySpent | None]) -> None:
    """Check the privacy spent after three increasing counts."""
    known = [entry for entry in spent if entry is not None]
    assert len(known) in (0, len(spent)), "It reports the privacy spent at some times only."
    for entry in known:
        assert entry.nodes.tolist() == NODES, f"Found nodes {entry.nodes.tolist()}."
        shapes = np.shape(entry.epsilon), np.shape(entry.noise_multiplier)
        assert shapes[0] == shapes[1] == (len(NODES),), "Found another shape."
    for before, after in pairwise(known):
        assert (after.epsilon >= before.epsilon).all(), f"Found {before.epsilon}, later {after.epsilon}."
    assert not known or (known[0].epsilon >= 0).all(), f"Found {known[0].epsilon}."


def receivers_have_separate_rules(case: PolicyCase) -> None:
    """Make a separate rule for each receiver, if its nodes have inboxes."""
    rule = case.made().inbox()
    if rule is not None:
        assert rule.make() is not rule.make(), "Two receivers share one object."
        assert rule.buffer is None or rule.buffer >= 1, f"Found buffer {rule.buffer}."


def threads_change_nothing(run_case: PolicyCase) -> None:
    """Be accepted under some protocol, and give the same finite models for any number of threads."""
    check_threads(run_case.runs({**PROTOCOLS, **(IN_STEP if run_case.kind.needs_all_nodes else {})}))


def its_inputs_give_no_access_to_the_run(run_case: PolicyCase) -> None:
    """Give its transform inputs from which no data of the run can be reached, not even through a view."""
    transform = run_case.made().transform()
    if transform is not None and transform.rewrites and transform.cut is None:
        refuse_reach_in_runs(run_case.runs({**PROTOCOLS, "updates": UPDATES}), type(transform), "encode")
