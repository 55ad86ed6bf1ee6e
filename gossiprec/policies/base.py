"""What the emulator needs to know of a defence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from gossiprec.compute.training import TrainingSettings
from gossiprec.compute.treatment import Treatment
from gossiprec.options import Options

I64 = npt.NDArray[np.int64]


class Policy(ABC):
    """A defence that some nodes use.

    Parameters
    ----------
    options : Options
        Of the class's own type.
    nodes : ndarray of int64
        The nodes that use it, ascending; never a coordinator.
    """

    Options: ClassVar[type[Options]]

    def __init__(self, options: Any, nodes: I64) -> None:
        self.options = options
        self.nodes = nodes

    @abstractmethod
    def treat(self, treatment: Treatment, *, training: TrainingSettings, updates: I64 | None) -> None:
        """Write into the treatment what the policy does to its nodes.

        Parameters
        ----------
        treatment : Treatment
            What earlier policies of the scenario have written.
        training : TrainingSettings
        updates : ndarray of int64, shape (n_nodes,), or None
            Local updates that each node will run; None where that depends on the models' values.
        """
