"""keras-hub's contestant: its ViT's forward pass, and its training step by Keras (on JAX compiled as ours is)."""

import keras

from benchmarks.harness.keras_steps import (
    CLASSES,
    DECAY,
    RATE,
    batch_of,
    device_peak,
    forward,
    jax_step,
    require_device,
)


def prepare(contestant: dict):
    """The model's forward pass or training step."""
    size, batch = contestant["image_size"], contestant["batch"]
    require_device(contestant["device"])
    keras.config.set_dtype_policy(contestant["dtype"])
    model = _classifier(contestant)
    (images, labels), peak = batch_of(size, batch), device_peak(contestant["device"])
    if contestant["task"] == "forward":
        return forward(model, images), peak
    if keras.backend.backend() == "jax":
        return jax_step(model, images, labels), peak
    import tensorflow as tf

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(RATE, weight_decay=DECAY), loss)
    images, labels = tf.constant(images), tf.constant(labels)
    return (lambda: model.train_on_batch(images, labels)), peak


def _classifier(contestant: dict) -> keras.Model:
    """Return keras-hub's model with a classifier: of its ViT, or of the class token of another family's backbone."""
    import keras_hub

    models, row, size = keras_hub.models, contestant["row"], contestant["image_size"]
    if row["kind"] not in ("vit", "clip", "dinov2", "dinov3"):
        raise ValueError(f"keras-hub has no {contestant['model']}")
    sizes = {"image_shape": (size, size, 3), "num_layers": row["depth"], "num_heads": row["num_heads"]}
    sizes |= {"hidden_dim": row["width"], "patch_size": row["patch_size"][0]}
    if row["kind"] == "vit":
        patch = {"patch_size": tuple(row["patch_size"]), "mlp_dim": row["mlp_dim"]}
        backbone = models.ViTBackbone(**{**sizes, **patch})
        return models.ViTImageClassifier(backbone, num_classes=CLASSES, preprocessor=None)
    sizes["intermediate_dim"] = row["mlp_dim"]
    if row["kind"] == "clip":
        backbone = models.CLIPVisionEncoder(**sizes)
    else:
        sizes |= {"num_register_tokens": row["registers"], "use_mask_token": False}
        if row["kind"] == "dinov2":
            sizes |= {"use_swiglu_ffn": row["gated_mlp"], "position_embedding_shape": sizes["image_shape"]}
            backbone = models.DINOV2Backbone(**sizes)
        else:
            names = ("use_query_bias", "use_key_bias", "use_value_bias")
            sizes |= {"use_gated_mlp": row["gated_mlp"], **dict(zip(names, row["qkv_biases"], strict=True))}
            backbone = models.DINOV3Backbone(**sizes)
    images = keras.Input((size, size, 3))
    tokens = backbone({name: images for name in backbone.input})
    return keras.Model(images, keras.layers.Dense(CLASSES)(tokens[:, 0]))
