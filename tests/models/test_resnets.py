"""Hybrids and BiT: their counts, their nodes, their sizes."""

import inspect
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.cost.weightless import build_weightless
from keras_vit.models.variants import BIT_VARIANTS, VARIANTS, find_variant
from keras_vit.preprocessing.inputs import resize

HYBRIDS = [row for row in VARIANTS if row.stem]
TINY_BIT = keras_vit.BiTVariant("tiny", units=(1, 2, 1, 1), width_factor=0.5)
TINY_HYBRID = keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=1, stem=keras_vit.ResNetStem((1, 1), 0.5))


@pytest.mark.parametrize("name", ["R_ViT_Ti16", "R26_ViT_S32"])
def test_hybrid_counts_at_384_pixels_are_the_official_ones(name):
    published = {"R_ViT_Ti16": 6_355_944, "R26_ViT_S32": 36_468_392}
    assert build_weightless(find_variant(name)[0], (384, 384)).count_params() == published[name]


def test_the_paper_and_the_releases_names_find_the_rows():
    for name, row in {
        "R50+ViT-B/16": "R50_ViT_B16",
        "R50+ViT-B_16": "R50_ViT_B16",
        "R50_L_32": "R50_ViT_L32",
        "R_Ti_16": "R_ViT_Ti16",
        "B_16": "ViT_B16",
        "vit_small_r26_s32_384": "R26_ViT_S32",
        "BiT-R50x1": "BiT_R50x1",
        "resnetv2_152x4_bit": "BiT_R152x4",
    }.items():
        assert find_variant(name)[0].name == row
    assert find_variant("vit_small_r26_s32_384")[0].image_size == 384


@pytest.mark.parametrize("row", HYBRIDS, ids=lambda row: row.name)
def test_total_downsampling_is_the_number_behind_the_slash(row):
    # The released R+Ti/16 has 4 x 8, and MobileCLIP-B has no slash.
    others = {"R_ViT_Ti16": 32, "MobileCLIP_B16": 16}
    expected = others.get(row.name) or int(row.paper_name.split("/")[1])
    assert row.stem.stride * row.patch_size == expected


def test_bit_builders_have_the_signature_of_keras_applications():
    expected = ["include_top", "weights", "input_tensor", "input_shape", "pooling", "classes"]
    for row in BIT_VARIANTS:
        builder = getattr(keras_vit, row.name)
        parameters = inspect.signature(builder).parameters.values()
        named = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        assert named == [*expected, "classifier_activation", "name"]
        assert row.paper_name in builder.__doc__
    assert {*keras_vit.list_models("BiT*"), *keras_vit.list_models("ResNetV2*"), "AxialResNet_R50x1"} == {
        row.name for row in BIT_VARIANTS
    }


def test_feature_maps_by_stage():
    bit = keras_vit.build(TINY_BIT, input_shape=(64, 96, 3), include_top=False, pooling=None)
    maps = keras_vit.feature_model(bit, [f"stage{i}" for i in (1, 2, 3, 4)])
    assert [m.shape[1:] for m in maps.outputs] == [(16, 24, 128), (8, 12, 256), (4, 6, 512), (2, 3, 1024)]
    hybrid = keras_vit.build(TINY_HYBRID, input_shape=(32, 48, 3), classes=2)
    maps = keras_vit.feature_model(hybrid, ["stem_stage1", "stem_stage2"])
    assert [m.shape[1:] for m in maps.outputs] == [(8, 12, 128), (4, 6, 256)]


@pytest.mark.parametrize("row", [TINY_BIT, TINY_HYBRID], ids=["bit", "hybrid"])
@pytest.mark.parametrize("shape", [(40, 24, 3), (33, 47, 1), (32, 32, 6)])
def test_any_size_and_channel_count(row, shape):
    model = randomise(keras_vit.build(row, input_shape=shape, classes=3))
    images = np.random.default_rng(0).uniform(-1, 1, (2, *shape)).astype("float32")
    one = model(images)
    assert one.shape == (2, 3) and np.isfinite(keras.ops.convert_to_numpy(one)).all()
    free = keras_vit.build(row, input_shape=(None, None, shape[2]), classes=3)
    if row is TINY_BIT:
        free.set_weights(model.get_weights())
        assert max_difference(free(images), one) < 1e-6
    assert free(images).shape == (2, 3)


def test_a_mean_beside_a_class_token_leaves_it_out():
    plain = keras_vit.Variant("tiny", 16, 1, 24, 2, patch_size=4, image_size=8)
    model = randomise(keras_vit.build(plain, pooling="gap", class_token=True, include_top=False))
    tokens = keras_vit.feature_model(model, ["encoder_norm"])
    images = np.random.default_rng(0).uniform(-1, 1, (2, 8, 8, 3)).astype("float32")
    assert tokens(images).shape == (2, 5, 16)
    assert max_difference(model(images), keras.ops.mean(tokens(images)[:, 1:], axis=1)) < 1e-6


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pooling": "token"}, r"pooling expected one of \('gap', None\), received 'token'"),
        ({"pooling": None}, "pooling expected 'gap' under a classifier, received None"),
        ({"classes": 0}, "classes expected a positive int, received 0"),
    ],
)
def test_mistakes_with_bit_get_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.build(TINY_BIT, **options)


def test_images_are_channels_last_whatever_keras_is_told():
    model = randomise(keras_vit.build(TINY_BIT))
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        other = keras_vit.build(TINY_BIT)
        resized = resize(np.zeros((4, 6, 3)), (2, 3))
    finally:
        keras.config.set_image_data_format(before)
    assert other.output_shape == model.output_shape and other.count_params() == model.count_params()
    assert resized.shape == (2, 3, 3)


def test_mistakes_with_tokens_get_a_sentence():
    plain = replace(TINY_HYBRID, stem=None, patch_size=4)
    with pytest.raises(ValueError, match="class_token expected True or None with pooling='token', received False"):
        keras_vit.build(plain, class_token=False)
    with pytest.raises(ValueError, match="norm_after_pooling expected False with pooling=None or"):
        keras_vit.build(plain, include_top=False, pooling=None, norm_after_pooling=True)
