"""Every golden, from nothing but its file and through a builder: the numbers of the code that wrote it."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from support import GOLDENS, MANIFEST, golden, max_difference

import keras_vit
from keras_vit.weights.resize import resize_grid


@dataclass(frozen=True)
class Golden:
    """A file of weights, its tolerance, and what its shapes cannot say."""

    file: str
    tolerance: float  # tests/goldens/README.md
    needed: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)  # of the same model through build()
    variant: dict = field(default_factory=dict)

    @property
    def name(self):
        return self.file.split(".")[0].split("_")[0]


def stem(units, width_factor=1.0, **epsilons):
    return keras_vit.ResNetStem(tuple(units), width_factor, **epsilons)


TIMM = {"activation": "gelu"}
CASES = (
    Golden("g1.weights.npz", 2e-5),
    Golden("g2.weights.npz", 2e-5, options={"representation_size": 40}),
    Golden("g3.weights.npz", 2e-5, options={"pooling": "gap"}),
    Golden("g3_linen.weights.npz", 2e-5, options={"pooling": "gap"}),
    Golden("g4.weights.npz", 3e-5, variant={"stem": stem((2, 1))}),
    Golden("g5.weights.npz", 3e-5, variant={"stem": stem(())}),
    Golden("g5_linen.weights.npz", 3e-5, variant={"stem": stem(())}),
    Golden("g5b.weights.npz", 3e-5, {"input_shape": (50, 50, 3)}, variant={"stem": stem((1,), 0.5)}),
    Golden("g6.weights.npz", 1e-4),
    Golden("h1.weights.safetensors", 2e-5, options={"activation": "gelu", "layer_norm_epsilon": 1e-12}),
    Golden("t1.weights.safetensors", 2e-5, {"num_heads": 3}, options=TIMM),
    Golden(
        "t1b.weights.safetensors",
        2e-5,
        {"num_heads": 4, "input_shape": (32, 48, 3)},
        {**TIMM, "pooling": "gap", "norm_after_pooling": True},
    ),
    Golden(
        "t2.weights.safetensors",
        1e-4,
        {"num_heads": 2},
        TIMM,
        {"stem": stem((1, 1), group_norm_epsilon=1e-5, weight_epsilon=1e-8, weight_epsilon_on="variance")},
    ),
)
every_golden = pytest.mark.parametrize("case", CASES, ids=lambda case: case.file.split(".")[0])


def built(case, **options):
    """The golden's model through `build`, its sizes from the manifest."""
    row = MANIFEST[case.name]
    images = golden(case.name)["images"]
    common = {"input_shape": images.shape[1:], "classes": row["num_classes"], "classifier_activation": None}
    if "depths" in row:
        variant = keras_vit.BiTVariant("g6", tuple(row["depths"]), row["width_factor"])
    else:
        mlp_dim = row.get("mlp_dim") or int(row["hidden"] * row["mlp_ratio"])
        variant = keras_vit.Variant(
            case.name, row["hidden"], row["layers"], mlp_dim, row["heads"], tuple(row["patch"]), **case.variant
        )
    return keras_vit.build(variant, **{**common, **case.options, **options})


@every_golden
def test_from_pretrained_needs_nothing_but_the_file(case):
    expected = golden(case.name)
    model = keras_vit.from_pretrained(GOLDENS / case.file, **case.needed)
    assert model.count_params() == MANIFEST[case.name]["params"]
    assert max_difference(model(expected["images"]), expected["logits"]) < case.tolerance
    assert max_difference(model(expected["images"]), expected["logits_f64"]) < case.tolerance


@every_golden
def test_build_and_load_give_the_same(case):
    expected = golden(case.name)
    model = built(case)
    report = keras_vit.load_weights(model, GOLDENS / case.file)
    assert not report.missing and not report.left_over and not report.conversions
    assert all(note.startswith("assumed, ") for note in report.notes)
    assert bool(report.notes) == case.file.startswith(("t", "h"))  # official files leave nothing open
    assert max_difference(model(expected["images"]), expected["logits"]) < case.tolerance
    headless = built(case, include_top=False)
    assert keras_vit.load_weights(headless, GOLDENS / case.file).unused_top
    assert max_difference(headless(expected["images"]), expected["pre_logits"]) < case.tolerance


@every_golden
def test_a_builder_given_the_file_follows_its_origin(case):
    expected = golden(case.name)
    said = {name: value for name, value in case.options.items() if name not in ("activation", "layer_norm_epsilon")}
    plain = Golden(case.file, case.tolerance, options=said, variant=case.variant)
    if case.name == "t2":
        plain = Golden(case.file, case.tolerance, options=said, variant={"stem": stem((1, 1))})
    model = built(plain, weights=str(GOLDENS / case.file))
    assert max_difference(model(expected["images"]), expected["logits"]) < case.tolerance


def test_tokens_and_maps_inside_equal_the_references():
    for name in ("g4", "g5", "g5b"):
        case = next(case for case in CASES if case.name == name)
        model = keras_vit.from_pretrained(GOLDENS / case.file, **case.needed)
        encoded = keras_vit.feature_model(model, ["encoder_norm"])(golden(name)["images"])
        assert max_difference(encoded, golden(name)["encoded"]) < case.tolerance
    bit = keras_vit.from_pretrained(GOLDENS / "g6.weights.npz", include_top=False, pooling=None)
    assert max_difference(bit(golden("g6")["images"]), golden("g6")["pre_logits_2d"]) < 1e-4
    assert max_difference(golden("g6")["logits_neginf_pool"], golden("g6")["logits"]) > 1e-2  # what zeros decide


def test_attention_weights_equal_transformers():
    model = keras_vit.from_pretrained(GOLDENS / "h1.weights.safetensors")
    expected = golden("h1")["attentions"]  # (L, B, h, N, N)
    for i, attention in enumerate(expected):
        before = "embedding_dropout" if i == 0 else f"encoder_block_{i - 1:02d}"
        tokens = keras_vit.feature_model(model, [before])(golden("h1")["images"])
        assert max_difference(model.get_layer(f"encoder_block_{i:02d}").attention_weights(tokens), attention) < 2e-5


METHODS = {"official_zoom": "official", "timm_bicubic_antialias": "timm", "timm_npz_bilinear_noantialias": "timm_npz"}
with np.load(GOLDENS / "p1_posemb.npz") as _file:
    P1 = dict(_file)


@pytest.mark.parametrize("key", [key for key in P1 if key != "pos_embedding"])
def test_position_embeddings_are_resized_as_the_references_do(key):
    kind, _, size = key.rpartition("_")
    size = tuple(int(side) for side in size.split("x"))
    grid = P1["pos_embedding"][0, 1:].reshape(4, 4, -1)
    resized = resize_grid(grid, size, METHODS[kind])
    assert max_difference(resized.reshape(1, -1, 12), P1[key][:, 1:]) < 2e-6
    others = [resize_grid(grid, size, other) for other in METHODS.values() if other != METHODS[kind]]
    assert all(max_difference(resized, other) > 1e-3 for other in others)
