"""Contract checks for everything that can be registered, built in or from plug-ins.

There is one check per kind of plug-in, to be called on a class of your own. Each check raises an
:class:`AssertionError` that names every claim that does not hold. No check needs pytest.
"""

from __future__ import annotations

from gossiprec.testing.adversaries import check_adversary, check_poisoner
from gossiprec.testing.attacks import check_attack, check_ties
from gossiprec.testing.datasets import check_dataset, check_split
from gossiprec.testing.measures import check_measure, check_tracker
from gossiprec.testing.models import check_model
from gossiprec.testing.policies import check_policy
from gossiprec.testing.protocols import check_protocol
from gossiprec.testing.recommenders import check_recommender, check_unlearner
from gossiprec.testing.rules import check_aggregator, check_server, check_similarity
from gossiprec.testing.tiny_runs import temporarily_registered
from gossiprec.testing.topologies import check_sampling, check_session_format, check_topology

__all__ = [
    "check_adversary",
    "check_aggregator",
    "check_attack",
    "check_dataset",
    "check_measure",
    "check_model",
    "check_poisoner",
    "check_policy",
    "check_protocol",
    "check_recommender",
    "check_sampling",
    "check_server",
    "check_session_format",
    "check_similarity",
    "check_split",
    "check_ties",
    "check_topology",
    "check_tracker",
    "check_unlearner",
    "temporarily_registered",
]
