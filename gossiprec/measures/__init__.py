"""Measures as pure functions on arrays, one idea a file.

Nothing here knows a run, a model or a file; ``ranking`` and ``full_ranking`` measure recommendations,
``communities`` the ground truth of the attack, ``attack`` its success, ``meetings`` how far a node can see,
``gini`` inequality.
"""
