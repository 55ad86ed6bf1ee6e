"""The process of one side of a comparison: requests on standard input, answers on standard output, a JSON line each.

It imports the standard library only, because it also runs in the environments of the peers.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any


def timed(job: Callable[[], Any]) -> dict[str, float]:
    """Return the wall and processor seconds of a job."""
    wall, cpu = time.perf_counter(), time.process_time()
    job()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def gmf_facts(sizes: Sequence[int], parameters: int, losses: Sequence[float]) -> dict[str, Any]:
    """Return the facts of GMF at nodes with these numbers of samples, and losses of the first nodes."""
    return {
        "nodes": len(sizes),
        "samples_per_pass": sum(sizes),
        "steps_per_pass": sum(-(-size // 64) for size in sizes),
        "parameters_of_a_model": parameters,
        "first_losses_of_8_nodes": list(losses),
    }


def serve(side: object) -> None:
    """Answer requests with the methods of a side until the input ends; what a library prints goes to standard error.

    The first argument of the process is a comma-separated list of the cores that it may use.
    """
    if len(sys.argv) > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in sys.argv[1].split(",")})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": getattr(side, request.pop("command"))(**request)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(answer), file=answers, flush=True)
