"""transformers' BiT and the hybrids that it once had: the numbers of its own modules, from their weights."""

import json

import numpy as np
import parity
import pytest
from parity import nchw, quietly
from support import max_difference, randomise

import keras_vit

SIZES = {"embedding_size": 32, "hidden_sizes": [128, 256], "depths": [1, 2]}


def started(module):
    """A module with weights that matter everywhere, ready to answer."""
    import torch

    torch.manual_seed(0)
    for name, parameter in module.named_parameters():
        torch.nn.init.normal_(parameter, mean=float("norm" in name and name.endswith("weight")), std=0.1)
    return module.eval()


def images(*shape):
    return np.random.default_rng(0).uniform(-1, 1, shape).astype("float32")


def test_bit_of_the_hub(tmp_path):
    transformers = parity.transformers()
    theirs = started(transformers.BitForImageClassification(transformers.BitConfig(**SIZES, num_labels=5)))
    quietly(lambda: theirs.save_pretrained(tmp_path))
    model = keras_vit.from_pretrained(tmp_path)
    pixels = images(2, 50, 64, 3)
    expected = quietly(lambda: theirs(nchw(pixels)).logits.numpy())
    assert max_difference(model(pixels), expected) < 1e-5
    built = keras_vit.build(keras_vit.BiTVariant("bit", (1, 2), 0.5), weights=tmp_path, classes=5)
    assert built.get_layer("root").epsilon == 1e-8  # as their code has it, not the official one's 1e-10
    bare = quietly(lambda: theirs.bit.save_pretrained(tmp_path / "bare"))
    features = keras_vit.from_pretrained(tmp_path / "bare")
    expected = quietly(lambda: theirs.bit(nchw(pixels)).pooler_output[..., 0, 0].numpy())
    assert bare is None and max_difference(features(pixels), expected) < 1e-5


def test_transformers_reads_our_bit(tmp_path):
    transformers = parity.transformers()
    row = keras_vit.BiTVariant("bit", (1, 1, 2), 0.5, weight_epsilon=1e-8)
    labels = ("a", "b", "c")
    model = randomise(keras_vit.build(row, classes=3, labels=labels, classifier_activation=None))
    keras_vit.save_weights(model, tmp_path / "bit", layout="hf")
    theirs = quietly(lambda: transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "bit").eval())
    assert type(theirs).__name__ == "BitForImageClassification" and theirs.config.id2label[2] == "c"
    pixels = images(2, 224, 224, 3)
    assert max_difference(model(pixels), quietly(lambda: theirs(nchw(pixels)).logits.numpy())) < 1e-5
    restored = keras_vit.from_pretrained(tmp_path / "bit")
    assert restored.get_layer("head").labels == labels and max_difference(restored(pixels), model(pixels)) < 1e-6


@pytest.mark.parametrize(
    ("key", "value"), [("layer_type", "bottleneck"), ("global_padding", "SAME"), ("hidden_act", "gelu")]
)
def test_a_bit_that_computes_otherwise_is_refused(key, value, tmp_path):
    model = keras_vit.build(keras_vit.BiTVariant("bit", (1,), 0.5), classes=3)
    keras_vit.save_weights(model, tmp_path, layout="hf")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(ValueError, match=f"expected '{key}' to be .*, as BiT's is, received '{value}'"):
        keras_vit.from_pretrained(tmp_path)


def test_hybrids_of_the_hub(tmp_path):
    """ViTHybridForImageClassification is gone from transformers 5; its backbone and its ViT are both there."""
    transformers = parity.transformers()
    from safetensors.torch import save_file

    stem = {"layer_type": "bottleneck", "global_padding": "SAME", "embedding_dynamic_padding": True}
    backbone = started(transformers.BitBackbone(transformers.BitConfig(**SIZES, **stem, out_features=["stage2"])))
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    config = transformers.ViTConfig(**sizes, image_size=4, patch_size=1, num_channels=256, num_labels=5)
    vit = started(transformers.ViTForImageClassification(config))
    quietly(lambda: vit.save_pretrained(tmp_path))  # writes the hub's names
    from safetensors.torch import load_file

    inside = {f"vit.embeddings.patch_embeddings.backbone.{name}": x for name, x in backbone.state_dict().items()}
    save_file(load_file(tmp_path / "model.safetensors") | inside, tmp_path / "model.safetensors")
    said = json.loads((tmp_path / "config.json").read_text())
    said |= {"model_type": "vit-hybrid", "image_size": 32, "num_channels": 3}
    (tmp_path / "config.json").write_text(json.dumps(said))
    model = keras_vit.from_pretrained(tmp_path)
    pixels = images(2, 32, 32, 3)
    expected = quietly(lambda: vit(backbone(nchw(pixels)).feature_maps[-1]).logits.numpy())
    assert model.input_shape == (None, 32, 32, 3) and max_difference(model(pixels), expected) < 1e-5
