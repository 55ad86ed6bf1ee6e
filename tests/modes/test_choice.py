"""The mode of a run follows from its protocol and options."""

import subprocess
import sys

import pytest

from gossiprec.modes import MODES, choose_mode
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.fedavg import FedAvg

CHOICES = {
    "rand-gossip": ({"wakes": 2}, "whole-models"),
    "pers-gossip": ({"wakes": 2}, "whole-models"),
    "fedavg": ({"rounds": 2}, "whole-models"),
    "central": ({"epochs": 2}, "central"),
}


def protocol_of(kind, **options):
    return kind(kind.Options(**options), n_users=8, seed=1)


@pytest.mark.parametrize("name", CHOICES)
def test_protocol_names_its_mode(name):
    options, expected = CHOICES[name]
    protocol = protocol_of(PROTOCOLS[name], **options)
    assert type(choose_mode(protocol)) is MODES[expected]


def test_clients_without_a_model_send_updates():
    protocol = protocol_of(FedAvg, rounds=2, client_model="none")
    assert type(choose_mode(protocol)) is MODES["client-updates"]


def test_a_mode_of_another_package_is_registered_by_its_protocols_module(monkeypatch):
    monkeypatch.setattr(MODES, "_members", {**MODES._members})

    @MODES.register("mode-of-a-plug-in")
    class OwnMode(MODES["whole-models"]):
        """A mode next to its protocol."""

    class OwnProtocol(FedAvg):
        """A protocol of another package."""

        @classmethod
        def mode_of(cls, options):
            return "mode-of-a-plug-in"

    assert type(choose_mode(protocol_of(OwnProtocol))) is OwnMode


@pytest.mark.slow
def test_choosing_a_mode_imports_neither_torch_nor_compilers():
    code = (
        "import sys; from gossiprec.modes import MODES; list(MODES.members()); "
        "print([m for m in ('torch', 'numba', 'scipy') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
