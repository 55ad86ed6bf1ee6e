"""Which mode a run has: by the protocol and its options, and by the flags of older protocols."""

import subprocess
import sys

import pytest

from gossiprec.base.options import Options
from gossiprec.modes import MODES, choose_mode, choose_mode_of_class
from gossiprec.network.protocols import PROTOCOLS
from gossiprec.network.protocols.fedavg import FedAvg, FedAvgOptions

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
    assert type(choose_mode_of_class(type(protocol), protocol.options)) is MODES[expected]


def test_clients_without_a_model_send_updates():
    protocol = protocol_of(FedAvg, rounds=2, client_model="none")
    assert type(choose_mode(protocol)) is MODES["client-updates"]
    assert type(choose_mode_of_class(FedAvg, protocol.options)) is MODES["client-updates"]


def test_class_that_names_no_mode_has_whole_models():
    assert type(choose_mode_of_class(object, Options())) is MODES["whole-models"]


class HoldsAllData(FedAvg):
    holds_all_data = True


class SendsUpdates(FedAvg):
    @property
    def sends_updates(self):
        return True


class SendsNoUpdates(FedAvg):
    @property
    def sends_updates(self):
        return False


OLD = [
    (HoldsAllData, "own", "central"),
    (SendsUpdates, "own", "client-updates"),
    (SendsNoUpdates, "none", "whole-models"),
]


@pytest.mark.parametrize(("kind", "client_model", "expected"), OLD)
def test_flag_of_an_older_protocol_still_chooses_the_mode(kind, client_model, expected):
    protocol = protocol_of(kind, rounds=2, client_model=client_model)
    with pytest.warns(DeprecationWarning, match=r"override mode_of instead"):
        mode = choose_mode(protocol)
    assert type(mode) is MODES[expected]


def test_flag_of_an_older_class_is_known_before_there_is_data():
    with pytest.warns(DeprecationWarning, match="holds_all_data"):
        mode = choose_mode_of_class(HoldsAllData, FedAvgOptions(rounds=2))
    assert type(mode) is MODES["central"]


def test_a_mode_of_another_package_is_registered_by_its_protocols_module(monkeypatch):
    monkeypatch.setattr(MODES, "_members", {**MODES._members})

    @MODES.register("mode-of-a-plug-in")
    class OwnMode(MODES["whole-models"]):
        """A mode next to its protocol."""

    class OwnProtocol:
        """A protocol of another package."""

        @classmethod
        def mode_of(cls, options):
            return "mode-of-a-plug-in"

    assert type(choose_mode_of_class(OwnProtocol, Options())) is OwnMode


@pytest.mark.parametrize("flag", ["holds_all_data", "sends_updates"])
def test_flags_can_still_be_read(flag):
    central, clients = (
        protocol_of(PROTOCOLS["central"], epochs=2),
        protocol_of(FedAvg, rounds=2, client_model="none"),
    )
    assert [getattr(central, flag), getattr(clients, flag)] == [
        flag == "holds_all_data",
        flag == "sends_updates",
    ]


@pytest.mark.slow
def test_choosing_a_mode_imports_neither_torch_nor_compilers():
    code = (
        "import sys; from gossiprec.modes import MODES; list(MODES.members()); "
        "print([m for m in ('torch', 'numba', 'scipy') if m in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
