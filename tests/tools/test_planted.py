"""Planted faults: every fault of the list applies, and the tool tells found faults from others."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from tools.planted import load_faults, problems

ROOT = Path(__file__).parents[2]
CODE = """\
class Account:
    def pay(self, amount, fee):
        total = amount + fee
        return total

    def debt(self, amount):
        total = amount
        return -total


def pay(amount):
    return amount
"""
TESTS = """\
from shop.desk.till import Account


def test_a_fee_is_added():
    assert Account().pay(3, 1) == 4
"""
MISSED = {
    "name": "sign-lost", "kind": "running", "file": "shop/desk/till.py", "function": "Account.debt",
    "search": "return -total", "replace": "return total", "why": "A debt is a credit.",
}  # fmt: skip
FOUND = {
    **MISSED, "name": "fee-subtracted", "function": "Account.pay", "search": "amount + fee", "replace": "amount - fee",
}  # fmt: skip
BROKEN_IMPORT = {
    **MISSED, "name": "class-renamed", "function": "pay", "search": "return amount",
    "replace": "return amount\n\n\ndel Account",
}  # fmt: skip


@pytest.fixture
def shop(tmp_path):
    """A git repository with a package, a test and faults."""
    root = tmp_path / "repository"
    files = {
        "shop/__init__.py": "",
        "shop/desk/__init__.py": "",
        "shop/desk/till.py": CODE,
        "tests/desk/test_till.py": TESTS,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_faults(root, FOUND, MISSED)
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run(["git", *identity, *command], cwd=root, check=True)
    return root


def write_faults(root, *faults):
    (root / "tests/planted_faults.yaml").write_text(yaml.safe_dump([*faults], sort_keys=False))


def call(root, *arguments):
    """Return the exit status of the tool in a repository, its lines and its errors."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.planted", *arguments],
        cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_every_fault_applies():
    assert [*problems(ROOT, load_faults(ROOT))] == []


def test_there_are_ten_faults_of_each_kind_with_different_names():
    faults = load_faults(ROOT)
    assert Counter(fault.kind for fault in faults) == dict.fromkeys(
        ("computing", "attacks", "reading", "running"), 10
    )
    assert len({fault.name for fault in faults}) == 40


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"search": "total"}, "found the text 2 times in Account.debt"),
        ({"search": "fee"}, "found the text 0 times in Account.debt"),
        ({"function": "debt"}, "found 0 functions debt"),
        ({"file": "shop/office.py"}, "No such file"),
        ({"replace": "return )"}, "the changed file is no Python"),
    ],
)
def test_a_fault_that_does_not_apply_is_reported(shop, change, reason):
    write_faults(shop, FOUND, {**MISSED, **change})
    status, lines, _ = call(shop, "--check")
    assert status == 1
    assert len(lines) == 1
    assert lines[0].startswith("sign-lost: ")
    assert reason in lines[0]


def test_faults_that_apply_give_no_lines(shop):
    assert call(shop, "--check") == (0, [], "")


@pytest.mark.slow
@pytest.mark.parametrize("together", [pytest.param("1", marks=pytest.mark.full), "2"])
def test_a_tested_fault_is_found_and_another_is_not(shop, tmp_path, together):
    results = tmp_path / "results.jsonl"
    status, lines, errors = call(shop, "--together", together, "--results", str(results), "--", "tests")
    found, missed = map(json.loads, lines)
    assert status == 0
    assert (found["name"], found["found"]) == ("fee-subtracted", True)
    assert found["tests"] == ["tests/desk/test_till.py::test_a_fee_is_added"]
    assert (missed["name"], missed["found"], missed["tests"]) == ("sign-lost", False, [])
    assert errors.splitlines()[-1].split() == ["all", "found", "1", "of", "2"]
    assert ("1 tests fail with 2 faults" in errors) == (together == "2")
    assert (shop / "shop/desk/till.py").read_text() == CODE
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=shop, capture_output=True, text=True, check=True
    )
    assert len(worktrees.stdout.splitlines()) == 1
    again = call(shop, "--results", str(results), "--", "tests")
    assert again == (0, [], "\n".join(errors.splitlines()[-2:]) + "\n")
    assert len(results.read_text().splitlines()) == 2


@pytest.mark.full
def test_a_fault_that_breaks_the_collection_is_found_and_hides_no_other(shop):
    write_faults(shop, MISSED, BROKEN_IMPORT, FOUND)
    status, lines, errors = call(shop, "--skip-first", "--", "tests")
    broken, found, missed = map(json.loads, lines)
    assert (status, broken["name"], broken["tests"]) == (0, "class-renamed", ["tests/desk/test_till.py"])
    assert (found["found"], missed["found"]) == (True, False)
    assert "with 3 faults" in errors


@pytest.mark.full
def test_tests_that_fail_without_a_fault_end_the_tool(shop):
    (shop / "tests/desk/test_till.py").write_text(TESTS.replace("== 4", "== 5"))
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qam", "x"], cwd=shop, check=True
    )
    status, lines, errors = call(shop, "--", "tests")
    assert (status, lines) == (2, [])
    assert "tests/desk/test_till.py::test_a_fee_is_added" in errors


def test_faults_that_do_not_apply_to_the_last_commit_end_the_tool(shop):
    write_faults(shop, {**MISSED, "search": "fee"})
    status, lines, errors = call(shop, "--", "tests")
    assert (status, lines) == (2, [])
    assert "sign-lost: shop/desk/till.py: found the text 0 times" in errors


@pytest.mark.full
def test_no_tests_are_an_error(shop):
    assert call(shop, "--", "tests", "-k", "nothing")[0] == 2
    status, lines, errors = call(shop, "--skip-first", "--", "tests", "-k", "nothing")
    assert (status, lines) == (2, [])
    assert "no tests were collected" in errors
