"""Scores of all items worked out together: those of the formula, and the same lists."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gossiprec.compute.executors.tensors import table_views
from tests.compute.worlds import make_model

perceptron = {
    "dim": st.integers(1, 40),
    "hidden": st.lists(st.integers(1, 70), min_size=1, max_size=4).map(tuple),
}
options = {
    "ncf": st.fixed_dictionaries(perceptron),
    "neumf": st.fixed_dictionaries({**perceptron, "gmf_dim": st.none() | st.integers(1, 40)}),
    "mf": st.fixed_dictionaries({"dim": st.integers(1, 40)}),
}


def first_is_input(draw):
    """Return options of NCF by the other reading of papers."""
    dim, rest = draw(st.integers(1, 20)), draw(st.lists(st.integers(1, 30), min_size=1, max_size=3))
    return {"dim": dim, "hidden": (2 * dim, *rest), "first_is_input": True}


def compiled_scores(model, layout, row):
    """Return the scores of all items by the compiled kernel, or None; a user's do not depend on the others."""
    gradient = model.gradient()
    if gradient is None or gradient.score_all_items is None:
        return None
    users, tables = (
        row[part].reshape(n, -1)
        for part, n in ((layout.users, layout.n_users), (layout.items, layout.n_items))
    )
    found, alone = np.full((2, layout.n_users, layout.n_items), np.nan, np.float32)
    gradient.score_all_items(users, row[layout.shared], tables, found, gradient.shape)
    for user in range(layout.n_users):
        some = slice(user, user + 1)
        gradient.score_all_items(users[some], row[layout.shared], tables, alone[some], gradient.shape)
    assert found.tobytes() == alone.tobytes()
    return found


models = st.one_of(
    *(st.tuples(st.just(name), given_) for name, given_ in options.items()),
    st.tuples(st.just("ncf"), st.composite(first_is_input)()),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(models, st.integers(1, 200), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_all_items_have_the_scores_and_the_ranks_of_the_formula(model, n_items, n_users, seed):
    made = make_model(model[0], **model[1])
    layout = made.layout(n_items, n_users)
    row = np.random.default_rng(seed).normal(0.0, 0.5, layout.size).astype(np.float32)
    p = layout.blocks_by_name(table_views(layout, torch.from_numpy(row)))
    query = {"items": torch.arange(n_items)}
    ask = made.score_all_items(p)
    compiled = compiled_scores(made, layout, row)
    for user in (torch.tensor([u]) for u in range(n_users)):
        found, expected = ask(user).numpy(), made.score(p, {**query, "user": user}).numpy()
        tolerance = 1e-5 * max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
        if compiled is not None:
            np.testing.assert_allclose(compiled[int(user)], expected, rtol=0, atol=tolerance)
        inexact = expected[np.argsort(-found, kind="stable")]
        assert (
            np.diff(inexact) <= 2 * tolerance
        ).all()  # the same order but for what rounding cannot tell apart
        if np.diff(np.sort(expected)).min(initial=np.inf) > 2 * tolerance:
            assert np.argsort(-found).tolist() == np.argsort(-expected).tolist()
