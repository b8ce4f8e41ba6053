"""A question of `keras-vit bench` for its tests: a training step, ours beside a peer of our own."""

from dataclasses import replace
from pathlib import Path

from benchmarks.harness import plan, settings

FAKE = Path(__file__).with_name("fake_peer.py")


def question(**changes):
    """The first question that these settings ask."""
    some = settings.Settings(peers=(f"{FAKE}:good",), backends=("tensorflow",), dtypes=("float32",), tasks=("train",))
    return plan.questions((replace(some, **changes),))[0]
