# %% [markdown]
"""What a run leaves behind, read from Python.

Jupyter, VS Code and PyCharm open this file as a notebook; `python analysis/notebooks/read_a_run.py` runs it whole.
Make a run first, `gossiprec simulate scenarios/smoke.yaml`, or name another in the environment: `RUN=runs/mine`.
"""

# %%
import os
from pathlib import Path

import numpy as np

import gossiprec
from gossiprec.figures import attack_cdf, curves

run = gossiprec.open_run(os.environ.get("RUN", "runs/smoke-s1"))
summary = run.summary or {}
print(run.path, run.status, summary["nodes"], "nodes")

# %% [markdown]
# **The attacks.** One line each, at their best round; accuracies are fractions of the community.

# %%
for line in summary["attacks"]:
    told = (line["observer"], line["relevance"], line["momentum"], line["community_size"])
    print(
        *told, f"max AAC {line['max_aac']:.3f} at round {line['at_round']}, bound {line['upper_bound']:.3f}"
    )

# %% [markdown]
# **Over time.** `run.metrics` and `run.attacks` are tables by column, one row for each report.

# %%
metric = run.metrics["metric"][0]
chosen = run.metrics["metric"] == metric
for at, value in zip(run.metrics["round"][chosen], run.metrics["value"][chosen], strict=True):
    print(f"round {at:3d}  {metric} {value:.3f}")

# %% [markdown]
# **The event log.** Columns of each kind of event: who was heard from by most others?

# %%
messages = run.events("message")
pairs = np.unique(np.stack([messages["sender"], messages["receiver"]]), axis=1)
heard_by = np.bincount(pairs[0])
print(f"{messages['time'].size} messages, {pairs.shape[1]} pairs")
print(f"most heard: node {heard_by.argmax()}, by {heard_by.max()} others")

# %% [markdown]
# **Pictures** are drawn from run directories, one or several: csv, png and svg beside one another.

# %%
out = Path(os.environ.get("OUT", str(run.path)))
for path in (*curves.draw([run], out / "curves"), *attack_cdf.draw([run], out / "cdf")):
    print(path)
