"""The coordinator's last version (``evaluate.keep_version``), for ``version.npz``."""

from __future__ import annotations

from gossiprec.emulation.run.run_part import RUN_PARTS, RunContext, RunPart
from gossiprec.runs import RunDirectory


@RUN_PARTS.register("kept-version")
class KeptVersion(RunPart):
    """The coordinator's last version."""

    @classmethod
    def make(cls, run: RunContext) -> KeptVersion | None:
        """Return the version, if the scenario keeps it."""
        return cls(run) if run.scenario.evaluate.keep_version else None

    def close(self, directory: RunDirectory) -> None:
        """Write the version."""
        directory.write_version(self._run.prepared.coordinator_tables())
