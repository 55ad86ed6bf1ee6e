"""A plan: tasks and what is seen of them, ordered into waves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gossiprec.arrays import F64, I32, I64
from gossiprec.compute.plan import tables
from gossiprec.compute.plan.program import Program


@dataclass(frozen=True)
class Sightings:
    """What pools of observers see, in execution order: one row per (pool, delivered message).

    Attributes
    ----------
    pool, victim, row, message : ndarray of int32, shape (n_sightings,)
        Pool `pool` saw the version in arena row `row`, sent by node `victim`; each pair at most once in a wave.
    """

    pool: I32
    victim: I32
    row: I32
    message: I32


@dataclass(frozen=True)
class Plan:
    """Tasks and sightings of a stretch of tape, in waves.

    Attributes
    ----------
    order : ndarray of int64, shape (n_tasks,)
        Tasks by wave, within a wave the costliest first.
    task_offsets, sighting_offsets : ndarray of int64, shape (n_waves + 1,)
        Wave w runs tasks ``order[task_offsets[w]:task_offsets[w + 1]]``, and likewise its sightings.
    """

    program: Program
    order: I64
    task_offsets: I64
    sightings: Sightings
    sighting_offsets: I64


def in_waves(program: Program, wave: I32, cost: F64, sightings: I32, waves: range) -> Plan:
    """Return a plan.

    Parameters
    ----------
    program : Program
    wave, cost : ndarray of int32 and float64, shape (n_tasks,)
        Of each task; within a wave the costliest come first.
    sightings : ndarray of int32, shape (n_sightings, 5)
        As the planner notes them (:mod:`gossiprec.compute.plan.tables`).
    waves : range
        All that the plan has.
    """
    order = np.lexsort((-cost, wave))
    seen_wave = sightings[:, tables.SEEN_WAVE]
    seen = np.argsort(seen_wave, kind="stable")
    edges = np.arange(waves.start, waves.stop + 1)
    return Plan(
        program=program,
        order=order.astype(np.int64),
        task_offsets=np.searchsorted(wave[order], edges).astype(np.int64),
        sightings=Sightings(
            pool=sightings[seen, tables.POOL_ID],
            victim=sightings[seen, tables.VICTIM],
            row=sightings[seen, tables.SEEN_ROW],
            message=sightings[seen, tables.SEEN_MESSAGE],
        ),
        sighting_offsets=np.searchsorted(seen_wave[seen], edges).astype(np.int64),
    )
