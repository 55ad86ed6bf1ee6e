"""What a release promises: its dependencies, Python versions, changelog and policies."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from gossiprec.version import __version__

ROOT = Path(__file__).resolve().parents[1]
NEWER = ("3.12", "3.13")
"""Python versions that the suite does not run on."""
UNREACHABLE = re.compile("connection|timed out|name resolution|proxy", re.IGNORECASE)


def metadata():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def requirements():
    return [Requirement(line) for line in metadata()["options"]["install_requires"].split("\n") if line]


def pins():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def interpreter(version):
    """Return a Python of this version that starts, or None."""
    known = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}*/bin/python")]
    for path in filter(None, known):
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and f"Python {version}." in asked.stdout:
            return str(path)
    return None


def test_the_changelog_is_short_and_begins_with_this_version():
    text = (ROOT / "CHANGELOG.md").read_text()
    assert len(text.encode()) < 5_000
    assert re.search(r"^## (\S+)", text, re.MULTILINE)[1] == __version__


@pytest.mark.full
def test_the_wheel_requires_only_what_gossiprec_imports():
    sources = "\n".join(path.read_text() for path in (ROOT / "gossiprec").rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:import|from) (\w+)", sources, re.MULTILINE))
    modules = {}
    for module, names in packages_distributions().items():
        for name in names:
            modules.setdefault(canonicalize_name(name), set()).add(module)
    unused = [r.name for r in requirements() if not modules[canonicalize_name(r.name)] & imported]
    assert unused == []


def test_the_pages_of_analysis_name_the_extra_that_they_need():
    """In a process without the package, as where only the wheel's dependencies are installed."""
    code = (
        "import runpy, sys; sys.modules['markdown_it'] = None; runpy.run_module('analysis.papers.document')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "error: analysis: found no package markdown-it-py, expected it for the pages of results; install it with: "
        "pip install -e '.[analysis]'\n",
    )
    extras = metadata()["options.extras_require"]
    assert "markdown-it-py" in extras["analysis"]
    assert "gossiprec[analysis," in extras["dev"]


def test_every_required_package_is_pinned_within_its_range():
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins()}
    for requirement in requirements():
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


@pytest.mark.parametrize("version", NEWER)
def test_pinned_versions_allow_python(version):
    """By the metadata of what is installed here; wheels are sought by the slow test below."""
    installed = {canonicalize_name(each.name): each for each in distributions()}
    there = [installed[name] for name in (canonicalize_name(pin.name) for pin in pins()) if name in installed]
    assert len(there) > 20
    allowed = {each.name: each.metadata.get("Requires-Python") or "" for each in there}
    assert [
        name for name, range_ in allowed.items() if not SpecifierSet(range_).contains(f"{version}.0")
    ] == []
    assert f"Programming Language :: Python :: {version}" in metadata()["metadata"]["classifiers"]


@pytest.mark.slow
@pytest.mark.parametrize("version", NEWER)
@pytest.mark.full
def test_pinned_versions_have_wheels_for_python(version):
    """Pip seeks the compiled packages that gossiprec requires for a real interpreter; nothing is installed."""
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    installed = {canonicalize_name(each.name): each.read_text("WHEEL") or "" for each in distributions()}
    direct = {canonicalize_name(requirement.name) for requirement in requirements()}
    names = {str(pin): canonicalize_name(pin.name) for pin in pins()}
    compiled = [pin for pin, name in names.items() if name in direct and "Purelib: false" in installed[name]]
    assert "numba==" in " ".join(compiled)
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "--python", python, "install", "--dry-run", "--quiet", "--retries", "1",
            "--ignore-installed", "--only-binary=:all:", "--no-deps", *compiled,
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and UNREACHABLE.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


def test_the_policies_are_linked():
    readme, contributing = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
    assert "(SECURITY.md)" in readme
    assert all("(docs/releases.md" in text for text in (readme, contributing))
    assert "## Versions and deprecation" in (ROOT / "docs" / "releases.md").read_text()
