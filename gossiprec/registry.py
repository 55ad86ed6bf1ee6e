"""Registries: one file adds one thing (a model, an attack, a policy, a data set, ...) under its own name.

A registry knows the package its members live in and imports the modules of that package on first use, so a new file
is found without being listed anywhere.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from gossiprec.errors import ScenarioError, suggestion

T = TypeVar("T")


class Registry(Generic[T]):
    """Names of one kind of thing.

    Parameters
    ----------
    kind : str
        What the things are, for messages (``"model"``).
    package : str
        Dotted package whose modules register the members.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self._package = package
        self._members: dict[str, T] = {}
        self._loaded = False

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files its argument under `name`.

        Raises
        ------
        ValueError
            If the name is taken: two files claim to be the same thing.
        """

        def file_under(member: T) -> T:
            if name in self._members:
                raise ValueError(f"two {self.kind}s are registered as {name!r}")
            self._members[name] = member
            return member

        return file_under

    def __getitem__(self, name: str) -> T:
        """Return the member called `name`.

        Raises
        ------
        ScenarioError
            If there is none; the message names the near ones.
        """
        self._load_file_of(name)
        if name in self._members:
            return self._members[name]
        members = self._all()
        if name not in members:
            raise ScenarioError(
                f"unknown {self.kind} {name!r}; known: {', '.join(sorted(members))}{suggestion(name, members)}"
            )
        return members[name]

    def _load_file_of(self, name: str) -> None:
        """Import the file a name suggests (``dp-sgd``: ``dp_sgd.py``): a run loads only what it uses."""
        module = f"{self._package}.{name.replace('-', '_')}"
        importlib.import_module(self._package)
        if (
            name not in self._members
            and name.replace("-", "_").isidentifier()
            and importlib.util.find_spec(module)
        ):
            importlib.import_module(module)

    def __contains__(self, name: object) -> bool:
        return name in self._all()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def _all(self) -> dict[str, T]:
        if not self._loaded:
            package = importlib.import_module(self._package)
            for module in sorted(m.name for m in pkgutil.iter_modules(package.__path__)):
                importlib.import_module(f"{self._package}.{module}")
            self._loaded = True
        return self._members
