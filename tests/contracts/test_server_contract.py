"""What every registered server keeps to; and that the contract catches those that do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gossiprec.rules.servers import SERVERS, Downlink, Server
from gossiprec.testing import check_server
from tests.contracts.broken import told


@pytest.mark.parametrize("name", list(SERVERS))
def test_a_server_keeps_its_contract(name):
    check_server(SERVERS[name])


class Twins(Server):
    """Two versions, and an extra that counts the answers."""

    n_versions, extra_bytes = 2, 8

    def __init__(self, options):
        super().__init__(options)
        self.n_answers = 0

    def round(self, published, aggregated, answers, round):
        self.n_answers += len(answers.clients)
        version_of = np.arange(round.n_clients) % 2
        extras = {"answers": np.array([self.n_answers])}
        return Downlink(np.stack([self.next(published, aggregated), aggregated]), version_of, extras)

    def next(self, published, aggregated):
        return aggregated

    def state(self):
        return {"n_answers": self.n_answers}

    def restore(self, state):
        self.n_answers = state["n_answers"]


class PushesMore(Twins):
    n_versions = 1


class SaysTooMuch(Twins):
    extra_bytes = 4


class ChoosesNone(Twins):
    def round(self, *about):
        return replace(super().round(*about), version_of=np.full(4, 2))


class Doubles(Twins):
    def next(self, published, aggregated):
        return aggregated.astype(np.float64)

    def round(self, *about):
        found = super().round(*about)
        return replace(found, versions=found.versions.astype(np.float64))


class Drifts(Twins):
    def next(self, published, aggregated):
        return aggregated + np.float32(0.01)


class Fades(Twins):
    def next(self, published, aggregated):
        return published + (aggregated - published) / np.float32(1 + self.n_answers)

    def state(self):
        return {"n_answers": 0}


class Flees(Twins):
    def next(self, published, aggregated):
        return 2 * published - aggregated


BROKEN = {
    PushesMore: r"Push n_versions finite versions.* Found versions of shape \(2, 7\) for \(1, 7\) in round 0",
    SaysTooMuch: "extras of extra_bytes.* Found extras of 8 bytes for 4",
    ChoosesNone: r"select existing versions. Found version_of \[2 2 2 2\] for 2 versions",
    Doubles: "in float32.* Found versions in float64",
    Drifts: "Leave the first version as it is in a round without answers",
    Fades: r"Continue from its state\(\) after restore\(\)",
    Flees: "Approach the value to which the answers of 400 rounds agree. It is .* off",
}


def test_a_server_may_push_several_versions_and_extras():
    check_server(Twins)


@pytest.mark.parametrize("server", BROKEN, ids=lambda server: server.__name__)
def test_a_server_that_breaks_the_contract_is_told_which_claim(server):
    with told(server, BROKEN[server], kind="server"):
        check_server(server)
