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

    def stream(seed=None):
        dataset = builder.as_dataset(
            split=split, shuffle_files=False, decoders={"image": tfds.decode.SkipDecoding()}
        ).enumerate()
        if seed is not None:
            dataset = dataset.shuffle(min(count, SHUFFLE_BUFFER), seed=seed, reshuffle_each_iteration=False)
        return dataset.map(lambda index, row: (index, row["image"], tf.cast(row["label"], tf.int64)))

    return Examples(count, tuple(features["label"].names), stream, encoded=True)
