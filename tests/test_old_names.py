"""Old import paths and names work, and warn."""

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gossiprec
from gossiprec import emulation
from gossiprec.adversaries.attacks import Attack, AttackContext, AttackMemoryInputs
from gossiprec.adversaries.attacks.observations import KnownDeliveries, Observations
from gossiprec.adversaries.attacks.scoring_attack import ScoringAttack
from gossiprec.adversaries.poisoners import PoisonerContext
from gossiprec.base.ragged import Ragged
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.plan.tape import Op
from gossiprec.compute.scorer import Scorer
from gossiprec.data.base import Dataset
from gossiprec.defences import Policy
from gossiprec.emulation import resume
from gossiprec.emulation.assembly.prepare import PreparedRun
from gossiprec.emulation.run.execution import FORMER_KEYWORDS, RunKeywords
from gossiprec.federated import CoordinatorContext, Recommender
from gossiprec.measures import Measure
from gossiprec.models import Model
from gossiprec.models.base import ReductionOptions
from gossiprec.models.base.graph import GraphModel, InteractionGraph
from gossiprec.models.base.kernel_interface import ModelKernels
from gossiprec.models.base.parameter_blocks import Layout
from gossiprec.models.base.sequence_model import SequenceModel
from gossiprec.models.feeds import Feed
from gossiprec.models.lightgcn import ContrastiveLightGCN, LightGCN
from gossiprec.network.overlay import Views
from gossiprec.network.protocols import Protocol
from gossiprec.network.protocols.gossip import Gossip
from gossiprec.network.sim.clock import WakeClock
from gossiprec.old_names import NAMES, old_members, old_paths, present_keywords, present_path
from gossiprec.rules.aggregators import Aggregator, Inbox
from gossiprec.runs.checkpoint_state import Stateful
from gossiprec.runs.reader import EventLog
from gossiprec.runs.run import Run
from gossiprec.study.api import study

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("old", sorted(old_paths()))
def test_an_old_path_leads_to_a_module_that_exists(old):
    new = old_paths()[old]
    assert importlib.util.find_spec(new) is not None
    assert new not in old_paths()
    assert not (ROOT / f"{old.replace('.', '/')}.py").exists()


@pytest.mark.parametrize(
    "old",
    [
        "gossiprec.overlay.exchange",  # a module that moved and has another name
        "gossiprec.overlay.view_exchange",  # one whose package moved
        "gossiprec.errors",
        "gossiprec.models.base.blocks",
        "gossiprec.named",
    ],
)
def test_an_old_path_warns_and_gives_the_present_objects(old):
    sys.modules.pop(old, None)
    with pytest.warns(
        DeprecationWarning, match=f"{old} is now {present_path(old)}; the old path works until"
    ):
        module = importlib.import_module(old)
    present = importlib.import_module(present_path(old))
    public = [name for name in vars(present) if not name.startswith("_")]
    assert public
    assert all(getattr(module, name) is getattr(present, name) for name in public)


@pytest.mark.parametrize(("module", "old"), [(module, old) for module in NAMES for old in NAMES[module]])
def test_an_old_name_warns_and_is_the_present_object(module, old):
    present, new = importlib.import_module(module), NAMES[module][old]
    with pytest.warns(
        DeprecationWarning, match=f"{module}.{old} is now {module}.{new}; the old path works until"
    ):
        found = getattr(present, old)
    assert found is getattr(present, new)


def test_a_name_that_never_was_is_an_attribute_error():
    attacks = importlib.import_module("gossiprec.adversaries.attacks")
    with pytest.raises(AttributeError, match="has no attribute 'Wrold'"):
        attacks.Wrold  # noqa: B018


def test_a_path_that_never_was_is_an_import_error():
    with pytest.raises(ModuleNotFoundError, match=r"gossiprec\.overlay\.exchanges"):
        importlib.import_module("gossiprec.overlay.exchanges")


def test_a_plug_in_with_old_imports_is_told_its_own_line(tmp_path):
    script = tmp_path / "plug_in.py"
    script.write_text(
        "from gossiprec.overlay.exchange import Exchange\n"
        "from gossiprec.attacks import ATTACKS\n"
        "from gossiprec.adversaries.attacks import World\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "always::DeprecationWarning", script],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "plug_in.py:1: DeprecationWarning: gossiprec.overlay.exchange is now" in done.stderr
    assert (
        "plug_in.py:2: DeprecationWarning: gossiprec.attacks is now gossiprec.adversaries.attacks"
        in done.stderr
    )
    assert "plug_in.py:3: DeprecationWarning: gossiprec.adversaries.attacks.World is now" in done.stderr


@old_members(weighs="needs_weights", foresee="allocate")
class Contract:
    """A base class with two renamed members."""

    needs_weights = False

    def allocate(self, n):
        """Return the allocation."""
        return n


class Plugin(Contract):
    """A plug-in with present names."""

    needs_weights = True


def test_old_member_warns_and_leads_to_the_present_one():
    with pytest.warns(DeprecationWarning, match=r"Plugin\.weighs is now needs_weights"):
        assert Plugin().weighs is True
    with pytest.warns(DeprecationWarning, match="foresee is now allocate"):
        assert Plugin().foresee(3) == 3


def test_overridden_old_member_warns_and_takes_the_place_of_the_present_one():
    with pytest.warns(DeprecationWarning, match="is now") as warned:

        class Old(Contract):
            weighs = True

            def foresee(self, n):
                return 2 * super().foresee(n)

    texts = sorted(str(w.message) for w in warned)
    assert [text.partition("Old.")[2].partition(";")[0] for text in texts] == [
        "foresee is now allocate",
        "weighs is now needs_weights",
    ]
    assert Old().needs_weights is True
    with pytest.warns(DeprecationWarning, match="foresee"):
        assert Old().allocate(3) == 6


@pytest.mark.parametrize(
    ("cls", "old", "new"),
    [
        (Aggregator, "of_changes", "uses_deltas"),
        (Aggregator, "least", "min_models"),
        (Aggregator, "withstands", "is_robust"),
        (Aggregator, "passes_on", "propagates_nonfinite"),
        (Attack, "learn", "import_node_state"),
        (Attack, "learnt", "export_node_state"),
        (Dataset, "drawn", "synthetic_sizes"),
        (Feed, "before_next", "next_contexts"),
        (Feed, "before_tests", "test_contexts"),
        (Feed, "of_items", "for_items"),
        (Feed, "of_one", "for_user"),
        (Feed, "only", "restricted_to"),
        (EventLog, "parts", "iter_event_blocks"),
        (Measure, "of", "compute_values"),
        (AttackMemoryInputs, "count", "count_nodes"),
        (ContrastiveLightGCN, "groups", "contrast_groups"),
        (CoordinatorContext, "begun", "epoch_begun_at"),
        (CoordinatorContext, "over", "epochs_ended_at"),
        (Executor, "kind", "executor_class"),
        (Executor, "lacks", "missing_feature"),
        (Executor, "scores", "score"),
        (Gossip, "merging", "merge_operation"),
        (GraphModel, "encode_own", "encode_client"),
        (GraphModel, "views", "draw_views"),
        (InteractionGraph, "times", "propagate"),
        (InteractionGraph, "without", "drop_random_edges"),
        (KnownDeliveries, "at", "to_nodes"),
        (Layout, "named", "blocks_by_name"),
        (Layout, "of", "blocks_of_role"),
        (Layout, "part", "extract_submodel"),
        (LightGCN, "read_out", "combine_layers"),
        (ModelKernels, "lacks", "missing_feature"),
        (Observations, "places", "merge_order"),
        (Observations, "users", "user_rows"),
        (ModelKernels, "run", "merge_and_train"),
        (ModelKernels, "scores", "predict_scores"),
        (ModelKernels, "train_apart", "train_in_way"),
        (Op, "APPRAISE", "SCORE"),
        (ReductionOptions, "reduced", "reduce_losses"),
        (Scorer, "trained", "train_like_node"),
        (ScoringAttack, "references_of", "count_references"),
        (ScoringAttack, "rules_of", "relevance_rules"),
        (SequenceModel, "packed", "without_padding"),
        (Protocol, "behaviours", "role_behaviours"),
        (Protocol, "closes_epochs", "ends_epoch_with_extra_wake"),
        (Scorer, "plain", "is_plain"),
        (Model, "all_items", "score_all_items"),
        (Model, "feed_of", "make_feed"),
        (Model, "fitted_to", "bind_to_data"),
        (Policy, "spent", "privacy_spent"),
        (Policy, "spent_by_coordinates", "privacy_spent_by_coordinate"),
        (Protocol, "chooses_by_value", "depends_on_values"),
        (Protocol, "factor", "delivery_weight"),
        (Protocol, "learn", "receive_values"),
        (Protocol, "most_messages", "max_messages_per_wake"),
        (Protocol, "steers", "sets_own_wakes"),
        (Recommender, "between", "coordinator_hook"),
        (Recommender, "contributed", "initial_contribution"),
        (Recommender, "personal", "personal_models"),
        (Run, "standing", "status_text"),
        (Stateful, "changing", "checkpointed"),
        (Views, "missed", "on_missed_wake"),
    ],
)
def test_members_of_base_classes_keep_their_old_names(cls, old, new):
    with pytest.warns(DeprecationWarning, match=f"{cls.__name__}.{old} is now {new}"):
        assert getattr(cls, old) == getattr(cls, new)  # class methods are bound at each access


def test_a_prepared_run_keeps_the_old_names_of_its_parts():
    prepared = object.__new__(PreparedRun)
    for old, new in (("between", "coordinator_hook"), ("encoding", "encoder")):
        object.__setattr__(prepared, new, f"the {new}")
        with pytest.warns(DeprecationWarning, match=f"PreparedRun.{old} is now {new}"):
            assert getattr(prepared, old) == f"the {new}"


def test_a_clock_keeps_the_old_keyword_of_its_distribution():
    with pytest.warns(DeprecationWarning, match="the keyword law is now distribution"):
        clock = WakeClock(range(2), mean=3.0, law="constant", seed=1)
    assert clock.intervals(0, 2).tolist() == [[3.0, 3.0]] * 2


def test_rows_of_unequal_length_keep_their_old_names():
    with pytest.warns(DeprecationWarning, match="Ragged.sets is now sets_from_pairs"):
        sets = Ragged.sets(np.array([1, 0, 1]), np.array([4, 2, 4]), 2)
    with pytest.warns(DeprecationWarning, match="Ragged.owners is now row_of_each_value"):
        assert sets.owners.tolist() == [0, 1]


def test_a_poisoners_context_keeps_the_old_name_of_its_empty_feed():
    context = PoisonerContext(None, "a feed", 1, None)
    with pytest.warns(DeprecationWarning, match=r"PoisonerContext.nobody is now empty_feed"):
        assert context.nobody == "a feed"


def test_the_context_of_an_attack_keeps_the_old_names_of_its_parts():
    context = AttackContext(None, 3, None, 1, None, None, "deliveries", "feed_of_nodes", "models_of_nodes")
    for old, new in (
        ("meetings", "deliveries"),
        ("data_of", "feed_of_nodes"),
        ("own_models", "models_of_nodes"),
    ):
        with pytest.warns(DeprecationWarning, match=f"AttackContext.{old} is now {new}"):
            assert getattr(context, old) == new


def test_an_inbox_keeps_the_old_names_of_its_parts():
    inbox = Inbox(np.zeros((2, 3), np.float32), np.array([1]), np.ones(1), deltas=[])
    for old, new in (("places", "row_index"), ("changes", "deltas")):
        with pytest.warns(DeprecationWarning, match=f"Inbox.{old} is now {new}"):
            assert getattr(inbox, old) is getattr(inbox, new)


def test_a_former_keyword_of_a_function_warns_and_keeps_its_meaning():
    with pytest.warns(DeprecationWarning, match="resume: the keyword gracefully is now graceful_stop"):
        found = present_keywords("resume", {"gracefully": True, "track": ()}, RunKeywords, FORMER_KEYWORDS)
    assert found == {"graceful_stop": True, "track": ()}


def test_unknown_and_repeated_keywords_are_refused():
    with pytest.raises(
        TypeError, match=r"resume\(\) got an unexpected keyword argument 'use_cached_kernels'"
    ):
        resume("run", use_cached_kernels=True)
    with (
        pytest.warns(DeprecationWarning, match="study: the keyword other_code is now stale_runs"),
        pytest.raises(TypeError, match=r"study\(\) got multiple values for keyword argument 'stale_runs'"),
    ):
        study("study.yaml", stale_runs="keep", other_code="keep")


@pytest.mark.parametrize(
    "name", [*gossiprec.__all__[1:], *(f"emulation.{name}" for name in emulation.__all__)]
)
def test_no_public_name_comes_by_an_old_path(name):
    """In a process that has imported nothing yet: a module that was imported by its old path does not warn again."""
    module, _, attribute = f"gossiprec.{name}".rpartition(".")
    table = {**dict.fromkeys(gossiprec._CALLED, "gossiprec.study"), **gossiprec._LAZY}
    if module == "gossiprec.emulation":
        table = {name: f"{module}.{place}" for name, place in emulation._MODULE_OF.items()}
    assert present_path(table[attribute]) is None
    assert (
        getattr(importlib.import_module(table[attribute]), attribute, None) is not None
        or attribute == "study"
    )
