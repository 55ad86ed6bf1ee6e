"""Reports for tests of run parts."""

import numpy as np

from gossiprec.emulation.run.run_part import ReportInProgress

NONE = np.zeros(0, np.int64)


def report(utility, round_=0):
    """Return a report with some metrics, at a virtual time equal to its round."""
    return ReportInProgress(float(round_), round_, False, NONE, NONE, utility)
