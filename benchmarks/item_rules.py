"""The cost of aggregation rules that work item by item.

    python benchmarks/item_rules.py [--clients 256] [--items 3700] [--touched 600] [--dim 32] [--shared 8000]

One inbox: every client has touched the same number of items, drawn at random. One JSON line per rule:

- ``ms``: processor time of the thread that reduces the inbox; the median of five runs, after one that is not counted.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from common import emit, median

from gossiprec.rules.aggregators import Inbox, ModelDelta, make_aggregator

TOUCHED = {"over": "touched"}
RULES = {
    "sum": {"name": "sum"},
    "touched-mean": {"name": "touched-mean"},
    "median": {"name": "median", **TOUCHED},
    "trimmed-mean": {"name": "trimmed-mean", "drop": 1, **TOUCHED},
    "trimmed-mean farthest": {"name": "trimmed-mean", "trim": "farthest", **TOUCHED},
    "krum nearest-to-mean": {"name": "krum", "mode": "nearest-to-mean", **TOUCHED},
    "krum": {"name": "krum", **TOUCHED},
    "norm-bound": {"name": "norm-bound", "bound": 0.5, **TOUCHED},
    "hics": {"name": "hics"},
}


def inbox(options: argparse.Namespace) -> Inbox:
    """Return the changes of some clients."""
    rng, changes = np.random.default_rng(1), []
    for _ in range(options.clients):
        items = np.sort(rng.choice(options.items, options.touched, replace=False)).astype(np.int32)
        rows = rng.normal(size=(options.touched, options.dim)).astype(np.float32)
        changes.append(ModelDelta(items, rows, rng.normal(size=options.shared).astype(np.float32)))
    none = np.zeros((0, options.items * options.dim + options.shared), np.float32)
    return Inbox(none, np.arange(len(changes)), np.ones(len(changes)), 0.0, changes)


def main() -> None:
    """Measure and print the lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name, default in (("clients", 256), ("items", 3700), ("touched", 600), ("dim", 32), ("shared", 8000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    received, own = inbox(options), np.zeros(options.items * options.dim + options.shared, np.float32)
    for name, told in RULES.items():
        rule, times = make_aggregator(told), []
        for _ in range(6):
            begin = time.thread_time()
            rule.aggregate(own, received)
            times.append(1000 * (time.thread_time() - begin))
        emit(rule=name, ms=median(times[1:]), **vars(options))


if __name__ == "__main__":
    main()
