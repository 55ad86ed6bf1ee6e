"""Attacks by the coordinator on clients' uploads to a federated recommender other than updates, one file each.

The option ``leaks`` of a recommender adds its attack to a run. An attack sees observations and the coordinator's own
state. It never sees training items of a user that is not its accomplice, present rows of users, or the ground truth,
with which :mod:`gossiprec.emulation.scoring.upload_leakage` joins its guesses.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from gossiprec.adversaries.attacks import Attack
from gossiprec.base.arrays import I64
from gossiprec.base.options import LARGEST, Options
from gossiprec.base.registry import Registry


class UploadAttackOptions(Options):
    """Options of an attack on uploads, which the recommender sets."""

    community_size: int = Field(ge=1, le=LARGEST)
    """K, number of users in a community"""


class UploadAttack(Attack):
    """An attack on uploads: its guesses are joined with the truth once, at the end of the run.

    Attributes
    ----------
    section : str
        The section of the summary that gets the figures, under the key ``leaks``.
    """

    Options: ClassVar[type[Options]] = UploadAttackOptions
    section: ClassVar[str]

    @property
    def nodes(self) -> I64:
        """The coordinator, to which all clients upload; every user is its accomplice with its own data only."""
        return np.array([self.context.coordinator])

    @abstractmethod
    def upload_guesses(self) -> Any:
        """Return the guesses, without the truth: the argument of the attack's scoring function."""


UPLOAD_ATTACKS: Registry[type[UploadAttack]] = Registry("attack on uploads", __name__)

__all__ = ["UPLOAD_ATTACKS", "UploadAttack", "UploadAttackOptions"]
