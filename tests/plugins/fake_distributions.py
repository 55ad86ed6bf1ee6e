"""Distributions that are installed for a test: a module and real metadata in a folder on ``sys.path``."""

from __future__ import annotations

from textwrap import dedent


def install(folder, name, version, points, **modules):
    """Install a distribution in a folder, in place of another version of it.

    Parameters
    ----------
    folder : Path
    name, version : str
    points : dict of str to dict
        Entry points: group to name to what it names.
    modules : str
        Source of each module; a leading empty line and indentation are taken away.
    """
    for old in folder.glob(f"{name.replace('-', '_')}-*.dist-info"):
        old.rename(folder / f"removed-{old.name}.{version}")
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    sections = [
        "\n".join([f"[{group}]", *(f"{key} = {value}" for key, value in members.items())])
        for group, members in points.items()
    ]
    (about / "entry_points.txt").write_text("\n\n".join(sections) + "\n")
    for module, source in modules.items():
        (folder / f"{module}.py").write_text(dedent(source).lstrip("\n"))
