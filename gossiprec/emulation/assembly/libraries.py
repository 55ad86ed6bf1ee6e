"""The memory that Python and the libraries of a run take before the run has any data.

The sizes are resident sizes, measured on Linux (x86-64, Python 3.11, numba 0.6x, torch 2.x for the CPU) with
``python benchmarks/memory.py --libraries``: a process of its own imports one library after the other. They say nothing
of what a library has already loaded in this process, so the same scenario has the same estimate everywhere.
"""

from __future__ import annotations

from gossiprec.attacks import ATTACKS
from gossiprec.scenario import Scenario
from gossiprec.scenario.plugins import modules_of

MIB = 2**20
LOADING = "data while loading"
PYTHON = 131
"""MiB of Python and of the modules that every run imports: numpy, numba, SciPy's special functions, pydantic, SimPy."""
OF_A_MODULE = {
    "matplotlib": 26,
    "sklearn": 138,
    "pyarrow": 54,
    "dp_accounting": 10,
    "networkx": 11,
}
"""MiB of the libraries that some runs import; scikit-learn with pandas, pyarrow and its parts of SciPy."""
KERNELS = 63
"""MiB of the compiler's library and of a run's compiled kernels, once they are in memory."""
TORCH = {"reference": 187, "batched": 241, "central": 246, "clients": 247}
"""MiB of torch and of the modules of it that an executor takes; compiled clients' executor imports ``batched``."""
WORKING = {"reference": 20, "batched": 84, "central": 12}
"""MiB that torch's first training takes: modules that it imports late, and memory pools."""
PARTS = frozenset(["python", *OF_A_MODULE, "kernels", "torch", LOADING])
"""Parts of an estimate that belong to the process, and not to what a run keeps."""


def libraries_bytes(
    scenario: Scenario, executor: str, *, of_clients: bool, reads_files: bool
) -> dict[str, int]:
    """Return the bytes of the interpreter, of each library and of compiled kernels, by part.

    Parameters
    ----------
    scenario : Scenario
    executor : str
        Name of the executor that trains.
    of_clients : bool
        Whether clients hold no model.
    reads_files : bool
        Whether the data come from files.
    """
    imported = {module.partition(".")[0] for module in modules_of(scenario)}
    if reads_files and "sklearn" not in imported:
        imported.add("pyarrow")
    sizes = {"python": PYTHON} | {name: size for name, size in OF_A_MODULE.items() if name in imported}
    if of_clients and executor == "fused":
        sizes["torch"] = TORCH["clients"]  # kernels are loaded beside it; clients' are small
    elif executor == "fused":
        sizes["kernels"] = KERNELS
        if scenario.attackers or any(
            getattr(ATTACKS[each.name], "by_torch", False) for each in scenario.observers
        ):
            sizes["torch"] = TORCH["reference"]
    else:
        sizes["torch"] = TORCH[executor] + WORKING[executor]
    return {part: size * MIB for part, size in sizes.items()}
