"""Small traces as real ones are written: sessions of phones, latencies between sites, rates, and contacts."""

from __future__ import annotations

import pickle

import numpy as np

N_NODES, WEEK = 12, 600_000


def peersim(n=N_NODES, *, length=WEEK, seed=0):
    """Return a trace of phones in PeerSim's format, each of the given length in ms."""
    draws = np.random.default_rng(seed)
    found = []
    for device in range(n):
        cuts = np.unique(draws.integers(1, length, 8))
        durations = np.diff([0, *cuts, length])
        found.append(f"device-{device} {device % 2} 1402358400000 2 {' '.join(map(str, durations))}")
    return "\n".join(found) + "\n"


def fedscale(n=N_NODES, *, length=600, seed=0):
    """Return a trace of clients in FedScale's format, in s."""
    draws = np.random.default_rng(seed)
    found = {}
    for client in range(1, n + 1):
        cuts = np.unique(draws.integers(1, length, 8))[:6].tolist()
        found[client] = {
            "duration": 1, "active": cuts[0::2], "inactive": cuts[1::2], "finish_time": length, "model": "CPH1801",
        }  # fmt: skip
    return pickle.dumps(found)


def intervals(n=N_NODES, *, length=10, seed=0):
    """Return online intervals of devices, in minutes."""
    draws = np.random.default_rng(seed)
    lines = ["device,from,until"]
    for device in range(n):
        cuts = np.unique(draws.uniform(0, length, 6)).tolist()
        lines += [f"phone {device},{a!r},{b!r}" for a, b in zip(cuts[0::2], cuts[1::2], strict=True)]
    return "\n".join([*lines, f"phone 0,{length - 1e-3!r},{length}"]) + "\n"


def sites(n=5, *, seed=0):
    """Return round-trip times between sites in ms, with a small diagonal."""
    times = np.random.default_rng(seed).uniform(5, 900, (n, n))
    np.fill_diagonal(times, 0.02)
    return "\n".join(",".join(f"{t:.3f}" for t in row) for row in times) + "\n"


def rates(n=7, *, seed=0):
    """Return a table of the rates of devices, in kB/s."""
    found = np.random.default_rng(seed).uniform(10, 400, (n, 2))
    return "\n".join(["up,down", *(f"{up:.2f},{down:.2f}" for up, down in found)]) + "\n"


def contacts(n=N_NODES, *, length=600, seed=0):
    """Return contacts of people in s, without overlaps of a pair."""
    draws = np.random.default_rng(seed)
    lines = ["time,i,j,duration"]
    for i in range(n):
        for j in range(i):
            for begin in (0, length // 2):
                if draws.random() < 0.5:
                    start = begin + int(draws.integers(0, length // 4))
                    lines.append(f"{start},{i},{j},{int(draws.integers(1, length // 4))}")
    return "\n".join([*lines, f"{length - 1},0,1,1"]) + "\n"
