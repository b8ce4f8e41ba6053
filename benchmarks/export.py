"""What do exports cost, and how fast are they, beside Keras, timm and torch.compile? Prints one table a question.

    python benchmarks/export.py [--rounds 7]

Needs the extras `formats` and `parity`; torch.compile needs a C++ compiler. All contestants use all cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from keras_vit.bench.machine import in_words
from keras_vit.bench.processes import compare
from keras_vit.bench.tables import table
from keras_vit.bench.torch_peers import declare_vision_operators
from keras_vit.bench.worker import work

COLD = {
    "SavedModel: load + first answer": """
import time, json, numpy, tensorflow as tf
begun = time.perf_counter()
answer = tf.saved_model.load({folder!r} + "/b16").signatures["serving_default"]
answer(images=tf.zeros((1, 224, 224, 3)))["logits"].numpy()
print(json.dumps(time.perf_counter() - begun))
""",
    "Keras: build + load weights": """
import time, json, tensorflow as tf, keras
begun = time.perf_counter()
import keras_vit
model = keras_vit.ViT_B16(weights={folder!r} + "/b16.npz")
print(json.dumps(time.perf_counter() - begun))
""",
    "Keras: build + load weights + first answer": """
import time, json, tensorflow as tf, keras
begun = time.perf_counter()
import keras_vit
model = keras_vit.ViT_B16(weights={folder!r} + "/b16.npz")
tf.function(lambda x: model(x, training=False))(tf.zeros((1, 224, 224, 3))).numpy()
print(json.dumps(time.perf_counter() - begun))
""",
}
FAST = ["saved_model:bfloat16", "openvino:bfloat16", "openvino:float32", "timm:autocast", "timm:compile"]


def prepare(folder: Path) -> None:
    """Write the files of all questions."""
    import keras_vit
    from keras_vit.export.openvino import write_openvino
    from keras_vit.export.precision import in_dtype
    from keras_vit.export.saved_model import write_saved_model
    from keras_vit.export.tflite import convert

    model = keras_vit.ViT_B16()
    rng = np.random.default_rng(0)
    model.get_layer("head").kernel.assign(rng.normal(0, 0.02, model.get_layer("head").kernel.shape))
    keras_vit.save_weights(model, folder / "b16.npz", layout="npz")
    write_saved_model(model, folder / "b16")
    write_openvino(model, folder / "b16.xml")
    write_saved_model(in_dtype(model, "bfloat16"), folder / "b16-bfloat16")
    (folder / "ti16.tflite").write_bytes(convert(keras_vit.ViT_Ti16()))


def saved_model(folder, dtype, images):
    import tensorflow as tf

    loaded = tf.saved_model.load(str(folder / f"b16-{dtype}"))
    answer, images = loaded.signatures["serving_default"], tf.constant(images)
    return lambda: (loaded, answer(images=images)["logits"].numpy())


def openvino(folder, dtype, images):
    from keras_vit.export.openvino import runner

    run = runner(folder / "b16.xml", dtype)
    return lambda: run(images=images)


def timm(folder, how, images):
    import torch

    declare_vision_operators()
    import timm as timm_library

    model = timm_library.create_model("vit_base_patch16_224").eval()
    model = torch.compile(model) if how == "compile" else model
    images = torch.from_numpy(images.transpose(0, 3, 1, 2).copy())

    def call():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            model(images)

    return call


def tflite(folder, size, images):
    from keras_vit.export.tflite import runner

    run = runner((folder / f"{size}.tflite").read_bytes())
    return lambda: run(images=images)


def keras(folder, size, images):
    import tensorflow as tf

    import keras_vit

    model, images = keras_vit.ViT_Ti16(), tf.constant(images)
    call = tf.function(lambda x: model(x, training=False))
    return lambda: call(images).numpy()


CONTESTANTS = {"saved_model": saved_model, "openvino": openvino, "timm": timm, "tflite": tflite, "keras": keras}


def turns(folder: Path, contestants: list[str], batch: int, rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Seconds of every call of each contestant, without the folder and the batch in its name."""
    found = compare(__file__, [f"{name}:{batch}:{folder}" for name in contestants], rounds, calls)
    return {name.removesuffix(f":{batch}:{folder}").replace(":", " "): seconds for name, seconds in found.items()}


def cold(folder: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds that each code of `COLD` takes in a process of its own, which has imported TensorFlow."""
    found = {name: [] for name in COLD}
    for _ in range(rounds):
        for name, code in COLD.items():
            command = [sys.executable, "-c", code.format(folder=str(folder))]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
    return found


def sizes(folder: Path) -> str:
    """Markdown: the bytes of the SavedModel and of OpenVINO's files over those of the weights alone."""
    with np.load(folder / "b16.npz") as file:
        weights = sum(file[name].nbytes for name in file.files)
    saved = sum(path.stat().st_size for path in (folder / "b16").rglob("*") if path.is_file())
    openvino_files = sum((folder / f"b16.{suffix}").stat().st_size for suffix in ("xml", "bin"))
    lines = ["### ViT-B/16 on disk", "", "| | MB | over its weights |", "|---|---:|---:|"]
    for name, size in (("weights", weights), ("SavedModel", saved), ("OpenVINO", openvino_files)):
        lines.append(f"| {name} | {size / 1e6:.1f} | {size / weights:.4f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker")
    parser.add_argument("--prepare", type=Path)
    options = parser.parse_args()
    if options.worker:
        kind, what, batch, folder = options.worker.split(":", 3)
        images = np.random.default_rng(0).uniform(-1, 1, (int(batch), 224, 224, 3)).astype("float32")
        work(lambda: CONTESTANTS[kind](Path(folder), what, images))
        return
    if options.prepare:
        prepare(options.prepare)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, "--prepare", name], check=True)
        print(f"{in_words()}\n\n{sizes(folder)}")
        found = cold(folder, options.rounds)
        ours = "SavedModel: load + first answer"
        print(table("ViT-B/16 from disk, a fresh process", found, ours, lambda s: s, "seconds"))
        found = turns(folder, FAST, 8, options.rounds)
        for ours in ("saved_model bfloat16", "openvino bfloat16"):
            title = f"ViT-B/16, batch 8, bfloat16 but where said otherwise; ours: {ours}"
            print(table(title, found, ours, lambda s: 8 / s, "images/s"))
        found = turns(folder, ["tflite:ti16", "keras:ti16"], 1, options.rounds, 20)
        title = "ViT-Ti/16, batch 1, float32: latency of calls back to back"
        print(table(title, found, "tflite ti16", lambda s: 1000 * s, "ms"))


if __name__ == "__main__":
    sys.exit(main())
