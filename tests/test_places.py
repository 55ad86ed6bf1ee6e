"""A checkout and its environment may have any name and be anywhere."""

import ast
import itertools
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gossiprec.base.errors import ScenarioError
from gossiprec.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("analysis", "benchmarks", "docs", "examples", "gossiprec", "tests", "tools")
FOR_PEOPLE = {"gossiprec/cli/doctor.py"}
"""Files that print the path of the interpreter and pass it to no shell."""

FILE_OF_CODE = r"co_filename|__file__|sys\.(?:executable|prefix|path)|cwd\(|\.parts\b|as_posix|str\("
NAME_IN_PATH = re.compile(rf"""["']/?gossiprec/?["'] (?:not )?in [^\n]*(?:{FILE_OF_CODE})""")
"""Pattern of a test for our code by its name; it also matches all that is installed in a checkout of this name."""

COMMAND = re.compile(r"gossiprec [a-z ]+$")
PLACE = re.compile(r"(?:path|folder|whole)$|^(?:run|out)$|^tmp_path")
CANDIDATE = re.compile(r"\{sys\.executable|gossiprec [a-z ]+\{")
"""A command that a message names, the name of a file or folder after it, and text in which either may be."""


def find_faults(text):
    """Return the expressions of a Python file that are wrong in some places."""
    unquoted = []
    tree = ast.parse(text if CANDIDATE.search(text) else "")
    for string in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        for before, part in itertools.pairwise([ast.Constant(""), *string.values]):
            name = ast.unparse(part.value) if isinstance(part, ast.FormattedValue) else ""
            command = COMMAND.search(str(getattr(before, "value", "")))
            if name == "sys.executable" or (command and PLACE.search(name)):
                unquoted.append(name)
    return unquoted + NAME_IN_PATH.findall(text)


@pytest.mark.parametrize("folder", FOLDERS)
def test_commands_quote_places_and_our_code_is_not_known_by_a_part_of_its_path(folder):
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*.py")} - FOR_PEOPLE
    files.discard(Path(__file__).relative_to(ROOT).as_posix())
    faults = {name: find_faults((ROOT / name).read_text(encoding="utf-8")) for name in sorted(files)}
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "n_faults"),
    [
        ('f"{sys.executable} -m gossiprec | head"', 1),
        ('f"{shlex.quote(sys.executable)} -m gossiprec | head"', 0),
        ('[sys.executable, "-m", "gossiprec"]', 0),
        ('f"resume with: gossiprec resume {run.path} --from-start"', 1),
        ('f"resume with: gossiprec resume {quote(str(run.path))} --from-start"', 0),
        ('f"run gossiprec init {path.stem} to write it"', 0),
        ('any("gossiprec" in each.__code__.co_filename for each in functions)', 1),
        ("if 'gossiprec/' not in str(path): pass", 1),
        ("PROGRAM = '''\n\"gossiprec\" in module.__file__\n'''", 1),
        ('"gossiprec" in manifests.read_json(path / run_files.MANIFEST)', 0),
        ("Path(module.__file__).is_relative_to(package)", 0),
    ],
)
def test_faults_are_found(text, n_faults):
    assert len(find_faults(text)) == n_faults


def test_a_command_in_a_message_can_be_pasted(tmp_path):
    path = tmp_path / "päth with blanks" / "study.yaml"
    path.parent.mkdir()
    path.write_text("axes: {}\n")
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert shlex.split(str(caught.value).partition("with: ")[2]) == ["gossiprec", "study", str(path)]


MAKEFILE = """
VENV ?= .venv

test:
\t@pwd; ls -A; cat changed staged new ../shared/data; echo $(VENV); test ! -e broken && echo 1 passed
"""
MAKE = {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "VENV"}
"""Variables with which `make test`, if it runs these tests, would change what another make prints."""


@pytest.fixture
def checkout(tmp_path):
    """Return a small checkout with changes that are not committed, and with data in ../shared."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "data").write_text("data\n")
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    files = {"Makefile": MAKEFILE, ".gitignore": "ignored\n", "changed": "old\n", "removed": "old\n"}
    for name, text in files.items():
        (checkout / name).write_text(text)
    author = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message=first"]):
        subprocess.run(["git", *words], cwd=checkout, check=True)
    for name in ("changed", "staged", "new", "ignored"):
        (checkout / name).write_text(f"{name}\n")
    subprocess.run(["git", "add", "staged"], cwd=checkout, check=True)
    (checkout / "removed").unlink()
    return checkout


def call_ci(checkout):
    """Run the script of CI, which finds a chromium; return how it ended, and the folder of temporary files."""
    programs, temporary = checkout.parent / "programs", checkout.parent / "temporary"
    programs.mkdir()
    temporary.mkdir()
    (programs / "chromium").touch(0o755)
    variables = {name: value for name, value in os.environ.items() if name not in MAKE}
    variables |= {"PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": str(temporary)}
    done = subprocess.run(
        ["bash", checkout / ".ci" / "run"], env=variables, capture_output=True, text=True, check=False
    )
    return done, temporary


def test_ci_tests_a_clone_with_all_changes_and_data_at_a_path_that_must_be_quoted(checkout):
    done, temporary = call_ci(checkout)
    assert (done.returncode, done.stderr) == (0, "")
    place, *others = done.stdout.splitlines()
    assert Path(place).parent.parent.parent == temporary
    assert place.endswith("/gossiprec")
    assert " " in place.removeprefix(str(temporary))
    assert not place.removeprefix(str(temporary)).isascii()
    assert others == [
        ".ci", ".git", ".gitignore", "Makefile", "changed", "new", "staged",
        "changed", "staged", "new", "data", ".venv", "1 passed",
    ]  # fmt: skip
    assert list(temporary.iterdir()) == []


def test_ci_fails_if_its_tests_fail_and_leaves_nothing(checkout):
    (checkout / "broken").touch()
    done, temporary = call_ci(checkout)
    assert done.returncode != 0
    assert "1 passed" not in done.stdout
    assert list(temporary.iterdir()) == []
