"""What does it cost to import the package and to build a large model? Prints one table a question.

    python -m benchmarks.import_time [--rounds 7]

Every figure comes from a fresh process. keras-hub (extra `parity`) is left out where it is not installed.
"""

import argparse
import json
import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from benchmarks.harness.tables import table

IMPORT = """
import time, json
import keras
begun = time.perf_counter()
import {module}
print(json.dumps([time.perf_counter() - begun]))
"""
BUILD = """
import json, resource, time
import {module}, keras, numpy
keras.layers.Dense(8)(keras.Input((8,)))  # the backend's own start
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
base, begun = peak(), time.perf_counter()
model = {build}
seconds = time.perf_counter() - begun
weights = 4 * sum(int(numpy.prod(variable.shape)) for variable in model.variables)
print(json.dumps([seconds, (peak() - base) / weights]))
"""
L16 = {
    "keras_vit": "keras_vit.ViT_L16(include_top=False)",
    "keras_hub": "keras_hub.models.ViTBackbone(image_shape=(224, 224, 3), patch_size=(16, 16), num_layers=24, "
    "num_heads=16, hidden_dim=1024, mlp_dim=4096)",
}


def fresh(code: str) -> list[float] | None:
    """What a fresh interpreter prints for the code, None where it fails."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def in_turns(codes: dict[str, str], rounds: int) -> dict[str, list[list[float]]]:
    """What every code prints, round by round; one that fails is left out."""
    found = {name: [] for name in codes}
    for _ in range(rounds):
        for name, code in codes.items():
            found[name].append(fresh(code))
    return {name: values for name, values in found.items() if None not in values}


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=rounds, default=7)
    options = parser.parse_args(arguments)
    print(f"{in_words()}\n")
    found = in_turns({"keras_vit": IMPORT.format(module="keras_vit")}, options.rounds)
    seconds = {name: [value[0] for value in values] for name, values in found.items()}
    print(table("import, over `import keras`", seconds, "keras_vit", lambda s: 1000 * s, "ms"))
    found = in_turns({name: BUILD.format(module=name, build=code) for name, code in L16.items()}, options.rounds)
    seconds = {name: [value[0] for value in values] for name, values in found.items()}
    print(table("building ViT-L/16 without a classifier", seconds, "keras_vit", lambda s: s, "seconds"))
    memory = {name: [value[1] for value in values] for name, values in found.items()}
    print(table("peak memory of that, over its weights' size", memory, "keras_vit", lambda s: s, "ratio"))


if __name__ == "__main__":
    sys.exit(main())
