"""The assembly point: building data, graph, nodes, observers, engine, executor and log from a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossiprec.emulation.assembly.prepare import PreparedRun, prepare
    from gossiprec.emulation.estimate.estimate import estimate_run
    from gossiprec.emulation.run.run_replay import replay
    from gossiprec.emulation.run.simulate import resume, simulate

__all__ = ["PreparedRun", "estimate_run", "prepare", "replay", "resume", "simulate"]

_MODULE_OF = {
    "estimate_run": "estimate.estimate",
    "PreparedRun": "assembly.prepare",
    "prepare": "assembly.prepare",
    "replay": "run.run_replay",
    "resume": "run.simulate",
    "simulate": "run.simulate",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use, so that a run can be estimated without importing compilers."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
