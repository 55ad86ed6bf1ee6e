from __future__ import annotations

import numpy as np
import pytest

from gossiprec.base.errors import LogError
from gossiprec.runs.schema import SCHEMA, Column, EventKind, EventSchema


def test_every_kind_begins_with_time_in_float64():
    assert {(kind.columns[0].name, kind.columns[0].dtype) for kind in SCHEMA.kinds} == {("time", "<f8")}


def test_a_schema_survives_its_header():
    settled = SCHEMA.with_sizes({"view_size": 5})

    assert EventSchema.from_header(settled.to_header()) == settled


def test_attributes_of_a_later_version_are_passed_over():
    header = SCHEMA.with_sizes({"view_size": 2}).to_header()
    header["kinds"][0]["columns"][0]["unit"] = "wake periods"

    assert EventSchema.from_header(header) == SCHEMA.with_sizes({"view_size": 2})


def test_a_kind_whose_size_is_not_given_is_left_out():
    assert "view" not in [kind.name for kind in SCHEMA.with_sizes({}).kinds]
    assert SCHEMA.with_sizes({"view_size": 4})["view"].columns[2].shape(7) == (7, 4)


def test_an_unknown_kind_names_the_near_one():
    with pytest.raises(LogError, match=r"unknown event kind 'mesage'.*did you mean 'message'"):
        SCHEMA["mesage"]


@pytest.mark.parametrize("dtype", ["|O", "f8", ">f8", "<U4", "<c16", "<f8,O"])
def test_a_column_has_a_fixed_little_endian_number_type(dtype):
    with pytest.raises(ValueError, match="not a fixed little-endian"):
        Column("x", dtype)


def test_a_kind_without_time_is_refused():
    with pytest.raises(ValueError, match="must be 'time'"):
        EventKind("odd", "", (Column("node", "<i4"),))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [("<i4", [2**31]), ("<i4", [0.5]), ("<i4", [float("nan")]), ("|u1", [-1]), ("<f4", [0.1])],
)
def test_a_value_that_does_not_fit_its_column_is_refused(dtype, values):
    with pytest.raises(ValueError, match="cannot hold"):
        Column("x", dtype).array(values)


def test_a_lossless_conversion_is_made():
    wide = np.array([1, -2], np.int64)

    assert Column("x", "<i4").array(wide).tolist() == [1, -2]
    assert np.isnan(Column("x", "<f8").array(np.array([np.nan], np.float32))).all()
    assert Column("x", "<i4").array(7).tolist() == [7]
