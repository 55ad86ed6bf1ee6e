"""Remarks on single printed numbers: contradictions in the paper, and details that it does not state."""

from __future__ import annotations

from analysis.cda_paper.published import PrintedCell

NO_ONE_WAY = (
    "no one way to train fits Tables 5, 6 and 8 together (see Switches): what brings large coalitions near the print "
    "brings those without momentum, and single adversaries, above it"
)
RESULT_FILES = (
    "the authors' result files hold 100 attackers: 16.6 % at K = 5 in Rand-Gossip, 16.8 % in Pers-Gossip"
)
NO_STEPS = (
    "not reproducible from the text, which trains the fictive user in no number of steps; the published code has "
    "neither that user nor the regulariser"
)
ALL_USERS = "its random guesses, 1 to 10 %, are K over 943 users, while other tables fit 100: the print mixes settings"
NO_LEAST = "a least accuracy is a multiple of 1/K, 20 % with K = 5 and 2 % with K = 50; some of the print are neither"
CUT_LIST = (
    "a list cut at 50 users and scored over 100 finds 40.3 % with full models, 27.1 % with Share less (seed 1; "
    "analysis/cda_paper/truncated_lists.py): the print may have kept 50 victims"
)
NO_AIA = (
    "not reproducible from the text, which gives no number of models, sizes of samples or epochs of the classifier: "
    "8 to 22 % for six adversaries"
)
NO_GOSSIP_DP = (
    "not reproducible from the text, which does not say how noise is calibrated in gossip: by any correct accounting "
    "tried HR@20 is 65 to 78 % at epsilon 1000; with the published code's noise, undivided by the batch, it is 18.6 %"
)
NO_TIME = "a time of another machine and another program"


def number_remark(number: PrintedCell) -> str:
    """Return the remark on a printed number in any setting; empty for most."""
    is_movielens = number.dataset == "movielens-100k"
    found = []
    if number.column == "seconds":
        found.append(NO_TIME)
    elif number.row == "aia":
        found.append(NO_AIA)
    elif number.row in ("7.6-dp-utility", "7.6-dp-aac"):
        found.append(NO_GOSSIP_DP)
    if is_movielens and number.table in ("table5", "table6", "table7", "table8"):
        is_single = number.row.startswith("single") or number.table == "table5"
        found.append(NO_STEPS if number.table == "table7" else RESULT_FILES if is_single else NO_ONE_WAY)
    if number.table == "table9":
        found.append(ALL_USERS)
        if number.row == "K=100" and number.column != "random":
            found.append(CUT_LIST)
    if number.table == "table4-bounds" and is_movielens:
        found.append("5.3 % is 50 of 943, while the upper bounds printed beside it fit 100 users as well")
    if is_movielens and number.column == "best10":
        found.append(NO_LEAST)
    return "\n".join(found)
