"""What evaluations report, against scikit-learn and plain loops."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from support import needs_tensorflow, randomise

import keras_vit
from keras_vit.data.evaluation import evaluation_batches
from keras_vit.data.examples import Examples
from keras_vit.data.sources import in_memory
from keras_vit.evaluate import accuracy as evaluation
from keras_vit.evaluate import suite_runner
from keras_vit.evaluate.accuracy import evaluate, evaluate_model, example_losses, logits_model
from keras_vit.preprocessing.inputs import imagenet_classes
from keras_vit.train.recipe import Data, Loss

pytestmark = needs_tensorflow
CLASSES, COUNT = 8, 37
RNG = np.random.default_rng(0)
LOGITS = (4 * RNG.standard_normal((COUNT, CLASSES))).astype("float32")
LABELS = RNG.integers(0, CLASSES, COUNT)
ALL = ("accuracy", "top5", "calibration")


def passes_on(activation="softmax"):
    """A classifier whose images (1, 1, K) are its logits."""
    images = keras.Input((1, 1, CLASSES))
    logits = keras.layers.Flatten(name="head")(images)
    return keras.Model(images, keras.layers.Activation(activation, name="predictions")(logits))


def batches(labels, size=10):
    """Of `size`, the last one filled up with images that must not count."""
    for start in range(0, len(labels), size):
        part = slice(start, start + size)
        missing = size - len(labels[part])
        pad = lambda x, value: np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1), constant_values=value)  # noqa: E731,B023
        images = pad(LOGITS[part], 9.0)[:, None, None, :]
        yield tf.constant(images), tf.constant(pad(labels[part], 0)), tf.constant(pad(np.ones(size - missing, "f"), 0))


def softmax(logits):
    powers = np.exp(logits.astype("float64"))
    return powers / powers.sum(axis=1, keepdims=True)


def expected_calibration_error(confidence, right):
    """Guo et al. 2017, equation 3, as a loop over 15 bins."""
    total = 0.0
    for low in np.arange(15) / 15:
        inside = (confidence > low) & (confidence <= low + 1 / 15)
        if inside.any():
            total += inside.mean() * abs(right[inside].mean() - confidence[inside].mean())
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1], ids=["plain", "smoothed in training"])
def test_scikit_learn_agrees(smoothing):
    metrics = pytest.importorskip("sklearn.metrics")
    found = evaluate(passes_on(), batches(LABELS), Loss(label_smoothing=smoothing), metrics=ALL)
    assert found["examples"] == COUNT
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(LABELS, LOGITS.argmax(axis=1)))
    assert found["top5"] == pytest.approx(metrics.top_k_accuracy_score(LABELS, LOGITS, k=5, labels=range(CLASSES)))
    assert 0 < found["accuracy"] < found["top5"] < 1
    assert found["loss"] == pytest.approx(metrics.log_loss(LABELS, softmax(LOGITS), labels=range(CLASSES)), rel=1e-6)


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_calibration_is_the_published_sum(kind):
    scores = softmax(LOGITS) if kind == "softmax" else 1 / (1 + np.exp(-LOGITS.astype("float64")))
    expected = expected_calibration_error(scores.max(axis=1), LOGITS.argmax(axis=1) == LABELS)
    found = evaluate(passes_on(kind), batches(LABELS), Loss(kind), metrics=ALL)
    assert found["calibration"] == pytest.approx(expected, abs=1e-6) and expected > 0.1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_model_that_answers_no_numbers_has_no_accuracy(value):
    """The best class of NaNs is the first one, and their confidence lies in no bin."""
    broken = [(images.numpy() * np.float32(value), *rest) for images, *rest in batches(LABELS)]
    found = evaluate(passes_on(), broken, metrics=ALL)
    assert found.pop("examples") == COUNT
    assert set(found) == {"loss", *ALL} and all(np.isnan(share) for share in found.values())


def test_only_what_is_asked_for():
    assert set(evaluate(passes_on(), batches(LABELS))) == {"loss", "accuracy", "examples"}


def test_sets_of_right_answers():
    """As ImageNet-ReaL: an answer is right that is in the set; an image with an empty set does not count."""
    sets = (RNG.uniform(size=(COUNT, CLASSES)) < 0.2).astype("float32")
    assert 3 < (counted := sets.any(axis=1)).sum() < COUNT
    right, best = [], []
    for logits, truth in zip(LOGITS[counted], sets[counted], strict=True):
        order = np.argsort(-logits)
        right.append(truth[order[0]] == 1)
        best.append(any(truth[i] == 1 for i in order[:5]))
    found = evaluate(passes_on(), batches(sets), metrics=ALL)
    assert found["examples"] == counted.sum()
    assert found["accuracy"] == pytest.approx(np.mean(right)) and found["top5"] == pytest.approx(np.mean(best))
    shares = sets[counted] / sets[counted].sum(axis=1, keepdims=True)
    expected = -np.mean(np.sum(shares * np.log(softmax(LOGITS[counted])), axis=1))
    assert found["loss"] == pytest.approx(expected, rel=1e-6)
    confidence = softmax(LOGITS[counted]).max(axis=1)
    assert found["calibration"] == pytest.approx(expected_calibration_error(confidence, np.array(right)), abs=1e-6)


def test_a_stream_of_sets_is_measured_as_one():
    """From the source's lists of classes to the figure, an example of no class among them."""
    lists = [[0, 2], [], [1], [3, 1, 2]]
    logits = np.array([[0, 0, 5, 0], [9, 0, 0, 0], [5, 0, 0, 0], [0, 5, 0, 0]], "float32")

    def stream(seed=None):
        rows = ((i, (i * np.ones((1, 1, 1))).astype("uint8"), np.array(x, "int64")) for i, x in enumerate(lists))
        spec = tf.TensorSpec((), tf.int64), tf.TensorSpec((1, 1, 1), tf.uint8), tf.TensorSpec((None,), tf.int64)
        return tf.data.Dataset.from_generator(lambda: rows, output_signature=spec)

    examples = Examples(4, tuple("abcd"), stream, encoded=False, shape=(1, 1, 1), multi=True)
    images = keras.Input((1, 1, 1))
    rows = keras.layers.Embedding(4, 4, embeddings_initializer=lambda *_, **__: tf.constant(logits))
    answers = keras.layers.Softmax(name="predictions")(rows(keras.layers.Flatten()(images))[:, 0])
    found = evaluate(
        keras.Model(images, answers), evaluation_batches(examples, batch_size=3, input_shape=(1, 1, 1), scale=False)
    )
    assert found["examples"] == 3 and found["accuracy"] == pytest.approx(2 / 3)


def test_a_file_that_is_no_image_is_named(tmp_path):
    for path in (tmp_path / "cat" / "1.png", tmp_path / "dog" / "2.png"):
        path.parent.mkdir()
        path.write_bytes(b"no picture")
    row = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
    data = Data("folder", directory=str(tmp_path), batch_size=2)
    with pytest.raises(ValueError, match=r"^data expected an image file .* received '.*cat/1\.png'"):
        evaluate_model(keras_vit.build(row, classes=2), data, split="train")


def test_a_model_of_free_image_size_is_refused_in_a_sentence(monkeypatch):
    model = keras_vit.build(keras_vit.BiTVariant("tiny", (1,), 0.5), input_shape=(None, None, 1), classes=2)
    examples = in_memory(np.zeros((2, 8, 8, 1), "uint8"), [0, 1], tuple("ab"))
    sentence = r"^model expected a known image size, received input shape \(None, None, 1\)\.$"
    for module, name in (evaluation, "open_data"), (suite_runner, "open_split"):
        monkeypatch.setattr(module, name, lambda *_, **__: examples)
    with pytest.raises(ValueError, match=sentence):
        evaluate_model(model, Data("arrays", batch_size=2))
    runner = suite_runner.Runner(suite_runner.Settings("real", "", None))
    runner.model = model
    with pytest.raises(ValueError, match=sentence):
        runner._evaluate_classifier("arrays", "test", False)


def test_imagenets_data_has_numbers_where_its_models_have_names(monkeypatch):
    """tensorflow-datasets and the folders of ImageNet have WordNet's; both are in one order."""
    row = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
    numbers, names = zip(*imagenet_classes(), strict=True)
    images = RNG.integers(0, 256, (3, 8, 8, 3), "uint8")
    for labels in (numbers, names, numbers[::-1], names[::-1]):
        examples = in_memory(images, np.arange(3), labels)
        monkeypatch.setattr(evaluation, "open_data", lambda *_, examples=examples: examples)
        model = keras_vit.build(row, labels=names)
        if labels in (numbers, names):
            assert evaluate_model(model, Data("arrays", batch_size=3))["examples"] == 3
        else:
            with pytest.raises(ValueError, match=r"^data expected the model's 1000 classes \(tench, .*, found 1000 \("):
                evaluate_model(model, Data("arrays", batch_size=3))


def test_an_answer_with_flip_is_the_mean_of_an_images_logits_and_its_mirror_images(monkeypatch):
    row = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=16, num_heads=2, patch_size=4, image_size=8)
    model = randomise(keras_vit.build(row, classes=4))
    images, labels = RNG.integers(0, 256, (COUNT, 8, 8, 3), "uint8"), RNG.integers(0, 4, COUNT)
    monkeypatch.setattr(evaluation, "open_data", lambda *_: in_memory(images, labels, tuple("0123")))
    plain, both = (evaluate_model(model, Data("arrays", batch_size=10), flip=flip) for flip in (False, True))
    views = [logits_model(model)(view / 127.5 - 1).numpy() for view in (images, images[:, :, ::-1])]
    for found, logits in (plain, views[0]), (both, np.mean(views, axis=0)):
        expected = -np.log(softmax(logits)[np.arange(COUNT), labels]).mean()
        assert found["loss"] == pytest.approx(expected, rel=1e-5)
        assert found["accuracy"] == pytest.approx((logits.argmax(axis=1) == labels).mean())
    assert abs(both["loss"] - plain["loss"]) > 0.01


@pytest.mark.parametrize("kind", ["softmax", "sigmoid"])
def test_label_smoothing_is_its_formula(kind):
    """(1 - s) of the target, and s spread evenly over all classes; torch smooths a softmax's targets alike."""
    torch = pytest.importorskip("torch", reason="extra `parity` is not installed")
    targets = np.eye(CLASSES, dtype="float32")[LABELS]
    found = example_losses(Loss(kind, label_smoothing=0.3), tf.constant(targets), tf.constant(LOGITS)).numpy()
    if kind == "softmax":
        function = torch.nn.CrossEntropyLoss(label_smoothing=0.3, reduction="none")
        expected = function(torch.tensor(LOGITS), torch.tensor(targets))
    else:
        smoothed = torch.tensor(0.7 * targets + 0.3 / CLASSES)
        function = torch.nn.BCEWithLogitsLoss(reduction="none")
        expected = function(torch.tensor(LOGITS), smoothed).sum(axis=1)
    assert np.allclose(found, expected.numpy(), rtol=1e-5)


def test_losses_are_float32_whatever_the_logits_are():
    targets = tf.one_hot(LABELS, CLASSES)
    half = example_losses(Loss(), targets, tf.cast(LOGITS, tf.bfloat16))
    assert half.dtype == tf.float32
    assert np.allclose(half, example_losses(Loss(), targets, tf.cast(tf.cast(LOGITS, tf.bfloat16), tf.float32)))


def test_logits_end_before_the_scores():
    logits = logits_model(passes_on())(LOGITS[:, None, None, :])
    assert np.array_equal(logits, LOGITS)
