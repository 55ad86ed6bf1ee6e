"""The folder of machine code: what other users could have written there is never unpickled."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gossiprec.base.machine import why_replaceable, why_untrusted

OTHER = 12345
"""A user id that is neither ours nor root's."""
KERNEL = """
from gossiprec.native.jit import kernel

@kernel
def double(x):
    return 2.0 * x
"""
RUN = """
import json
from doubling import double
from gossiprec.native.kernel_cache import unreported_problems
value = double(1.0)
print(json.dumps([value, sum(double.stats.cache_hits.values()), unreported_problems(), unreported_problems()]))
"""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


class Bomb:
    """An object whose unpickling makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


@pytest.fixture
def ran(tmp_path):
    """Call a kernel in a process of its own: its value, hits in the cache, and the notes of two calls."""
    (tmp_path / "doubling.py").write_text(KERNEL)

    def run(**variables):
        told = subprocess.run(
            [sys.executable, "-c", RUN],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}", **variables},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(told.stdout)

    return run


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """Compile the kernel once: a cache folder that tests copy and spoil."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "doubling.py").write_text(KERNEL)
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{os.getcwd()}"}
    environment["XDG_CACHE_HOME"] = str(folder / "cache")
    subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True, check=True)
    return folder / "cache"


def written(folder, suffix):
    return list(Path(folder).rglob(f"*{suffix}"))


@pytest.mark.full
def test_kernels_are_kept_where_this_user_alone_can_write(ran, tmp_path):
    cache = tmp_path / "cache"

    os_mask = os.umask(0)
    try:
        assert ran(XDG_CACHE_HOME=str(cache))[:3] == [2.0, 0, []]
    finally:
        os.umask(os_mask)

    assert ran(XDG_CACHE_HOME=str(cache))[:3] == [2.0, 1, []]
    everything = [*written(cache, ".nbi"), *written(cache, ".nbc")]
    assert everything
    assert all(path.stat().st_mode & 0o022 == 0 for path in everything)
    assert all(path.stat().st_mode & 0o077 == 0 for path in cache.rglob("*") if path.is_dir())


PAIR = """
from typing import NamedTuple

class {name}(NamedTuple):
    {first}: float
    {second}: float
"""
DIFFERENCE = """
from gossiprec.native.jit import kernel

@kernel
def difference(pair):
    return pair.a - pair.b
"""


@pytest.mark.parametrize("name", ["Pair", "Couple"])
@pytest.mark.full
def test_machine_code_serves_only_the_fields_for_which_it_was_made(tmp_path, name):
    """The class may change its order of fields, or its name, from one version of the sources to the next."""
    (tmp_path / "difference.py").write_text(DIFFERENCE)

    def run(**words):
        (tmp_path / "pairs.py").write_text(PAIR.format(**words))
        call = f"import pairs, difference; print(difference.difference(pairs.{words['name']}(a=3.0, b=1.0)))"
        path = f"{tmp_path}{os.pathsep}{os.getcwd()}"
        told = subprocess.run(
            [sys.executable, "-B", "-c", call],
            env={**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return float(told.stdout)

    assert run(name="Pair", first="a", second="b") == 2.0
    assert run(name=name, first="b", second="a") == 2.0


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
@pytest.mark.full
def test_a_folder_that_others_can_write_to_is_not_read(ran, template, tmp_path, variable, mode):
    cache, mark = tmp_path / "cache", tmp_path / "unpickled"
    (kernels,) = template.glob("gossiprec/kernels-*")
    shutil.copytree(*((template, cache) if variable == "XDG_CACHE_HOME" else (kernels, cache)))
    (index,) = written(cache, ".nbi")
    index.write_bytes(pickle.dumps(Bomb(mark)))
    module = index.parent
    module.chmod(mode)

    value, hits, notes, again = ran(**{variable: str(cache)})

    assert (value, hits, again) == (2.0, 0, [])
    assert not mark.exists()
    assert len(notes) == 1
    assert str(module) in notes[0]
    assert "other users can write to" in notes[0]
    assert index.read_bytes() == pickle.dumps(Bomb(mark)), "nothing was written there either"


@pytest.mark.slow
@as_root
@pytest.mark.parametrize("what", ["folder", "index", "data"])
@pytest.mark.full
def test_what_belongs_to_another_user_is_not_read(ran, template, tmp_path, what):
    cache, mark = tmp_path / "cache", tmp_path / "unpickled"
    shutil.copytree(template, cache)
    (index,), (data,) = written(cache, ".nbi"), written(cache, ".nbc")
    bad = data if what == "data" else index
    bad.write_bytes(pickle.dumps(Bomb(mark)))
    os.chown(cache if what == "folder" else bad, OTHER, OTHER)

    value, hits, notes, _ = ran(XDG_CACHE_HOME=str(cache))

    assert (value, hits) == (2.0, 0)
    assert not mark.exists()
    assert len(notes) == 1
    if what != "folder":
        assert ran(XDG_CACHE_HOME=str(cache))[1:3] == [1, []], "a file of our own has taken its place"


@pytest.mark.full
def test_a_folder_that_cannot_be_made_is_reported_once(ran, tmp_path):
    (tmp_path / "file").write_text("no folder")

    value, hits, notes, again = ran(XDG_CACHE_HOME=str(tmp_path / "file"))

    assert (value, hits, again) == (2.0, 0, [])
    assert len(notes) == 1
    assert "XDG_CACHE_HOME" in notes[0]
    assert "Not a directory" in notes[0]


def test_a_folder_above_that_others_can_write_to_is_not_safe_unless_it_is_sticky(tmp_path):
    shared = tmp_path / "shared"
    inner = shared / "own"
    inner.mkdir(parents=True)
    assert why_untrusted(inner) is None

    shared.chmod(0o777)
    assert str(shared) in why_replaceable(inner)
    assert why_untrusted(inner) == why_replaceable(inner)
    shared.chmod(0o1777)
    assert why_untrusted(inner) is None
    assert why_untrusted(shared) == f"other users can write to {shared}"
    assert why_untrusted(shared / "new") is None


def test_a_link_is_judged_by_the_folder_that_it_names(tmp_path):
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to("open")

    assert why_untrusted(tmp_path / "link") == f"other users can write to {tmp_path / 'open'}"
