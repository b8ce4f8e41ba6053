"""Data sets of TensorFlow Datasets, by name."""

import tensorflow as tf

from keras_vit.data.sources import Examples

SHUFFLE_BUFFER = 50_000  # encoded images in memory


def open_tfds(name: str, split: str, directory: str | None) -> Examples:
    """Open one split of a prepared data set.

    Args:
        name: `cifar10`, `cifar10:3.0.2`, `eurosat/rgb:2.*.*`.
        split: as TensorFlow Datasets writes them, `train[:98%]`.
        directory: the folder of the data; its default where None.

    Raises:
        FileNotFoundError: the data set has not been prepared there.
        ValueError: it has no such split, or no image and label.
    """
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise ImportError("source 'tfds:...' expected tensorflow-datasets; pip install 'keras_vit[recipes]'.") from None
    try:
        builder = tfds.builder(name, data_dir=directory)
    except (tfds.core.DatasetNotFoundError, AssertionError, ValueError):
        builder = None
    if builder is None or not builder.data_path.exists():
        raise FileNotFoundError(
            f"source expected {name!r} prepared in {directory or '~/tensorflow_datasets'!r}; "
            f"run `tfds build {name}` on a machine with network, or pass its folder as --data-dir."
        )
    features = builder.info.features
    if "image" not in features or "label" not in features:
        raise ValueError(f"source expected features image and label, {name!r} has {', '.join(features)}.")
    try:
        count = builder.info.splits[split].num_examples
    except (KeyError, ValueError):
        raise ValueError(f"split expected one of {', '.join(builder.info.splits)}, received {split!r}.") from None

    rows = builder.as_dataset(split=split, shuffle_files=False, decoders={"image": tfds.decode.SkipDecoding()})

    def stream(seed=None):
        dataset = rows.enumerate()
        if seed is not None:
            dataset = _shuffled(dataset, min(count, SHUFFLE_BUFFER), seed)
        return dataset.map(lambda index, row: (index, row["image"], tf.cast(row["label"], tf.int64)))

    return Examples(count, tuple(features["label"].names), stream, encoded=True)


def _shuffled(dataset, buffer: int, seed) -> tf.data.Dataset:
    """`dataset.shuffle` by a seed that may be a tensor, and by nothing else: the method mixes in the global seed."""
    shuffled = tf.raw_ops.ShuffleDataset(
        input_dataset=tf.data.experimental.to_variant(dataset),
        buffer_size=buffer,
        seed=seed,
        seed2=1,
        output_types=[spec.dtype for spec in tf.nest.flatten(dataset.element_spec)],
        output_shapes=[spec.shape for spec in tf.nest.flatten(dataset.element_spec)],
        reshuffle_each_iteration=False,
    )
    return tf.data.experimental.from_variant(shuffled, dataset.element_spec)
