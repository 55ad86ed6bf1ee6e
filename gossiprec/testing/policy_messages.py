"""Claims about a policy's messages: shapes, sizes, and draws by node and push."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gossiprec.base.arrays import F32
from gossiprec.compute.messages import BYTES, MessagePayload, OutgoingTransforms, PushContext, Transform
from gossiprec.data.split import Split
from gossiprec.defences import Policy
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.models import MODELS, BlockRole, Layout
from gossiprec.scenario import load_scenario

SEED, N_NODES = 3, 8
NODES = [0, 3, 4]
"""The nodes that use the policy."""


@dataclass(frozen=True)
class PolicyCase:
    """A policy with its options, and a run without it."""

    name: str
    kind: type[Policy]
    options: Mapping[str, Any]
    run: Mapping[str, Any]

    @cached_property
    def split(self) -> Split:
        """The run's data."""
        return load_data(load_scenario(self.run))

    @cached_property
    def layout(self) -> Layout:
        """The layout of the model's rows."""
        model = MODELS[self.run["model"]["name"]](load_scenario(self.run).model.options)
        return model.fitted_to(self.split.training_data()).layout(self.split.n_items)

    def made(self) -> Policy:
        """Return a new policy."""
        return self.kind(self.kind.Options.model_validate(self.options), np.array(NODES))

    def payload(self, draw: int, *, hides_user: bool) -> MessagePayload:
        """Return the payload of a random version."""
        row: F32 = np.random.default_rng(draw).normal(size=self.layout.row_size).astype(np.float32)
        return MessagePayload.of(row, self.layout, hides_user=hides_user)

    def push(self, node: int, number: int) -> PushContext:
        """Return a push of one of the policy's nodes."""
        return PushContext(SEED, node, number, self.split.train[node])


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
                after = transform.encode(after, base if has_base else None, case.push(3, number))
            yield before, after


def receivers_get_what_they_merge(case: PolicyCase) -> None:
    """Hide nothing but the user's row."""
    transform = case.made().transform()
    hidden = set() if transform is None else transform.hides - {BlockRole.USER}
    assert not hidden, f"It hides the {' and '.join(sorted(hidden))} blocks, but receivers merge them."


def as_many_finite_numbers_leave(case: PolicyCase) -> None:
    """Rewrite a message into finite numbers in float32, in the same shapes."""
    transform = case.made().transform()
    for before, after in _encoded(case, transform or Transform()):
        shapes = [[np.shape(part) for part in payload.parts] for payload in (before, after)]
        assert shapes[0] == shapes[1], f"Found shapes {shapes[1]}, must be {shapes[0]}."
        types = {part.dtype.name for part in after.parts}
        assert types == {"float32"}, f"Found {', '.join(sorted(types))}."
        assert all(np.isfinite(part).all() for part in after.parts), "Found numbers that are not finite."


def sizes_follow_from_what_leaves(case: PolicyCase) -> None:
    """Have messages as large as the numbers that leave and the extra bytes, and other nodes' messages unchanged."""
    outgoing, transform = OutgoingTransforms(case.layout, N_NODES), case.made().transform() or Transform()
    assert transform.extra_bytes >= 0, f"Found extra_bytes {transform.extra_bytes}."
    whole = outgoing.message_bytes
    outgoing.add(case.name, transform, np.array(NODES))
    _, after = next(_encoded(case, transform))
    due = BYTES * sum(part.size for part in after.parts) + transform.extra_bytes
    assert (outgoing.message_bytes[NODES] == due).all(), (
        f"Found {outgoing.message_bytes[NODES[0]]}, must be {due}."
    )
    others = np.setdiff1d(np.arange(N_NODES), NODES)
    assert (outgoing.message_bytes[others] == whole[others]).all(), (
        "Messages of other nodes have another size."
    )


def draws_follow_from_node_and_push(case: PolicyCase) -> None:
    """Rewrite a node's push equally each time, whatever else has been rewritten before."""
    first, second = (case.made().transform() for _ in range(2))
    if first is None or second is None or not first.rewrites:
        return
    hides_user = _hides_user(first)[0]
    pushes = [(node, number) for node in NODES for number in range(3)]

    def bytes_of(transform: Transform, push: tuple[int, int]) -> list[bytes]:
        payload, base = (case.payload(draw, hides_user=hides_user) for draw in (1, 2))
        return [part.tobytes() for part in transform.encode(payload, base, case.push(*push)).parts]

    found = {push: bytes_of(first, push) for push in pushes}
    again = {push: bytes_of(second, push) for push in reversed(pushes)}
    wrong = [push for push in pushes if found[push] != again[push]]
    assert not wrong, f"Push {wrong[0][1]} of node {wrong[0][0]} is another in another order."


CLAIMS = (
    receivers_get_what_they_merge,
    as_many_finite_numbers_leave,
    sizes_follow_from_what_leaves,
    draws_follow_from_node_and_push,
)
