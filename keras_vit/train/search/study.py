"""The settings that a sweep tries, by Optuna. Its journal lies in the workdir, so that a stopped sweep goes on."""

import warnings
from collections.abc import Iterator
from pathlib import Path

from keras_vit.train.search.axes import Axis, combinations, texts_of

JOURNAL = "optuna.journal"
REPEATS = 100  # settings in a row that were tried before, after which the search ends


class Study:
    """Proposes settings and stores their scores.

    Args:
        folder: folder of the sweep.
        axes: the fields and their values.
        search: `grid` (all combinations), `random` or `tpe` (arXiv 2304.11127).
        seed: seed of the random choices.

    Raises:
        ImportError: Optuna is not installed.
    """

    def __init__(self, folder: Path, axes: list[Axis], search: str, seed: int):
        try:
            import optuna
        except ImportError:
            raise ImportError("sweep expected Optuna, found none: pip install 'keras-vit-zoo[search]'.") from None
        self._optuna, self._axes, self._search, self._seed = optuna, axes, search, seed
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        backend = optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL))
        self._study = optuna.create_study(
            storage=optuna.storages.JournalStorage(backend), study_name="sweep", direction="maximize",
            load_if_exists=True, sampler=self._sampler(0),
        )  # fmt: skip
        if search == "grid":
            for setting in combinations(axes):
                self._study.enqueue_trial(setting, skip_if_exists=True)

    def _sampler(self, trials: int):
        """Return the sampler of a trial. Its seed depends on the number of earlier trials, so that a resumed sweep
        proposes the same settings.
        """
        samplers = self._optuna.samplers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            if self._search == "tpe":
                return samplers.TPESampler(seed=self._seed + trials)
            return samplers.RandomSampler(seed=self._seed + trials)

    def _distributions(self) -> dict:
        kinds = self._optuna.distributions
        return {
            axis.field: kinds.CategoricalDistribution(axis.values)
            if axis.values
            else kinds.IntDistribution(int(axis.low), int(axis.high))
            if axis.whole
            else kinds.FloatDistribution(axis.low, axis.high, log=axis.is_log)
            for axis in self._axes
        }

    def settings(self, trial) -> dict[str, str]:
        """Return field -> text of a trial of Optuna."""
        return texts_of(self._axes, trial.params)

    def open(self, count: int | None) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield (number, setting) of the settings that are left: interrupted ones first.

        Each must be told its score before the next one. `count` is the number of different settings; None for all of
        the grid.
        """
        states = self._optuna.trial.TrialState
        for trial in self._study.get_trials(states=(states.RUNNING,)):
            yield trial.number, self.settings(trial)
        repeats = 0
        while repeats < REPEATS:
            trials = self._study.get_trials(deepcopy=False)
            waiting = any(trial.state == states.WAITING for trial in trials)
            known = {tuple(self.settings(trial).items()): trial for trial in trials[::-1] if trial.state.is_finished()}
            if self._search == "grid" and not waiting or count is not None and len(known) >= count:
                return
            self._study.sampler = self._sampler(len(trials))
            trial = self._study.ask(self._distributions())
            setting = self.settings(trial)
            earlier = known.get(tuple(setting.items()))
            if earlier is None:
                repeats = 0
                yield trial.number, setting
            else:
                repeats += 1
                self.tell(trial.number, earlier.value if earlier.state == states.COMPLETE else None)

    def tell(self, number: int, score: float | None) -> None:
        """Store the score of a trial; None for a training that diverged."""
        states = self._optuna.trial.TrialState
        if score is None:
            self._study.tell(number, state=states.FAIL)
        else:
            self._study.tell(number, score)
