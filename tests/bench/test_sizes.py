"""What the questions of `keras-vit bench` take: operations, and whose processes may be alive at once."""

import pytest
from bench.asked import FAKE, question

from benchmarks.harness import conduct, matmul, sizes
from benchmarks.harness.plan import OURS
from keras_vit import cost, create_model


def test_operations_are_those_that_the_analysis_counts():
    forward, train = (
        sizes.size_of(question(models=("ViT_Ti16",), tasks=(task,))).flops for task in ("forward", "train")
    )
    assert forward == cost.count(create_model("ViT_Ti16")).flops and train == 3 * forward
    assert matmul.flops("cpu") == 2 * matmul.SIZES["cpu"] ** 3


def test_processes_live_together_as_far_as_they_fit():
    needs = {"ours": 4, "a": 4, "b": 4, "c": 20, "d": 4}
    assert sizes.groups(needs, None) == [["ours", "a", "b", "c", "d"]]
    found = sizes.groups(needs, 12)
    assert all(sum(needs[one] for one in group) <= 12 or len(group) == 1 for group in found)
    assert sorted(name for group in found for name in group if name != "ours") == ["a", "b", "c", "d"]
    assert all(group[0] == "ours" for group in found if group != ["c"]) and ["c"] in found
    assert sizes.groups({"ours": 4, "c": 20}, 12) == [["ours"], ["c"]]


def test_a_librarys_memory_is_what_its_processes_were_measured_to_hold():
    peers = ("keras-hub", "timm", "timm-compiled", f"{FAKE}:good")
    needs = {}
    for model, measured in (("ViT_L16", {"keras_vit": 10.45, "keras-hub": 12.90, "timm": 7.26, "timm-compiled": 6.88}),
                            ("BiT_R50x1", {"keras_vit": 2.56, "timm": 1.72, "timm-compiled": 1.70})):  # fmt: skip
        asked = question(models=(model,), peers=peers)
        needs[model] = sizes.size_of(asked).bytes
        for contestant, held in needs[model].items():
            if contestant.library in measured:
                assert 1 < held / 1e9 / measured[contestant.library] < 1.6, contestant.name
    ours, hub, timm, compiled, own = needs["ViT_L16"].values()
    assert ours + timm < 0.9 * 24 * 2**30 < ours + hub and timm < compiled and own == hub
    jax, _ = sizes.size_of(question(models=("ViT_L16",), backends=("jax",))).bytes.values()
    assert jax == hub
    forward = question(tasks=("forward",), dtypes=("mixed_bfloat16",), batches=(8,), peers=("keras_vit-frozen",))
    ours, frozen = sizes.size_of(forward).bytes.values()
    assert 1 < frozen / 1.7e9 < 1.6 and ours < frozen


@pytest.mark.parametrize(
    ("model", "size", "measured"),
    [
        # benchmarks/results/bench-2026-11-27-154257 (and 2026-11-26-190406), -153321, -153512 (and 2026-11-26-185321:
        # what transformers compiled held when it found no more, on a card that it shared)
        ("ViT_B16", 224, {"timm-compiled": 18.65, "transformers": 20.89, "transformers-compiled": 24.50, OURS: 16.38}),
        ("ViT_B16", 384, {"timm-compiled": 52.02, "transformers": 58.29, OURS: 45.59}),
        ("ViT_L16", 224, {"timm-compiled": 49.79, "transformers": 55.17, "transformers-compiled": 55.36, OURS: 45.55}),
    ],
)
def test_on_an_h200_each_peers_training_is_known_to_fit_beside_ours(model, size, measured):
    gpu = {"device": "gpu", "dtypes": ("mixed_bfloat16",), "batches": (256,), "backends": ("jax",)}
    asked = question(models=(model,), image_sizes=(size,), peers=tuple(measured)[:-1], **gpu)
    needs = sizes.size_of(asked).bytes
    for contestant, held in needs.items():
        assert 1 < held / 1e9 / measured[contestant.library] < 1.6, contestant.name
    ours = asked.contestants[0]
    room = 143_771 * 2**20 - conduct.KEPT_FREE - sizes.BASE
    assert all(group[0] == ours and len(group) > 1 for group in sizes.groups(needs, room))
