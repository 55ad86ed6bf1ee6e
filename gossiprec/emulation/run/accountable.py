"""Whose privacy a run accounts for."""

from __future__ import annotations

from gossiprec.emulation.assembly.prepare import Prepared
from gossiprec.emulation.scoring.privacy import ToldRows
from gossiprec.policies import Policy


def accountable(prepared: Prepared) -> list[Policy]:
    """Return the policies whose privacy is accounted for by what nodes have trained and pushed.

    Where clients send updates, what rewrites them leaves in the open which items were touched: nothing is claimed of
    messages, only of the numbers in them.
    """
    if not prepared.protocol.sends_updates:
        return prepared.policies
    transforms = [policy.transform() for policy in prepared.policies]
    return [
        policy
        for policy, transform in zip(prepared.policies, transforms, strict=True)
        if transform is None or not transform.rewrites
    ]


def told_rows(prepared: Prepared) -> ToldRows | None:
    """Return the account of what clients tell of their users, if they do and it is known what that spends."""
    recommender = prepared.recommender
    if recommender is None or not prepared.told_width or recommender.told_epsilon is None:
        return None
    return ToldRows(recommender.told_epsilon, prepared.split.n_users)


def tells_openly(prepared: Prepared) -> bool:
    """Return whether clients send something of their users that no epsilon covers."""
    return bool(prepared.told_width) and told_rows(prepared) is None
