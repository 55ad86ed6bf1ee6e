"""A run divided among shards: one leads and the others follow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gossiprec.emulation.assembly.carrier import CARRIERS, Carrier
from gossiprec.scenario import Scenario

if TYPE_CHECKING:
    from gossiprec.emulation.run.run_options import RunOptions


@CARRIERS.register("shards")
def make_leader(scenario: Scenario, options: RunOptions, folder: Path) -> Carrier:
    """Return the leader of a run's shards, which are on Ray unless the options connect them otherwise.

    Raises
    ------
    ResourceError
        If Ray is not installed.
    """
    from gossiprec.emulation.carriers.shards.leader import ShardLeader
    from gossiprec.emulation.carriers.shards.ray_backend import RayShardGroup

    return ShardLeader((options.make_shard_group or RayShardGroup)(scenario, options.progress))
