"""A plug-in with a member of each kind: ours under other names, so that a run must come to the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fake_distributions import install

from tests.cli.calls import call_each
from tests.emulation.tiny_runs import tiny

ROOT = Path(__file__).resolve().parents[2]

THINGS = """
    from typing import Literal

    from gossiprec.rules.aggregators import AGGREGATORS
    from gossiprec.rules.aggregators.mean import Mean
    from gossiprec.adversaries.attacks import ATTACKS
    from gossiprec.adversaries.attacks.cda import CDA
    from gossiprec.data import DATASETS, SPLITS
    from gossiprec.data.leave_last_k import LeaveLastK
    from gossiprec.data.synthetic import Synthetic
    from gossiprec.measures import MEASURES
    from gossiprec.measures.hit import Hit
    from gossiprec.models import MODELS
    from gossiprec.models.gmf import GMF
    from gossiprec.network.overlay import SAMPLINGS
    from gossiprec.network.overlay.cyclon import Cyclon, CyclonOptions
    from gossiprec.network.sessions import SESSION_FORMATS
    from gossiprec.network.sessions.peersim import PeerSim
    from gossiprec.adversaries.poisoners import POISONERS
    from gossiprec.adversaries.poisoners.a_ra import ARa
    from gossiprec.defences import POLICIES
    from gossiprec.defences.share_less import ShareLess
    from gossiprec.network.protocols import PROTOCOLS
    from gossiprec.network.protocols.rand_gossip import RandGossip
    from gossiprec.federated import RECOMMENDERS
    from gossiprec.federated.simgcl import SimGCLRecommender
    from gossiprec.rules.servers import SERVERS
    from gossiprec.rules.servers.momentum import Momentum
    from gossiprec.rules.similarities import SIMILARITIES
    from gossiprec.rules.similarities.co_occurrence import CoOccurrence

    DATASETS.register("acme-data")(type("AcmeData", (Synthetic,), {"__doc__": "Data of Acme."}))
    SPLITS.register("acme-split")(type("AcmeSplit", (LeaveLastK,), {}))
    MODELS.register("acme-model")(type("AcmeModel", (GMF,), {}))
    PROTOCOLS.register("acme-protocol")(type("AcmeProtocol", (RandGossip,), {}))
    POLICIES.register("acme-policy")(type("AcmePolicy", (ShareLess,), {}))
    POISONERS.register("acme-poisoner")(type("AcmePoisoner", (ARa,), {}))
    ATTACKS.register("acme-attack")(type("AcmeAttack", (CDA,), {}))
    AGGREGATORS.register("acme-rule")(type("AcmeRule", (Mean,), {}))
    SERVERS.register("acme-server")(type("AcmeServer", (Momentum,), {}))
    RECOMMENDERS.register("acme-cl")(type("AcmeCL", (SimGCLRecommender,), {}))
    MEASURES.register("acme-hit")(type("AcmeHit", (Hit,), {}))
    SESSION_FORMATS.register("acme-phones")(type("AcmePhones", (PeerSim,), {}))
    SIMILARITIES.register("acme-likeness")(type("AcmeLikeness", (CoOccurrence,), {}))


    class TideOptions(CyclonOptions):
        "Comes and goes."

        sampling: Literal["acme-tide"]


    @SAMPLINGS.register("acme-tide")
    class Tide(Cyclon):
        "Comes and goes."

        Options = TideOptions
"""
CAVES = """
    import networkx as nx
    from gossiprec.network.graphs.families import FamilyOption, register_family


    @register_family("acme-caves", size=FamilyOption(int, "nodes of a cave", 3, least=2))
    def caves(n: int, size: int):
        "Return cliques on a ring."
        return nx.connected_caveman_graph(n // size, size)
"""
THINGS_OF = {
    "datasets": "acme-data", "splits": "acme-split", "models": "acme-model", "protocols": "acme-protocol",
    "policies": "acme-policy", "poisoners": "acme-poisoner", "attacks": "acme-attack", "samplings": "acme-tide",
    "aggregators": "acme-rule", "servers": "acme-server", "recommenders": "acme-cl", "measures": "acme-hit",
    "similarities": "acme-likeness", "session_formats": "acme-phones",
}  # fmt: skip


def install_acme(site, version="1.0", more=""):
    """Install the plug-in; `more` is written below its source."""
    points = {f"gossiprec.{kind}": {name: "acme_things"} for kind, name in THINGS_OF.items()}
    points["gossiprec.topologies"] = {"acme-caves": "acme_caves"}
    install(site, "acme-recs", version, points, acme_things=THINGS + more, acme_caves=CAVES)


def uninstall_acme(site):
    """Remove the metadata of the plug-in, and with them the plug-in."""
    (about,) = site.glob("acme_recs-*.dist-info")
    about.rename(site / "removed")


def as_acme(scenario):
    """Return a scenario in which everything goes by the plug-in's names."""
    names = {
        "synthetic": "acme-data", "leave_last_k": "acme-split", "gmf": "acme-model", "rand-gossip": "acme-protocol",
        "share-less": "acme-policy", "cda": "acme-attack", "cyclon": "acme-tide", "mean": "acme-rule",
        "hit@5": "acme-hit@5",
    }  # fmt: skip
    if isinstance(scenario, dict):
        return {key: as_acme(value) for key, value in scenario.items()}
    if isinstance(scenario, list):
        return [as_acme(value) for value in scenario]
    return names.get(scenario, scenario) if isinstance(scenario, str) else scenario


def exchanging(**sections):
    """Return a tiny scenario that names something of most kinds."""
    view = {"sampling": "cyclon", "size": 4, "shuffle": 2}
    protocol = {"name": "rand-gossip", "fanout": 3, "view": view, "merge": "mean", "wakes": 6}
    evaluate = {"every": 2, "metrics": ["hit@5", "ndcg@5"]}
    policies = [{"name": "share-less", "nodes": {"fraction": 0.5}}]
    return tiny(**{"protocol": protocol, "evaluate": evaluate, "policies": policies, **sections})


def python(site, *arguments, cwd=None):
    """Run Python in a process of its own that sees the plug-ins in `site`."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{site}", "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def gossiprec(site, *arguments):
    """Run the command line in a process of its own that sees the plug-ins in `site`."""
    return python(site, "-m", "gossiprec", *arguments)


def gossiprec_each(site, *commands):
    """Run commands, one after the other, in one process that sees the plug-ins in `site`."""
    return call_each(*commands, PYTHONPATH=f"{ROOT}{os.pathsep}{site}")
