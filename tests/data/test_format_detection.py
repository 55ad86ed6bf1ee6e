"""What a file does not say of itself and nobody else does: delimiter, header, and what columns mean."""

from __future__ import annotations

import codecs

import pytest
from pydantic import ValidationError
from small_data import dataset, load, pack, refusal

from gossiprec.base.errors import DataError
from gossiprec.data import text_blocks
from gossiprec.data.format_detection import column_role, column_roles

NAMED = "customer,title,product,ts\nann,A,x,2010-10-19\nbob,B,y,2010-10-20\n"
BY_NAME = {"user": "customer", "item": "product", "time": "ts"}


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", "|", "::", " "])
@pytest.mark.parametrize("options", [{}, {"columns": BY_NAME}, {"columns": ["user", "-", "item", "time"]}])
def test_columns_are_found_by_name_by_place_and_by_what_they_are_called(tmp_path, delimiter, options):
    path = pack(tmp_path / "a.txt", NAMED.replace(",", delimiter))
    found = load(path, **options)
    assert (found.user_names, found.item_names) == (("ann", "bob"), ("x", "y"))
    assert found.times.tolist() == [1_287_446_400, 1_287_532_800]
    assert found.ratings is None


def test_what_was_recognised_is_said(tmp_path):
    path = pack(tmp_path / "a.csv", NAMED)
    assert load(path).source_summary == (
        f"{path}: a comma between columns, a header, user = customer, item = product, time = ts, skipped: title; 2 "
        "interactions"
    )
    path = pack(tmp_path / "b.tsv", "1\t2\n3\t4")
    assert load(path).source_summary == (
        f"{path}: a tab between columns, no header, user = column 1, item = column 2; 2 interactions; the last line "
        "has no line break, so the file may be truncated"
    )


def test_a_header_at_odds_with_columns_is_refused_instead_of_taking_items_for_users(tmp_path):
    rows = "".join(f"i{n},u{n % 150}\n" for n in range(300))
    path = pack(tmp_path / "a.csv", f"item_id,user_id\n{rows}")
    for more in ({}, {"header": True}):
        message = refusal(path, columns=["user", "item"], **more)
        assert message.startswith(
            f"{path}: line 1: found a header with 'item_id' in the place that columns gives to user and 'user_id'"
        )
        assert "by name, such as {user: ..., item: ...}" in message
    assert (load(path).n_users, load(path, columns=["item", "user"]).n_users) == (150, 150)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            NAMED,
            {"columns": {"user": "custommer", "item": "product"}},
            "line 1: found the column 'custommer' nowhere among",
        ),
        (NAMED, {"columns": {"user": "custommer", "item": "product"}}, "did you mean 'customer'?"),
        (
            "user,item,user\n1,2,3\n",
            {"columns": {"user": "user", "item": "item"}},
            "line 1: found the column 'user' twice",
        ),
        (
            "user,item,movie\n1,2,3\n",
            {"header": True},
            "a column named like a user and one named like an item",
        ),
        ("kunde,artikel\n1,2\n3,4\n5,6\n", {}, "line 1: found 'kunde', 'artikel', which may be a header"),
        ("kunde,artikel\nA1,B2\nA3,B4\n", {}, "line 1: found 'kunde', 'artikel', which may be a header"),
        (
            "\n# made today,x\nann,y\nbob,z\n",
            {},
            "line 2: found '# made today', 'x', which may be a header, a comment",
        ),
        (
            "user,item\nann,x\n",
            {"header": False, "columns": ["user", "item"]},
            "names of columns, 'user', 'item', but header",
        ),
        ("user,item,time\nann,x\n", {"columns": ["user", "item"], "header": True}, "a header of 3 names"),
        ("1,2,3\n4,5,6\n", {}, "line 1: found 3 columns without names"),
        ("a b,c\nd e,f\n", {"columns": ["user", "item"]}, "that a comma and blanks would split as well"),
        ("user,item\nann,x\nuser,item\nbob,y\n", {}, "line 3: found the header again"),
        ("1,2\n3,4\nnan,5\n", {}, "line 3: found 'nan' as user, but all other values are numbers"),
        (
            "1,2,978300760,5\n3,4,978300761,4\n",
            {},
            "line 1: found ratings from 9.78301e+08 and times up to 5",
        ),
        ("1,2,3,1287532527000\n", {}, "for milliseconds, set time_unit: ms"),
    ],
)
def test_what_is_not_sure_is_refused_with_its_line(tmp_path, text, options, words):
    assert words in refusal(pack(tmp_path / "a.csv", text), **options)


def test_words_that_mean_missing_are_names_if_that_is_said(tmp_path):
    path = pack(tmp_path / "a.csv", "nan,x\nann,none\n")
    assert (
        "line 1: found 'nan' as user; expected a name of the user on every line; if it is a name, set"
        in refusal(path, header=False)
    )
    assert load(path, header=False, doubtful_names="keep").n_users == 2


def test_a_first_line_with_a_number_is_no_header(tmp_path):
    assert load(pack(tmp_path / "a.csv", "1,book\n2,x7\n3,x8\n")).n_users == 3
    assert (
        load(
            pack(tmp_path / "a.csv", "ann,movie,5,1000000100\n2,x7,4,1000000099\n3,x8,3,1000000098\n")
        ).n_users
        == 3
    )


def test_milliseconds_are_read_when_said(tmp_path):
    path = pack(tmp_path / "a.csv", "1,2,3,1287532527999\n1,3,3,-1\n")
    assert load(path, time_unit="ms").times.tolist() == [1_287_532_527, -1]


def test_a_mark_of_utf8_under_another_encoding_is_refused(tmp_path):
    assert "line 1: found the byte order mark of UTF-8, but encoding: latin-1" in refusal(
        pack(tmp_path / "a.csv", "\ufeffann,x\n"), encoding="latin-1"
    )


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"user": "a"}, "each with a different name"),
        ({"user": "a", "item": "a"}, "each with a different name"),
        ({"user": "a", "item": "b", "tine": "c"}, "did you mean 'time'?"),
    ],
)
def test_columns_by_name_need_user_and_item_and_no_other_meaning(columns, words):
    with pytest.raises(ValidationError, match=words.replace("?", r"\?")):
        dataset("file", path="a", columns=columns)


def test_columns_by_name_need_a_header():
    with pytest.raises(ValidationError, match="header: false, but columns by name"):
        dataset("file", path="a", columns=BY_NAME, header=False)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("bob,1,2,3\nann,7\n", ","),
        ("bob::1::2\n", "::"),
        ("bob 1 2\n", " "),
        ("bob\t1\t2\n", " "),
        ("bob\n", " "),
    ],
)
def test_the_delimiter_of_lists_is_recognised(tmp_path, text, delimiter):
    made = dataset("file", path=pack(tmp_path / "a.txt", text), form="lists")
    if text == "bob\n":
        assert "no line with an item" in refusal(tmp_path / "a.txt", form="lists")
        return
    assert made.parsed_file.layout.delimiter == delimiter
    assert made.load(0).user_names[-1] == "bob"


@pytest.mark.parametrize("text", ["bob,1,2 3\nann,7,8 9\n", "bob\tiron man\tx\nann\ta b\n"])
def test_lists_that_two_delimiters_split_are_refused(tmp_path, text):
    assert "line 1: found lines that" in refusal(pack(tmp_path / "a.txt", text), form="lists")


def test_a_header_of_lists_is_recognised(tmp_path):
    assert load(pack(tmp_path / "a.txt", "user_id items\nbob 1 2\n"), form="lists").user_names == ("bob",)


def test_names_of_columns_are_known_in_their_usual_spellings():
    called = {
        "User_ID": "user",
        "reviewerID": "user",
        "user_id:token": "user",
        "asin": "item",
        "unixReviewTime": "time",
    }
    assert {name: column_role(name) for name in called} == called
    assert column_role("Title") is None
    assert column_roles(("user", "item", "movie")) is None
    assert column_roles(("movie", "genre", "user")) == ("item", "-", "user")


def test_texts_of_items_have_a_header_of_their_own(tmp_path):
    data = pack(tmp_path / "a.csv", "user_id,item_id\n1,x\n2,y\n")
    for header in ("", "item_id,title\n"):
        texts = pack(tmp_path / "t.csv", f"{header}x,Ten\ny,Two\n")
        assert load(data, item_texts=texts).item_texts == ("ten", "two")


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("0,1\n5,7\n6,8\n", {}, "line 1: found 0, 1, which may be a header of numbers or the first row"),
        ("1,2,3,4\n7,8,5,978300760\n7,9,4,978300761\n", {}, "a header of numbers or the first row"),
        ("ann,x\nbob,y\ncem,z\n", {}, "line 1: found 'ann', 'x', which may be a header"),
        ("1 5 9 7\n2 8 3 24\n", {}, "or set form: lists if a line is a user and its items"),
        (
            "user,item\n1,5\n01,6\n",
            {},
            "line 3: found '01' and '1' as users; expected one spelling per user",
        ),
        ("user,item\n1,5\n1.0,6\n", {}, "found '1.0' and '1' as users"),
        ("user,item\n1,5\n2,5\n\ufeff1,6\n", {}, "as users; expected one spelling"),
        ("user,item\nann,5\nann\u200b,6\n", {}, "as users; expected one spelling per user"),
        ("1\t5,7,9\n2\t8,3\n", {}, "line 1: found '5,7,9' as item, several values in one cell"),
        ("1;5 7 9\n2;8 3\n3;4\n", {}, "line 1: found '5 7 9' as item, several values in one cell"),
        ('user,item\nann,"[5, 7]"\nbob,"[8]"\ncem,"[8, 3]"\n', {}, "found '[5, 7]' as item, several values"),
        ("user,item\nann,N5 N7\nbob,N8 N3\n", {}, "found 'N5 N7' as item, several values in one cell"),
        ("(1,5)\t7\t9\n(2,8)\t3\t4\n", {}, "as item, several values in one cell"),
        ("user,item,is_read\n1,5,0\n1,6,1\n2,5,1\n", {}, "found the column 'is_read', which may mark"),
        ("user,item,watched\n1,5,no\n1,6,yes\n2,5,no\n", {}, "found the column 'watched', which may mark"),
        ("user,item\nann,5\n\u200b,6\n", {}, "line 3: found '\\u200b' as user"),
        ("user,item\nann,5\nbob,--\n", {}, "line 3: found '--' as item"),
        ("user,item\n1.43E+09,5\n2,6\n", {}, "a number without its last digits"),
        (
            "user,item\nJose\u0301,5\nJos\u00e9,6\n",
            {},
            "as users; expected one spelling per user",
        ),
        ("user,item,date\n1,5,20150602\n1,6,20150603\n", {}, "which are dates without hyphens"),
        (
            "user,item,rating\n1,5,0\n1,6,1\n",
            {},
            "set min_rating: 1 to keep the ones, or min_rating: 0 to keep all",
        ),
        (
            "user;item;rating\n1;5;4,5\n",
            {},
            "found '4,5'; expected a finite number as rating; use decimal points",
        ),
        ("3 5 7 8\n2 5 9\n", {"form": "lists"}, "a line that begins with the number of its items"),
        ("user,item\n1,5\n".encode("utf-16-le"), {}, "if it is UTF-16, set encoding: utf-16-le or utf-16-be"),
        (
            "user,item\n1,5\n".encode("utf-16-le"),
            {"encoding": "utf-16"},
            "set encoding: utf-16-le or utf-16-be",
        ),
    ],
)
def test_what_nobody_can_mean_is_refused(tmp_path, text, options, words):
    assert words in refusal(pack(tmp_path / "a.csv", text), **options)


class LaterDecoder(codecs.BufferedIncrementalDecoder):
    """A decoder of UTF-16 without a mark that raises the error of Python 3.13."""

    def _buffer_decode(self, input, errors, final):
        raise UnicodeDecodeError("utf-16", input, 0, 2, "Stream does not start with BOM")


@pytest.mark.parametrize("encoding", ["utf-16", "utf_32", "U16"])
@pytest.mark.parametrize("order", ["le", "be"])
def test_a_missing_byte_order_mark_is_named_whatever_the_decoder_raises(
    tmp_path, monkeypatch, encoding, order
):
    name = codecs.lookup(encoding).name
    path = pack(tmp_path / "a.csv", "user,item\n1,5\n".encode(f"{name}-{order}"))
    words = f"set encoding: {name}-le or {name}-be"
    assert words in refusal(path, encoding=encoding)

    monkeypatch.setattr(text_blocks, "getincrementaldecoder", lambda encoding: LaterDecoder)
    assert words in refusal(path, encoding=encoding)


def test_a_decoding_error_without_a_position_is_an_error_of_the_data(tmp_path):
    path = pack(tmp_path / "a.csv", "user,item\n1,é-\n".encode("latin-1"))
    assert "found bytes that are not PUNYCODE text" in refusal(path, encoding="punycode")


def test_ratings_of_0_and_1_are_read_when_it_is_said_which_count(tmp_path):
    path = pack(tmp_path / "a.csv", "user,item,rating\n1,5,0\n1,6,1\n1,7,1\n")
    assert [len(load(path, min_rating=least).users) for least in (0, 1)] == [3, 2]


def test_a_byte_order_mark_states_the_encoding_and_the_section_repeats_it(tmp_path):
    for encoding in ("utf-16", "utf-32"):
        path = pack(tmp_path / "a.csv", "user,item\nann,é\n".encode(encoding))
        assert load(path).item_names == ("é",)
        assert dataset("file", path=path).parsed_file.layout.encoding == encoding
        assert "encoding: latin-1; expected only one of them" in refusal(path, encoding="latin-1")


def test_a_hint_names_no_option_that_the_data_set_lacks(tmp_path):
    path = pack(tmp_path / "ratings.dat", "wer::was::note::zeit\n1::2::3::4\n")
    with pytest.raises(DataError) as caught:
        dataset("movielens-1m", path=path).load(1)
    assert "found 'note'" in str(caught.value)
    assert "set " not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        'user,item\nann,Toy Story\nbob,Rocky 2\ncem,"Crouching Tiger, Hidden Dragon"\n',
        "user,item\nann,Ocean's 11\nbob,Area 51\n",
        ",user,item\n0,1,5\n1,2,6\n",
        "user,item,price\n1,5,1\n2,5,3\n1,6,1\n",
    ],
)
def test_titles_are_no_lists_and_indices_and_prices_are_no_labels(tmp_path, text):
    assert len(load(pack(tmp_path / "a.csv", text)).users) == text.count("\n") - 1
