"""Manifests for tests: changed as another version of gossiprec, or another machine, would have written them."""

from __future__ import annotations

import json

from gossiprec.runs.manifest import write_manifest


def change_manifest(run, **changes):
    """Change keys of a run's manifest, with the digest that belongs to it; return the manifest as it was."""
    before = json.loads((run / "manifest.json").read_text())
    write_manifest(run, before | changes)
    return before
