"""Environments of the peers: a virtual environment each, with the pins below, and the source of a commit."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TORCH = "torch==2.13.0"
"""The release that gossiprec's own environment has, so that both sides have the same kernels."""

TABLES = (TORCH, "numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "scikit-learn==1.9.1", "tqdm==4.70.1")


class UnavailableError(Exception):
    """A peer cannot be installed here; the message is one line."""


@dataclass(frozen=True)
class Peer:
    """A public library or program.

    Attributes
    ----------
    pins : tuple of str
        Packages with their versions, for pip.
    repository, commit, part : str
        Address, commit and needed folder of its source; empty for a peer that pip installs.
    """

    pins: tuple[str, ...]
    repository: str = ""
    commit: str = ""
    part: str = ""


PEERS = {
    "lightgcn": Peer(
        (*TABLES, "tensorboardX==2.6.5"),
        "https://github.com/gusye1234/LightGCN-PyTorch",
        "947ca2b3b1d2d3545b114145710cb06c4e57b3d2",
        "code",
    ),
    "gossipy": Peer(
        (*TABLES, "networkx==3.6.1", "matplotlib==3.11.2", "rich==15.0.0", "dill==0.4.1"),
        "https://github.com/makgyver/gossipy",
        "ea85ab1da0048df41df82ba958a635dd968f1f01",
        "gossipy",
    ),
    "recbole": Peer((TORCH, "recbole==1.2.1", "numpy==1.26.4", "pandas==2.1.4", "scipy==1.11.4")),
    "fedjax": Peer(
        ("fedjax==0.0.17", "jax==0.4.30", "jaxlib==0.4.30", "dm-haiku==0.0.12", "optax==0.2.3",
         "numpy==1.26.4", "scipy==1.13.1")
    ),
    "pfl": Peer((TORCH, "pfl[pytorch]==0.6.0")),
}  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """The interpreter and the source folder of an installed peer."""

    python: Path
    source: Path | None


def ready(name: str, cache: Path, local: Mapping[str, Path]) -> Environment:
    """Return the environment of a peer, which is installed below `cache` unless it is there with the same pins.

    `local` has folders or git repositories to use in place of the addresses.

    Raises
    ------
    UnavailableError
        If a package or the source cannot be had.
    """
    peer, folder = PEERS[name], cache.resolve() / name
    python, mark = folder / "bin" / "python", folder / "pins"
    wanted = hashlib.sha256("\n".join((sys.version, *peer.pins)).encode()).hexdigest()
    if not (mark.exists() and mark.read_text() == wanted):
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True, symlinks=True)
        _run(name, [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *peer.pins])
        mark.write_text(wanted)
    return Environment(python, _source(name, peer, folder, local.get(name)) if peer.commit else None)


def _source(name: str, peer: Peer, folder: Path, local: Path | None) -> Path:
    """Return the folder with the source of a peer's commit."""
    found = folder / f"source-{peer.commit[:12]}"
    if found.is_dir():
        return found
    repository = folder / "repository"
    if local is None:
        shutil.rmtree(repository, ignore_errors=True)
        _run(name, ["git", "clone", "--quiet", "--bare", peer.repository, repository])
    elif not local.is_dir():
        raise UnavailableError(
            f"{name}: --source found no folder {local}; expected a clone of {peer.repository}"
        )
    archive = folder / "source.tar"
    _run(name, ["git", "-C", local or repository, "archive", "-o", archive, peer.commit, peer.part])
    with tarfile.open(archive) as packed:
        packed.extractall(found, filter="data")
    return found


def _run(name: str, command: list[str | Path]) -> None:
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise UnavailableError(f"{name}: {words[0]} cannot be started ({error.strerror})") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line and not line.startswith("WARNING")]
        last = lines[-1].strip() if lines else f"left with {done.returncode}"
        raise UnavailableError(f"{name}: {Path(words[0]).name} {' '.join(words[1:4])}: {last}")
