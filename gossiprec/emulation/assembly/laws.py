"""From the laws that a scenario writes to those that the engine draws from."""

from __future__ import annotations

from typing import Any

from gossiprec.sim import laws


def make_law(options: Any, key: str, *, positive: bool = False) -> laws.Law:
    """Return the law of some times.

    Parameters
    ----------
    options : Options
        With a key `law`, see :mod:`gossiprec.scenario.times`.
    key : str
        Where the scenario writes it, for messages.
    positive : bool
        Whether times of zero are refused in a trace.

    Raises
    ------
    ScenarioError
        If a trace cannot be read.
    """
    match options.law:
        case "constant":
            return laws.Constant(options.value)
        case "uniform":
            return laws.Uniform(options.low, options.high)
        case "exponential":
            return laws.Exponential(options.mean)
        case "lognormal":
            return laws.Lognormal(options.median, options.sigma)
        case "weibull":
            return laws.Weibull(options.scale, options.shape)
    from gossiprec.emulation.assembly.tables import read_column  # pyarrow, which few runs need

    values = read_column(options.path, f"{key}.path", column=options.column, positive=positive)
    return laws.Empirical(values, order=options.order, end=options.end)
