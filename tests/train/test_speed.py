"""How fast a run says that it is, by a clock that the test turns."""

import pytest
from support import needs_tensorflow

from keras_vit.train.log import speed

pytestmark = needs_tensorflow


def test_a_stages_speed_is_its_own_and_compiling_counts_nowhere(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(speed.time, "perf_counter", lambda: now[0])
    found = speed.Speed()

    def call(seconds, images):
        found.timed(lambda: now.__setitem__(0, now[0] + seconds), images=images)

    call(100.0, 8)
    assert found.of_run == found.of_stage == 0.0 and found.images_in(5) == 0
    call(1.0, 8)
    call(3.0, 8)
    assert found.of_run == found.of_stage == 4.0 and found.images_in(5) == 20
    found.restart()
    call(100.0, 8)
    assert found.of_stage == 0.0 and found.of_run == 4.0
    call(4.0, 4)
    assert found.of_stage == 1.0 and found.of_run == pytest.approx(2.5)
