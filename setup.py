"""Puts scenarios/ into the wheel, where `gossiprec init` finds them; all else is said in setup.cfg."""

from __future__ import annotations

from setuptools import setup
from setuptools.command.build_py import build_py


class WithScenarios(build_py):
    """Copies the folder; an editable installation reads that of the checkout."""

    def run(self) -> None:
        """Build the package."""
        super().run()
        if not self.editable_mode:
            self.copy_tree("scenarios", f"{self.build_lib}/gossiprec/scenario/shipped")


setup(cmdclass={"build_py": WithScenarios})
