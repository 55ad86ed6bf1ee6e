"""Faults planted in the library, each of which an audit must notice."""

from __future__ import annotations

import inspect
import textwrap


def plant(patch, owner, name, old, new):
    """Replace a function of a module or class by its source with one text in place of another, until `patch` ends."""
    function = vars(owner)[name]
    function = getattr(function, "fget", function)  # of a property
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{old!r} is not once in {name}"
    body = textwrap.indent(source.replace(old, new), "    ")
    made = {}
    text = f"from __future__ import annotations\ndef make(__class__):\n{body}\n    return {name}\n"
    exec(text, inspect.unwrap(function).__globals__, made)
    patch.setattr(owner, name, made["make"](owner))
