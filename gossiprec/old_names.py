"""Old import paths and names, which work with a warning until version 0.2."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec

TYPE_CHECKING = False  # importing typing takes milliseconds, in which Ctrl-C would print a traceback
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any, TypeVar

    T = TypeVar("T")

NAMES: Mapping[str, Mapping[str, str]] = {
    "gossiprec.rules.aggregators": {"Change": "ModelDelta"},
    "gossiprec.adversaries.attacks": {"Guesses": "MembershipGuesses", "World": "AttackContext"},
    "gossiprec.compute.messages": {"Outgoing": "OutgoingTransforms", "Payload": "MessagePayload"},
    "gossiprec.data.split": {"partition": "split_by_position"},
    "gossiprec.emulation.estimate.memory": {"Extent": "MemoryInputs"},
    "gossiprec.figures.figure_files": {"Wishes": "FigureOptions", "wishing": "figure_options"},
    "gossiprec.network.graphs.centrality": {
        "place": "place_colluders",
        "senders_reached": "count_senders_reached",
    },
    "gossiprec.network.graphs.families": {"Option": "FamilyOption", "family": "register_family"},
    "gossiprec.network.graphs.measures": {"colluder_cover": "find_colluder_cover"},
    "gossiprec.models": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.models.base": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.models.base.kernel_interface": {"Asked": "AdversaryQueries", "Kernels": "ModelKernels"},
    "gossiprec.models.base.parameter_blocks": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.network.overlay": {"Exchange": "ExchangedViews"},
    "gossiprec.federated.pdc_frs.contribution": {"contribute": "perturb_items"},
    "gossiprec.federated": {
        "Between": "CoordinatorHook",
        "Known": "CoordinatorContext",
        "AtHand": "ClientContext",
    },
    "gossiprec.base.options": {"OneOf": "RegisteredOptions"},
    "gossiprec.rules.servers": {"Answers": "ClientAnswers", "Round": "RoundContext"},
}
"""Present name of each old name, by the module that holds it."""


def install() -> None:
    """Let ``import`` find modules by their old paths."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.insert(0, OldPaths())  # first: folders of old paths may be left over, with caches only


@functools.cache
def old_paths() -> Mapping[str, str]:
    """Return the present path of each old one in ``old_paths.txt``; a package's holds for what is below it, too."""
    with open(os.path.join(os.path.dirname(__file__), "old_paths.txt"), encoding="utf-8") as file:
        return dict(line.split() for line in file)


def present_path(old: str) -> str | None:
    """Return the present path of the module that once had the path `old`, or None if there is none."""
    if not old.startswith("gossiprec."):
        return None
    head, rest = old, ""
    while "." in head:
        if head in old_paths():
            path = old_paths()[head] + rest
            return path if not rest or find_spec(path) is not None else None
        head, _, last = head.rpartition(".")
        rest = f".{last}{rest}"
    return None


def forward(module: str) -> None:
    """Give a module its old names: reading one warns and returns the object under its present name.

    Parameters
    ----------
    module : str
        ``__name__`` of the module, which calls this at its end.
    """
    vars(sys.modules[module])["__getattr__"] = _reader(module, NAMES[module])


def old_members(**names: str) -> Callable[[T], T]:
    """Return a class decorator that keeps the old names of members: reading or overriding one warns and works.

    Parameters
    ----------
    **names : str
        Present name of each old one.
    """

    def decorate(cls: Any) -> Any:
        for old, new in names.items():
            setattr(cls, old, OldMember(old, new))
        own = vars(cls).get("__init_subclass__")

        def check_subclass(subclass: Any, /, **options: Any) -> None:
            if own is None:
                super(cls, subclass).__init_subclass__(**options)
            else:
                own.__func__(subclass, **options)
            for old, new in names.items():
                if old in vars(subclass):
                    _warn(f"{subclass.__module__}.{subclass.__qualname__}.{old}", new)
                    setattr(subclass, new, vars(subclass)[old])

        cls.__init_subclass__ = classmethod(check_subclass)
        return cls

    return decorate


def old_keywords(**names: str) -> Callable[[T], T]:
    """Return a decorator that keeps the old names of a function's keywords: giving one warns and works.

    Parameters
    ----------
    **names : str
        Present name of each old one.
    """

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> Any:
            for old in names.keys() & keywords.keys():
                _warn(f"{function.__qualname__}: the keyword {old}", names[old])
                keywords[names[old]] = keywords.pop(old)
            return function(*args, **keywords)

        return call

    return decorate


def without_last_argument(function: Any, argument: str) -> Any:
    """Return an overriding class method that lacks a new last argument, as one that takes it and ignores it."""
    message = f"{function.__qualname__}: add the argument {argument}; it works without until gossiprec 0.2"
    warnings.warn(message, DeprecationWarning, stacklevel=4)
    return staticmethod(lambda *arguments: function(*arguments[:-1]))


class OldMember:
    """The old name of a class's member.

    Parameters
    ----------
    old, new : str
        Its old and its present name.
    """

    def __init__(self, old: str, new: str) -> None:
        self._old, self._new = old, new

    def __get__(self, instance: Any, owner: type) -> Any:
        """Warn, and return the member under its present name.

        An overriding member under the old name gets the one that it overrides.
        """
        _warn(f"{owner.__module__}.{owner.__qualname__}.{self._old}", self._new)
        if instance is None:
            return getattr(owner, self._new)
        definer = next(cls for cls in type(instance).__mro__ if self._old in vars(cls))
        overridden = vars(definer)[self._old] is not self
        return getattr(super(definer, instance) if overridden else instance, self._new)


def present_keywords(
    function: str, keywords: Mapping[str, Any], allowed: type, former: Mapping[str, str]
) -> dict[str, Any]:
    """Return the keywords of a call by their present names, and warn about former ones.

    Parameters
    ----------
    function : str
        The name of the function that was called.
    keywords : mapping of str to object
        The keywords of the call.
    allowed : type
        A ``TypedDict`` of all keywords, former ones included.
    former : mapping of str to str
        The present name of each former keyword.

    Raises
    ------
    TypeError
        If a keyword does not exist or is given by both of its names.
    """
    present: dict[str, Any] = {}
    for keyword, value in keywords.items():
        if keyword not in allowed.__annotations__:
            raise TypeError(f"{function}() got an unexpected keyword argument {keyword!r}")
        name = former.get(keyword, keyword)
        if name != keyword:
            message = (
                f"{function}: the keyword {keyword} is now {name}; the old name works until gossiprec 0.2"
            )
            warnings.warn(message, DeprecationWarning, stacklevel=3)
        if name in present:
            raise TypeError(f"{function}() got multiple values for keyword argument {name!r}")
        present[name] = value
    return present


class OldPaths:
    """Import finder of old module paths; no present module has one of them."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a specification that loads a stand-in for the module of an old path, or None."""
        if present_path(name) is None:
            return None
        return ModuleSpec(name, OldPaths, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Return None: Python makes the stand-in."""
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Warn, and forward every name to the present module."""
        old, new = module.__name__, present_path(module.__name__) or ""
        _warn(old, new)
        present = import_module(new)
        module.__doc__ = present.__doc__

        def read(name: str) -> Any:
            return getattr(present, name)

        vars(module).update(__getattr__=read, __all__=[name for name in vars(present) if name[0] != "_"])


def _reader(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return read


def _warn(old: str, new: str) -> None:
    message = f"{old} is now {new}; the old path works until gossiprec 0.2"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
