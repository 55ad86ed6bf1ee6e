"""The version of gossiprec and the fingerprint of its code."""

from __future__ import annotations

import functools

TYPE_CHECKING = (
    False  # see gossiprec/__init__.py; the other imports below are in the functions for the same reason
)
if TYPE_CHECKING:
    from pathlib import Path

__version__ = "0.1.0"


@functools.cache
def code_version() -> str:
    """Return a fingerprint of the code that determines a run's numbers: every source file of its packages.

    Two runs of one scenario with the same fingerprint, on the same platform and packages, give the same bytes. A
    commit that changes only documents or figures keeps it.
    """
    from pathlib import Path

    package = Path(__file__).resolve().parent
    parts = [path for path in package.iterdir() if path.name not in ("figures", "testing")]
    return source_fingerprint(*sorted(path for path in parts if path.is_dir() or path.suffix == ".py"))


def source_fingerprint(*sources: Path) -> str:
    """Return a hash of the names and contents of Python files, given as files or folders."""
    import hashlib

    total = hashlib.sha256()
    for source in sources:
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            total.update(f"{path.relative_to(source.parent).as_posix()}\n".encode())
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]
