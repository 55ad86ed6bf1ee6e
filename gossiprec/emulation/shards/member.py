"""What runs in Ray's processes: a shard, and the letterbox of shard 0."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gossiprec.compute.shards.exchange import Key
    from gossiprec.data.split import Split


class Member:
    """A shard that follows; letters come in while it works.

    Parameters
    ----------
    number : int
    """

    def __init__(self, number: int) -> None:
        from gossiprec.compute.shards.exchange import Mailbox

        self._number, self._mailbox = number, Mailbox()

    def about(self, scenario: Mapping[str, Any], cwd: str) -> dict[str, Any]:
        """Return where this is, and its versions; go where the run was started, for paths may be relative.

        What takes seconds to import is imported here, while shard 0 sets itself up.
        """
        import gossiprec.emulation.shards.follower  # noqa: F401
        from gossiprec.emulation.shards.versions import own_versions
        from gossiprec.scenario import load_scenario

        with suppress(OSError):
            os.chdir(cwd)
        versions = own_versions(load_scenario(scenario))
        return {"where": socket.gethostname(), "pid": os.getpid(), "versions": versions}

    def put(self, sender: int, key: Key, content: Any) -> None:
        """Take a letter in."""
        self._mailbox.put(sender, tuple(key), content)

    def follow(
        self, scenario: Mapping[str, Any], split: Split, members: Mapping[int, Any], letterbox: Any
    ) -> None:
        """Set up the run, and follow shard 0 to its end."""
        from gossiprec.compute.shards.seat import Seat
        from gossiprec.emulation.assembly.prepare import prepare
        from gossiprec.emulation.shards.follower import follow
        from gossiprec.emulation.shards.on_ray import RayExchange
        from gossiprec.scenario import load_scenario

        exchange = RayExchange(self._number, self._mailbox)
        exchange.connect(members, letterbox)
        seat = Seat(self._number, len(members) + 1, exchange)
        follow(prepare(load_scenario(scenario), load=lambda _: split, seat=seat))


class Letterbox:
    """Letters to shard 0, which is no actor and fetches them."""

    def __init__(self) -> None:
        self._letters: list[tuple[int, Key, Any]] = []
        self._some = asyncio.Event()

    async def put(self, sender: int, key: Key, content: Any) -> None:
        """Take a letter in."""
        self._letters.append((sender, key, content))
        self._some.set()

    async def take_all(self) -> list[tuple[int, Key, Any]]:
        """Return all letters, when there are any."""
        await self._some.wait()
        self._some.clear()
        letters, self._letters = self._letters, []
        return letters
