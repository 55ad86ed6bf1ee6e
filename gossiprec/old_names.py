"""Old import paths and names, which work with a warning until version 0.2."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # importing typing takes milliseconds, in which Ctrl-C would print a traceback
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any

MODULES: Mapping[str, str] = {
    "gossiprec.aggregators.adding": "gossiprec.aggregators.delta_ops",
    "gossiprec.aggregators.clipping": "gossiprec.aggregators.delta_ops",
    "gossiprec.aggregators.rule": "gossiprec.aggregators.aggregator_option",
    "gossiprec.aggregators.touched": "gossiprec.aggregators.touched_base",
    "gossiprec.attacks.coalition": "gossiprec.attacks.coalition_observers",
    "gossiprec.attacks.coalitions": "gossiprec.attacks.coalition_members",
    "gossiprec.attacks.fictive": "gossiprec.attacks.fictive_users",
    "gossiprec.attacks.gain_kernels": "gossiprec.attacks.ndcg_kernels",
    "gossiprec.attacks.individual": "gossiprec.attacks.individual_observers",
    "gossiprec.attacks.naming": "gossiprec.attacks.observer_names",
    "gossiprec.attacks.scoring": "gossiprec.attacks.scoring_attack",
    "gossiprec.attacks.shadows": "gossiprec.attacks.shadow_models",
    "gossiprec.attacks.stacked": "gossiprec.attacks.individual_observers",
    "gossiprec.attacks.stacked_kernels": "gossiprec.attacks.ranking_kernels",
    "gossiprec.cache": "gossiprec.cache_dir",
    "gossiprec.cli.named_graphs": "gossiprec.cli.graph_arguments",
    "gossiprec.cli.results": "gossiprec.cli.summary_text",
    "gossiprec.cli.scenario_graphs": "gossiprec.cli.graph_arguments",
    "gossiprec.compute.encoding": "gossiprec.compute.message_encoder",
    "gossiprec.compute.executors.full_batches": "gossiprec.compute.executors.full_batch_trainer",
    "gossiprec.compute.executors.pair_batches": "gossiprec.compute.executors.pair_trainer",
    "gossiprec.compute.executors.sequence_batches": "gossiprec.compute.executors.sequence_trainer",
    "gossiprec.compute.executors.small_models": "gossiprec.compute.executors.submodel_trainer",
    "gossiprec.compute.executors.stacks": "gossiprec.compute.executors.tensors",
    "gossiprec.compute.executors.user_fits": "gossiprec.compute.executors.user_row_fitting",
    "gossiprec.compute.executors.whole_lists": "gossiprec.compute.executors.all_item_scores",
    "gossiprec.compute.executors.written_out": "gossiprec.compute.executors.analytic_trainer",
    "gossiprec.compute.plan.plan": "gossiprec.compute.plan.program",
    "gossiprec.compute.plan.planning": "gossiprec.compute.plan.planner_loop",
    "gossiprec.compute.plan.tables": "gossiprec.compute.plan.planner_state",
    "gossiprec.compute.push_rounds": "gossiprec.compute.message_encoder",
    "gossiprec.compute.reducing": "gossiprec.compute.inbox_reducer",
    "gossiprec.compute.serving": "gossiprec.compute.server_runner",
    "gossiprec.compute.shards.exchange": "gossiprec.compute.shards.channel",
    "gossiprec.compute.shards.parts": "gossiprec.compute.shards.node_partition",
    "gossiprec.compute.shards.payloads": "gossiprec.compute.shards.store_codec",
    "gossiprec.compute.shards.routes": "gossiprec.compute.shards.row_routing",
    "gossiprec.compute.shards.seat": "gossiprec.compute.shards.shard_context",
    "gossiprec.compute.store.adding": "gossiprec.compute.store.update_sums",
    "gossiprec.compute.store.addresses": "gossiprec.compute.store.arena",
    "gossiprec.compute.store.keys": "gossiprec.compute.store.arena",
    "gossiprec.compute.store.one_model": "gossiprec.compute.store.single_model_store",
    "gossiprec.compute.store.packing": "gossiprec.compute.store.update",
    "gossiprec.compute.train.client_steps": "gossiprec.compute.train.client_step_kernels",
    "gossiprec.compute.train.everybody": "gossiprec.compute.train.local_update",
    "gossiprec.compute.train.noise": "gossiprec.compute.train.local_update",
    "gossiprec.data.blocks": "gossiprec.data.text_blocks",
    "gossiprec.data.cells": "gossiprec.data.column_parsers",
    "gossiprec.data.check_in_users": "gossiprec.data.check_ins",
    "gossiprec.data.checking": "gossiprec.data.file_check",
    "gossiprec.data.columns": "gossiprec.data.delimited_text",
    "gossiprec.data.doubts": "gossiprec.data.plausibility",
    "gossiprec.data.kept": "gossiprec.data.filters",
    "gossiprec.data.lists": "gossiprec.data.list_format",
    "gossiprec.data.meanings": "gossiprec.data.column_roles",
    "gossiprec.data.ordering": "gossiprec.data.split_helpers",
    "gossiprec.data.outline": "gossiprec.data.data_sizes",
    "gossiprec.data.partition": "gossiprec.data.split_helpers",
    "gossiprec.data.parts": "gossiprec.data.split_parts",
    "gossiprec.data.recognised": "gossiprec.data.format_detection",
    "gossiprec.data.samples": "gossiprec.data.format_detection",
    "gossiprec.data.sequences": "gossiprec.data.split_helpers",
    "gossiprec.data.synthetic_laws": "gossiprec.data.synthetic_draws",
    "gossiprec.data.texts": "gossiprec.data.item_texts",
    "gossiprec.data.understood": "gossiprec.data.parsed_file",
    "gossiprec.data.writing": "gossiprec.data.table_writer",
    "gossiprec.emulation.assembly.analytic_estimate": "gossiprec.emulation.estimate.counts",
    "gossiprec.emulation.assembly.attackers": "gossiprec.emulation.assembly.poisoners",
    "gossiprec.emulation.assembly.central": "gossiprec.modes.central",
    "gossiprec.emulation.assembly.choosing": "gossiprec.emulation.assembly.executor_selection",
    "gossiprec.emulation.assembly.client_messages": "gossiprec.modes.client_updates",
    "gossiprec.emulation.assembly.clients": "gossiprec.modes.client_updates",
    "gossiprec.emulation.assembly.compiling": "gossiprec.emulation.assembly.kernel_warmup",
    "gossiprec.emulation.assembly.conditions": "gossiprec.emulation.assembly.network_setup",
    "gossiprec.emulation.assembly.data": "gossiprec.emulation.assembly.data_loading",
    "gossiprec.emulation.assembly.estimate": "gossiprec.emulation.estimate.estimate",
    "gossiprec.emulation.assembly.laws": "gossiprec.emulation.assembly.network_setup",
    "gossiprec.emulation.assembly.libraries": "gossiprec.emulation.estimate.libraries",
    "gossiprec.emulation.assembly.machinery": "gossiprec.emulation.assembly.compute_setup",
    "gossiprec.emulation.assembly.memory": "gossiprec.emulation.estimate.memory",
    "gossiprec.emulation.assembly.memory_estimate": "gossiprec.emulation.estimate.memory",
    "gossiprec.emulation.assembly.memory_limits": "gossiprec.emulation.estimate.memory",
    "gossiprec.emulation.assembly.needs": "gossiprec.emulation.estimate.memory",
    "gossiprec.emulation.assembly.outlook": "gossiprec.emulation.estimate.estimate",
    "gossiprec.emulation.assembly.own_nodes": "gossiprec.emulation.assembly.components",
    "gossiprec.emulation.assembly.participants": "gossiprec.emulation.assembly.components",
    "gossiprec.emulation.assembly.partition": "gossiprec.emulation.assembly.shard_partition",
    "gossiprec.emulation.assembly.reckoning": "gossiprec.emulation.estimate.counts",
    "gossiprec.emulation.assembly.rehearsal": "gossiprec.emulation.assembly.control_setup",
    "gossiprec.emulation.assembly.tables": "gossiprec.emulation.assembly.input_files",
    "gossiprec.emulation.run.accountable": "gossiprec.emulation.run.evaluation_setup",
    "gossiprec.emulation.run.ahead": "gossiprec.emulation.assembly.control_plane",
    "gossiprec.emulation.run.attack_hook": "gossiprec.emulation.assembly.attack_hook",
    "gossiprec.emulation.run.barrier_record": "gossiprec.emulation.assembly.barrier_record",
    "gossiprec.emulation.run.barriers": "gossiprec.emulation.assembly.barrier_record",
    "gossiprec.emulation.run.carried_out": "gossiprec.emulation.run.execution",
    "gossiprec.emulation.run.checkpointing": "gossiprec.emulation.run.checkpoint_writer",
    "gossiprec.emulation.run.control_plane": "gossiprec.emulation.assembly.control_plane",
    "gossiprec.emulation.run.measuring": "gossiprec.emulation.run.evaluation_setup",
    "gossiprec.emulation.run.metering": "gossiprec.emulation.assembly.attack_hook",
    "gossiprec.emulation.run.progress": "gossiprec.emulation.progress",
    "gossiprec.emulation.run.rates": "gossiprec.emulation.estimate.timing",
    "gossiprec.emulation.run.recording": "gossiprec.emulation.run.event_recorder",
    "gossiprec.emulation.run.run_timing": "gossiprec.emulation.estimate.timing",
    "gossiprec.emulation.run.running": "gossiprec.emulation.run.active_run",
    "gossiprec.emulation.run.schedule": "gossiprec.emulation.assembly.schedule",
    "gossiprec.emulation.run.stopping": "gossiprec.emulation.run.graceful_stop",
    "gossiprec.emulation.run.tape_runner": "gossiprec.emulation.assembly.tape_runner",
    "gossiprec.emulation.run.tracking": "gossiprec.emulation.run.tracker_dispatch",
    "gossiprec.emulation.scoring.by_activity": "gossiprec.emulation.scoring.utility",
    "gossiprec.emulation.scoring.last_version": "gossiprec.emulation.run.evaluation_setup",
    "gossiprec.emulation.scoring.looks": "gossiprec.emulation.scoring.metric_inputs",
    "gossiprec.emulation.scoring.orders": "gossiprec.emulation.scoring.metric_inputs",
    "gossiprec.emulation.scoring.sampled_items": "gossiprec.emulation.scoring.metric_inputs",
    "gossiprec.emulation.scoring.validated": "gossiprec.emulation.scoring.best_validation",
    "gossiprec.emulation.scoring.whole_lists": "gossiprec.emulation.scoring.metric_inputs",
    "gossiprec.emulation.shards.connecting": "gossiprec.emulation.shards.ray_backend",
    "gossiprec.emulation.shards.gathering": "gossiprec.emulation.shards.shard_group",
    "gossiprec.emulation.shards.lead": "gossiprec.emulation.shards.leader",
    "gossiprec.emulation.shards.member": "gossiprec.emulation.shards.ray_backend",
    "gossiprec.emulation.shards.on_ray": "gossiprec.emulation.shards.ray_backend",
    "gossiprec.emulation.shards.service": "gossiprec.emulation.shards.shard_state",
    "gossiprec.emulation.shards.versions": "gossiprec.emulation.shards.shard_group",
    "gossiprec.eventlog.array_files": "gossiprec.eventlog.npz_files",
    "gossiprec.eventlog.arrow": "gossiprec.eventlog.run",
    "gossiprec.eventlog.frames": "gossiprec.eventlog.record_format",
    "gossiprec.eventlog.layout": "gossiprec.eventlog.run_files",
    "gossiprec.eventlog.live": "gossiprec.eventlog.checkpoint_state",
    "gossiprec.eventlog.manifest_file": "gossiprec.eventlog.manifest",
    "gossiprec.eventlog.rundir": "gossiprec.eventlog.run_directory",
    "gossiprec.eventlog.state_checks": "gossiprec.eventlog.checkpoint_state",
    "gossiprec.eventlog.tables": "gossiprec.eventlog.run_tables",
    "gossiprec.eventlog.text": "gossiprec.eventlog.event_text",
    "gossiprec.eventlog.writer_process": "gossiprec.eventlog.lock",
    "gossiprec.feeds.touched": "gossiprec.feeds.predrawn",
    "gossiprec.figures.by_node": "gossiprec.figures.node_values",
    "gossiprec.figures.distributions": "gossiprec.figures.accuracy_distributions",
    "gossiprec.figures.met_over_time": "gossiprec.figures.contact_curves",
    "gossiprec.figures.output": "gossiprec.figures.figure_files",
    "gossiprec.figures.series": "gossiprec.figures.attack_selection",
    "gossiprec.figures.study.beside": "gossiprec.figures.study.reference_levels",
    "gossiprec.figures.study.explained": "gossiprec.figures.study.label_folding",
    "gossiprec.figures.study.front": "gossiprec.figures.study.pareto_front",
    "gossiprec.figures.study.heat": "gossiprec.figures.study.heat_map",
    "gossiprec.figures.study.means": "gossiprec.figures.study.estimates",
    "gossiprec.figures.study.numbers": "gossiprec.figures.study.estimates",
    "gossiprec.figures.study.paired": "gossiprec.figures.study.paired_differences",
    "gossiprec.figures.study.parts": "gossiprec.figures.study.series_panels",
    "gossiprec.figures.study.rows": "gossiprec.figures.study.row_plots",
    "gossiprec.figures.study.table": "gossiprec.figures.study.table_reader",
    "gossiprec.figures.study.words": "gossiprec.figures.study.labels",
    "gossiprec.figures.wishes": "gossiprec.figures.figure_options",
    "gossiprec.garbage": "gossiprec.gc_pause",
    "gossiprec.graphs.blocks": "gossiprec.graphs.block_graphs",
    "gossiprec.graphs.cover": "gossiprec.graphs.vertex_cover",
    "gossiprec.graphs.edge_lists": "gossiprec.graphs.files",
    "gossiprec.graphs.facts": "gossiprec.graphs.summary",
    "gossiprec.graphs.graphml": "gossiprec.graphs.files",
    "gossiprec.graphs.likeness": "gossiprec.graphs.similarity",
    "gossiprec.graphs.node_link": "gossiprec.graphs.files",
    "gossiprec.graphs.path_counts": "gossiprec.graphs.brandes",
    "gossiprec.jit": "gossiprec.native.loop_jit",
    "gossiprec.kept_code": "gossiprec.native.numba_cache",
    "gossiprec.loop_jit": "gossiprec.native.loop_jit",
    "gossiprec.measures.attack": "gossiprec.measures.attack_accuracy",
    "gossiprec.measures.full_ranking": "gossiprec.measures.ranking",
    "gossiprec.measures.meetings": "gossiprec.measures.attack_accuracy",
    "gossiprec.measures.names": "gossiprec.measures.selectors",
    "gossiprec.measures.top_k": "gossiprec.measures.ranking",
    "gossiprec.models.base.analytic": "gossiprec.models.base.analytic_gradients",
    "gossiprec.models.base.blocks": "gossiprec.models.base.parameter_blocks",
    "gossiprec.models.base.contrast": "gossiprec.models.base.contrastive",
    "gossiprec.models.base.graph_kernels": "gossiprec.models.base.graph_product",
    "gossiprec.models.base.graph_model": "gossiprec.models.base.graph",
    "gossiprec.models.base.kernels": "gossiprec.models.base.kernel_interface",
    "gossiprec.models.gmf.anchored": "gossiprec.models.gmf.drift_penalty_kernels",
    "gossiprec.models.gmf.compiled": "gossiprec.models.gmf.kernel_bindings",
    "gossiprec.models.gmf.observed": "gossiprec.models.gmf.observer_kernels",
    "gossiprec.models.gmf.performance": "gossiprec.models.gmf.performance_kernels",
    "gossiprec.models.gmf.private": "gossiprec.models.gmf.dp_sgd_kernels",
    "gossiprec.models.lightgcn.contrast": "gossiprec.models.lightgcn.contrastive",
    "gossiprec.models.lightgcn.pairs": "gossiprec.models.lightgcn.pair_gradient",
    "gossiprec.models.mf.pairs": "gossiprec.models.mf.pair_gradient",
    "gossiprec.models.prme_g.compiled": "gossiprec.models.prme_g.kernel_bindings",
    "gossiprec.models.prme_g.observed": "gossiprec.models.prme_g.observer_kernels",
    "gossiprec.models.prme_g.performance": "gossiprec.models.prme_g.performance_kernels",
    "gossiprec.named": "gossiprec.registry_options",
    "gossiprec.numba_cache": "gossiprec.native.numba_cache",
    "gossiprec.numerics.adam": "gossiprec.numerics.lazy_adam",
    "gossiprec.numerics.bits": "gossiprec.numerics.float16_rows",
    "gossiprec.numerics.code_hash": "gossiprec.native.code_hash",
    "gossiprec.numerics.contents": "gossiprec.native.code_hash",
    "gossiprec.numerics.finite": "gossiprec.numerics.flat_ops",
    "gossiprec.numerics.gaussian": "gossiprec.numerics.noise_kernels",
    "gossiprec.numerics.half": "gossiprec.numerics.float16_rows",
    "gossiprec.numerics.jit": "gossiprec.native.jit",
    "gossiprec.numerics.jitable": "gossiprec.native.jit",
    "gossiprec.numerics.kept": "gossiprec.native.kernel_cache",
    "gossiprec.numerics.kernel_cache": "gossiprec.native.kernel_cache",
    "gossiprec.numerics.kernel_linking": "gossiprec.native.kernel_linking",
    "gossiprec.numerics.noise": "gossiprec.numerics.dp_noise",
    "gossiprec.numerics.one_thread": "gossiprec.numerics.torch_threads",
    "gossiprec.numerics.optimizers": "gossiprec.numerics.torch_optimizers",
    "gossiprec.numerics.own_copies": "gossiprec.native.kernel_linking",
    "gossiprec.numerics.purposes": "gossiprec.numerics.draw_purposes",
    "gossiprec.numerics.reused": "gossiprec.numerics.buffer_pool",
    "gossiprec.numerics.stretches": "gossiprec.numerics.flat_ops",
    "gossiprec.numerics.tiles": "gossiprec.numerics.small_matmul",
    "gossiprec.overlay.exchange": "gossiprec.overlay.view_exchange",
    "gossiprec.overlay.graphs": "gossiprec.overlay.graph_loading",
    "gossiprec.overlay.healing": "gossiprec.overlay.random_views",
    "gossiprec.overlay.picks": "gossiprec.overlay.wake_draws",
    "gossiprec.overlay.play": "gossiprec.overlay.contact_times",
    "gossiprec.overlay.profiles": "gossiprec.overlay.base",
    "gossiprec.overlay.static": "gossiprec.overlay.graph_views",
    "gossiprec.overlay.views": "gossiprec.overlay.random_views",
    "gossiprec.poisoners.forging": "gossiprec.poisoners.poisoned_messages",
    "gossiprec.poisoners.formula": "gossiprec.poisoners.model_formula",
    "gossiprec.protocols.proportional": "gossiprec.protocols.client_tasks",
    "gossiprec.recommenders.auxiliary": "gossiprec.recommenders.auxiliary_model",
    "gossiprec.recommenders.auxiliary_leaks": "gossiprec.emulation.scoring.upload_leakage",
    "gossiprec.recommenders.candidates": "gossiprec.recommenders.cluster_candidates",
    "gossiprec.recommenders.centroids": "gossiprec.recommenders.vector_clustering",
    "gossiprec.recommenders.client_negatives": "gossiprec.recommenders.fed_softmax",
    "gossiprec.recommenders.client_side": "gossiprec.recommenders.client_context",
    "gossiprec.recommenders.clusters": "gossiprec.recommenders.vector_clustering",
    "gossiprec.recommenders.contribution_leaks": "gossiprec.emulation.scoring.upload_leakage",
    "gossiprec.recommenders.coordinator_side": "gossiprec.recommenders.coordinator_hook",
    "gossiprec.recommenders.exponential_mechanism": "gossiprec.recommenders.contribution",
    "gossiprec.recommenders.kernels.candidates": "gossiprec.recommenders.kernels.top_items",
    "gossiprec.recommenders.kernels.contrast": "gossiprec.recommenders.kernels.contrastive",
    "gossiprec.recommenders.kernels.nothing": "gossiprec.recommenders.kernels.no_op",
    "gossiprec.recommenders.popularity": "gossiprec.recommenders.popularity_regulariser",
    "gossiprec.recommenders.pretraining_views": "gossiprec.recommenders.pretraining",
    "gossiprec.recommenders.user_rows": "gossiprec.recommenders.cluster_models",
    "gossiprec.recommenders.written_out": "gossiprec.recommenders.analytic_support",
    "gossiprec.report.of_studies": "gossiprec.report.study_sections",
    "gossiprec.report.of_studies.front": "gossiprec.report.study_sections.pareto_front",
    "gossiprec.report.of_studies.means": "gossiprec.report.study_sections.means",
    "gossiprec.report.of_studies.overview": "gossiprec.report.study_sections.overview",
    "gossiprec.report.of_studies.paired": "gossiprec.report.study_sections.paired_differences",
    "gossiprec.report.of_studies.single_runs": "gossiprec.report.study_sections.runs",
    "gossiprec.report.sections.headline": "gossiprec.report.sections.results",
    "gossiprec.report.sections.nodes": "gossiprec.report.sections.node_table",
    "gossiprec.report.sections.spread": "gossiprec.report.sections.accuracy_distribution",
    "gossiprec.report.sections.what": "gossiprec.report.sections.overview",
    "gossiprec.scenario.explain": "gossiprec.scenario.validation_messages",
    "gossiprec.scenario.held_data": "gossiprec.scenario.cross_checks",
    "gossiprec.scenario.layers": "gossiprec.scenario.overrides",
    "gossiprec.scenario.listing": "gossiprec.scenario.registry_listing",
    "gossiprec.scenario.model": "gossiprec.scenario.definition",
    "gossiprec.scenario.notes": "gossiprec.scenario.cross_checks",
    "gossiprec.scenario.portability": "gossiprec.scenario.cross_checks",
    "gossiprec.scenario.shipped": "gossiprec.scenario.bundled",
    "gossiprec.scenario.source": "gossiprec.scenario.yaml_source",
    "gossiprec.scenario.times": "gossiprec.scenario.time_options",
    "gossiprec.servers.choice": "gossiprec.servers.server_option",
    "gossiprec.sim.causes": "gossiprec.sim.event_causes",
    "gossiprec.sim.fair_share_loop": "gossiprec.sim.fair_share",
    "gossiprec.sim.laws": "gossiprec.sim.distributions",
    "gossiprec.sim.sessions": "gossiprec.sim.availability",
    "gossiprec.similarities.words": "gossiprec.similarities.base",
    "gossiprec.study.cluster": "gossiprec.study.ray_runner",
    "gossiprec.study.data_cache": "gossiprec.study.task",
    "gossiprec.study.foreseen": "gossiprec.study.time_left",
    "gossiprec.study.gathering": "gossiprec.study.plan",
    "gossiprec.study.identity": "gossiprec.study.run_hash",
    "gossiprec.study.in_python": "gossiprec.study.api",
    "gossiprec.study.picture": "gossiprec.study.spec",
    "gossiprec.study.points": "gossiprec.study.axis_points",
    "gossiprec.study.pool": "gossiprec.study.worker_pool",
    "gossiprec.study.rows": "gossiprec.study.table_rows",
    "gossiprec.study.same_data": "gossiprec.study.folder",
    "gossiprec.recommenders.vector_attacks": "gossiprec.attacks.uploads.user_vectors",
    "gossiprec.recommenders.vector_leaks": "gossiprec.emulation.scoring.upload_leakage",
    "gossiprec.study.table": "gossiprec.study.table_writer",
    "gossiprec.study.waiting": "gossiprec.study.worker_pool",
    "gossiprec.testing.claims": "gossiprec.testing.contract_checks",
    "gossiprec.testing.plans": "gossiprec.testing.shuffled_plans",
    "gossiprec.testing.reach": "gossiprec.testing.blinding",
    "gossiprec.testing.worlds": "gossiprec.testing.tiny_runs",
}
"""Present module of each old path that was ever released or documented."""

NAMES: Mapping[str, Mapping[str, str]] = {
    "gossiprec.aggregators.base": {"Change": "ModelDelta"},
    "gossiprec.attacks.base": {"Guesses": "MembershipGuesses", "World": "AttackContext"},
    "gossiprec.compute.messages": {"Outgoing": "OutgoingTransforms", "Payload": "MessagePayload"},
    "gossiprec.data.split_helpers": {"partition": "split_by_position"},
    "gossiprec.emulation.estimate.memory": {"Extent": "MemoryInputs"},
    "gossiprec.figures.figure_options": {"Wishes": "FigureOptions", "wishing": "figure_options"},
    "gossiprec.graphs.placement": {"place": "place_colluders", "senders_reached": "count_senders_reached"},
    "gossiprec.graphs.registry": {"Option": "FamilyOption", "family": "register_family"},
    "gossiprec.graphs.vertex_cover": {"colluder_cover": "find_colluder_cover"},
    "gossiprec.models": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.models.base": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.models.base.kernel_interface": {"Asked": "AdversaryQueries", "Kernels": "ModelKernels"},
    "gossiprec.models.base.parameter_blocks": {"Block": "ParameterBlock", "Role": "BlockRole"},
    "gossiprec.overlay.view_exchange": {"Exchange": "ExchangedViews"},
    "gossiprec.recommenders": {"Between": "CoordinatorHook", "Known": "CoordinatorContext"},
    "gossiprec.recommenders.client_context": {"AtHand": "ClientContext"},
    "gossiprec.recommenders.coordinator_hook": {"Between": "CoordinatorHook", "Known": "CoordinatorContext"},
    "gossiprec.registry_options": {"OneOf": "RegisteredOptions"},
    "gossiprec.servers": {"Answers": "ClientAnswers", "Round": "RoundContext"},
    "gossiprec.servers.base": {"Answers": "ClientAnswers", "Round": "RoundContext"},
}
"""Present name of each old name, by the module that holds it."""


def install() -> None:
    """Let ``import`` find modules by their old paths."""
    if not any(isinstance(finder, OldPaths) for finder in sys.meta_path):
        sys.meta_path.append(OldPaths())


def forward(module: str) -> None:
    """Give a module its old names: reading one warns and returns the object under its present name.

    Parameters
    ----------
    module : str
        ``__name__`` of the module, which calls this at its end.
    """
    vars(sys.modules[module])["__getattr__"] = _reader(module, NAMES[module])


class OldPaths:
    """Import finder of old module paths; asked only if no other finder knows a path."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a specification that loads a stand-in for the module of an old path, or None."""
        return ModuleSpec(name, OldPaths, is_package=True) if name in MODULES else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Return None: Python makes the stand-in."""
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Warn, and forward every name to the present module."""
        old, new = module.__name__, MODULES[module.__name__]
        _warn(old, new)
        present = import_module(new)
        module.__doc__ = present.__doc__

        def read(name: str) -> Any:
            return getattr(present, name)

        vars(module).update(__getattr__=read, __all__=[name for name in vars(present) if name[0] != "_"])


def _reader(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    def read(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        _warn(f"{module}.{name}", f"{module}.{names[name]}")
        return getattr(sys.modules[module], names[name])

    return read


def _warn(old: str, new: str) -> None:
    message = f"{old} is now {new}; the old path works until gossiprec 0.2"
    warnings.warn(message, DeprecationWarning, stacklevel=3)
