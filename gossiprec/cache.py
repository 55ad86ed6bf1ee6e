"""Where on this machine is kept what later runs go on with: compiled kernels, and how fast runs were."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Return the user's folder for it, ``~/.cache/gossiprec`` if ``XDG_CACHE_HOME`` says nothing else."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gossiprec"
