"""Models of padded patch sequences: timm's NaFlexVit and transformers' SigLIP 2 at the images' own aspect ratios."""

import json
import warnings
from dataclasses import replace

import keras
import numpy as np
import parity
import pytest
from parity import quietly, timm_folder
from support import first_quick, max_difference, needs_tensorflow, randomise

import keras_vit
from keras_vit.layers.position_weights import METHODS, position_weights
from keras_vit.weights.resize import resize_grid

GRIDS = ((2, 7), (4, 4), (6, 2), (3, 5))  # height and width in patches of each image
TINY = keras_vit.Variant("tiny", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4, image_size=16, registers=2)
SIGLIP = replace(TINY, registers=0)
FACTORIZED = replace(TINY, positions="factorized")
STORED = (5, 5)  # grid of the files, which no image has
TIMM = {  # architecture -> grid of the file
    "naflexvit_base_patch16_parfac_gap": STORED,
    "naflexvit_base_patch16_siglip": STORED,
    "naflexvit_base_patch16_gap": STORED,
    "naflexvit_base_patch16_par_gap": STORED,
    "naflexvit_base_patch16_map": STORED,
    "naflexvit_base_patch16_radio_v3": (24, 24),
    "naflexvit_huge_patch16_radio_v4": (24, 24),
}


def sequences(pixels, length=16, grids=GRIDS, seed=0):
    """Random patches (B, length, pixels) of images with these grids."""
    rng = np.random.default_rng(seed)
    batch = {
        "patches": np.zeros((len(grids), length, pixels), "float32"),
        "coordinates": np.zeros((len(grids), length, 2), "int32"),
        "valid": np.zeros((len(grids), length), bool),
    }
    for i, (height, width) in enumerate(grids):
        count = height * width
        batch["patches"][i, :count] = rng.uniform(-1, 1, (count, pixels))
        batch["coordinates"][i, :count] = np.stack(np.indices((height, width)), axis=-1).reshape(-1, 2)
        batch["valid"][i, :count] = True
    return batch


def padded(batch, length, patch=99.0, place=55):
    """The same sequences with more padding, which holds values of its own."""
    added = length - batch["valid"].shape[1]
    values = {"patches": patch, "coordinates": place, "valid": False}
    return {
        name: np.pad(array, ((0, 0), (0, added), (0, 0))[: array.ndim], constant_values=values[name])
        for name, array in batch.items()
    }


def tiny(variant=TINY, **options):
    options = {"pooling": "gap", "classes": 5, "classifier_activation": None, **options}
    return randomise(keras_vit.build(variant, **options))


def square_images():
    """Random images (2, 16, 16, 3), and their sequences of patches of 4 pixels."""
    images = np.random.default_rng(0).uniform(-1, 1, (2, 16, 16, 3)).astype("float32")
    patches = images.reshape(2, 4, 4, 4, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(2, 16, 48)
    return images, sequences(48, grids=((4, 4), (4, 4))) | {"patches": patches}


def last_tokens(model):
    names = [layer.name for layer in model.layers if layer.name.startswith(("encoder_block_", "encoder_norm"))]
    return keras_vit.feature_model(model, [max(names)])


@pytest.mark.parametrize("name", first_quick(TIMM))
def test_timms_naflex_computes_alike(name, tmp_path):
    timm = parity.timm()
    import torch

    theirs = timm_folder(timm, name, tmp_path / "model", pos_embed_grid_size=list(TIMM[name]))
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["model_args"].pop("img_size")
    config["pretrained_cfg"]["input_size"] = [3, *(16 * side for side in TIMM[name])]
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    batch = sequences(16 * 16 * 3)
    patches, places, valid = map(torch.from_numpy, batch.values())
    dictionary = {"patches": patches, "patch_coord": places.long(), "patch_valid": valid}
    expected = quietly(lambda: theirs(dictionary).numpy())
    tokens = quietly(lambda: theirs.forward_features(patches, places.long(), valid)["patches"].numpy())
    model = keras_vit.patch_sequence_model(keras_vit.from_pretrained(tmp_path / "model"))
    assert max_difference(model(batch), expected) < 2e-5 * np.abs(expected).max()
    prefix = keras_vit.token_layout(model).prefix_tokens
    compared = np.pad(batch["valid"], ((0, 0), (prefix, 0)), constant_values=True)
    ours = keras.ops.convert_to_numpy(last_tokens(model)(batch))
    assert max_difference(ours[compared], tokens[compared]) < 2e-5 * np.abs(tokens[compared]).max()


@pytest.mark.broad
def test_a_plain_vit_computes_as_in_timms_naflex(tmp_path):
    """timm adds the position of the class token to the token itself."""
    timm = parity.timm()
    import torch

    name = "vit_base_patch16_224"
    theirs = timm_folder(timm, name, tmp_path / "model", img_size=80)
    flexible = quietly(
        lambda: timm.create_model(name, use_naflex=True, embed_dim=96, depth=2, img_size=80, num_classes=5).eval()
    )
    from timm.models.naflexvit import checkpoint_filter_fn

    state = quietly(lambda: checkpoint_filter_fn(dict(theirs.state_dict()), flexible))
    quietly(lambda: flexible.load_state_dict(state))
    batch = sequences(16 * 16 * 3)
    patches, places, valid = map(torch.from_numpy, batch.values())
    expected = quietly(lambda: flexible(patches, patch_coord=places.long(), patch_valid=valid).numpy())
    model = keras_vit.patch_sequence_model(keras_vit.from_pretrained(tmp_path / "model"))
    assert max_difference(model(batch), expected) < 2e-5 * np.abs(expected).max()


def test_siglip_2_of_transformers_computes_alike(tmp_path):
    transformers = parity.transformers()
    import torch

    sizes = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
    torch.manual_seed(0)
    theirs = transformers.Siglip2VisionModel(transformers.Siglip2VisionConfig(**sizes, patch_size=8, num_patches=25))
    for parameter in theirs.parameters():
        parameter.data.normal_(std=0.5)
    quietly(lambda: theirs.eval().save_pretrained(tmp_path / "model"))
    batch = sequences(8 * 8 * 3)
    flat, mask = torch.from_numpy(batch["patches"]), torch.from_numpy(batch["valid"]).long()
    shapes = torch.tensor(GRIDS)
    expected = quietly(lambda: theirs(flat, pixel_attention_mask=mask, spatial_shapes=shapes))
    model = keras_vit.patch_sequence_model(keras_vit.from_pretrained(tmp_path / "model"))
    assert model.get_layer("position_embedding").resize == "siglip2"
    pooled, tokens = expected.pooler_output.numpy(), expected.last_hidden_state.numpy()[batch["valid"]]
    assert max_difference(model(batch), pooled) < 2e-5 * np.abs(pooled).max()
    ours = keras.ops.convert_to_numpy(last_tokens(model)(batch))[batch["valid"]]
    assert max_difference(ours, tokens) < 2e-5 * np.abs(tokens).max()


@pytest.mark.parametrize("method", METHODS)
def test_positions_are_resized_as_a_loaded_file(method):
    stored = np.random.default_rng(0).standard_normal((4, 5, 3)).astype("float32")
    batch = sequences(1, 40, grids=((4, 5), (2, 9), (7, 3), (1, 1), (6, 6)))
    down, across = position_weights(batch["coordinates"], batch["valid"], (4, 5), method)
    ours = keras.ops.convert_to_numpy(keras.ops.einsum("bnh,bnw,hwd->bnd", down, across, stored))
    for positions, valid, places in zip(ours, batch["valid"], batch["coordinates"], strict=True):
        grid = tuple(int(side) for side in places.max(axis=0) + 1)
        assert max_difference(positions[valid].reshape(*grid, 3), resize_grid(stored, grid, method)) < 1e-5


@pytest.mark.parametrize(
    ("variant", "options"),
    first_quick(
        [
            (SIGLIP, {"pooling": "map"}),
            (replace(FACTORIZED, block="parallel", differential_attention=True), {"norm_after_pooling": True}),
            (TINY, {}),
            (
                replace(TINY, depth=2, block="post_norm", heads_per_key=2, qk_norm=True, positions_at="layers"),
                {"pooling": "token"},
            ),
        ],
        2,
    ),
    ids=["map", "factorized", "gap", "token"],
)
def test_padding_changes_no_answer_and_one_whole_grid_is_an_image(variant, options):
    model = tiny(variant, **options)
    sequence_model = keras_vit.patch_sequence_model(model)
    batch = sequences(48)
    answers = sequence_model(batch)
    assert max_difference(sequence_model(padded(batch, 29)), answers) < 1e-5
    shuffled = np.random.default_rng(1).permutation(16)  # coordinates state the places, whatever the order
    assert max_difference(sequence_model({key: x[:, shuffled] for key, x in batch.items()}), answers) < 1e-5
    images, whole = square_images()
    assert max_difference(sequence_model(padded(whole, 20)), model(images)) < 1e-5


def test_the_variables_are_shared():
    model = tiny(replace(TINY, depth=2), drop_path_rate=0.1, attention_dropout_rate=0.1)
    model.get_layer("encoder_block_00").trainable = False
    sequence_model = keras_vit.patch_sequence_model(model)
    assert {id(weight) for weight in sequence_model.weights} == {id(weight) for weight in model.weights}
    paths = [weight.path for weight in sequence_model.trainable_weights]
    assert sorted(paths) == sorted(weight.path for weight in model.trainable_weights)
    kernels = [model.get_layer(f"encoder_block_0{i}").attention.qkv.kernel for i in (0, 1)]
    before = [keras.ops.convert_to_numpy(kernel) for kernel in kernels]
    sequence_model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    sequence_model.train_on_batch(sequences(48), np.ones((4, 5)))
    moved = [max_difference(kernel, old) > 0 for kernel, old in zip(kernels, before, strict=True)]
    assert moved == [False, True]


@pytest.mark.broad
def test_adapters_are_shared():
    model = tiny()
    model.enable_lora(2)
    for variable in model.trainable_variables:
        variable.assign(variable + 0.1)
    images, whole = square_images()
    assert max_difference(keras_vit.patch_sequence_model(model)(padded(whole, 20)), model(images)) < 1e-5


@pytest.mark.broad
def test_a_file_keeps_the_model_and_the_method(tmp_path):
    model = keras_vit.patch_sequence_model(tiny(FACTORIZED), max_patches=16, position_resize="timm_npz_square")
    model.save(tmp_path / "model.keras")
    for load in (keras_vit.load_model, keras_vit.from_pretrained):
        restored = load(tmp_path / "model.keras")
        assert max_difference(restored(sequences(48)), model(sequences(48))) == 0
        assert restored.get_layer("position_embedding").resize == "timm_npz_square"


@pytest.mark.broad
@needs_tensorflow
def test_keras_exports_a_saved_model(tmp_path):
    import tensorflow as tf

    model = keras_vit.patch_sequence_model(tiny())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.export(tmp_path / "model", verbose=False)
    served = tf.saved_model.load(tmp_path / "model")
    for batch in (sequences(48), padded(sequences(48), 23)):
        assert max_difference(served.serve(batch), model(batch)) < 1e-5


@pytest.mark.broad
def test_the_method_is_that_of_the_file_or_the_row(tmp_path):
    def method(model):
        return keras_vit.patch_sequence_model(model).get_layer("position_embedding").resize

    assert method(tiny()) == "timm" and method(tiny(FACTORIZED)) == "timm_npz"
    assert method(tiny(replace(SIGLIP, name="SigLIP2_NaFlex_B16"))) == "siglip2"
    model = tiny(SIGLIP, pooling="token")
    keras_vit.save_weights(model, tmp_path / "model.npz")
    loaded = keras_vit.load_weights(model, tmp_path / "model.npz") and model
    assert method(loaded) == "official"
    loaded.save(tmp_path / "model.keras")
    assert method(keras_vit.from_pretrained(tmp_path / "model.keras", classes=5)) == "official"
    larger = keras_vit.from_pretrained(tmp_path / "model.keras", input_shape=(24, 24, 3))
    with pytest.raises(ValueError, match="resized from .4, 4. to .6, 6. by .*input_shape of the stored grid"):
        method(larger)
    assert keras_vit.patch_sequence_model(larger, position_resize="timm")
    with pytest.raises(ValueError, match="position_resize expected one of .* received 'dinov2'"):
        keras_vit.patch_sequence_model(model, position_resize="dinov2")


def test_wrong_inputs_are_refused():
    model, batch = keras_vit.patch_sequence_model(tiny(SIGLIP, pooling="map")), sequences(48)
    without = {name: batch[name] for name in ("patches", "coordinates")}
    with pytest.raises(ValueError, match='Missing data for input "valid"'):
        model(without)
    for name in ("valid", "coordinates"):
        for length in (1, 15):
            with pytest.raises(ValueError, match="expected coordinates and valid of 16 patches, received those of"):
                model(batch | {name: batch[name][:, :length]})
    with pytest.raises(ValueError, match="expected shape=.None, None, 48., found shape=.4, 16, 47."):
        model(batch | {"patches": batch["patches"][..., :-1]})
    with pytest.raises(ValueError, match="expected shape=.None, 12, 2., found shape=.4, 16, 2."):
        keras_vit.patch_sequence_model(tiny(), max_patches=12)(batch)


@pytest.mark.broad
@needs_tensorflow
def test_a_wrong_length_is_refused_inside_a_graph():
    import tensorflow as tf

    model, batch = keras_vit.patch_sequence_model(tiny(SIGLIP, pooling="map")), sequences(48)
    shapes = {"patches": (None, None, 48), "coordinates": (None, None, 2), "valid": (None, None)}
    specs = {name: tf.TensorSpec(shapes[name], array.dtype) for name, array in batch.items()}
    function = tf.function(model, input_signature=[specs])
    assert max_difference(function(batch), model(batch)) < 1e-5
    for name in ("valid", "coordinates"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            function(batch | {name: batch[name][:, :1]})


@pytest.mark.parametrize(
    ("variant", "options", "received"),
    [
        (replace(TINY, rope=keras_vit.Rope()), {}, "rope in 'encoder_block_00'"),
        (replace(TINY, relative_bias="mlp"), {}, "relative_bias in 'encoder_block_00'"),
        (replace(SIGLIP, window=2), {}, "window in 'encoder_block_00'"),
        (replace(SIGLIP, positions="relative"), {}, r"'position_embedding' \(NoPositions\)"),
        (replace(TINY, mlp_kernel_size=3), {}, "mlp_kernel_size in 'encoder_block_00'"),
        (replace(SIGLIP, positions="2d"), {}, r"'position_embedding' \(PositionEmbedding2D\)"),
        (replace(SIGLIP, axial=True), {}, r"'encoder_block_00' \(AxialBlock\)"),
        (replace(SIGLIP, stem=keras_vit.ConvStem((8, 12), (2, 2)), patch_size=1), {}, "'stem_"),
        (TINY, {"include_preprocessing": True}, "'rescaling'"),
    ],
)
def test_a_model_that_needs_one_grid_is_refused_by_name(variant, options, received):
    with pytest.raises(ValueError, match=f"work on patch sequences of any grid, received 'tiny' with {received}"):
        keras_vit.patch_sequence_model(tiny(variant, **options))


def test_tools_for_images_refuse_the_model(tmp_path):
    from keras_vit import analysis
    from keras_vit.cost import count
    from keras_vit.export import export

    model = keras_vit.patch_sequence_model(tiny())
    assert keras_vit.token_layout(model).grid is None and "tiny" in model._repr_html_()
    assert keras_vit.preprocessing_of(model) == keras_vit.ImageSpec()
    for call in (
        lambda: keras_vit.patch_sequence_model(model),
        lambda: keras_vit.save_weights(model, tmp_path / "model.npz"),
        lambda: export(model, tmp_path),
        lambda: analysis.attention_maps(model, np.zeros((1, 16, 16, 3), "float32")),
        lambda: count(model),
    ):
        with pytest.raises(ValueError, match="model expected one input"):
            call()
    with pytest.raises(ValueError, match="max_patches expected a positive int or None, received 0"):
        keras_vit.patch_sequence_model(tiny(), max_patches=0)
