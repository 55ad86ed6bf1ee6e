"""A shard that follows: it plays the same events, trains its own nodes, and answers at reports."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gossiprec.emulation.run.measuring import make_utility
from gossiprec.emulation.shards import service

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import Prepared


def follow(prepared: Prepared) -> None:
    """Carry out a shard's part of a run, from where shard 0 says to its end or until shard 0 ends it."""
    seat, tape_runner = prepared.seat, prepared.tape_runner()
    assert seat is not None
    assert tape_runner.shard is not None
    own = service.Service(prepared, tape_runner.shard)
    utility = make_utility(prepared, beside=False)
    begin = seat.exchange.receive(0, (service.BEGIN,))
    if begin["state"] is not None:
        state = copy.deepcopy(begin["state"])  # what comes from elsewhere may be read-only
        _restore(prepared, own, state)
        tape_runner.restore(state["carrier"])
    answers: dict[str, Callable[..., Any]] = {
        service.SIZES: own.sizes,
        service.LOOK: lambda: own.look(utility),
        service.LEARNT: own.learnt,
        service.OWN: own.own,
        service.ALL: own.all,
    }
    number = 0
    for _ in prepared.schedule.play(tape_runner.carry_out, after=begin["after"], recall=tape_runner.recall):
        tape_runner.taken()
        while True:
            question, *about = seat.exchange.receive(0, (service.ASK, number))
            number += 1
            if question in (service.ON, service.END):
                break
            seat.exchange.send(0, (service.ANSWER, number - 1), answers[question](*about))
        if question == service.END:
            return


def _restore(prepared: Prepared, own: service.Service, state: Mapping[str, Any]) -> None:
    """Take over a checkpoint's part of this shard."""
    prepared.planner.restore(state["planner"])
    if prepared.push_rounds is not None:
        prepared.push_rounds.restore(state["push_rounds"])
    prepared.executor.store.grow(prepared.planner.capacity)
    own.seat.routes.restore(*prepared.planner.writers)
    own.runner.payloads.refer(prepared.planner.needed_rows, state["versions"])
    own.take_all(own.seat.number, state["own"])
    own.runner.use(state["own"]["rows"][0])
