"""Loading: from names and options to a checked split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from gossiprec.base.arrays import I64
from gossiprec.base.errors import DataError, ScenarioError, did_you_mean
from gossiprec.base.features import FeatureFile, FeatureFiles, FeatureTable
from gossiprec.base.options import Options
from gossiprec.base.ragged import Ragged, row_entries
from gossiprec.data.base import Dataset, SplitRule
from gossiprec.data.check_ins import extract_check_ins
from gossiprec.data.split import Interactions, Split, display_name, extract_sequences
from gossiprec.data.training_data import Transitions


def validate_dataset_options(
    allowed: type[Options], given: Mapping[str, Any] | Options, what: str
) -> Options:
    """Return typed options, validating a mapping if necessary.

    Parameters
    ----------
    allowed : type
        `Options` of a data set or a split rule.
    given : mapping or Options
    what : str
        Name of the data set or split in messages (``"dataset file"``).

    Raises
    ------
    ScenarioError
        If an option does not fit; the message names each one.
    """
    if isinstance(given, Options):
        return given
    try:
        return allowed.model_validate(dict(given))
    except ValidationError as error:
        raise ScenarioError(f"{what}: {_problems(error, allowed)}") from error


def _problems(error: ValidationError, allowed: type[Options]) -> str:
    known = ", ".join(allowed.model_fields) or "none"
    found = ((".".join(map(str, e["loc"])), e["msg"]) for e in error.errors())
    return (
        "; ".join(f"{key}: {message}" if key else message for key, message in found) + f" (options: {known})"
    )


def load_and_split(dataset: Dataset, divide: SplitRule, seed: int) -> tuple[Interactions, Split]:
    """Return all interactions and their checked split, with item names, texts, sequences and check-ins.

    These are added here and not in the split rules, because they do not depend on the rule: texts stay with their
    items, and the order in time and the moves between items follow from the parts.
    """
    data = dataset.load(seed)
    split = replace(
        divide(data, dataset, seed),
        user_names=data.user_names,
        item_names=data.item_names,
        item_texts=data.item_texts,
        source_summary=data.source_summary,
    )
    split = replace(check_trainable(split), sequences=extract_sequences(data, split))
    if data.coordinates is not None:
        split = replace(split, check_ins=extract_check_ins(data, split))
    return data, split


def with_features(split: Split, dataset: Dataset, files: FeatureFiles) -> Split:
    """Return a split of all users with those attributes of users and items that the data have.

    Raises
    ------
    DataError
        If a table is damaged, or does not belong to the data.
    """
    users = split.user_names or tuple(map(str, range(split.n_users)))
    items = split.item_names or tuple(map(str, range(split.n_items)))
    return replace(
        split,
        user_features=_features(files.users, users, "user") or dataset.user_features(users),
        item_features=_features(files.items, items, "item") or dataset.item_features(items),
    )


def _features(file: FeatureFile | None, names: tuple[str, ...], key: str) -> FeatureTable | None:
    if file is None:
        return None
    from gossiprec.data.features import read_feature_file  # pyarrow

    return read_feature_file(file, names, key)


def check_trainable(split: Split) -> Split:
    """Return `split` if every user has a training item and an item that can be a negative.

    Raises
    ------
    DataError
        If a user has not; the message names the first one.
    """
    sizes = split.train.sizes
    for reason, faulty in (
        ("has no training item", sizes == 0),
        (
            f"has all {split.n_items} items as training items, so no negative can be drawn",
            sizes >= split.n_items,
        ),
    ):
        if faulty.any():
            user = display_name(split.user_names, int(np.argmax(faulty)))
            raise DataError(
                f"{split.name}: user {user} {reason} ({int(faulty.sum())} such users); remove such users from "
                "the data, or choose another split"
            )
    return split


def keep_first_users(split: Split, count: int) -> Split:
    """Keep the users with ids below `count`, and all items.

    Raises
    ------
    DataError
        If there are fewer users, or `count` is not positive.
    """
    if not 1 <= count <= split.n_users:
        raise DataError(f"{split.name}: cannot keep {count} users; expected 1 to {split.n_users}")
    known = split.check_ins
    return replace(
        split,
        n_users=count,
        user_names=split.user_names and split.user_names[:count],
        user_features=split.user_features and split.user_features.take(np.arange(count)),
        train=split.train.first(count),
        validation=split.validation.first(count),
        test=split.test.first(count),
        sequences=split.sequences and split.sequences.first(count),
        check_ins=known
        and replace(known, train=known.train.first_users(count), test=known.test.first_users(count)),
    )


def remove_users(split: Split, without: Sequence[int | str]) -> Split:
    """Return the split without the data of some users, who keep their node ids and names.

    Their items in all parts, moves between items and attributes are removed. The item ids stay, also of items that
    only they had.

    Parameters
    ----------
    split : Split
    without : sequence of int or str
        A number is a node id, a text is a name in the data.

    Raises
    ------
    DataError
        If a user does not exist, or no user with data is left.
    """
    removed = np.zeros(split.n_users, np.bool_)
    removed[[_user_id(split, user) for user in without]] = True
    if removed.all():
        raise DataError(
            f"dataset.without: found all {split.n_users} users of {split.name}; expected to keep at least one of them; "
            "name fewer users"
        )
    kept = np.flatnonzero(~removed)

    def cut(rows: Ragged) -> tuple[Ragged, I64]:
        entries, _ = row_entries(rows.offsets, kept)
        return Ragged.from_sizes(np.where(removed, 0, rows.sizes), rows.values[entries]), entries

    def cut_moves(moves: Transitions) -> Transitions:
        items, entries = cut(moves.items)
        return Transitions(items, moves.previous[entries], moves.gap_minutes[entries])

    known = split.check_ins
    return replace(
        split,
        train=cut(split.train)[0],
        validation=cut(split.validation)[0],
        test=cut(split.test)[0],
        sequences=split.sequences and cut(split.sequences)[0],
        check_ins=known and replace(known, train=cut_moves(known.train), test=cut_moves(known.test)),
        user_features=split.user_features
        and split.user_features.take(np.where(removed, -1, np.arange(split.n_users))),
    )


def _user_id(split: Split, user: int | str) -> int:
    """Return the node id of a user, given its id or its name in the data."""
    if isinstance(user, int):
        if user < split.n_users:
            return user
        raise DataError(
            f"dataset.without: found user {user}; expected a node id from 0 to {split.n_users - 1}; a name in the data "
            f"must be quoted: '{user}'"
        )
    names = split.user_names
    if names is None:
        raise DataError(
            f"dataset.without: found the name {user!r}, but the users of {split.name} have no names; expected node ids "
            f"from 0 to {split.n_users - 1}"
        )
    if user not in names:
        raise DataError(
            f"dataset.without: {split.name} has no user named {user!r}{did_you_mean(user, names)}; expected a name "
            "in the data, such as "
            f"{names[0]!r} (users.csv of a run lists them), or a node id as a number"
        )
    return names.index(user)
