"""The experiments: a scenario file, what to change in it, the data it needs, how often and how long it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace

SHARE_LESS = "policies=[{name: share-less, nodes: all, tau: 1.0}]"
EPSILONS = (1, 10, 100, 1000)
SEEDS = 3
PROTOCOLS = ("fedavg", "rand_gossip", "pers_gossip")


@dataclass(frozen=True)
class Experiment:
    """One simulation, repeated over seeds; all observers of it are served by the same run.

    Attributes
    ----------
    name : str
        Names its folders: ``runs/<name>-s<seed>``.
    file : str
        In ``scenarios/``.
    data : str
        Folder of the data set under ``--data``.
    overrides : tuple of str
        As with ``gossiprec simulate --set``.
    seeds : int
        How many, from 1.
    seconds : float
        About how long a run takes on two cores; progress starts from it and learns.
    needs_places : bool
        Whether its data need coordinates and times.
    momentum : float
        Of the attack that tables show, where they do not say.
    """

    name: str
    file: str
    data: str
    overrides: tuple[str, ...] = ()
    seeds: int = SEEDS
    seconds: float = 120
    needs_places: bool = False
    momentum: float = 0.99


def _shipped(
    stem: str, data: str, seconds: float, *, seeds: int = SEEDS, needs_places: bool = False
) -> Experiment:
    name = stem.removeprefix("cda_").replace("_", "-")
    return Experiment(name, f"{stem}.yaml", data, (), seeds, seconds, needs_places)


def _changed(base: Experiment, suffix: str, *overrides: str) -> Experiment:
    return replace(base, name=f"{base.name}-{suffix}", overrides=overrides)


ML_FEDAVG = _shipped("cda_table4_ml100k_fedavg", "ml-100k", 110)
ML_RAND = _shipped("cda_table5_ml100k_rand_gossip", "ml-100k", 240)
ML_PERS = _shipped("cda_table5_ml100k_pers_gossip", "ml-100k", 240)
ML_AUTHORS = _shipped("cda_table5_ml100k_authors100", "ml-100k", 90)
ML_RAND_LESS = _shipped("cda_table7_ml100k_rand_gossip_share_less", "ml-100k", 300)
ML_FEDAVG_LESS = _shipped("cda_table9_ml100k_fedavg_share_less", "ml-100k", 120)
ML_AIA = _shipped("cda_table11_ml100k_fedavg_aia", "ml-100k", 120)
ML_PERS_LESS = _shipped("cda_fig5_ml100k_pers_gossip_share_less", "ml-100k", 300)
_DP = {
    "fedavg": _shipped("cda_fig6_ml100k_fedavg_dp", "ml-100k", 120),
    "rand_gossip": _shipped("cda_fig6_ml100k_rand_gossip_dp", "ml-100k", 240),
}


def dp(protocol: str, epsilon: int | None) -> Experiment:
    """Return a point of Figure 6; None: the same training without noise or clipping (epsilon infinite)."""
    base = _DP[protocol]
    if epsilon is None:
        return _changed(base, "eps-inf", "policies=[]")
    return _changed(base, f"eps-{epsilon}", f"policies.0.epsilon={epsilon}")


def checkins(variant: str, protocol: str, model: str, *, share_less: bool = False) -> Experiment:
    """Return an experiment on check-ins.

    Parameters
    ----------
    variant : {'foursquare', 'foursquare146', 'gowalla100'}
        All users of Foursquare-NYC once, or the first 146 or 100 users over several seeds.
    protocol : {'fedavg', 'rand_gossip', 'pers_gossip'}
    model : {'gmf', 'prme'}
    share_less : bool
    """
    table = 4 if protocol == "fedavg" else 5
    whole = variant == "foursquare"
    base = _shipped(
        f"cda_table{table}_{variant}_{protocol}_{model}",
        "gowalla" if variant.startswith("gowalla") else "foursquare-nyc",
        seconds=900 if whole else 90,
        seeds=1 if whole else SEEDS,
        needs_places=model == "prme",
    )
    if whole and model == "prme" and protocol != "rand_gossip":
        base = replace(base, momentum=0.0)  # as the files say: momentum models of everyone do not fit 24 GB
    return _changed(base, "share-less", SHARE_LESS) if share_less else base


def all_experiments() -> tuple[Experiment, ...]:
    """Return every experiment, in the order in which they are run: the cheap and most wanted first."""
    movielens = (ML_FEDAVG, ML_RAND, ML_PERS, ML_FEDAVG_LESS, ML_RAND_LESS, ML_PERS_LESS, ML_AUTHORS, ML_AIA)
    private = [dp(protocol, epsilon) for protocol in _DP for epsilon in (*EPSILONS, None)]
    some = [
        checkins(variant, protocol, model, share_less=less)
        for variant in ("foursquare146", "gowalla100")
        for less in (False, True)
        for model in ("gmf", "prme")
        for protocol in PROTOCOLS
        if not (less and variant == "gowalla100")
    ]
    whole = [checkins("foursquare", protocol, model) for model in ("gmf", "prme") for protocol in PROTOCOLS]
    less = [checkins("foursquare", "fedavg", "gmf", share_less=True)]
    return (*movielens, *private, *some, *whole, *less)
