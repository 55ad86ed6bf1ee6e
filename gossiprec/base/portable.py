"""One target for all processors of an architecture, so that they give the same bytes (``executor.portable``).

Kernels are compiled for the processor that compiles them, and numpy and OpenBLAS choose loops by the features of the
processor: widths of vectors, and with them the order of sums, differ between processors. All of them read a target
from the environment once, when they are loaded. So a process uses the target from its beginning, or not at all.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Collection, Mapping

from gossiprec.base.errors import ResourceError

TARGET = "x86-64-v3"
"""The third level of the x86-64 psABI, with AVX2 and fused multiply-add: Intel since 2013, AMD since 2015."""
NEEDS = ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
"""Features that the target has in addition to the second level, by LLVM's names."""
ENVIRONMENT = {
    "NUMBA_CPU_NAME": TARGET,
    "NUMBA_CPU_FEATURES": "",  # only the features of the target
    "NUMBA_DISABLE_INTEL_SVML": "1",  # if installed, it chooses by processor
    "NPY_ENABLE_CPU_FEATURES": "X86_V3 AVX2 FMA3",  # numpy before 2.4 knows the level by its parts
    "OPENBLAS_CORETYPE": "Haswell",
}
"""The variables that numba, numpy and OpenBLAS read."""
_CONFLICTING = ("NPY_DISABLE_CPU_FEATURES",)
"""Variables that numpy refuses in addition to those."""
_READ_BY = ("numpy", "scipy", "numba")
_DECISIVE = ("avx512f", "avx2", "fma", "sve", "neon")
"""Features that decide how wide vectors are, and how a product and a sum are rounded."""


class NotPortableError(ResourceError):
    """The process computes for its own processor instead of the portable target."""


def portable_environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a process computes for the portable target."""
    return {key: value for key, value in given.items() if key not in _CONFLICTING} | ENVIRONMENT


def is_portable_env(given: Mapping[str, str] = os.environ) -> bool:
    """Return whether an environment is one for the portable target."""
    return dict(given) == portable_environment(given)


def enter() -> None:
    """Let this process compute for the portable target: in a script or notebook, before anything else is imported.

    Raises
    ------
    ResourceError
        If the processor cannot run the code of the target.
    NotPortableError
        If libraries that read the target have been loaded.
    """
    check_processor()
    if is_portable_env():
        return
    loaded = [name for name in _READ_BY if name in sys.modules]
    if loaded:
        raise NotPortableError(
            f"gossiprec.base.portable.enter() was called too late: {', '.join(loaded)} are already loaded with "
            "code specific to this processor; call it before importing numpy or anything that imports it"
        )
    for name in _CONFLICTING:
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT)


def require_portable() -> None:
    """Refuse a processor, or a process, that does not compute for the portable target.

    Raises
    ------
    ResourceError
        If the processor cannot run the code of the target.
    NotPortableError
        If this process does not; the command line then restarts itself.
    """
    check_processor()
    if not is_portable_env():
        needed = " ".join(f"{name}='{value}'" for name, value in ENVIRONMENT.items())
        raise NotPortableError(
            "executor.portable: found true, but the libraries of this process were loaded with code "
            "specific to this processor; begin the script with `import gossiprec.base.portable; "
            f"gossiprec.base.portable.enter()`, before any other import, or start it with {needed} and without "
            f"{_CONFLICTING[0]}"
        )


def check_processor(features: Collection[str] | None = None, machine: str | None = None) -> None:
    """Refuse a processor that cannot run the target's code.

    Parameters
    ----------
    features : collection of str, optional
        Features of the processor, by LLVM's names.
    machine : str, optional
        Architecture of the processor.

    Raises
    ------
    ResourceError
    """
    machine = platform.machine() if machine is None else machine
    if machine.lower() not in ("x86_64", "amd64"):
        raise ResourceError(
            f"executor.portable: found a processor of architecture {machine}, but only x86_64 has a portable "
            "target; run on x86_64, or remove executor.portable (the bytes then depend on the kind of "
            "processor)"
        )
    have = host_features() if features is None else features
    lacking = [name for name in NEEDS if name not in have]
    if lacking:
        raise ResourceError(
            f"executor.portable: this processor lacks {', '.join(lacking)}, which the portable target "
            f"{TARGET} requires (Intel since 2013, AMD since 2015, virtual machines that do not hide it); "
            "run on another machine, or remove executor.portable (the bytes then depend on the kind of "
            "processor)"
        )


def host_features() -> frozenset[str]:
    """Return the features of the processor, by LLVM's names; none if LLVM does not know them."""
    import llvmlite.binding

    try:
        found = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    return frozenset(name for name, is_present in found.items() if is_present)


def target_features() -> frozenset[str]:
    """Return the features for which kernels are compiled: the ones set for numba, or else all of the processor."""
    import numba

    if numba.config.CPU_NAME == TARGET and numba.config.CPU_FEATURES == "":  # type: ignore[attr-defined]
        return frozenset(NEEDS)
    configured = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if configured is None:
        return host_features()
    return frozenset(word[1:] for word in configured.split(",") if word.startswith("+"))


def describe_target() -> str:
    """Return the target of kernels as text: the processor's name and its features that decide the bytes."""
    import llvmlite.binding
    import numba

    if is_portable_env():
        return f"{TARGET}, portable"
    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()  # type: ignore[attr-defined]
    have = target_features()
    return " ".join([name, *(feature for feature in _DECISIVE if feature in have)])
