"""Data sets of TensorFlow Datasets, by name."""

import tensorflow as tf

from keras_vit.data.examples import Examples, require_some

LABELS = ("label", "labels", "real_label")  # features that hold the class, or a list of classes


def open_tfds(name: str, split: str, directory: str | None, shuffle: int) -> Examples:
    """Open one split of a prepared data set.

    The label is the feature `label`; a list of classes is `labels`, or `real_label` (`imagenet2012_real`).

    Args:
        name: `cifar10`, `cifar10:3.0.2`, `eurosat/rgb:2.*.*`.
        split: as TensorFlow Datasets writes them, `train[:98%]`.
        directory: the folder of the data; its default where None.
        shuffle: examples in memory that the next one is drawn from; a smaller set is shuffled whole.

    Raises:
        FileNotFoundError: the data set has not been prepared there.
        ValueError: it has no such split, no example in it, or no image and label.
    """
    import_tfds()
    from tensorflow_datasets.core import features as kinds

    builder = prepared(name, directory)
    features = builder.info.features
    label = next((name for name in LABELS if name in features), None)
    multi = isinstance(features[label], kinds.Sequence) if label else False
    found = features[label].feature if multi else features[label] if label else None
    if "image" not in features or not isinstance(found, kinds.ClassLabel):
        raise ValueError(
            f"source expected features image and label (or labels, or real_label), {name!r} has {', '.join(features)}."
        )
    return streamed(
        builder, split, shuffle, tuple(found.names), {"image", label}, lambda row: tf.cast(row[label], tf.int64), multi
    )


def import_tfds():
    """TensorFlow Datasets, or the sentence that says how to get it."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise ImportError(
            "source 'tfds:...' expected tensorflow-datasets; pip install 'keras-vit-zoo[recipes]'."
        ) from None
    return tfds


def prepared(name: str, directory: str | None):
    """The builder of a data set that lies in `directory`; raises a FileNotFoundError where it does not."""
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
    """One split of a prepared data set as `Examples`.

    Args:
        builder: of `prepared`.
        split: as TensorFlow Datasets writes them.
        shuffle: examples in memory that the next one is drawn from.
        labels: names of the classes.
        features: names of those that are needed: `image`, still encoded, and what the label is made of.
        label_of: function of a row of features -> its class, or classes.
        multi: whether they are several.
        read: function of the encoded image -> its pixels, where they need more than decoding.
        shape: of the pixels that `read` gives.

    Raises:
        ValueError: there is no such split, or no example in it.
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
