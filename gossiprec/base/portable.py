"""One target for all processors of an architecture, so that they give the same bytes (``executor.portable``).

Kernels are compiled for the processor that compiles them, and numpy and OpenBLAS choose loops by what the processor
has: widths of vectors, and with them the order of sums, differ from one to the next. All of them take a target from
the environment when they are loaded, and never again; so a process is for the target from its beginning, or is not.
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
"""What the target has and the second level has not, by LLVM's names."""
ENVIRONMENT = {
    "NUMBA_CPU_NAME": TARGET,
    "NUMBA_CPU_FEATURES": "",  # those of the target, no more
    "NUMBA_DISABLE_INTEL_SVML": "1",  # chooses by processor, where it is installed
    "NPY_ENABLE_CPU_FEATURES": "X86_V3 AVX2 FMA3",  # numpy before 2.4 knows the level by its parts
    "OPENBLAS_CORETYPE": "Haswell",
}
"""What numba, numpy and OpenBLAS read."""
_IN_THE_WAY = ("NPY_DISABLE_CPU_FEATURES",)
"""numpy refuses both at a time."""
_READ_BY = ("numpy", "scipy", "numba")
_TELLING = ("avx512f", "avx2", "fma", "sve", "neon")
"""Features that decide how wide vectors are, and how a product and a sum are rounded."""


class NotPortableError(ResourceError):
    """The process computes for the processor that it runs on."""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a process computes for the portable target."""
    return {key: value for key, value in given.items() if key not in _IN_THE_WAY} | ENVIRONMENT


def is_portable_env(given: Mapping[str, str] = os.environ) -> bool:
    """Return whether an environment is one for the portable target."""
    return dict(given) == environment(given)


def enter() -> None:
    """Let this process compute for the portable target: in a script or notebook, before anything else is imported.

    Raises
    ------
    ResourceError
        If the processor is not fit for it.
    NotPortableError
        If libraries that would have to know have been loaded.
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
    for name in _IN_THE_WAY:
        os.environ.pop(name, None)
    os.environ.update(ENVIRONMENT)


def require() -> None:
    """Refuse to go on where the processor, or this process, is not for the portable target.

    Raises
    ------
    ResourceError
        If the processor is not fit for it.
    NotPortableError
        If this process is not; the command line then begins anew.
    """
    check_processor()
    if not is_portable_env():
        needed = " ".join(f"{name}='{value}'" for name, value in ENVIRONMENT.items())
        raise NotPortableError(
            "executor.portable: found true, but the libraries of this process were loaded with code "
            "specific to this processor; begin the script with `import gossiprec.base.portable; "
            f"gossiprec.base.portable.enter()`, before any other import, or start it with {needed} and without "
            f"{_IN_THE_WAY[0]}"
        )


def check_processor(features: Collection[str] | None = None, machine: str | None = None) -> None:
    """Refuse a processor that cannot run the target's code.

    Parameters
    ----------
    features : collection of str, optional
        What the processor has, by LLVM's names.
    machine : str, optional
        Its architecture.

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
    """Return what the processor has, by LLVM's names; nothing where LLVM cannot tell."""
    import llvmlite.binding

    try:
        found = llvmlite.binding.get_host_cpu_features()
    except RuntimeError:
        return frozenset()
    return frozenset(name for name, there in found.items() if there)


def target_features() -> frozenset[str]:
    """Return what kernels are compiled for: the features that numba is told, else those of the processor."""
    import numba

    if numba.config.CPU_NAME == TARGET and numba.config.CPU_FEATURES == "":  # type: ignore[attr-defined]
        return frozenset(NEEDS)
    told = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if told is None:
        return host_features()
    return frozenset(word[1:] for word in told.split(",") if word.startswith("+"))


def describe_target() -> str:
    """Return for what kernels are compiled, in words: a processor's name, and of its features those that tell."""
    import llvmlite.binding
    import numba

    if is_portable_env():
        return f"{TARGET}, portable"
    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()  # type: ignore[attr-defined]
    have = target_features()
    return " ".join([name, *(feature for feature in _TELLING if feature in have)])
