"""``gossiprec doctor`` names what slows runs down; shells complete words by what ``gossiprec completion`` prints."""

import json
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from calls import environment, invoke


@pytest.fixture
def found(capsys, monkeypatch):
    def call(**patched):
        for name, value in patched.items():
            monkeypatch.setattr(f"gossiprec.base.machine.{name}", lambda *_, value=value: value)
        code, out, err = invoke(capsys, "doctor", "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def test_the_doctor_names_what_is_there(found, capsys):
    facts = found()
    code, text, _ = invoke(capsys, "doctor")
    assert code == 0
    assert {line.split()[0] for line in text.splitlines()} >= {
        "cores",
        "memory",
        "kernels",
        "torch",
        "extras",
    }
    assert facts["torch"].split(",")[0] == __import__("torch").__version__
    assert "tensorboard" in facts["extras"].split(", ")


def test_the_doctor_advises_against_each_thing_that_is_slow(found, monkeypatch):
    slow = found(usable_cores=1, available_bytes=2**30, why_untrusted="other users can write to /cache")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    for load in (1.5, 9.0):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        facts = found(usable_cores=2)
        assert f"load {load} in the last minute" in facts["cores"]
        assert not any("processes shared" in words for words in facts["advice"])  # of eight cores
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert any("9.0 processes shared 2 cores" in words for words in found(usable_cores=2)["advice"])
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setenv("GOSSIPREC_PLAIN_NUMBA", "0")
    words = " ".join(found(usable_cores=1)["advice"])
    assert "1 of 8 cores" in words
    for part in ("needs 2.3 GiB", "XDG_CACHE_HOME"):
        assert part in " ".join(slow["advice"])
    assert slow["memory"].startswith("1.0 GiB")


def test_completion_needs_a_shell_that_it_knows(capsys):
    code, _, err = invoke(capsys, "completion", "tcsh")
    assert (code, "'tcsh' is not one of 'bash', 'zsh', 'fish'" in err) == (2, True)
    assert "completion prints the script" in invoke(capsys, "completion", "bash", "--print")[2]
    assert "_GOSSIPREC_COMPLETE" in invoke(capsys, "completion", "fish")[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["sim"], "simulate"),
        (["simulate", "--ov"], "--overwrite"),
        (["init", "smo"], "smoke"),
        (["list", "spl"], "splits"),
        (["simulate", "x", "--set", "training.learn"], "training.learning_rate="),
        (["simulate", "x", "--set", "policies.0.no"], "policies.0.nodes="),
        (["simulate", "x", "--set", "evalu"], "evaluate."),
        (["simulate", "x", "--set", "executor.name=fu"], "executor.name=fused"),
    ],
)
@pytest.mark.cases(1)
def test_words_are_completed(typed, offered):
    asked = environment(
        _GOSSIPREC_COMPLETE="bash_complete",
        COMP_WORDS=" ".join(["gossiprec", *typed]),
        COMP_CWORD=str(len(typed)),
    )
    call = "import sys; sys.argv = ['gossiprec']; from gossiprec.entry import run; run()"
    ended = subprocess.run(
        [sys.executable, "-c", call], env=asked, capture_output=True, text=True, check=False
    )
    assert f"plain,{offered}" in ended.stdout.splitlines(), ended.stderr


CALLS = {
    "bash": (
        "compopt() { echo option $2; }\n. SCRIPT\n"
        'tab() { COMP_LINE="gossiprec simulate x --set $1"; COMP_WORDS=(gossiprec simulate x --set "${@:2}")\n'
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _gossiprec_completion gossiprec; echo "${COMPREPLY[@]}"; }\n'
        "tab training.learn training.learn; tab executor.name=fu executor.name = fu\n"
        "tab executor.name= executor.name =\n"
        'COMP_LINE="gossiprec simulate x --set=executor.name=fu"\n'
        "COMP_WORDS=(gossiprec simulate x --set = executor.name = fu)\n"
        'COMP_CWORD=7; _gossiprec_completion gossiprec; echo "${COMPREPLY[@]}"',
        ["option nospace", "training.learning_rate=", "fused", "auto reference batched fused ray", "fused"],
    ),
    "zsh": (
        "compadd() { if [[ $@[-1] != -- ]]; then echo compadd $@; fi; }; compdef() { }; . SCRIPT\n"
        "for one in training.learn executor.name=fu; do\n"
        "words=(gossiprec simulate x --set $one) CURRENT=5; _gossiprec_completion; done",
        [
            "compadd -U -V unsorted -S -- training.learning_rate=",
            "compadd -U -V unsorted -- executor.name=fused",
        ],
    ),
    "fish": (
        '. SCRIPT; for i in training.learn executor.name=fu; complete -C "gossiprec simulate x --set $i"; end',
        ["training.learning_rate=", "executor.name=fused"],
    ),
}
"""What a shell runs after SCRIPT, and what it prints. Bash breaks the line at ``=`` and replaces only the last part."""


@pytest.mark.slow
@pytest.mark.parametrize("shell", CALLS)
@pytest.mark.full
def test_a_shell_completes_a_key_without_a_blank_after_it_and_its_value(shell, tmp_path):
    """The shell itself runs the script that the command prints."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    script = subprocess.run(
        [sys.executable, "-m", "gossiprec", "completion", shell], env=environment(),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (tmp_path / "script").write_text(script)
    command = tmp_path / "gossiprec"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gossiprec "$@"\n')
    command.chmod(0o755)
    asked, told = CALLS[shell]
    asked = asked.replace("SCRIPT", shlex.quote(str(tmp_path / "script")))
    ended = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", asked],
        env=environment(PATH=f"{tmp_path}:{os.environ['PATH']}", HOME=str(tmp_path)),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stdout.splitlines() == told, ended.stderr
