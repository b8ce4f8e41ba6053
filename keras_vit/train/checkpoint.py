"""Checkpoints of a training run, complete or absent."""

import shutil
import tempfile
import warnings
from pathlib import Path

import tensorflow as tf


class Checkpoints:
    """The newest `keep` checkpoints in a folder, one sub-folder per step.

    `state` are lists of `tf.Variable` by name. TensorFlow makes all workers save; only the chief's files stay.
    """

    def __init__(self, folder: Path, keep: int, state: dict[str, list], chief: bool = True):
        self.folder, self.keep, self.chief = Path(folder), keep, chief
        self._checkpoint = tf.train.Checkpoint(**state)

    def steps(self) -> list[int]:
        """Return the steps of the checkpoints on disk, in order."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdigit())

    def save(self, step: int) -> None:
        """Write a checkpoint and remove the oldest ones; raise an OSError if it cannot be written."""
        if not self.chief:
            with tempfile.TemporaryDirectory() as folder:
                self._checkpoint.write(f"{folder}/state")
            return
        try:
            self._save(step)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(self.folder / f"{step:08d}.partial", ignore_errors=True)
            reason = str(error).strip().splitlines()[0]
            left = self.steps()
            older = f"the one of step {left[-1]} is intact" if left else "there is none before it"
            raise OSError(
                f"checkpoint of step {step} expected to be written to {str(self.folder)!r}, which failed ({reason}); "
                f"{older}."
            ) from error

    def _save(self, step):
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.folder / f"{step:08d}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        self._checkpoint.write(str(partial / "state"))
        final = self.folder / f"{step:08d}"
        before = self.folder / f"{step:08d}.before"
        if final.exists():  # a folder cannot replace another, so the older one is renamed first
            final.rename(before)
        partial.rename(final)
        shutil.rmtree(before, ignore_errors=True)
        for old in self.steps()[: -self.keep]:
            shutil.rmtree(self.folder / f"{old:08d}", ignore_errors=True)

    def tidy(self) -> None:
        """Remove what an interrupted `save` has left. Only the chief calls it, while no other worker reads."""
        for partial in self.folder.glob("*.partial"):
            shutil.rmtree(partial, ignore_errors=True)
        for before in self.folder.glob("*.before"):
            if before.with_suffix("").exists():
                shutil.rmtree(before, ignore_errors=True)
            else:  # stopped between the two renames
                before.rename(before.with_suffix(""))

    def restore(self) -> int | None:
        """Restore the newest readable checkpoint and return its step; None without checkpoints.

        Warn of every newer checkpoint that cannot be read. If none can be read, raise a ValueError.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                self._checkpoint.read(str(self.folder / f"{step:08d}" / "state")).assert_consumed()
                return step
            except Exception as error:  # TensorFlow raises many kinds, even IndexError
                reason = str(error).strip().splitlines()[0][:200]
                warnings.warn(
                    f"checkpoint of step {step} in {str(self.folder)!r} cannot be read ({reason}); "
                    "trying the one before.",
                    stacklevel=2,
                )
        if steps:
            raise ValueError(
                f"checkpoints expected a readable state in {str(self.folder)!r}, found none in the checkpoints "
                f"of steps {steps}; remove the folder to start again."
            )
        return None

    def set_aside(self, step: int) -> None:
        """Rename unreadable checkpoints of later steps to `STEP.broken`. Only the chief calls it."""
        for later in self.steps():
            if later > step:
                aside = self.folder / f"{later:08d}.broken"
                shutil.rmtree(aside, ignore_errors=True)
                (self.folder / f"{later:08d}").rename(aside)
