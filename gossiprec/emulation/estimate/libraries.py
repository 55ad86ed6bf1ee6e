"""The memory that Python and the libraries of a run take before the run has any data.

The sizes are resident sizes, measured on Linux (x86-64, Python 3.11, numba 0.68, torch 2.13 for the CPU, scikit-learn
1.9, matplotlib 3.11, pyarrow 26) with ``python benchmarks/memory.py --phases``, which prints the size of the process at
each phase of small runs. They do not depend on what this process has loaded, so a scenario has the same estimate in
every process.
"""

from __future__ import annotations

from gossiprec.adversaries.attacks import ATTACKS
from gossiprec.native.kernel_cache import has_compiled_kernels
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
COMPILING = 125
"""MiB that compiling the kernels of nodes adds if none are cached; the kernels of clients add little."""
TORCH = {"reference": 187, "batched": 241, "central": 246, "clients": 247}
"""MiB of torch and of the modules of it that an executor takes; compiled clients' executor imports ``batched``."""
WORKING = {"reference": 20, "batched": 84, "central": 12}
"""MiB that torch's first training takes: modules that it imports late, and memory pools."""
PICTURES = 88
"""MiB that drawing the figures at the end takes in addition to ``matplotlib``, pandas and pyarrow included."""
PARTS = frozenset(["python", *OF_A_MODULE, "kernels", "compiling", "torch", LOADING])
"""Parts of an estimate that belong to the process rather than to the run."""


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
        sizes["torch"] = TORCH["clients"]  # kernels are loaded in addition; those of clients are small
    elif executor == "fused":
        sizes["kernels"] = KERNELS
        if not has_compiled_kernels():
            sizes["compiling"] = COMPILING
        if scenario.attackers or any(
            getattr(ATTACKS[each.name], "by_torch", False) for each in scenario.observers
        ):
            sizes["torch"] = TORCH["reference"]
    else:
        sizes["torch"] = TORCH[executor] + WORKING[executor]
    return {part: size * MIB for part, size in sizes.items()}


def pictures_bytes(scenario: Scenario, needed: dict[str, int]) -> dict[str, int]:
    """Return the bytes that figures take beyond the memory that the run has freed before they are drawn.

    Parameters
    ----------
    scenario : Scenario
    needed : dict of str to int
        Bytes of all other parts.
    """
    given_back = sum(size for part, size in needed.items() if part == LOADING or part not in PARTS)
    more = PICTURES * MIB - given_back
    return {"pictures": more} if scenario.plots and "sklearn" not in needed and more > 0 else {}
