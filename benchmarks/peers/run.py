"""Speed next to public libraries that do the same work.

    python benchmarks/peers/run.py --cache FOLDER [--data ../shared/data] [--only NAME ...] [--threads 1 2] [--rounds 3]
        [--source NAME=PATH ...] [--out TABLE]

Each peer is installed into an environment of its own below ``--cache``, with the pins of ``environments.py``;
``--source`` takes a local clone in place of an address. Both sides run in processes of their own on the same cores,
in turn. Before that they must agree in the facts of the last column: losses and norms to 1e-4, numbers exactly.

Prints one table. A peer that cannot be installed gets one line. The exit code is 0 if all was compared, 3 if only
peers were missing, and 1 if a side failed or the work differs.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

from comparison import FOLDER, Comparison, FailedError, Row, Side, compare, table
from environments import PEERS, Environment, UnavailableError, ready

ROOT = FOLDER.parents[1]

COMPARISONS: dict[str, Comparison] = {
    "lightgcn": Comparison(
        "LightGCN on Gowalla, 3 layers, d = 64, batches of 2,048",
        "epoch", "lightgcn", "lightgcn_ours.py", "lightgcn_theirs.py", aim=3, options={"batches": 16},
    ),
    "gossip": Comparison(
        "gossip of 943 nodes on MovieLens-100k, GMF with d = 8, Adam, batches of 64",
        "1,000 local epochs", "gossipy", "gmf_ours.py", "gossip_theirs.py", aim=60, options={"protocol": "gossip"},
    ),
    "fedavg": Comparison(
        "FedAvg on MovieLens-100k, GMF with d = 8, SGD, batches of 64",
        "1,000 local epochs", "fedjax", "gmf_ours.py", "fedavg_fedjax.py", aim=6, options={"protocol": "fedavg"},
    ),
    "fedavg-pfl": Comparison(
        "FedAvg on MovieLens-100k, GMF with d = 8, SGD, batches of 64",
        "1,000 local epochs", "pfl", "gmf_ours.py", "fedavg_pfl.py", aim=6, options={"protocol": "fedavg"},
    ),
    "gru4rec": Comparison(
        "GRU4Rec, 5,000 users of Beauty, d = 64, hidden 128, all items as candidates",
        "epoch", "recbole", "sequences_ours.py", "sequences_theirs.py", aim=2, options={"model": "gru4rec"},
    ),
    "bert4rec": Comparison(
        "BERT4Rec, 5,000 users of Beauty, d = 64, 2 layers, all items as candidates",
        "1,000 sequences", "recbole", "sequences_ours.py", "sequences_theirs.py", aim=2, options={"model": "bert4rec"},
    ),
}  # fmt: skip
"""The comparisons by name."""


def machine() -> str:
    """Return processor, cores, Python and the commit of this tree, in words."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), model)
    found = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    commit = found.stdout.strip() or "unknown"
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, commit {commit}"


def measured(name: str, environment: Environment, options: argparse.Namespace) -> list[Row]:
    """Return the rows of a comparison, one for each number of threads."""
    what, rows = COMPARISONS[name], []
    folder = options.cache.resolve() / "work" / name
    folder.mkdir(parents=True, exist_ok=True)
    for threads in options.threads:
        log = options.cache.resolve() / f"{name}-{threads}.log"
        with (
            Side(sys.executable, what.ours, threads, log, folder) as ours,
            Side(environment.python, what.theirs, threads, log, folder) as theirs,
        ):
            where = {"data": str(options.data.resolve()), "source": str(environment.source or "")}
            told = Comparison(**{**vars(what), "options": {**what.options, **where}})
            rows.append(compare(told, ours, theirs, folder, threads=threads, rounds=options.rounds))
    return rows


def local_sources(given: list[str], parser: argparse.ArgumentParser) -> dict[str, Path]:
    """Return the folder of each peer that ``--source`` names."""
    found = dict(each.partition("=")[::2] for each in given)
    for name, path in found.items():
        if name not in PEERS or not path:
            parser.error(
                f"--source: found {name}={path}; expected NAME=PATH with a name of {', '.join(PEERS)}"
            )
    return {name: Path(path) for name, path in found.items()}


def main() -> int:
    """Compare, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder of the peers' environments")
    parser.add_argument(
        "--data", type=Path, default=ROOT / ".." / "shared" / "data", help="folder of public data"
    )
    parser.add_argument("--only", nargs="+", choices=COMPARISONS, default=list(COMPARISONS), metavar="NAME")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--source", nargs="+", default=[], metavar="NAME=PATH", help="local clones of peers")
    parser.add_argument("--out", type=Path, help="also write the table here")
    options = parser.parse_args()
    local = local_sources(options.source, parser)
    options.cache.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    missing: list[str] = []
    failed: list[str] = []
    for name in options.only:
        print(
            f"{name}: installing {COMPARISONS[name].peer} if needed, then comparing",
            file=sys.stderr,
            flush=True,
        )
        try:
            environment = ready(COMPARISONS[name].peer, options.cache, local)
            rows += measured(name, environment, options)
        except UnavailableError as error:
            missing.append(str(error))
        except FailedError as error:
            failed.append(str(error))
        text = table(rows, [*missing, *failed], machine())
        if options.out:
            options.out.write_text(text + "\n")
    print(text)
    return 1 if failed else 3 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
