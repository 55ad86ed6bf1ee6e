"""The follower of a divided run: it plays the same events, trains its own nodes, and answers at reports."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gossiprec.emulation.run.evaluation_setup import make_utility_evaluator
from gossiprec.emulation.shards import shard_state

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun


def run_follower(prepared: PreparedRun) -> None:
    """Carry out a shard's part of a run, from the report that shard 0 names until shard 0 ends it."""
    seat, tape_runner = prepared.seat, prepared.tape_runner()
    assert seat is not None
    assert tape_runner.shard is not None
    own = shard_state.ShardStateService(prepared, tape_runner.shard)
    utility = make_utility_evaluator(prepared, beside=False)
    begin = seat.exchange.receive(0, (shard_state.BEGIN,))
    if begin["state"] is not None:
        state = copy.deepcopy(begin["state"])  # data from other processes may be read-only
        _restore(prepared, own, state)
        tape_runner.restore(state["carrier"])
    answers: dict[str, Callable[..., Any]] = {
        shard_state.SIZES: own.sizes,
        shard_state.LOOK: lambda: own.look(utility),
        shard_state.LEARNT: own.learnt,
        shard_state.OWN: own.own,
        shard_state.ALL: own.all,
    }
    number = 0
    for _ in prepared.schedule.play(tape_runner.carry_out, after=begin["after"], recall=tape_runner.recall):
        tape_runner.taken()
        while True:
            question, *about = seat.exchange.receive(0, (shard_state.ASK, number))
            number += 1
            if question in (shard_state.ON, shard_state.END):
                break
            seat.exchange.send(0, (shard_state.ANSWER, number - 1), answers[question](*about))
        if question == shard_state.END:
            return


def _restore(prepared: PreparedRun, own: shard_state.ShardStateService, state: Mapping[str, Any]) -> None:
    """Restore the part of a checkpoint that belongs to this shard."""
    prepared.planner.restore(state["planner"])
    if prepared.push_rounds is not None:
        prepared.push_rounds.restore(state["push_rounds"])
    prepared.executor.store.grow(prepared.planner.capacity)
    own.seat.routes.restore(*prepared.planner.writers)
    own.runner.payloads.refer(prepared.planner.needed_rows, state["versions"])
    own.take_all(own.seat.number, state["own"])
    own.runner.use(state["own"]["rows"][0])
