"""Splits that come in files of one's own: over data of another name, and by themselves."""

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from small_data import dataset, pack, real, sets_of

from gossiprec.base.errors import DataError, ScenarioError
from gossiprec.cli.data import data as data_command
from gossiprec.data import load_split
from gossiprec.emulation import simulate
from tests.emulation.tiny_runs import tiny

ALL = "user,item\nann,x\nann,y\nann,10\nbob,9\nbob,x\nbob,10\nbob,z\n"
PAIRS = {"train": "ann\tx\nbob\t9\nbob\tx\n", "validation": "bob\t10\n", "test": "ann\ty\nbob\tz\n"}
LISTS = {"train": "ann x\nbob  9 x\n", "validation": "ann\nbob\t10\n", "test": "ann y\nbob z\n"}
# ids by sorted names: ann bob, and 9 10 x y z
EXPECTED = [[[2], [0, 2]], [[], [1]], [[3], [4]]]
TABLE = {"columns": ["user", "item"], "header": True, "delimiter": ","}


def write(folder, texts):
    return {part: str(pack(folder / f"{part}.txt", text)) for part, text in texts.items()}


def over(folder, options, data=ALL):
    """Return the split of a table by files."""
    path = pack(folder / "all.csv", data)
    return load_split("file", {"path": str(path), **TABLE}, "files", options, 1)


def alone(options):
    return load_split("files", options, "published", {}, 1)


def parts(split):
    return [sets_of(part) for part in (split.train, split.validation, split.test)]


@pytest.mark.parametrize("form", ["pairs", "lists"])
def test_both_forms_give_the_same_parts_alone_and_over_other_data(tmp_path, form):
    options = {**write(tmp_path, {"pairs": PAIRS, "lists": LISTS}[form]), "form": form}
    assert parts(over(tmp_path, options)) == EXPECTED
    one = alone(options)
    assert parts(one) == EXPECTED
    assert (one.name, one.n_users, one.n_items) == ("files", 2, 5)


def test_validation_may_be_left_out_and_files_may_have_headers_and_more_columns(tmp_path):
    texts = {part: "u,i,r\n" + text.replace("\t", ",").replace("\n", ",5\n") for part, text in PAIRS.items()}
    options = write(tmp_path, {part: texts[part] for part in ("train", "test")})
    found = alone({**options, "header": True, "delimiter": ","})
    assert parts(found) == [[[1], [0, 1]], [[], []], [[2], [3]]]


def test_columns_can_be_named_in_another_order(tmp_path):
    texts = {
        part: "".join(f"{item}|{user}\n" for user, item in (line.split("\t") for line in text.splitlines()))
        for part, text in PAIRS.items()
    }
    options = {**write(tmp_path, texts), "delimiter": "|", "columns": ["item", "user"]}
    assert parts(alone(options)) == EXPECTED


def test_numbers_are_those_of_gossiprec_not_the_names_of_the_data(tmp_path):
    numbers = {"train": "0\t2\n1\t0\n1\t2\n", "test": "0\t3\n1\t4\n"}
    options = {**write(tmp_path, numbers), "ids": "numbers"}
    assert parts(over(tmp_path, options)) == [[[2], [0, 2]], [[], []], [[3], [4]]]
    with pytest.raises(DataError, match=r"train.txt: line 1: found user '0'; expected users of all"):
        over(tmp_path, {**options, "ids": "names"})


def test_data_without_names_are_called_by_their_numbers(tmp_path):
    drawn = dataset("synthetic", users=6, items=20, interactions=60).load(1)
    pairs = sorted(set(zip(drawn.users.tolist(), drawn.items.tolist(), strict=True)))
    firsts = {user: (user, item) for user, item in reversed(pairs)}
    texts = {
        "train": "".join(f"{u}\t{i}\n" for u, i in firsts.values()),
        "test": "".join(f"{u}\t{i}\n" for u, i in pairs if firsts[u] != (u, i)),
    }
    options = {"users": 6, "items": 20, "interactions": 60}
    found = load_split("synthetic", options, "files", write(tmp_path, texts), 1)
    assert {(u, i) for u in range(6) for i in found.test[u].tolist()} == set(pairs) - set(firsts.values())
    assert [found.train[u].tolist() for u in range(6)] == [[firsts[u][1]] for u in range(6)]


@pytest.mark.parametrize("form", ["pairs", "lists"])
@pytest.mark.parametrize(
    ("part", "bad", "words"),
    [
        ("test", ("zoe", "x"), "test.txt: line 4: found user 'zoe'; expected users of all"),
        ("test", ("bob", "new"), "test.txt: line 4: found item 'new'; expected items of all"),
        ("validation", ("ann", "9"), "line 3: found user 'ann' with item '9'; expected pairs of all"),
        (
            "test",
            ("bob", "x"),
            "test.txt: line 4: found user 'bob' with item 'x'; expected each pair in one part, but ",
        ),
        ("test", ("bob", "x"), "train.txt, line 3 also has it"),
        (
            "validation",
            ("ann", "x"),
            "validation.txt: line 3: found user 'ann' with item 'x'; expected each pair",
        ),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(tmp_path, form, part, bad, words):
    texts = dict(PAIRS if form == "pairs" else {**LISTS, "train": "ann x\nbob 9\nbob x\n"})
    blank = "\n" if part == "test" or form == "pairs" else ""
    texts[part] += blank + ("\t" if form == "pairs" else " ").join(bad) + "\n"
    with pytest.raises(DataError) as caught:
        over(tmp_path, {**write(tmp_path, texts), "form": form})
    assert words in str(caught.value)


def test_by_themselves_new_items_are_told_and_new_users_refused(tmp_path):
    options = write(tmp_path, {**PAIRS, "test": PAIRS["test"] + "bob\tz\n"})
    made = dataset("files", **options)
    made.load(1)
    provenance = made.provenance()
    assert provenance["test_items_not_trained"] == "2"
    assert provenance["validation_items_not_trained"] == "1"
    assert provenance["test_pairs_repeated"] == "1"
    assert provenance["train_pairs_repeated"] == "0"
    options = write(tmp_path, {**PAIRS, "test": "ann\ty\n\nzoe\tx\n"})
    with pytest.raises(DataError, match=r"test.txt: line 3: found user 'zoe'; expected users of .*train.txt"):
        alone(options)


def test_users_of_the_data_that_the_files_leave_out_are_named(tmp_path):
    options = write(tmp_path, PAIRS)
    with pytest.raises(DataError, match=r"train.txt: holds nothing of user 'zoe' of all \(1 such users\)"):
        over(tmp_path, options, ALL + "zoe,x\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "found no line with an item"),
        ("ann\nbob\n", "found no line with an item"),
        ("ann x\nbob\0 y\n", "line 2: found a zero byte"),
        (b"ann x\nb\xffb y\n", "line 2: found bytes that are not UTF-8 text"),
    ],
)
def test_damaged_lists_are_refused(tmp_path, text, words):
    options = write(tmp_path, {**LISTS, "test": text})
    with pytest.raises(DataError, match=words):
        alone({**options, "form": "lists"})


def test_lists_may_be_delimited_and_then_no_name_may_be_missing(tmp_path):
    texts = {
        part: text.replace("  ", " ").replace("\t", " ").replace(" ", ";") for part, text in LISTS.items()
    }
    options = {"form": "lists", "delimiter": ";"}
    assert parts(alone({**write(tmp_path, texts), **options})) == EXPECTED
    with pytest.raises(DataError, match=r"test\.txt: line 3: found no name between two delimiters"):
        alone({**write(tmp_path, {**texts, "test": texts["test"] + "ann;;9\n"}), **options})


def test_a_file_that_is_not_there_and_columns_that_cannot_be(tmp_path):
    with pytest.raises(DataError, match=r"nowhere: no such file"):
        alone({**write(tmp_path, PAIRS), "test": "nowhere"})
    with pytest.raises(ScenarioError, match="user and item once each"):
        alone({**write(tmp_path, PAIRS), "columns": ["user", "user"]})


pairs = st.sets(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pairs, st.randoms(use_true_random=False), st.sampled_from(["pairs", "lists"]))
def test_what_is_written_is_read(tmp_path_factory, drawn, order, form):
    """Deal pairs out to parts, each user's first to training; write, read, and compare by names."""
    folder, dealt = tmp_path_factory.mktemp("drawn"), {"train": [], "validation": [], "test": []}
    for user, item in order.sample(sorted(drawn), len(drawn)):
        known = any(user == other for other, _ in dealt["train"])
        dealt[order.choice(list(dealt)) if known else "train"].append((user, item))
    texts = {}
    for part, some in dealt.items():
        if some and form == "pairs":
            texts[part] = "".join(f"u{user}\ti{item}\n" for user, item in some)
        elif some:
            users = order.sample(range(6), 6)
            lines = [[f"u{user}", *(f"i{item}" for other, item in some if other == user)] for user in users]
            texts[part] = "".join(" ".join(line) + "\n" for line in lines)
    if "test" not in texts:
        return
    made = dataset("files", **write(folder, texts), form=form)
    data = made.load(0)
    split = made.published_split(data)
    for part, some in dealt.items():
        sets = getattr(split, part)
        found = [
            (data.user_names[user], data.item_names[item])
            for user in range(split.n_users)
            for item in sets[user].tolist()
        ]
        assert sorted(found) == sorted((f"u{user}", f"i{item}") for user, item in some)


@pytest.mark.slow
def test_a_run_takes_them_and_the_command_tells_counts(tmp_path):
    rng = np.random.default_rng(1)
    lines = {"train": [], "test": []}
    for user in range(12):
        items = rng.choice(40, 9, replace=False)
        lines["train"].append(" ".join(map(str, [user, *items[:7]])))
        lines["test"].append(" ".join(map(str, [user, *items[7:]])))
    files = write(tmp_path, {part: "\n".join(some) + "\n" for part, some in lines.items()})
    options = {**files, "form": "lists"}
    data = {"name": "files", **options, "split": {"name": "published"}}
    run = simulate(tiny(dataset=data, evaluate={"every": 3, "metrics": ["recall@5"]}), out=tmp_path / "run")
    assert run.summary["nodes"] == 12
    assert run.summary["interactions"] == 108
    asked = [f"{key}={value}" for key, value in options.items()]
    both = [word for one in asked for word in ("-o", one, "-s", one)]
    told = CliRunner().invoke(data_command, ["stats", "files", "--split", "files", *both])
    assert told.exit_code == 0, told.output
    assert "pairs_in_no_file         0" in told.output
    assert "test_interactions        24" in told.output


def test_the_published_split_of_yelp_is_read_whole():
    folder = real("yelp")
    options = {"train": "train.txt", "validation": "valid.txt", "test": "test.txt"}
    split = alone({part: str(folder / name) for part, name in options.items()} | {"form": "lists"})
    assert split.n_users == 5224
    assert [int(part.offsets[-1]) for part in (split.train, split.validation, split.test)] == [
        112_576,
        5224,
        5224,
    ]


def test_pepper_files_over_movielens_are_its_published_split():
    folder = real("ml-100k")
    files = {
        part: str(next((folder / "pepper").glob(f"ml-100k.{part}.rating*")))
        for part in ("train", "validation", "test")
    }
    data = {"path": str(folder)}
    found = load_split("movielens-100k", data, "files", {**files, "ids": "numbers"}, 1)
    expected = load_split("movielens-100k", data, "published", {}, 1)
    assert parts(found) == parts(expected)


@pytest.mark.parametrize("form", ["pairs", "lists"])
def test_lines_are_counted_across_blocks(tmp_path, form, monkeypatch):
    monkeypatch.setattr("gossiprec.data.text_blocks.BLOCK", 8)
    texts = dict(PAIRS if form == "pairs" else LISTS)
    texts["test"] += "\n" * 5 + ("bob\tx\n" if form == "pairs" else "bob x\n")
    with pytest.raises(
        DataError,
        match=r"test\.txt: line 8: found user 'bob' with item 'x'.*train\.txt, line [23] also has it",
    ):
        over(tmp_path, {**write(tmp_path, texts), "form": form})


def test_lists_with_a_colon_are_refused_until_the_delimiter_is_stated(tmp_path):
    train = pack(tmp_path / "train.txt", "1:2 3 4\n2:5 6\n")
    test = pack(tmp_path / "test.txt", "1:7\n2:8\n")
    options = {"train": train, "test": test, "form": "lists"}
    with pytest.raises(DataError, match="line 1: found '1:2', a user with a colon; expected blanks"):
        dataset("files", **options).load(1)
