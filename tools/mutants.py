"""Broken files: mutations of scenario and study files, each a pure function of a seed and a number."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

Path_ = tuple[Any, ...]

NUMBERS: list[Any] = [
    0, 1, -1, 2, 3, 7, 0.5, 1.5, -0.5, 1e-300, 1e300, 2**31, 2**63, 2**64, -(2**63), 10**30, 10**400,
    float("nan"), float("inf"), -float("inf"), True, False,
]  # fmt: skip
WORDS: list[Any] = [
    "", " ", "0", "1e3", "nan", ".inf", "null", "yes", "all", "a" * 5_000, "\u202eabc", "\U0001f980", "e\u0301", "\x07",
    "../..", "/etc/passwd", "/dev/null", "/nowhere/x.csv", "a.b", "a/b", "%s%n", "{}", "[", "${HOME}", "\ud7ff",
    "2020-01-01", "1:30", "0x10", "0o17", "1_000", "~", "<<", "*", "&a", "!!python/object:os.system",
]  # fmt: skip
HOLLOW: list[Any] = [
    None,
    [],
    {},
    [[]],
    [{}],
    {"": None},
    {"name": None},
    {"law": None},
    [None],
    [[[[]]]],
    {0: 0},
]
FRAGMENTS = [
    *b"[ ] { } : , - ? | > & * ! % @ ` # ' \" ~ -1 0 1e400 .nan .inf 0x 0b 1:9 2020-99-99 null yes".split(),
    *b"<<: *m &m *o !!int !!float !!binary !!set !!str !!python/object name preset full943 every law nodes".split(),
    *(b" ", b"\n", b"\n  ", b"\n- ", b"\t", b"\r", b"\x00", b"\x07", b"\xff", b"\xc3\xa9", b"\xe2\x80\xa8"),
    b"\xef\xbb\xbf",
    *(b"---\n", b"...\n", b": ", b"{}", b"[]", b"%YAML 9.9\n", b"&a [*a, *a]", b"[" * 3000, b"{a: " * 500),
]  # fmt: skip


@dataclass(frozen=True)
class Corpus:
    """The files to mutate, and the material of mutants.

    Attributes
    ----------
    files : list of (name, bytes)
    sections : list of (key, value)
        Sections of the files and of the documentation, to be inserted in other places.
    words : list of str
        Every key and every word that the scenario's schema knows.
    """

    files: list[tuple[str, bytes]]
    sections: list[tuple[Any, Any]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    @classmethod
    def collect(cls, files: Sequence[Path], pages: Sequence[Path], schema: dict[str, Any]) -> Corpus:
        """Read the files to be mutated, and examples from pages of documentation."""
        texts = [(file.name, file.read_bytes()) for file in files]
        blocks = [text for _, text in texts]
        for page in pages:
            blocks += [block.encode() for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.S)]
        sections = [section for block in blocks for section in _sections(_loaded(block))]
        return cls(texts, sections, sorted(set(_words(schema))))


def _loaded(text: bytes) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None  # an excerpt of a page that is no file by itself


def _sections(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _sections(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _sections(inner)


def _words(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from (key for key in schema.get("properties", {}))
        yield from (word for word in schema.get("enum", []) if isinstance(word, str))
        if isinstance(schema.get("const"), str):
            yield schema["const"]
        for inner in schema.values():
            yield from _words(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from _words(inner)


def mutant(corpus: Corpus, seed: int, number: int) -> tuple[str, bytes]:
    """Return mutant `number`: the name of the file it comes from, and its bytes."""
    draw = random.Random(f"{seed}-{number}")
    name, text = draw.choice(corpus.files)
    if draw.random() < 0.25:
        return name, _broken_bytes(text, draw)
    data = yaml.safe_load(text)
    for _ in range(draw.choice([1, 1, 1, 1, 2, 2, 3, 5])):
        data = _changed(data, corpus, draw)
    dumped = yaml.safe_dump(data, sort_keys=False, allow_unicode=draw.random() < 0.5, width=10**6)
    if draw.random() < 0.1:
        dumped = _with_a_line_twice(dumped, draw)
    return name, dumped.encode("utf-8", "surrogatepass")


def _broken_bytes(text: bytes, draw: random.Random) -> bytes:
    """Return the bytes with splices, flips and cuts."""
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(text) + 1)
        kind = draw.random()
        if kind < 0.6:
            text = text[:at] + draw.choice(FRAGMENTS) + text[at + draw.randint(0, 12) :]
        elif kind < 0.8 and at < len(text):
            text = text[:at] + bytes([text[at] ^ (1 << draw.randrange(8))]) + text[at + 1 :]
        elif kind < 0.9:
            text = text[:at]
        else:
            end = min(len(text), at + draw.randint(1, 200))
            text = text[:end] + text[at:end] + text[end:]
    return text


def _with_a_line_twice(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at = draw.randrange(len(lines))
    return "".join([*lines[: at + 1], lines[at], *lines[at + 1 :]])


def _places(value: Any, at: Path_ = ()) -> Iterator[Path_]:
    """Yield the path of every part of a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield (*at, key)
        yield from _places(child, (*at, key))


def _changed(data: Any, corpus: Corpus, draw: random.Random) -> Any:
    """Return a copy of the data with one change."""
    places = list(_places(data))
    if not places:
        return _value(None, corpus, draw)
    data, path = copy.deepcopy(data), draw.choice(places)
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    change = draw.choice(
        [_delete, _replace, _replace, _replace, _retype, _rename, _insert, _insert, _swap, _nest]
    )
    change(holder, path[-1], corpus, draw)
    return data


def _delete(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    del holder[key]


def _replace(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    """Replace a value, mostly by a value of the same key elsewhere."""
    alike = [value for name, value in corpus.sections if name == key]
    gentle = bool(alike) and draw.random() < 0.7
    holder[key] = copy.deepcopy(draw.choice(alike)) if gentle else _value(holder[key], corpus, draw)


def _tweak(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    """Change a number a little; another value is replaced."""
    value = holder[key]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _replace(holder, key, corpus, draw)
    small = (
        [value + 1, value - 1, value * 2, value // 2] if isinstance(value, int) else [value / 2, value * 1.1]
    )
    holder[key] = draw.choice(small)
    return None


def _retype(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    value = holder[key]
    holder[key] = draw.choice(
        [[value], {"name": value}, {"value": value}, str(value), [value, value], not value]
    )


def _rename(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    """Rename a key: a typing error, another key, or an empty text."""
    if not isinstance(holder, dict):
        return _swap(holder, key, corpus, draw)
    typo = str(key)
    at = draw.randrange(len(typo) + 1)
    names = [
        typo[:at] + typo[at + 1 :],
        typo[:at] + "x" + typo[at:],
        draw.choice(corpus.words),
        7,
        None,
        1.5,
        True,
        "",
    ]
    holder[draw.choice(names)] = holder.pop(key)
    return None


def _insert(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    """Insert a section of another file, or a known key with some value."""
    name, value = copy.deepcopy(draw.choice(corpus.sections))
    if draw.random() < 0.4:
        name, value = draw.choice(corpus.words), _value(None, corpus, draw)
    if isinstance(holder, list):
        holder.insert(draw.randint(0, len(holder)), value)
    else:
        holder[name] = value


def _swap(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    other = draw.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[other] = holder[other], holder[key]


def _nest(holder: Any, key: Any, corpus: Corpus, draw: random.Random) -> None:
    value = holder[key]
    for _ in range(draw.choice([1, 3, 30, 90])):
        value = {"name": value} if draw.random() < 0.5 else [value]
    holder[key] = value


CHANGES = [_delete, *4 * [_replace], *6 * [_tweak], _retype, _rename, _insert, _insert, _swap, _nest]


def _value(before: Any, corpus: Corpus, draw: random.Random) -> Any:
    """Return some value that may or may not be allowed."""
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(NUMBERS)
    if kind < 0.5:
        return draw.choice(WORDS)
    if kind < 0.6:
        return copy.deepcopy(draw.choice(HOLLOW))
    if kind < 0.75:
        return draw.choice(corpus.words)
    if kind < 0.9 or not isinstance(before, (int, float)):
        return copy.deepcopy(draw.choice(corpus.sections)[1])
    return draw.choice([-before, before * 1000, before / 7, before + 1, -1e-9])
