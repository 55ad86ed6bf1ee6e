"""The scenarios and studies that are bundled with gossiprec."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

import yaml

from gossiprec.base.errors import ScenarioError, did_you_mean
from gossiprec.runs.run_files import replace_file, wrap_write_errors

STUDIES = "studies"
PLACES = {
    "scenarios": ("*.yaml", "papers/*/*.yaml"),
    STUDIES: (f"{STUDIES}/*.yaml", f"{STUDIES}/real/*.yaml"),
}
KINDS = tuple(PLACES)
LONG = 100
"""Length in characters above which a sentence is shortened."""
BASE = re.compile(r"(?:\.\./)+(?:papers/\w+/)?(\w+)\.yaml")
"""Pattern of the path by which a study refers to its base scenario."""
FOLDERS = re.compile(r"scenarios/(?:papers/\w+/)?")
"""Pattern of the checkout's folders in the text of a scenario."""
TRACE = re.compile(r"scenarios/(traces/[\w.]+)")
"""Pattern of the path of a bundled trace in the text of a scenario."""
SCHEMA = re.compile(r"(?<=\$schema=)\S+")
"""Pattern of the path of the schema in the line for the language servers of editors."""


@dataclass(frozen=True)
class BundledFile:
    """A bundled scenario or study.

    Attributes
    ----------
    name : str
        Name of its file, without the suffix.
    kind : str
        One of :data:`KINDS`.
    path : Path
        The bundled file.
    text : str
        YAML, with comments.
    """

    name: str
    kind: str
    path: Path
    text: str

    @property
    def file(self) -> Path:
        """The path to which it is written, relative to the working folder."""
        return Path(STUDIES if self.kind == STUDIES else "", f"{self.name}.yaml")

    @property
    def summary(self) -> str:
        """The first sentence of the comment at its head."""
        head = re.match(r"(?:#.*\n)*", self.text)
        words = " ".join(re.sub(r"^#", "", head[0] if head else "", flags=re.MULTILINE).split())
        return textwrap.shorten(re.split(r"(?<=[.?!]) ", words, maxsplit=1)[0], LONG, placeholder=" ...")

    @property
    def text_to_write(self) -> str:
        """The text to be written: without the folders of a checkout, and with the path of the installed schema."""
        text = FOLDERS.sub("", BASE.sub(r"../\1.yaml", self.text))
        return SCHEMA.sub(lambda _: str(schema_file(self.kind)), text)

    @property
    def required_data(self) -> tuple[str, str, str] | None:
        """The required data set, its path and the option that names the path, or None if no file is required."""
        dataset = (yaml.safe_load(self.text) or {}).get("dataset", {})
        key = next((key for key in ("path", "train") if key in dataset), None)
        return (str(dataset["name"]), str(dataset[key]), key) if key else None

    @property
    def list_needed_files(self) -> list[BundledFile]:
        """Return the scenarios to which it refers, which must be in the same place."""
        return [get_bundled("scenarios", name) for name in dict.fromkeys(BASE.findall(self.text))]

    @property
    def traces(self) -> dict[str, bytes]:
        """Content of the bundled traces that it reads, by path."""
        return {name: (bundled_dir() / name).read_bytes() for name in TRACE.findall(self.text)}


def bundled_dir() -> Path:
    """Return the folder of the bundled files: in the installed package, or ``scenarios/`` of the checkout."""
    installed = Path(__file__).with_name("shipped")
    return installed if installed.is_dir() else Path(__file__).parents[2] / "scenarios"


def schema_file(kind: str = "scenarios") -> Path:
    """Return the file of the JSON Schema of scenarios, or of studies, which editors read."""
    return Path(__file__).with_name(f"{'study' if kind == STUDIES else 'scenario'}.schema.json")


def bundled_files(kind: str) -> dict[str, BundledFile]:
    """Return the scenarios, or the studies, by name in alphabetical order."""
    files = [file for place in PLACES[kind] for file in bundled_dir().glob(place)]
    return {
        file.stem: BundledFile(file.stem, kind, file, file.read_text(encoding="utf-8"))
        for file in sorted(files, key=lambda file: file.stem)
    }


def get_bundled(kind: str | None, name: str) -> BundledFile:
    """Return a scenario or a study by its name; without a kind, of either.

    Raises
    ------
    ScenarioError
        If there is none; the message names the nearest name.
    """
    known = {key: one for each in KINDS if kind in (None, each) for key, one in bundled_files(each).items()}
    plain = name.removesuffix(".yaml").replace("-", "_")
    if plain not in known:
        kinds = (each for each in KINDS if kind in (None, each))
        what = " or ".join(each.removesuffix("s").replace("studie", "study") for each in kinds)
        raise ScenarioError(
            f"no bundled {what} {name!r}{did_you_mean(plain, known)}; list all with: gossiprec list "
            f"{kind or 'scenarios, gossiprec list studies'}"
        )
    return known[plain]


def write_bundled(one: BundledFile, into: Path, *, force: bool = False) -> dict[Path, bool]:
    """Write a scenario, or a study and the scenarios it refers to, with the traces that they read.

    Parameters
    ----------
    one : BundledFile
    into : Path
    force : bool
        Whether files with other content may be replaced.

    Returns
    -------
    dict of Path to bool
        Each file, and whether it was written; False if it existed with this content.

    Raises
    ------
    ScenarioError
        If a file has other content; then no file is written.
    ResourceError
        If a file cannot be written.
    """
    needed = (one, *one.list_needed_files)
    texts = {into / each.file: each.text_to_write.encode() for each in needed}
    texts |= {into / name: content for each in needed for name, content in each.traces.items()}
    same = {file: file.is_file() and file.read_bytes() == text for file, text in texts.items()}
    for file in texts:
        if file.exists() and not same[file] and not force:
            raise ScenarioError(f"{file} exists and differs; pass --force to overwrite it, or rename it")
    for file, text in texts.items():
        if not same[file]:
            with wrap_write_errors(file):
                file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, text)
    return {file: not same[file] for file in texts}
