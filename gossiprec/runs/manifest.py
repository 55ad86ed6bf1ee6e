"""The manifest of a run: the code, the packages, the machine and the files that a run comes from."""

from __future__ import annotations

import datetime
import fnmatch
import functools
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossiprec.base.errors import LogError
from gossiprec.base.machine import processor_name
from gossiprec.base.plain_text import JSON_GROWTH, YAML_GROWTH, parse_json, parse_yaml
from gossiprec.base.portable import describe_target
from gossiprec.base.registry import Plugins
from gossiprec.native.numba_support import is_plain
from gossiprec.runs import run_files
from gossiprec.runs.lock import process_identity
from gossiprec.runs.record_models import Manifest, StudyMark, Summary, check_record
from gossiprec.runs.run_files import open_to_read, read_regular, replace_file
from gossiprec.version import __version__, code_version

STUDY_MARK = "study.json"
LAYOUT = 1
"""Version of the run directory's contract."""

_PACKAGES = [
    "click",
    "msgpack",
    "networkx",
    "numba",
    "numpy",
    "pydantic",
    "PyYAML",
    "scipy",
    "simpy",
    "torch",
]


def utc_now() -> str:
    """Return the current time as ISO 8601 in UTC, in whole seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def new_manifest(
    seed: int,
    plugins: Plugins | None = None,
    data: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the manifest of a run that starts now with these plug-ins, data and input files."""
    return {
        "gossiprec": __version__,
        "layout": LAYOUT,
        "code": code_version(),
        "git_commit": _own_commit(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        **processor_and_target(),
        "python": platform.python_version(),
        "packages": package_versions(),
        **({"plain_numba": True} if is_plain() else {}),
        "plugins": plugins or {},
        "data": dict(data or {}),
        "inputs": dict(inputs or {}),
        "files": {},
        "seed": seed,
        "status": "running",
        "writer": process_identity(),
        "log_digest": None,
        "started": utc_now(),
        "finished": None,
    }


def processor_and_target() -> dict[str, str]:
    """Return the name of the processor and the target for which machine code is compiled."""
    return {"processor": processor_name(), "target": describe_target()}


def package_versions() -> dict[str, str]:
    """Return the installed version of each package that can affect a run's numbers."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {name: version for name, version in versions.items() if version is not None}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def _own_commit() -> str | None:
    """Return the git commit of the gossiprec sources, read once per process."""
    return git_commit(Path(__file__).resolve().parents[2])


def git_commit(source: Path) -> str | None:
    """Return the commit of the checkout at `source`, with ``-dirty`` if files differ, or None outside a checkout."""
    if not (source / ".git").exists():  # an installed package may be inside another project's checkout
        return None
    command = ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() if found.returncode == 0 else None


DIGEST, FILES = "digest", "files"
"""The keys of the digests: of the manifest itself, and of other files by name."""


def write_manifest(path: Path, content: Mapping[str, Any]) -> None:
    """Write the manifest of a run directory, with the digest of its content.

    Raises
    ------
    ResourceError
        If the file cannot be written.
    """
    write_json(path / run_files.MANIFEST, with_digest(content))


def with_digest(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest with the digest of all its other keys under ``digest``."""
    plain: dict[str, Any] = to_plain({key: value for key, value in content.items() if key != DIGEST})
    return {**plain, DIGEST: _digest(plain)}


def read_manifest(run: Path) -> dict[str, Any]:
    """Return the manifest of a run directory.

    Raises
    ------
    LogError
        If it cannot be read, or a key that other code reads has a value of the wrong type.
    """
    path = run / run_files.MANIFEST
    found = read_json(path)
    check_record(path, found, Manifest.model_validate, _NEXT)
    return found


_NEXT = "the file is damaged; restore the run from a copy, or run its scenario.yaml again"


def read_summary(path: Path) -> dict[str, Any]:
    """Return the content of a ``summary.json``.

    Raises
    ------
    LogError
        If it cannot be read, or a value that other code reads is of another type.
    """
    found = read_json(path)
    check_record(path, found, Summary.model_validate, _NEXT)
    return found


def read_study_mark(folder: Path) -> dict[str, Any]:
    """Return the content of ``study.json``, the status of a study.

    Raises
    ------
    LogError
        If it cannot be read, or a value that other code reads is of another type.
    """
    found = read_json(folder / STUDY_MARK)
    step = "the file is damaged; run the study again: finished runs are kept"
    check_record(folder / STUDY_MARK, found, StudyMark.model_validate, step)
    return found


def manifest_fault(manifest: Mapping[str, Any]) -> str | None:
    """Return why a manifest is not as it was written, or None."""
    recorded = manifest.get(DIGEST)
    found = _digest({key: value for key, value in manifest.items() if key != DIGEST})
    if recorded != found:
        return f"was changed after it was written: its content has digest {found}, but it records {recorded}"
    return None


def identify_results(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the digests that identify the results of a complete run: of its events, and of ``metrics.csv``."""
    metrics = manifest[FILES].get(run_files.METRICS)
    return {"log_digest": manifest.get("log_digest"), run_files.METRICS: metrics}


def digests_of(run: Path, names: Iterable[str] | None = None) -> dict[str, Any]:
    """Return length and SHA-256 of files of a run, by default all, that exist, by name; the manifest is left out."""
    stored = sorted(path.name for path in run.glob(run_files.VERSIONS))
    return {
        name: _digest_of_file(run / name)
        for name in ((*run_files.FILES, *stored) if names is None else names)
        if name != run_files.MANIFEST and (run / name).exists()
    }


def file_faults(run: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Return how the files of a run differ from the manifest's records: changed, missing, or not recorded.

    Files that grow while a run is in progress have no digests before its end.
    """
    recorded = manifest[FILES]
    found = digests_of(run)
    faults = [
        f"{run / name} is missing, but {run_files.MANIFEST} records it"
        for name in sorted(recorded.keys() - found)
    ]
    for name in sorted(found.keys() & recorded):
        if found[name] != recorded[name]:
            faults.append(
                f"{run / name} was changed after it was written: it has {_shown(found[name])}, but "
                f"{run_files.MANIFEST} records {_shown(recorded[name])}"
            )
    if manifest["status"] != "running":
        faults += [
            f"{run / name} is not recorded in {run_files.MANIFEST}"
            for name in sorted(found.keys() - recorded)
        ]
    return faults


NOTED_BYTES = 64 << 20
"""Size up to which commands that show results compare the content of a file with its digest."""


def changed_files(run: Path, manifest: Mapping[str, Any], read: Iterable[str] | None = None) -> list[str]:
    """Return the names of the files of a run that has ended that differ from its manifest, the manifest included.

    Parameters
    ----------
    run : Path
    manifest : mapping
    read : iterable of str, optional
        Compare the content of these files, and of others only if they were written after the manifest; of all files if
        not given. Files over :data:`NOTED_BYTES` are compared by their size.
    """
    if manifest["status"] == "running":
        return []
    own = [run_files.MANIFEST] if manifest_fault(manifest) else []
    recorded = manifest[FILES]
    names = [
        name for name in recorded if name in run_files.FILES or fnmatch.fnmatch(name, run_files.VERSIONS)
    ]
    whole = set(names if read is None else read)
    written = os.lstat(run / run_files.MANIFEST).st_mtime_ns
    return own + [
        name
        for name in names
        if not _is_as_recorded(f"{run}/{name}", recorded[name], 0 if name in whole else written)
    ]


def _is_as_recorded(path: str, recorded: Mapping[str, Any], since: int) -> bool:
    """Return whether a file has the recorded size and, if it was written at `since` (ns) or later, the digest."""
    try:
        status = os.lstat(path)
        if status.st_size != recorded["bytes"]:
            return False
        if status.st_size > NOTED_BYTES or status.st_mtime_ns < since:
            return True
        with os.fdopen(run_files.open_regular(path, os.O_RDONLY), "rb", buffering=0) as file:
            content = file.read(recorded["bytes"] + 1)
        return bool(hashlib.sha256(content).hexdigest() == recorded["sha256"])
    except (OSError, LogError):
        return False


def _shown(fingerprint: Mapping[str, Any]) -> str:
    return f"{fingerprint['bytes']} bytes with SHA-256 {fingerprint['sha256']}"


def _digest_of_file(path: Path) -> dict[str, Any]:
    try:
        with open_to_read(path) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"bytes": file.tell(), "sha256": digest}
    except OSError as error:
        raise LogError(f"cannot read {path}: {error.strerror}") from error


def _digest(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of JSON with sorted keys, in ASCII, without blanks."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a mapping as JSON in one step; numbers that are not finite become null."""
    text = json.dumps(to_plain(content), indent=2, ensure_ascii=False, allow_nan=False)
    replace_file(path, text.encode() + b"\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file of a run.

    Raises
    ------
    LogError
        If it cannot be read, is no mapping, or holds what :func:`gossiprec.base.plain_text.parse_json` refuses.
    """
    return _read_mapping(path, parse_json, JSON_GROWTH)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file of a run, like :func:`read_json`."""
    return _read_mapping(path, parse_yaml, YAML_GROWTH)


def _read_mapping(path: Path, parse: Callable[[bytes], Any], growth: int) -> dict[str, Any]:
    try:
        found = parse(read_regular(path, growth))
    except (OSError, ValueError) as error:
        raise LogError(f"cannot read {path}: {error}") from error
    if not isinstance(found, dict):
        raise LogError(f"cannot read {path}: it is not a mapping")
    return found


def to_plain(value: Any) -> Any:
    """Return `value` as JSON types: numpy numbers become Python numbers, and numbers that are not finite null."""
    match value:
        case Mapping():
            return {str(key): to_plain(item) for key, item in value.items()}
        case list() | tuple():
            return [to_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return to_plain(value.tolist())
        case float() if not math.isfinite(value):
            return None
    return value
