"""Line search: the coordinator takes the step towards the clients' mean that is best on public data."""

from __future__ import annotations

from pydantic import Field

from gossiprec.base.options import Options
from gossiprec.rules import ReportsFindings, RootDataOptions, UsesRootData
from gossiprec.rules.servers import SERVERS, Downlink, Server


class LineSearchOptions(Options):
    """Options of the server."""

    root: RootDataOptions = RootDataOptions()
    """what is public"""
    halvings: int = Field(default=3, ge=0, le=20)
    """how often the step may be halved"""


@SERVERS.register("line-search")
class LineSearch(UsesRootData, ReportsFindings, Server):
    """The whole step to the aggregate, or a half, a quarter and so on: the one with the lowest loss on public data."""

    Options = LineSearchOptions
    measures = ("step_size",)
    checkpointed = ("last",)
    _last = float("nan")

    def round(self, published, aggregated, answers, round):
        """Return the version after the best step."""
        if not len(answers.clients):
            return Downlink(published[None])
        sizes = [0.5**n for n in range(self.options.halvings + 1)]
        versions = [published + size * (aggregated - published) for size in sizes]
        losses = [self.root.loss(version, self.root.first_rows, round.number) for version in versions]
        best = losses.index(min(losses))
        self._last = sizes[best]
        return Downlink(versions[best][None])

    def findings(self):
        """Return the size of the last step."""
        return {"step_size": self._last}
