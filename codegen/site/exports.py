"""Export a small model of each family in every format without calibration, and record what passed.

The command is `python -m codegen.site --exports`.

The rows are a family's own, with fewer and narrower blocks. An export raises an error if a file differs from the model.
"""

import csv
import datetime
import io
import tempfile
from dataclasses import replace

import numpy as np

from codegen.site.links import ROOT
from keras_vit.export.formats import FORMATS
from keras_vit.models.variants.lookup import FAMILIES
from keras_vit.models.variants.rows import BiTVariant, ResNetStem
from keras_vit.preprocessing.inputs import preprocess_input

CSV = ROOT / "docs/results/exports.csv"
ASKED = tuple(name for name, row in FORMATS.items() if not row.calibrated)
FIELDS = ("family", "model", "format", "output", "largest difference", "date")


def small(row):
    """Return a row with the layers of a family's row, and fewer and narrower blocks."""
    if isinstance(row, BiTVariant):
        return replace(row, units=(1,) * len(row.units), parameters=None)
    stem = row.stem and ResNetStem((1,) * len(row.stem.units))
    return replace(row, width=64, depth=2, mlp_dim=128, num_heads=2, stem=stem, parameters=None)


def clearest(model, images, count: int):
    """Return the images with the largest margins between the two best classes; rounding decides of the others."""
    ranked = np.sort(np.log(model.predict(preprocess_input(images.astype("float32")), verbose=0)), axis=1)
    return images[np.argsort(ranked[:, -2] - ranked[:, -1])[:count]]


def as_csv(families=FAMILIES, formats=ASKED) -> str:
    """Export a small model of the first row of each family, and return the table of comparisons."""
    from keras_vit.export import export
    from keras_vit.models.builders import build

    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(FIELDS)
    today, rng = datetime.date.today().isoformat(), np.random.default_rng(0)
    for family in families:
        row = family.ROWS[0]
        size = 8 * getattr(row, "patch_size", 8) if not getattr(row, "stem", None) else 64
        model = build(small(row), input_shape=(size, size, 3), classes=10)
        for variable in model.trainable_variables:  # a new classifier is zero, and compares nothing
            variable.assign_add(rng.normal(0, 0.2, variable.shape))
        images = clearest(model, rng.integers(0, 256, (64, size, size, 3)), 16)
        with tempfile.TemporaryDirectory() as folder:
            report = export(model, folder, images, formats=formats)  # raises an error for a file that differs
        for line in report.rows:
            name = family.__name__.rpartition(".")[2]
            writer.writerow((name, row.name, line.format, line.output, f"{line.max_difference:.1e}", today))
    return file.getvalue()


def passed(family: str) -> str:
    """Return the sentence and table about the exports of a family that passed."""
    with CSV.open(encoding="utf-8") as file:
        lines = [line for line in csv.DictReader(file) if line["family"] == family and line["output"] == "logits"]
    table = "\n".join(f"| `{line['format']}` | {line['largest difference']} |" for line in lines)
    return (
        f"**Exports that passed.** A model with the layers of `{lines[0]['model']}`, random weights, and fewer and "
        f"narrower blocks was exported on {lines[0]['date']}. The largest difference of a logit from the Keras "
        f"model:\n\n"
        f"| format | difference |\n|---|---:|\n{table}"
    )
