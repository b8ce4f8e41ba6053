"""What do exports cost, how fast are they beside timm and torch.compile, and do they name the same classes?

    python -m benchmarks.export [FOLDER OF IMAGES] [--rounds 7] [--model ViT_B16] [--weights FILE]

Prints one table a question. Needs the extras `formats` and `parity`; torch.compile needs a C++ compiler. All
contestants use all cores.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from benchmarks.harness.processes import compare
from benchmarks.harness.tables import table
from benchmarks.harness.torch_peers import declare_vision_operators
from benchmarks.harness.worker import work

COLD = {
    "SavedModel: load + first answer": """
import time, json, numpy, tensorflow as tf
begun = time.perf_counter()
answer = tf.saved_model.load({folder!r} + "/float32").signatures["serving_default"]
answer(images=tf.zeros((1, 224, 224, 3)))["logits"].numpy()
print(json.dumps(time.perf_counter() - begun))
""",
    "Keras: build + load weights": """
import time, json, tensorflow as tf, keras
begun = time.perf_counter()
import keras_vit
model = keras_vit.create_model({model!r}, weights={folder!r} + "/model.npz")
print(json.dumps(time.perf_counter() - begun))
""",
    "Keras: build + load weights + first answer": """
import time, json, tensorflow as tf, keras
begun = time.perf_counter()
import keras_vit
model = keras_vit.create_model({model!r}, weights={folder!r} + "/model.npz")
tf.function(lambda x: model(x, training=False))(tf.zeros((1, 224, 224, 3))).numpy()
print(json.dumps(time.perf_counter() - begun))
""",
}
_WRITTEN = """
import time, json, tempfile, keras_vit
from keras_vit.export import export
model = keras_vit.create_model({{model!r}}, weights={{folder!r}} + "/model.npz")
with tempfile.TemporaryDirectory() as output:
    begun = time.perf_counter()
    export(model, output + "/model", formats={formats!r})
    print(json.dumps(time.perf_counter() - begun))
"""
WRITTEN = {
    "the default formats": _WRITTEN.format(formats=None),
    "the SavedModel alone": _WRITTEN.format(formats=["saved_model"]),
}
EXPORTS = (
    "saved_model:bfloat16",
    "saved_model:float32",
    "openvino:bfloat16",
    "openvino:float32",
    "openvino:int8",
    "tflite:int8",
)
FAST = (*EXPORTS, "timm:autocast", "timm:compiled-autocast", "timm:compiled-float32")
BATCHES = (8, 32)
LATENCY = "ViT_Ti16"
CLASSES = 10  # random ones; of 1,000 bfloat16's own rounding names another for more images than the gate allows
IMAGES = 200  # at most: half of them to measure int8's scales on, half to compare on


def prepare(folder: Path, name: str, weights: str | None, images: str) -> None:
    """Write the files of all questions, and how often the exports agree with the model that they are of."""
    import keras

    import keras_vit
    from keras_vit.cli.images import images_to_compare
    from keras_vit.export import parity, tolerance
    from keras_vit.export.openvino import write_openvino
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.saved_model import write_saved_model
    from keras_vit.export.tflite import convert

    (folder / "latency.tflite").write_bytes(convert(keras_vit.create_model(LATENCY)))
    keras.utils.set_random_seed(0)
    model = keras_vit.create_model(name, **({"classes": CLASSES} if weights is None else {"weights": weights}))
    if weights is None:
        head = model.get_layer("head").kernel  # zeros would name one class for all images
        head.assign(np.random.default_rng(0).normal(0, 0.1, head.shape))
    pixels, _ = images_to_compare(model, images, None, None, IMAGES)
    sample, scales = parity.take_sample(model, pixels[1::2]), parity.take_sample(model, pixels[::2]).inputs
    keras_vit.save_weights(model, folder / "model.npz", layout="npz")
    for dtype in ("float32", "bfloat16"):
        write_saved_model(in_dtype(model, dtype), folder / dtype)
    write_openvino(model, folder / "model.xml")
    write_openvino(model, folder / "int8.xml", scales)
    (folder / "int8.tflite").write_bytes(convert(model, "int8", calibration=scales))
    asked = {"float32": tolerance.EXACT, "bfloat16": tolerance.REDUCED, "int8": tolerance.CALIBRATED}
    found = {}
    for export in EXPORTS:
        kind, what = export.split(":")
        found[export.replace(":", " ")] = agreement(sample, EXPORTED[kind](folder, what)), asked[what].agreement
    named = len(set(sample.expected["logits"].argmax(axis=1)))
    about = f"{len(sample.inputs)} images, for which the float32 Keras model names {named} classes"
    about += f"; int8 has the scales of {len(scales)} others"
    (folder / "agreement.json").write_text(json.dumps({"about": about, "found": found}))


def agreement(sample, run) -> float:
    """Share of a `parity.Sample`'s images for which `run` names the Keras model's class, as the gate counts."""
    from keras_vit.export import parity

    received = parity.in_batches(lambda inputs: run(images=inputs), sample.inputs)
    return parity.figures("logits", sample.expected["logits"], received["logits"])["agreement"]


def saved_model(folder, what):
    from keras_vit.export.saved_model import load_signatures

    answer = load_signatures(folder / what)["serving_default"]
    return lambda images: {name: value.numpy() for name, value in answer(images=images).items()}


def openvino(folder, what):
    from keras_vit.export.openvino import runner

    return runner(folder / "int8.xml") if what == "int8" else runner(folder / "model.xml", what)


def tflite(folder, what):
    from keras_vit.export.tflite import runner

    return runner((folder / f"{what}.tflite").read_bytes())


def timm(model, what, images):
    import torch

    declare_vision_operators()
    import timm as timm_library

    from keras_vit.models.variants import find_variant

    model = timm_library.create_model(f"{find_variant(model)[0].timm_name}_224").eval()
    model = torch.compile(model) if what.startswith("compiled") else model
    images = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())

    def call():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled="autocast" in what):
            model(images)

    return call


def keras(model, what, images):
    import tensorflow as tf

    import keras_vit

    model, images = keras_vit.create_model(model), tf.constant(images)
    call = tf.function(lambda x: model(x, training=False))
    return lambda: call(images).numpy()


EXPORTED = {"saved_model": saved_model, "openvino": openvino, "tflite": tflite}  # -> of images, outputs by name
LIVE = {"timm": timm, "keras": keras}


def contestant(name: str):
    """A function to time, of `KIND:WHAT:BATCH:MODEL:FOLDER`."""
    kind, what, batch, model, folder = name.split(":", 4)
    images = np.random.default_rng(0).uniform(-1, 1, (int(batch), 224, 224, 3)).astype("float32")
    if kind in LIVE:
        return LIVE[kind](model, what, images)
    run = EXPORTED[kind](Path(folder), what)
    return lambda: run(images=images)


def turns(folder: Path, contestants, model: str, batch: int, rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds of every call of each contestant, without the batch, the model and the folder in its name."""
    place = f":{batch}:{model}:{folder}"
    found = compare(
        [sys.executable, "-m", "benchmarks.export"], [f"{name}{place}" for name in contestants], rounds, calls
    )
    return {name.removesuffix(place).replace(":", " "): seconds for name, seconds in found.items()}


def processes(codes: dict[str, str], folder: Path, model: str, rounds: int) -> dict[str, list[float]]:
    """Seconds that each code prints, in a process of its own."""
    found = {name: [] for name in codes}
    for _ in range(rounds):
        for name, code in codes.items():
            command = [sys.executable, "-c", code.format(folder=str(folder), model=model)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def best(seconds: dict[str, list[float]], agreement: dict[str, tuple[float, float]]) -> str | None:
    """The fastest export of those that agree with the model as often as is asked; None where none does."""
    fine = [name for name, (share, asked) in agreement.items() if name in seconds and share >= asked]
    return min(fine, key=lambda name: statistics.median(seconds[name]), default=None)


def sizes(folder: Path, model: str) -> str:
    """Markdown: the bytes of exports over those of the weights alone."""
    with np.load(folder / "model.npz") as file:
        weights = sum(file[name].nbytes for name in file.files)
    found = {"weights": weights}
    found["SavedModel"] = sum(path.stat().st_size for path in (folder / "float32").rglob("*") if path.is_file())
    found["OpenVINO"] = sum((folder / f"model.{suffix}").stat().st_size for suffix in ("xml", "bin"))
    found["OpenVINO int8"] = sum((folder / f"int8.{suffix}").stat().st_size for suffix in ("xml", "bin"))
    found["TFLite int8"] = (folder / "int8.tflite").stat().st_size
    lines = [f"### {model} on disk", "", "| | MB | over its weights |", "|---|---:|---:|"]
    lines += [f"| {name} | {size / 1e6:.1f} | {size / weights:.4f} |" for name, size in found.items()]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", default="../shared/data/imagenet_sample")
    parser.add_argument("--rounds", type=rounds, default=7)
    parser.add_argument("--model", default="ViT_B16")
    parser.add_argument("--weights", help="a file or tag of the model's; random without")
    parser.add_argument("--worker")
    parser.add_argument("--prepare", type=Path)
    options = parser.parse_args(arguments)
    model = options.model
    if options.worker:
        return work(lambda: contestant(options.worker))
    if options.prepare:
        return prepare(options.prepare, model, options.weights, options.folder)
    if not any(Path(options.folder).glob("*.jpg")):
        return f"benchmarks/export.py expected a folder of JPEG files, found none in {options.folder!r}."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [sys.executable, "-m", "benchmarks.export", options.folder, "--model", model, "--prepare", name]
        subprocess.run(command + ["--weights", options.weights] * (options.weights is not None), check=True)
        print(f"{in_words()}\n\n{sizes(folder, model)}")
        found = processes(COLD, folder, model, options.rounds)
        ours = "SavedModel: load + first answer"
        print(table(f"{model} from disk, a fresh process", found, ours, lambda s: s, "seconds"))
        found = processes(WRITTEN, folder, model, min(options.rounds, 3))
        title = f"`export` of {model}: written, read back and compared on 8 images"
        print(table(title, found, "the default formats", lambda s: s, "seconds"))
        agreed = json.loads((folder / "agreement.json").read_text())
        shown = {name: f"{share:.1%} ({asked:.0%})" for name, (share, asked) in agreed["found"].items()}
        for batch in BATCHES:
            found = turns(folder, FAST, model, batch, options.rounds)
            ours = best(found, agreed["found"]) or "none"
            title = f"{model}, batch {batch}; ours: the fastest export that agrees, {ours}"
            more = {"best class as Keras float32 (asked)": shown}
            print(table(title, found, ours, lambda s, batch=batch: batch / s, "images/s", more))
        print(f"Compared on {agreed['about']}.\n")
        found = turns(folder, ["tflite:latency", "keras:latency"], LATENCY, 1, options.rounds, 20)
        title = f"{LATENCY}, batch 1, float32: latency of calls back to back"
        print(table(title, found, "tflite latency", lambda s: 1000 * s, "ms"))
    return None


if __name__ == "__main__":
    sys.exit(main())
