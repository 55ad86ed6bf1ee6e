"""Contracts of import-linter that follow from the home of each module: the tree that the package will have.

``tools/homes.tsv`` has the home of each module: a layer of the core, a part, the workbench or the command line.
``tools/home_exceptions.tsv`` has the imports that break a rule today: importing module, imported module, and the issue
that ends it. A new break, and an exception that no import needs, break the contract, so the list only shrinks.

Rules: a layer of the core imports the layers before it (``LAYERS``), and nothing else; a part imports the core and its
own folder; `observe` imports nothing by which it reaches the truth, splits, stored models or executors; only `run` and
the judges among the parts import `judge`. Imports for type checks do not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

ROOT = Path(__file__).resolve().parents[1]
TABLE, EXCEPTIONS = ROOT / "tools" / "homes.tsv", ROOT / "tools" / "home_exceptions.tsv"
LAYERS = (
    "core/words", "core/native", "core/data", "core/model", "core/merge", "core/network", "core/store", "core/train",
    "core/plan", "core/outgoing", "core/observe", "core/scenario", "core/judge", "core/run",
)  # fmt: skip
"""The layers of the core, lowest first."""
HIDDEN_HOMES = {"core/judge", "core/store", "parts/splits"}
HIDDEN_MODULES = ("gossiprec.compute.executors", "gossiprec.data.split")
"""What `observe` must not reach, besides what is below these modules."""
SEE_TRUTH = {"core/judge", "core/run", "parts/judges"}
"""Homes that may import `judge`."""


class Break(NamedTuple):
    """An import that breaks a rule."""

    importer: str
    imported: str
    rule: str


def read_rows(path: Path) -> list[list[str]]:
    """Return the rows of a table with a heading, by tabs."""
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def read_homes() -> dict[str, str]:
    """Return the home of each module."""
    return dict(map(tuple, read_rows(TABLE)))


def find_breaks(graph: ImportGraph, homes: Mapping[str, str]) -> Iterator[Break]:
    """Yield each import that breaks a rule, once for each rule."""
    hidden = {
        module for module, home in homes.items() if home in HIDDEN_HOMES or module.startswith(HIDDEN_MODULES)
    }
    reaching = hidden.union(*(graph.find_downstream_modules(module) for module in hidden))
    for importer, home in homes.items():
        for imported in sorted(graph.find_modules_directly_imported_by(importer) & homes.keys()):
            other = homes[imported]
            if rule := _broken_rule(home, other):
                yield Break(importer, imported, rule)
            if home == "core/observe" != other and imported in reaching:
                yield Break(
                    importer, imported, "an attack must not reach the truth, splits, models or executors"
                )


def _broken_rule(home: str, other: str) -> str | None:
    """Return the rule that an import from one home of another breaks, by homes alone, or None."""
    if other == "core/judge" and home not in SEE_TRUTH:
        return "only the run and judges import judge"
    if home in LAYERS and (other not in LAYERS or LAYERS.index(other) > LAYERS.index(home)):
        return "a layer of the core imports only layers before it"
    if home.startswith("parts/") and other != home and other not in LAYERS:
        return "a part imports only the core and its own folder"
    return None


class HomesContract(Contract):
    """The rules of this module, as a contract of import-linter."""

    type_name = "homes"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return whether the table has every module, and the exceptions are exactly the imports that break a rule."""
        homes = read_homes()
        inside = {module for module in graph.modules if module.split(".")[0] == "gossiprec"}
        breaks = list(find_breaks(graph, {module: homes[module] for module in homes.keys() & inside}))
        allowed = {(importer, imported) for importer, imported, _ in read_rows(EXCEPTIONS)}
        found = {(each.importer, each.imported) for each in breaks}
        problems = [
            *(f"{module} has no home; add it to {TABLE.name}" for module in sorted(inside - homes.keys())),
            *(
                f"{module} does not exist; delete it from {TABLE.name}"
                for module in sorted(homes.keys() - inside)
            ),
            *(
                f"{each.importer} -> {each.imported}: {each.rule}"
                for each in breaks
                if each[:2] not in allowed
            ),
            *(
                f"{importer} -> {imported} breaks no rule; delete it from {EXCEPTIONS.name}"
                for importer, imported in sorted(allowed - found)
            ),
        ]
        return ContractCheck(kept=not problems, metadata={"problems": problems})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the problems."""
        metadata: Mapping[str, Any] = check.metadata
        for problem in metadata["problems"]:
            output.print_error(problem, bold=False)
