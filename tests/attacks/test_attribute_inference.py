"""Attribute inference: its features, its classifier, the truth joined with it, and what it refuses."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from gossiprec.adversaries.attacks.attribute_inference import AttributeInference, AttributeInferenceOptions
from gossiprec.adversaries.attacks.attributes import AttributeScores, LogisticClassifier
from gossiprec.adversaries.attacks.observed_models import signed_changes
from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.base.features import FeatureTable, NumberColumn
from gossiprec.data.features import label_column
from gossiprec.data.user_classes import user_classes
from gossiprec.emulation import simulate
from gossiprec.emulation.assembly.attacks import AttributeKnowledge
from gossiprec.emulation.assembly.data_loading import load_data
from gossiprec.emulation.scoring.attribute_scores import AttributeJudge, auc_interval, macro_auc
from gossiprec.emulation.scoring.judges import Truth
from gossiprec.emulation.scoring.ranking_scores import RankingScores
from gossiprec.scenario import load_scenario
from tests.emulation.test_attack_record import N, drawn_split
from tests.emulation.tiny_runs import tiny

SHARED = Path(__file__).parents[2].parent / "shared"


def described(**columns):
    """Return a split of 13 users with some columns."""
    split = drawn_split()
    made = {
        name: NumberColumn(np.array(values, float))
        if isinstance(values[0], float)
        else label_column([[value] if value else [] for value in values])
        for name, values in columns.items()
    }
    object.__setattr__(split, "user_features", FeatureTable(tuple(made), tuple(made.values()), "users.csv"))
    return split


def test_the_side_of_each_item_is_found_whatever_the_direction():
    draw = np.random.default_rng(3)
    amounts = np.zeros(40)
    amounts[:6], amounts[10:25] = 1.0, -0.2
    for _ in range(20):
        found = signed_changes(np.outer(amounts, draw.normal(size=5)).astype(np.float32))
        assert found == pytest.approx(amounts / np.linalg.norm(amounts), abs=1e-5)
        assert not found[25:].any()
    assert not signed_changes(np.zeros((40, 5), np.float32)).any()


def test_a_column_of_equal_numbers_says_nothing_and_hides_nothing():
    draw = np.random.default_rng(0)
    codes = np.arange(40) % 2
    rows = (codes[:, None] + 0.1 * draw.normal(size=(40, 3))).astype(np.float32)
    equal = np.full((40, 1), 0.7, np.float32)
    assert equal[:20].std() > 0, "by rounding"
    with_equal = np.hstack([rows, equal])

    found = LogisticClassifier(1.0)(with_equal[:20], codes[:20], with_equal[20:], 2)

    assert (found.argmax(axis=1) == codes[20:]).mean() > 0.9


def plain_logistic(known, codes, others, strength):
    """Return the probability of class 1, by Newton's method on standardised columns, classes weighing the same."""
    mean, scale = known.mean(axis=0), known.std(axis=0) * np.sqrt(known.shape[1])
    x = np.hstack([(known - mean) / scale, np.ones((len(known), 1))])
    weight = len(codes) / 2 / np.bincount(codes)[codes]
    penalty, w = np.diag([*[strength] * known.shape[1], 0.0]), np.zeros(x.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-x @ w))
        w -= np.linalg.solve(
            x.T @ (x * (weight * p * (1 - p))[:, None]) + penalty, x.T @ (weight * (p - codes)) + penalty @ w
        )
    y = np.hstack([(others - mean) / scale, np.ones((len(others), 1))])
    return 1 / (1 + np.exp(-y @ w))


@pytest.mark.parametrize("width", [4, 60], ids=["narrow", "wide"])
def test_the_classifier_is_a_logistic_regression(width):
    draw = np.random.default_rng(1)
    codes = (np.arange(30) % 3 > 0).astype(np.int64)
    known = (draw.normal(size=(30, width)) + codes[:, None]).astype(np.float32)
    others = draw.normal(size=(10, width)).astype(np.float32)

    found = LogisticClassifier(0.5)(known, codes, others, 2)

    expected = plain_logistic(known.astype(float), codes, others.astype(float), 0.5)
    assert found[:, 1] == pytest.approx(expected, abs=2e-3)
    assert found.sum(axis=1) == pytest.approx(1)


def test_equal_features_leave_all_known_classes_equally_likely():
    found = LogisticClassifier(1.0)(
        np.ones((4, 3), np.float32), np.array([0, 2, 2, 2]), np.ones((2, 3), np.float32), 3
    )
    assert found.tolist() == [[0.5, 0.0, 0.5]] * 2


GENDERS = ["f", "m", "m", "f", "m", "", "f", "m", "m", "f", "m", "f", "m"]


def results(probabilities_of, split):
    known = AttributeKnowledge(split, seed=1)("gender", (), 0.4)
    _, codes = user_classes(split, "gender", ())
    victims = np.setdiff1d(np.arange(N), known.users)
    found = AttributeScores(
        known, victims, probabilities_of(codes[victims]), lambda a, b, c, n: np.full((len(c), n), 1 / n),
        {"observer": "hub"}, np.zeros(len(victims), np.int64),
    )  # fmt: skip
    return {
        finding.measure: finding.value
        for finding in AttributeJudge(Truth(split), RankingScores(split)).findings(found)
    }


def test_an_attack_that_knows_everything_and_one_that_knows_nothing():
    split = described(gender=GENDERS)
    perfect = results(lambda codes: np.stack([codes == 0, codes != 0], axis=1).astype(float), split)
    ignorant = results(lambda codes: np.full((len(codes), 2), 0.5), split)

    for name in ("balanced_accuracy", "auc", "auc_low", "auc_high", "accuracy", "inferred"):
        assert perfect[f"attribute_{name}"] == 1.0
    for name in ("balanced_accuracy", "auc", "auc_low", "auc_high", "accuracy", "majority_balanced_accuracy"):
        assert ignorant[f"attribute_{name}"] == 0.5
    assert ignorant["attribute_ceiling_auc"] == 0.5


def test_guessing_is_in_its_interval():
    draw, inside = np.random.default_rng(0), 0
    for _ in range(100):
        truth, guessed = draw.integers(0, 3, 80), draw.dirichlet(np.ones(3), 80)
        low, high = auc_interval(guessed, truth, draw)
        assert low <= macro_auc(guessed, truth) <= high
        inside += low <= 0.5 <= high
    assert inside >= 85  # 95 expected, with a standard deviation of 2


def test_users_that_were_not_heard_have_the_mean_features_of_their_nearer_neighbours():
    attack = object.__new__(AttributeInference)
    attack.options = AttributeInferenceOptions(who="coalition", members=[0], attribute="gender", hops=3)
    links = [(1, 0), (2, 0), (3, 0), (4, 1), (4, 2), (4, 3), (5, 4), (5, 6), (6, 3), (7, 5), (0, 7)]
    attack._links = sparse.csr_array((np.ones(len(links)), tuple(zip(*links, strict=True))), shape=(8, 8))
    attack._watchers = SimpleNamespace(members=[np.array([0])])
    rows = np.array([9.0, 1.0, 2.0, 0.0, 9.0, 9.0, 9.0, 9.0])[:, None]
    attack._observed = SimpleNamespace(heard=lambda *_: np.array([1, 2]), features=lambda *_: rows)  # not 3

    found = {
        hops: dict(zip(users.tolist(), got[users, 0], strict=True))
        for hops, users, got in attack._by_hops("user", 0)
    }

    assert found == {1: {1: 1.0, 2: 2.0}, 2: {4: 1.5}, 3: {5: 1.5}}
    assert rows[4] == 9.0


@pytest.mark.parametrize(
    ("columns", "asked", "message"),
    [
        ({"gender": ["f"] * N}, "gender", "gender: found the class f only in users.csv; expected at least two"),
        ({"gender": [""] * N}, "gender", "found no value of any user in users.csv"),
        ({"gender": ["f", *["m"] * (N - 1)]}, "gender", "found the class m only among the 5 users .* raise known"),
        ({"age": [float(n) for n in range(N)]}, "age", r"attribute age: found numbers; .* set bins: \[25, 45\]"),
        ({"age": [30.0] * N}, "binned", "found the class 25 to 45 only"),
        ({"gender": GENDERS}, "age", "found no column 'age'; expected one of: gender"),
    ],
    ids=["one-class", "no-values", "one-class-known", "no-bins", "one-bin", "no-column"],
)  # fmt: skip
def test_what_cannot_be_inferred_is_refused(columns, asked, message):
    name, bins = ("age", (25.0, 45.0)) if asked == "binned" else (asked, ())
    with pytest.raises((ScenarioError, DataError), match=message):
        AttributeKnowledge(described(**columns), seed=1)(name, bins, 0.4)


def test_data_without_attributes_are_refused(tmp_path):
    attack = {"name": "attribute-inference", "who": "single", "attribute": "gender"}
    with pytest.raises(ScenarioError, match="found no attributes of users in the data set synthetic"):
        simulate(tiny(observers=[attack]), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match="hops: found no fixed graph; expected"):
        simulate(tiny(observers=[{**attack, "hops": 2}], **people(tmp_path)), out=tmp_path / "run")
    with pytest.raises(ScenarioError, match="expected a protocol with a coordinator"):
        simulate(tiny(observers=[{**attack, "who": "coordinator"}], **people(tmp_path)), out=tmp_path / "run")


@pytest.mark.parametrize(
    "options",
    [{"who": "coalition"}, {"who": "single", "members": [1]}, {"who": "coordinator", "nodes": [1]}, {"bins": [3, 3]}],
)  # fmt: skip
def test_options_that_do_not_fit_are_refused(options):
    with pytest.raises(ValueError, match="found"):
        AttributeInferenceOptions(**{"who": "single", "attribute": "gender", **options})


def people(folder, n=12):
    """Return a section with users whose gender follows from nothing."""
    path = folder / "people.csv"
    order = np.random.default_rng(5).permutation(n)
    path.write_text("user,gender\n" + "".join(f"{user},{'fm'[order[user] % 2]}\n" for user in range(n)))
    data = {"users": n, "items": 60, "interactions": 20 * n, "communities": 2}
    split = {"name": "leave_last_k", "test": 2, "validation": 1}
    return {"dataset": {"name": "synthetic", **data, "split": split, "user_features": {"path": str(path)}}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "protocol",
    [{"name": "fedavg", "rounds": 4}, {"name": "fedavg", "rounds": 4, "client_model": "none"}, None],
    ids=["models", "updates", "gossip"],
)
@pytest.mark.full
def test_an_attribute_that_the_data_do_not_show_is_guessed_by_chance(protocol, tmp_path):
    who = {"who": "coordinator"} if protocol else {"who": "coalition", "members": list(range(12))}
    sections = people(tmp_path, 80) | ({"protocol": protocol} if protocol else {})
    attack = {"name": "attribute-inference", **who, "attribute": "gender", "features": ["items", "updates"]}
    run = simulate(tiny(**sections, observers=[attack], executor={"name": "auto"}), out=tmp_path / "run")
    found = {(each["labels"]["features"], each["measure"]): each["value"] for each in run.summary["findings"]}
    for features in ("items", "updates"):
        auc, low, high = (found[features, f"attribute_auc{end}"] for end in ("", "_low", "_high"))
        assert abs(auc - 0.5) < 3 * (high - low) / 4  # of four results one in five misses its 95 % interval
        assert found[features, "attribute_inferred"] > (0.9 if protocol else 0.2)


@pytest.mark.slow
@pytest.mark.realdata
@pytest.mark.parametrize(("name", "folder"), [("movielens-100k", "ml-100k"), ("movielens-1m", "ml-1m")])
@pytest.mark.full
def test_raw_movielens_data_show_gender(name, folder):
    if not (SHARED / "data" / folder).exists():
        pytest.skip(f"needs {folder}")
    attack = {"name": "attribute-inference", "who": "single", "attribute": "gender"}
    dataset = {"name": name, "path": str(SHARED / "data" / folder), "split": {"name": "random"}}
    split = load_data(load_scenario(tiny(dataset=dataset, observers=[attack])))
    _, codes = user_classes(split, "gender", ())
    known = AttributeKnowledge(split, seed=1)("gender", (), 0.2)
    items = np.zeros((split.n_users, split.n_items), np.float32)
    items[split.train.row_of_each_value, split.train.values] = 1
    others = np.setdiff1d(np.arange(split.n_users), known.users)
    found = LogisticClassifier(1.0)(items[known.users], known.codes, items[others], 2)
    assert macro_auc(found, codes[others]) > 0.68
