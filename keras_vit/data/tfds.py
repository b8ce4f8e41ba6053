"""Read data sets of TensorFlow Datasets."""

import tensorflow as tf

from keras_vit.data.examples import Examples, require_some

LABELS = ("label", "labels", "real_label")  # features with the class or a list of classes


def open_tfds(name: str, split: str, directory: str | None, shuffle: int) -> Examples:
    """Open one split of a prepared data set.

    The label is the feature `label`, or the list of classes in `labels` or `real_label` (of `imagenet2012_real`).

    Args:
        name: name of the data set, such as `cifar10`, `cifar10:3.0.2` or `eurosat/rgb:2.*.*`.
        split: split in the syntax of TensorFlow Datasets, such as `train[:98%]`.
        directory: the data folder; TensorFlow Datasets' default if None.
        shuffle: size of the shuffle buffer in examples.

    Raises:
        FileNotFoundError: the data set has not been prepared in the folder.
        ValueError: the split is unknown or empty, or the data set has no image and label.
    """
    import_tfds()
    from tensorflow_datasets.core import features as kinds

    builder = prepared(name, directory)
    features = builder.info.features
    label = next((name for name in LABELS if name in features), None)
    multi = isinstance(features[label], kinds.Sequence) if label else False
    classes = features[label].feature if multi else features[label] if label else None
    if "image" not in features or not isinstance(classes, kinds.ClassLabel):
        raise ValueError(
            f"source expected features image and label (or labels, or real_label), {name!r} has {', '.join(features)}."
        )
    return streamed(
        builder,
        split,
        shuffle,
        tuple(classes.names),
        {"image", label},
        lambda row: tf.cast(row[label], tf.int64),
        multi,
    )


def import_tfds():
    """Import TensorFlow Datasets, or raise an ImportError that names the extra to install."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise ImportError(
            "source 'tfds:...' expected tensorflow-datasets; pip install 'keras-vit-zoo[recipes]'."
        ) from None
    return tfds


def prepared(name: str, directory: str | None):
    """Return the builder of a data set in `directory`; raise a FileNotFoundError if it is not prepared there."""
    tfds = import_tfds()
    try:
        builder = tfds.builder(name, data_dir=directory)
    except (tfds.core.DatasetNotFoundError, AssertionError, ValueError):
        builder = None
    if builder is None or not builder.data_path.exists():
        raise FileNotFoundError(
            f"source expected {name!r} prepared in {directory or '~/tensorflow_datasets'!r}; "
            f"run `tfds build {name}` on a machine with network, or pass its folder as --data-dir."
        )
    return builder


def streamed(builder, split: str, shuffle: int, labels, features, label_of, multi=False, read=None, shape=None):
    """Return one split of a prepared data set as `Examples`; raise a ValueError if it is unknown or empty.

    Args:
        builder: the builder from `prepared`.
        split: split in the syntax of TensorFlow Datasets.
        shuffle: size of the shuffle buffer in examples.
        labels: names of the classes.
        features: names of the features to read: `image`, which stays encoded, and the features of the label.
        label_of: a function of a dict of features that returns the class or classes.
        multi: whether an example has a list of classes.
        read: a function that turns the encoded image into pixels of `shape`; None if plain decoding suffices.
    """
    tfds = import_tfds()
    try:
        count = builder.info.splits[split].num_examples
    except (KeyError, ValueError):
        raise ValueError(f"split expected one of {', '.join(builder.info.splits)}, received {split!r}.") from None
    require_some(count, split, builder.info.full_name)
    decoders = tfds.decode.PartialDecoding(
        dict.fromkeys(features, True), decoders={"image": tfds.decode.SkipDecoding()}
    )
    rows = builder.as_dataset(split=split, shuffle_files=False, decoders=decoders)

    def stream(seed=None):
        dataset = rows.enumerate().map(lambda index, row: (index, row["image"], label_of(row)))
        return dataset if seed is None else _shuffled(dataset, min(count, shuffle), seed)

    return Examples(count, tuple(labels), stream, encoded=read is None, shape=shape, read=read, multi=multi)


def _shuffled(dataset, buffer: int, seed) -> tf.data.Dataset:
    """Shuffle by a seed that can be a tensor. `dataset.shuffle` would mix in the global seed."""
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
