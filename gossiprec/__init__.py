"""gossiprec: an asynchronous peer-to-peer gossip emulator for recommender systems.

A notebook needs two functions: :func:`simulate` runs a scenario, and :func:`open_run` reads its results.
:func:`prepare` runs a scenario in steps.
:func:`study` runs many variants of a scenario, and :func:`open_study` reads their results.
:func:`resume` continues a run that ended early, and :func:`replay` repeats a run and compares.
:func:`observe` lets new observers and measures see a finished run.
:func:`counterfactual` runs a scenario again without the data of some users, and :func:`influence` compares the two.
:func:`unlearn` judges methods of unlearning against the first.
:func:`network_epsilon` accounts for what each node can learn about each user; :func:`audit_privacy` tests claims.
"""

from __future__ import annotations

import signal
import sys

_started = sys.orig_argv[-len(sys.argv) - 1 :][:2] if sys.argv[:1] == ["-m"] else sys.argv[:1]
_is_command = _started == ["-m", "gossiprec"] or "".join(_started).endswith("/gossiprec")
if _is_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback before gossiprec.entry takes over

import os  # noqa: E402
from importlib import import_module  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

from gossiprec.version import __version__  # noqa: E402

if TYPE_CHECKING:
    from gossiprec.emulation import replay as replay
    from gossiprec.emulation import resume as resume
    from gossiprec.emulation import simulate as simulate
    from gossiprec.emulation.run.influence import counterfactual as counterfactual
    from gossiprec.emulation.run.influence import influence as influence
    from gossiprec.emulation.run.live_run import prepare as prepare
    from gossiprec.emulation.run.network_epsilon import network_epsilon as network_epsilon
    from gossiprec.emulation.run.observation import observe as observe
    from gossiprec.emulation.run.privacy_audit import audit_privacy as audit_privacy
    from gossiprec.emulation.unlearning.judge import unlearn as unlearn
    from gossiprec.runs import open_run as open_run
    from gossiprec.study.api import open_study as open_study
    from gossiprec.study.api import study as study

# Without it, on some processors, the last bits of a matrix product of torch depend on the memory addresses of its
# factors, and so a model's bits on the other models in its batch. Read at torch's first product; costs nothing.
os.environ.setdefault("MKL_CBWR", "AUTO")

_LAZY = {
    "simulate": "gossiprec.emulation",
    "prepare": "gossiprec.emulation.run.live_run",
    "resume": "gossiprec.emulation",
    "replay": "gossiprec.emulation",
    "observe": "gossiprec.emulation.run.observation",
    "counterfactual": "gossiprec.emulation.run.influence",
    "influence": "gossiprec.emulation.run.influence",
    "unlearn": "gossiprec.emulation.unlearning.judge",
    "network_epsilon": "gossiprec.emulation.run.network_epsilon",
    "audit_privacy": "gossiprec.emulation.run.privacy_audit",
    "open_run": "gossiprec.runs",
    "open_study": "gossiprec.study.api",
}
__all__ = ["__version__", "study", *sorted(_LAZY)]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    """Import the entry points on first use: ``import gossiprec`` stays free of torch and numba."""
    if name == "study":  # a package that can be called like a function
        return import_module("gossiprec.study")
    if name not in _LAZY:
        raise AttributeError(f"module 'gossiprec' has no attribute {name!r}")
    return getattr(import_module(_LAZY[name]), name)
