"""The paper's other positions and axial attention, beside their sums written out in NumPy."""

import inspect
from dataclasses import replace

import keras
import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.layers import AxialAttention, AxialBlock, EncoderBlock, MultiHeadSelfAttention, PositionEmbedding2D

ROW = keras_vit.Variant("tiny", width=16, depth=3, mlp_dim=24, num_heads=2, patch_size=4, image_size=12)

RNG = np.random.default_rng(0)
AXIAL_RESNET = keras_vit.BiTVariant("tiny", units=(1, 2), width_factor=0.5, axial=True)


def weights_of(layer):
    return {v.path.split("/", 1)[1]: keras.ops.convert_to_numpy(v) for v in layer.weights}


def softmax(x):
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def attention(x, weights, heads, prefix=""):
    """Query by query, key by key: (N, D) -> (N, D), with an embedding for each offset where there is one."""
    count, width = x.shape
    size = width // heads
    q, k, v = np.split(x @ weights[f"{prefix}qkv/kernel"] + weights[f"{prefix}qkv/bias"], 3, axis=-1)
    offsets = weights.get(f"{prefix}offsets", np.zeros((2 * count - 1, width)))
    out = np.zeros_like(x)
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        logits = np.zeros((count, count))
        for i in range(count):
            for j in range(count):
                logits[i, j] = q[i, own] @ (k[j, own] + offsets[j - i + count - 1, own]) / np.sqrt(size)
        out[:, own] = softmax(logits) @ v[:, own]
    return out @ weights[f"{prefix}out/kernel"] + weights[f"{prefix}out/bias"]


def norm(x, weights, name):
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    return x * weights[f"{name}/gamma"] + weights[f"{name}/beta"]


def block(x, weights, prefix, heads):
    """A pre-LN block with ReLU: (N, D) -> (N, D)."""
    own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    x = x + attention(norm(x, own, "attention_norm"), own, heads, "attention/")
    hidden = np.maximum(norm(x, own, "mlp_norm") @ own["mlp/fc1/kernel"] + own["mlp/fc1/bias"], 0)
    return x + hidden @ own["mlp/fc2/kernel"] + own["mlp/fc2/bias"]


def randomised(layer, *shapes):
    inputs = [keras.Input(shape) for shape in shapes]
    layer(*inputs)
    randomise(layer, seed=4)
    return layer


def test_relative_attention_is_the_query_times_the_offsets_embedding():
    layer = randomised(MultiHeadSelfAttention(2, relative_positions=True), (5, 8))
    x = RNG.standard_normal((3, 5, 8)).astype("float32")
    weights = weights_of(layer)
    assert weights["offsets"].shape == (9, 8)
    assert max_difference(layer(x), np.stack([attention(one, weights, 2) for one in x])) < 1e-5
    assert max_difference(keras.ops.sum(layer.attention_weights(x), axis=-1), np.ones((3, 2, 5))) < 1e-6
    plain = randomised(MultiHeadSelfAttention(2), (5, 8))
    plain.set_weights([value for name, value in weights.items() if name != "offsets"])
    assert max_difference(plain(x), layer(x)) > 1e-3


@pytest.mark.parametrize("relative", [False, True])
def test_an_axial_block_is_a_block_for_every_row_then_one_for_every_column(relative):
    h, w = 3, 4
    layer = AxialBlock(2, 12, activation="relu", relative_positions=relative)
    randomised(layer, (h * w, 8), (h, w, 5))
    grid, weights = RNG.standard_normal((2, h, w, 8)).astype("float32"), weights_of(layer)
    expected = np.stack([[block(row, weights, "row/", 2) for row in one] for one in grid])
    columns = np.swapaxes(expected, 1, 2)
    columns = np.stack([[block(column, weights, "column/", 2) for column in one] for one in columns])
    expected = np.swapaxes(columns, 1, 2).reshape(2, h * w, 8)
    found = layer(grid.reshape(2, h * w, 8), np.zeros((2, h, w, 5), "float32"))
    assert max_difference(found, expected) < 1e-5


@pytest.mark.parametrize("strides", [1, 2])
def test_axial_attention_is_that_of_every_row_then_of_every_column_then_the_mean(strides):
    layer = randomised(AxialAttention(2, strides), (3, 4, 8))
    maps, weights = RNG.standard_normal((2, 3, 4, 8)).astype("float32"), weights_of(layer)
    rows = np.stack([[attention(row, weights, 2, "row/") for row in one] for one in maps])
    columns = [[attention(column, weights, 2, "column/") for column in one] for one in np.swapaxes(rows, 1, 2)]
    expected = np.swapaxes(np.stack(columns), 1, 2)
    if strides == 2:  # 3 x 4 -> 2 x 2: the last row's cells have no partner
        halves = [expected[:, :2], expected[:, 2:]]
        expected = np.stack([half.reshape(2, -1, 2, 2, 8).mean(axis=(1, 3)) for half in halves], axis=1)
    assert max_difference(layer(maps), expected) < 1e-5


def test_an_axial_resnet_has_attention_in_place_of_the_3_by_3_convolutions():
    model = keras_vit.build(AXIAL_RESNET, input_shape=(32, 48, 3), classes=5)
    assert not [variable.path for variable in model.weights if tuple(variable.shape[:2]) == (3, 3)]
    sides = {v.path: v.shape[0] for v in model.weights if v.path.endswith("offsets")}
    assert sides["stage2_unit01/axial/row/offsets"] == 2 * 12 - 1  # in front of the stride
    assert sides["stage2_unit02/axial/column/offsets"] == 2 * 4 - 1
    with pytest.raises(ValueError, match="input_shape expected a known size with axial=True, .* received a free one"):
        keras_vit.build(AXIAL_RESNET, input_shape=(None, 48, 3))


def test_an_axial_blocks_stochastic_depth_drops_an_images_rows_together():
    layer = randomised(AxialBlock(2, 12, drop_path_rate=0.5), (12, 8), (3, 4, 5))
    x = np.tile(RNG.standard_normal((1, 1, 4, 8)), (64, 3, 1, 1)).astype("float32")  # every row alike
    rows = keras.ops.convert_to_numpy(layer.row(x.reshape(192, 4, 8), lines=3, training=True)).reshape(64, 3, 4, 8)
    assert np.abs(rows - rows[:, :1]).max() < 1e-5
    assert len(np.unique(rows[:, 0].sum((-1, -2)).round(3))) == 4  # each of the two branches is kept or not


@pytest.mark.parametrize("prefix", [0, 1])
def test_two_dimensional_positions_stand_side_by_side(prefix):
    layer = randomised(PositionEmbedding2D((2, 3), prefix), (prefix + 6, 8))
    weights = {name: keras.ops.convert_to_numpy(getattr(layer, name)) for name in ("across", "down")}
    x = RNG.standard_normal((2, prefix + 6, 8)).astype("float32")
    expected = x.copy()
    for row in range(2):
        for column in range(3):
            both = np.concatenate([weights["across"][column], weights["down"][row]])
            expected[:, prefix + 3 * row + column] += both
    if prefix:
        expected[:, 0] += keras.ops.convert_to_numpy(layer.prefix)[0]
    assert max_difference(layer(x), expected) < 1e-6


def build(positions="learned", at="stem", axial=False, **options):
    row = replace(ROW, positions=positions, positions_at=at, axial=axial)
    return keras_vit.build(row, **{"classes": 3, "classifier_activation": None, **options})


@pytest.mark.parametrize(
    ("positions", "at", "more"),
    [
        ("1d", "stem", 0),
        ("none", "stem", -160),
        ("1d", "layers", 2 * 160),
        ("1d", "shared", 0),
        ("2d", "stem", (3 + 3) * 8 + 16 - 160),
        ("2d", "layers", 3 * ((3 + 3) * 8 + 16) - 160),
        ("2d", "shared", (3 + 3) * 8 + 16 - 160),
        ("relative", "stem", 3 * 19 * 16 - 160),
    ],
)
def test_a_row_counts_the_weights_of_its_positions(positions, at, more):
    model = build(positions, at)
    assert model.count_params() == build().count_params() + more
    assert len([layer for layer in model.layers if layer.name.startswith("position_embedding")]) == (
        3 if at == "layers" else 1
    )


def test_an_axial_row_has_two_blocks_for_each():
    parts = {layer.name: layer.count_params() for layer in build(axial=True).layers}
    assert parts["encoder_block_00"] == 2 * build().get_layer("encoder_block_00").count_params()
    assert "class_token" not in parts
    assert build(axial=True, include_top=False, pooling=None).output_shape == (None, 9, 16)
    signature = inspect.signature(keras_vit.AxialViT_B16)
    assert signature.parameters["pooling"].default == "gap"


@pytest.mark.parametrize("positions", ["1d", "2d", "sincos2d"])
def test_shared_positions_join_in_front_of_every_block(positions):
    """Written out by hand from the model's own layers."""
    model = randomise(build(positions, "shared"))
    layers = {layer.name: layer for layer in model.layers}
    images = RNG.uniform(-1, 1, (2, 12, 12, 3)).astype("float32")
    x = layers["class_token"](layers["tokens"](layers["embedding"](images)))
    for i in range(3):
        x = layers[f"encoder_block_{i:02d}"](layers["position_embedding"](x))
    expected = layers["head"](layers["pooling"](layers["encoder_norm"](x)))
    assert max_difference(model(images), expected) < 1e-5
    at_stem = build(positions)
    at_stem.set_weights(model.get_weights())
    assert max_difference(model(images), at_stem(images)) > 1e-3
    first = keras_vit.feature_model(model, ["position_embedding"])(images)
    assert max_difference(first, layers["position_embedding"](layers["class_token"](
        layers["tokens"](layers["embedding"](images))))) < 1e-6  # fmt: skip


def test_without_positions_the_patches_order_does_not_matter():
    images = RNG.uniform(-1, 1, (1, 12, 12, 3)).astype("float32")
    turned = np.concatenate([images[:, 4:], images[:, :4]], axis=1)  # rows of patches moved up by one
    for positions, same in (("none", True), ("1d", False), ("2d", False), ("relative", False)):
        model = randomise(build(positions))
        assert (max_difference(model(images), model(turned)) < 1e-5) == same, positions


@pytest.mark.parametrize(("positions", "at"), [("1d", "layers"), ("1d", "shared"), ("2d", "layers"), ("2d", "shared")])
def test_weights_go_into_another_image_size_as_the_graph_resizes_them(positions, at, tmp_path):
    source = randomise(build(positions, at))
    source.save(tmp_path / "source.keras")
    images = RNG.uniform(-1, 1, (2, 20, 16, 3)).astype("float32")
    larger = build(positions, at, input_shape=(20, 16, 3))
    report = keras_vit.load_weights(larger, str(tmp_path / "source.keras"))
    assert report.conversions and larger.get_layer("position_embedding").conversion
    free = build(positions, at, input_shape=(None, None, 3))
    free.set_weights(source.get_weights())
    assert max_difference(larger(images), free(images)) < 2e-5


def test_relative_positions_refuse_another_image_size(tmp_path):
    randomise(build("relative")).save(tmp_path / "source.keras")
    with pytest.raises(ValueError, match=r"of another shape: encoder_block_00/attention/offsets \(expected \(41, 16\)"):
        keras_vit.load_weights(build("relative", input_shape=(20, 16, 3)), str(tmp_path / "source.keras"))
    with pytest.raises(ValueError, match="input_shape expected a known size with positions='relative'"):
        build("relative", input_shape=(None, None, 3))
    with pytest.raises(ValueError, match="expected the 10 tokens that its relative positions are stored for, rec.* 5"):
        build("relative").get_layer("encoder_block_00")(np.zeros((1, 5, 16), "float32"))
    with pytest.raises(ValueError, match="attention expected a known number of tokens with relative positions"):
        EncoderBlock(2, 8, relative_positions=True, name="block")(keras.Input((None, 16)))


@pytest.mark.parametrize(
    ("positions", "at", "axial"),
    [("none", "stem", False), ("2d", "layers", False), ("1d", "shared", False), ("relative", "stem", False),
     ("2d", "stem", True)],
)  # fmt: skip
def test_a_file_of_ours_says_what_it_is(positions, at, axial, tmp_path):
    model = randomise(build(positions, at, axial))
    model.save(tmp_path / "model.keras")
    images = RNG.uniform(-1, 1, (2, 12, 12, 3)).astype("float32")
    again = keras_vit.from_pretrained(str(tmp_path / "model.keras"), name="again")  # an option: it is built anew
    assert again.name == "again" and max_difference(again(images), model(images)) == 0
    if positions == "none" or at == "shared":
        word = "learned positions" if positions == "none" else "positions only after the stem"
        with pytest.raises(ValueError, match=f"layout 'npz' expected {word}, received"):
            keras_vit.save_weights(model, tmp_path / "model.npz")
    else:
        with pytest.raises(ValueError, match="layout 'npz' (has no place for|expected learned positions)"):
            keras_vit.save_weights(model, tmp_path / "model.npz")


def test_a_file_of_an_axial_resnet_says_what_it_is(tmp_path):
    options = {"input_shape": (32, 48, 3), "classes": 5, "classifier_activation": None}
    model = randomise(keras_vit.build(AXIAL_RESNET, **options))
    model.save(tmp_path / "model.keras")
    images = RNG.uniform(-1, 1, (2, 32, 48, 3)).astype("float32")
    again = keras_vit.from_pretrained(str(tmp_path / "model.keras"), name="again")
    assert again.name == "again" and max_difference(again(images), model(images)) == 0
    with pytest.raises(ValueError, match="no place for .*axial/row/qkv/kernel"):
        keras_vit.save_weights(model, tmp_path / "model.npz", "npz")


@pytest.mark.parametrize(
    ("changes", "options", "sentence"),
    [
        ({"positions": "3d"}, {}, r"positions expected one of \('learned', '1d', .*\), received '3d'"),
        ({"positions_at": "head"}, {}, r"positions_at expected one of \('stem', 'layers', 'shared'\), received 'head'"),
        ({"positions": "none", "positions_at": "shared"}, {}, "positions_at expected 'stem' with positions='none'"),
        ({"axial": True}, {"pooling": "token"}, "pooling expected 'gap' or 'map' without a class token"),
        ({"axial": True, "mlp_kernel_size": 3}, {}, "mlp_kernel_size expected 0 with axial blocks, received 3"),
        ({"positions": "2d", "width": 9, "num_heads": 3}, {}, "position_embedding expected an even width, received 9"),
    ],
)
def test_mistakes_are_named(changes, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        keras_vit.build(replace(ROW, **changes), classes=3, **options)
    with pytest.raises(ValueError, match="expected the 6 tokens of its patches and no class token, received 7"):
        AxialBlock(2, 8)(keras.Input((7, 16)), keras.Input((2, 3, 16)))
