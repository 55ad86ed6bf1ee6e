"""The executor of clients that keep no model: they train the touched rows of the version that they were sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gossiprec.base.arrays import F32, I32, I64
from gossiprec.compute.executors.base import Executor
from gossiprec.compute.executors.client_trainer import ClientTrainer, TrainingTask
from gossiprec.compute.plan.program import Program
from gossiprec.compute.store.base import ScoringView
from gossiprec.compute.store.update import Update
from gossiprec.compute.store.update_store import UpdateStore
from gossiprec.compute.thread_pool import ThreadPool
from gossiprec.models.base.kernel_interface import ScoreQuery


class ClientExecutor(Executor):
    """The executor that adopts the versions sent to clients and trains the clients.

    It uses one thread, unless the trainer is compiled: calls of stacks are short, and two threads wait for each other's
    GIL; on two cores they made 0.8 of the passes of one thread.

    Parameters
    ----------
    trainer : ClientTrainer
    scoring : Executor
        Scores whole models, and is the kind of executor that attacks use. Its context holds no nodes' models.
    """

    def __init__(self, trainer: ClientTrainer, scoring: Executor) -> None:
        super().__init__(trainer.work, scoring.device)
        self.name = trainer.name  # type: ignore[misc]
        self._trainer, self._scoring = trainer, scoring
        self._bytes: dict[tuple[int, int], int] = {}

    @property
    def parallel(self) -> bool:  # type: ignore[override]
        """Whether the trainer may run in several threads."""
        return self._trainer.parallel

    @property
    def divides(self) -> bool:  # type: ignore[override]
        """Whether the trainer uses several threads itself."""
        return self._trainer.divides

    @property
    def kind(self) -> type[Executor]:
        """The class of the executor that scores."""
        return self._scoring.kind

    @property
    def store(self) -> UpdateStore:
        """The store of versions and updates."""
        return self._trainer.store

    def warm_up(self) -> None:
        """Compile the training and the scoring kernels."""
        self._trainer.warm_up()
        self._scoring.warm_up_scores()

    @property
    def update_bytes(self) -> dict[tuple[int, int], int]:
        """Size of each trained update, by (node, number of the update)."""
        return self._bytes

    def run(self, program: Program, tasks: I64) -> None:
        """Run `tasks` of one wave: first all adopt the versions that they were sent, then local updates run."""
        sent = self._adopt(program, tasks[program.push[tasks] < 0] if len(program.push) else tasks)
        trains = tasks[program.update[tasks] >= 0]
        columns = (part[trains].tolist() for part in (program.node, program.update, program.target))
        lessons = [
            TrainingTask(node, update, target, sent[task])
            for task, node, update, target in zip(trains.tolist(), *columns, strict=True)
        ]
        self.store.take_rows((lesson.node, lesson.sent) for lesson in lessons)
        recommender, tells = self.work.recommender, self.store.user_upload_width > 0
        if tells and recommender is not None and recommender.uploads_before_training:
            lessons = self._trainer.telling(lessons)
        for lesson, trained in self._trainer.train(lessons):
            update = self._with_told(lesson, trained) if tells else trained
            self.store.keep(lesson.target, update)
            self._bytes[lesson.node, lesson.update] = update.size_bytes

    def _with_told(self, lesson: TrainingTask, update: Update) -> Update:
        """Return an update with the user upload of its client."""
        told = lesson.told if lesson.told is not None else self._trainer.telling([lesson])[0].told
        return replace(update, user=told)

    def score(self, query: ScoreQuery) -> F32:
        """Return predicted scores."""
        return self._scoring.score(query)

    def score_all(
        self,
        models: ScoringView,
        contexts: Mapping[str, I32],
        threads: ThreadPool,
        histories: Mapping[str, I32] | None = None,
    ) -> F32:
        """Return the scores of all items."""
        return self._scoring.score_all(models, contexts, threads, histories)

    def _adopt(self, program: Program, tasks: I64) -> dict[int, int]:
        """Set each task's target to the version that it adopts last, or its source; return the handle of each."""
        sent = dict(zip(tasks.tolist(), program.adopted(tasks).tolist(), strict=True))
        targets, trained = program.target[tasks].tolist(), (program.update[tasks] >= 0).tolist()
        versions = {handle: self.store.version(handle) for handle in set(sent.values())}
        for from_, target, trains in zip(sent.values(), targets, trained, strict=True):
            self.store.keep(target, versions[from_])
            if not trains and (extras := self.store.extras(from_)):  # another task may train it
                self.store.attach(target, extras)
        return sent
