"""The sizes of an EfficientNet in a file or a model, and timm's config of one.

Only timm's `tf_` models pad as TensorFlow does, with batch norms of epsilon 1e-3. The names and shapes of its other
EfficientNets are the same.
"""

from collections.abc import Mapping

from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.image_configs import timm_config

# Name in Keras and timm -> channels of the last convolution, and units of each stage.
SIZES = {
    "B0": (1280, (1, 2, 2, 3, 3, 4, 1)),
    "B1": (1280, (2, 3, 3, 4, 4, 5, 2)),
    "B2": (1408, (2, 3, 3, 4, 4, 5, 2)),
    "B3": (1536, (2, 3, 3, 5, 5, 6, 2)),
    "B4": (1792, (2, 4, 4, 6, 6, 8, 2)),
    "B5": (2048, (3, 5, 5, 7, 7, 9, 3)),
    "B6": (2304, (3, 6, 6, 8, 8, 11, 3)),
    "B7": (2560, (4, 7, 7, 10, 10, 13, 4)),
    "L2": (5504, (6, 11, 11, 16, 16, 22, 6)),
}
TIMM_NAMES = {size: f"tf_efficientnet_{size.lower()}" for size in SIZES}
ASSUMED = "padding of TensorFlow and an epsilon of 1e-3, as timm's tf_efficientnet models have"


def widths_of(shapes: Mapping[str, tuple[int, ...]], stages: int, source: str) -> tuple[int, ...]:
    """Return the channels after the first convolution, each stage and the last convolution, by the kernels' shapes.

    Raises:
        ValueError: a kernel is missing or is none, or the number of stages is not EfficientNet's.
    """
    units = [f"stage{stage}_unit01/project" for stage in range(1, stages + 1)]
    kernels = [shapes.get(f"{layer}/kernel", ()) for layer in ("root", *units, "last")]
    if stages != 7 or any(len(kernel) != 4 for kernel in kernels):
        raise ValueError(f"source expected the seven stages of an EfficientNet between two convolutions, received "
                         f"{stages} stages in {source!r}.")  # fmt: skip
    return tuple(kernel[3] for kernel in kernels)


def size_of(model) -> str | None:
    """Return the name of the size (`B0` ... `B7`, `L2`) of an `Architecture`; None for another one."""
    sizes = (model.options["widths"][-1], model.units)
    return next((name for name, known in SIZES.items() if known == sizes), None)


def stated_architecture(config: dict, source: str) -> dict:
    """Return timm's name of the architecture if a config states it, as `{"architecture": name}`, else nothing.

    Raises:
        ValueError: the architecture computes something else.
    """
    stated = config.get("architecture")
    if stated is None:
        return {}
    name = str(stated).partition(".")[0]
    if name not in TIMM_NAMES.values():
        raise ValueError(
            f"the config of {source!r} expected 'architecture' to be one of {', '.join(TIMM_NAMES.values())}, which "
            f"have the {ASSUMED.partition(', as')[0]}, received {stated!r}."
        )
    return {"architecture": name}


def timm_efficientnet(model, spec: ImageSpec) -> dict:
    """Return timm's config of an EfficientNet.

    Raises:
        ValueError: timm has none of this size.
    """
    size = size_of(model)
    if size is None:
        raise ValueError(f"layout 'timm' expected an EfficientNet among {', '.join(SIZES)}, received units "
                         f"{model.units} and widths {model.options['widths']}.")  # fmt: skip
    config = {
        "architecture": TIMM_NAMES[size],
        "num_classes": model.classes or 0,
        "model_args": {"in_chans": model.channels},
        "pretrained_cfg": timm_config(spec, model.channels, model.image_size or spec.size or (224, 224)),
    }
    return config | ({"label_names": list(model.labels)} if model.labels else {})
