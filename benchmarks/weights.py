"""What do loading weights cost, in time and in memory? Prints one table a question.

    python -m benchmarks.weights [--model ViT_B16] [--rounds 5]
    python -m benchmarks.weights --families [--rounds 1]

Files of random weights are written to a temporary folder first. Every figure comes from a fresh process, the
contestants in turns. transformers (extra `parity`) is left out where it is not installed. `numpy.load` reads all arrays
of the same file; transformers maps its file and reads it when the first image comes, so that is timed, too.
`--families` measures the memory of `from_pretrained` for B-sized files of other families and layouts instead.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from benchmarks.harness.arguments import rounds
from benchmarks.harness.machine import in_words
from benchmarks.harness.tables import table
from benchmarks.import_time import in_turns

PRELUDE = """
import json, sys, time
from pathlib import Path
path = Path({path!r})
def memory(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return 1024 * int(line.split()[1])
def measured(call):
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before, begun = memory("VmRSS"), time.perf_counter()
    kept = call()
    seconds = time.perf_counter() - begun
    print(json.dumps([seconds, (memory("VmHWM") - before) / path.stat().st_size]))
"""
NUMPY = """
import numpy
def call():
    with numpy.load(path) as file:
        return {name: file[name] for name in file}
measured(call)
"""
LOAD = """
import keras_vit
model = keras_vit.{model}()
measured(lambda: keras_vit.load_weights(model, path))
"""
OURS = """
import numpy, keras_vit
keras_vit.build(keras_vit.Variant("warm", 8, 1, 8, 1, 8, image_size=8))(numpy.zeros((1, 8, 8, 3), "float32"))
def call():
    model = keras_vit.from_pretrained(path.parent)
    return {answer}
measured(call)
"""
OURS_ANSWER = 'numpy.asarray(model(numpy.zeros((1, 224, 224, 3), "float32")))'
TRANSFORMERS = """
import torch, numpy
import warnings
warnings.simplefilter("ignore")
from benchmarks.harness.torch_peers import declare_vision_operators
declare_vision_operators()
import transformers
small = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
with torch.inference_mode():
    transformers.ViTForImageClassification(small)(torch.zeros(1, 3, 224, 224))
def call():
    model = transformers.ViTForImageClassification.from_pretrained(path.parent)
    with torch.inference_mode():  # else its peak would hold what a backward pass needs
        return {answer}
measured(call)
"""
TRANSFORMERS_ANSWER = "model(torch.zeros(1, 3, 224, 224)).logits.numpy()"
WRITE = """
import numpy, keras_vit
model = keras_vit.{model}()
head = model.get_layer("head")
head.kernel.assign(numpy.random.default_rng(0).normal(size=head.kernel.shape))
keras_vit.save_weights(model, path)
keras_vit.save_weights(model, path.parent / "hub", layout="hf")
measured(lambda: None)
"""
# B-sized rows with the layouts of safetensors that hold them: q, k and v in one array (timm), or apart (hf and EVA-02).
FAMILIES = (
    *(("CLIP_ViT_B16", layout) for layout in ("timm", "hf")),
    *(("DINOv3_B16", layout) for layout in ("timm", "hf")),
    *(("SigLIP_B16", layout) for layout in ("timm", "hf")),
    *(("DINOv2_B14", layout) for layout in ("timm", "hf")),
    *(("BEiT_B16", layout) for layout in ("timm", "hf")),
    ("EVA02_B14", "timm"),
)
WRITE_FAMILY = """
import numpy, keras_vit
model = keras_vit.{model}(include_top=False)
rng = numpy.random.default_rng(0)
for variable in model.variables:
    variable.assign(rng.normal(size=variable.shape, scale=0.02))
keras_vit.save_weights(model, path.parent, layout={layout!r})
measured(lambda: None)
"""


def families(count: int) -> None:
    """Print the memory of `from_pretrained` for each of `FAMILIES`, over the size of its file."""
    found = {}
    for model, layout in FAMILIES:
        with tempfile.TemporaryDirectory() as folder:
            start = PRELUDE.format(path=str(Path(folder) / "model.safetensors"))
            if None in in_turns({"": start + WRITE_FAMILY.format(model=model, layout=layout)}, 1).get("", [None]):
                sys.exit(f"the file of {model} in layout {layout} could not be written")
            codes = {f"{model}, {layout}": start + OURS.format(answer="model")}
            found |= {name: [value[1] for value in values] for name, values in in_turns(codes, count).items()}
    title = "from_pretrained of B-sized safetensors files: peak of extra memory"
    print(table(title, found, next(iter(found)), lambda s: s, "file sizes"))


def main(arguments: list[str] | None = None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--families", action="store_true")
    parser.add_argument("--model", default="ViT_B16")
    parser.add_argument("--rounds", type=rounds, default=5)
    options = parser.parse_args(arguments)
    print(f"{in_words()}\n")
    if options.families:
        return families(options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        npz, hub = Path(folder) / "weights.npz", Path(folder) / "hub" / "model.safetensors"

        def race(path, codes):
            start = PRELUDE.format(path=str(path))
            return in_turns({name: start + code for name, code in codes.items()}, options.rounds)

        if None in in_turns({"": PRELUDE.format(path=str(npz)) + WRITE.format(model=options.model)}, 1).get("", [None]):
            sys.exit("the files could not be written")
        title = f"{options.model}, {npz.stat().st_size / 2**20:.0f} MiB"
        found = race(npz, {"load_weights": LOAD.format(model=options.model), "numpy.load": NUMPY})
        show(f"`.npz` into a built model, {title}", found, "load_weights")
        for question, ours, theirs in (
            ("from_pretrained of a hub folder", "model", "model"),
            ("from_pretrained of a hub folder and one answer", OURS_ANSWER, TRANSFORMERS_ANSWER),
        ):
            codes = {
                "keras_vit": OURS.format(answer=ours),
                "transformers": TRANSFORMERS.format(answer=theirs),
            }
            show(f"{question}, {title}", race(hub, codes), "keras_vit")


def show(title, found, ours):
    seconds = {name: [value[0] for value in values] for name, values in found.items()}
    memory = {name: [value[1] for value in values] for name, values in found.items()}
    print(table(title, seconds, ours, lambda s: 1000 * s, "ms"))
    print(table(f"{title}: peak of extra memory", memory, ours, lambda s: s, "file sizes"))


if __name__ == "__main__":
    sys.exit(main())
