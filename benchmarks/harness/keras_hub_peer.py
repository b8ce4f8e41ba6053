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
    import keras_hub

    row, size, batch = contestant["row"], contestant["image_size"], contestant["batch"]
    if row["kind"] != "vit":
        raise ValueError(f"keras-hub has no {contestant['model']}")
    require_device(contestant["device"])
    keras.config.set_dtype_policy(contestant["dtype"])
    backbone = keras_hub.models.ViTBackbone(
        image_shape=(size, size, 3),
        patch_size=tuple(row["patch_size"]),
        num_layers=row["depth"],
        num_heads=row["num_heads"],
        hidden_dim=row["width"],
        mlp_dim=row["mlp_dim"],
    )
    model = keras_hub.models.ViTImageClassifier(backbone, num_classes=CLASSES, preprocessor=None)
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
