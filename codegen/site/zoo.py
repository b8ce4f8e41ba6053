"""The zoo's table: one line per row of the models and per published checkpoint."""

import csv
import io
from dataclasses import asdict, dataclass, fields
from functools import cache

from keras_vit.cost import count
from keras_vit.cost.weightless import build_weightless
from keras_vit.export.formats import FORMATS
from keras_vit.models.variants import find_variant
from keras_vit.models.variants.lookup import FAMILIES
from keras_vit.models.variants.rows import ConvNet
from keras_vit.preprocessing.image_spec import ImageSpec
from keras_vit.weights.released import RELEASED, Released

TITLES = {
    "vit": "ViT",
    "deit": "DeiT",
    "dino": "DINO",
    "mae": "MAE",
    "dinov2": "DINOv2",
    "clip": "CLIP",
    "siglip": "SigLIP",
    "ijepa": "I-JEPA",
    "beit3": "BEiT-3",
    "aimv2": "AIMv2",
    "tips": "TIPS",
    "radio": "C-RADIO and InternViT",
    "flexivit": "FlexiViT",
    "registers": "Registers",
    "hybrid": "Hybrids",
    "bit": "BiT and ResNet-v2",
    "efficientnet": "EfficientNet",
    "axial": "Axial",
    "dinov3": "DINOv3",
    "eva": "EVA",
    "beit": "BEiT",
    "rope_vit": "RoPE-ViT",
    "perception": "Perception Encoder",
    "relpos": "Relative biases and post-norm",
    "naflex": "NaFlex",
    "sapiens": "Sapiens2",
    "sam": "SAM",
}
# Cases of tests/contract/cases.py that have the layers of a family and that tests/export/test_gate.py exports.
EXPORTED = {
    "vit": ("token", "gap", "map"),
    "deit": ("registers",),
    "dino": ("token",),
    "mae": ("token",),
    "dinov2": ("registers", "registers_gap"),
    "clip": ("clip",),
    "siglip": ("map",),
    "ijepa": ("gap",),
    "beit3": ("gated",),
    "aimv2": ("rms_norm",),
    "tips": ("registers", "gated"),
    "radio": ("registers", "without_a_final_norm"),
    "flexivit": ("token",),
    "registers": ("registers", "registers_gap", "map_of_patches", "parallel"),
    "dinov3": ("rope", "registers"),
    "eva": ("rope", "gated", "post_norm"),
    "beit": ("relative_bias",),
    "rope_vit": ("rope_learned", "rope"),
    "perception": ("rope", "map"),
    "relpos": ("relative_bias", "relative_bias_mlp", "shared_bias", "post_norm"),
    "naflex": ("registers", "factorized", "map"),
    "sapiens": ("rope", "rms_norm", "post_norm", "shared_bias"),
    "sam": ("windows", "windows_map", "windows_of_one_norm"),
    "hybrid": ("hybrid", "stem_only", "conv_stem"),
    "bit": ("bit", "bit_batch_norm", "bit_evo_norm"),
    "efficientnet": ("efficientnet",),
    "axial": ("axial",),
}


@dataclass(frozen=True)
class ZooLine:
    """One line of the table.

    Args:
        model: name of the builder.
        family: name of the module with the model's row.
        tag: tag of the published checkpoint; empty for the row itself, with 1000 classes.
        classes: number of classes.
        image_size: side of the images in pixels. A BiT takes any size; its costs are for this size.
        parameters: number of weights, from the shapes of the model's layers.
        macs: multiply-adds of the forward pass for one image.
        megabytes: size of the weights in float32.
        layout: layout of the published file.
        preprocessing: range, resize and crop that the published weights expect.
        accuracy: published top-1 accuracy on ImageNet, in percent.
        source: publication of the accuracy.
    """

    model: str
    family: str
    tag: str
    classes: int
    image_size: int
    parameters: int
    macs: int
    megabytes: float
    layout: str = ""
    preprocessing: str = ""
    accuracy: str = ""
    source: str = ""


def lines() -> list[ZooLine]:
    """Return the lines of all rows, each row followed by its published checkpoints."""
    return [line for family in FAMILIES for row in family.ROWS for line in _lines_of(_name(family), row)]


def _name(family) -> str:
    return family.__name__.rpartition(".")[2]


def _lines_of(family: str, row) -> list[ZooLine]:
    published = [released for released in RELEASED if released.model == row.name]
    return [_line(family, row)] + [_line(family, row, released) for released in published]


def _line(family: str, row, released: Released | None = None) -> ZooLine:
    classes, size = (released and released.classes) or 1000, (released and released.image_size) or row.image_size
    representation = row.width if released and released.has_representation else None
    parameters, macs = _cost(row.name, size, classes, representation)
    line = ZooLine(row.name, family, "", classes, size, parameters, macs, round(parameters * 4 / 1e6, 1))
    if released is None:
        return line
    accuracy = "" if released.accuracy is None else f"{100 * released.accuracy:.2f}"
    about = {"layout": "npz", "preprocessing": _preprocessing(), "accuracy": accuracy, "source": released.source or ""}
    return ZooLine(**{**asdict(line), "tag": released.tag, **about})


@cache
def _cost(name: str, size: int, classes: int, representation: int | None) -> tuple[int, int]:
    row = find_variant(name)[0]
    options = {} if isinstance(row, ConvNet) else {"representation_size": representation}
    cost = count(build_weightless(row, (size, size), classes=classes, **options))
    return cost.parameters, cost.macs


def _preprocessing() -> str:
    """Return the preprocessing that the layout `npz` implies, as `keras_vit.weights.image_configs` reads it."""
    spec = ImageSpec()
    scaled = "[-1, 1]" if spec.is_plain_scaling else f"mean {spec.mean}, std {spec.std}"
    return f"{scaled}, {spec.interpolation}, {spec.resize_mode}, crop {spec.crop_fraction:g}"


def as_csv(table: list[ZooLine]) -> str:
    """Return the table as CSV."""
    file = io.StringIO()
    writer = csv.DictWriter(file, [field.name for field in fields(ZooLine)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(line) for line in table)
    return file.getvalue()


def as_html(table: list[ZooLine]) -> str:
    """Return the table as HTML. `_static/sortable.js` sorts it by the attribute `data-value` of its cells."""
    titles = ("model", "tag", "classes", "pixels", "parameters (M)", "GMACs", "MB", "top-1 (%)", "family", "layout")
    titles += ("preprocessing",)
    head = "".join(f'<th scope="col"><button type="button">{title}</button></th>' for title in titles)
    body = "\n".join(f"<tr>{''.join(_cells(line))}</tr>" for line in table)
    return f'<table class="sortable">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


def _cells(line: ZooLine):
    for text in (line.model, line.tag):
        yield f"<td><code>{text}</code></td>" if text else "<td></td>"
    shown = (line.classes, line.image_size, line.parameters / 1e6, line.macs / 1e9, line.megabytes)
    for value, text in zip(shown, ("{:,}", "{:,}", "{:,.1f}", "{:,.2f}", "{:,.0f}"), strict=True):
        yield f'<td class="number" data-value="{value}">{text.format(value)}</td>'
    title = f' title="{line.source}"' if line.source else ""
    yield f'<td class="number" data-value="{line.accuracy}"{title}>{line.accuracy}</td>'
    for text in (TITLES[line.family], line.layout, line.preprocessing):
        yield f"<td>{text}</td>"


def pages() -> dict[str, str]:
    """Return the pages of the zoo: name on the site -> Markdown."""
    table = lines()
    sources = sorted({line.source for line in table if line.source})
    intro = [
        "# All models and checkpoints",
        "A line without a tag is a model with 1000 classes and initial values. A line with a tag is a published file.",
        "Parameters and multiply-adds are counted from the shapes of the layers. MB are float32 weights. A BiT takes "
        "any image size; its multiply-adds are for the size shown. "
        f"Accuracies are the publishers' own, on ImageNet; source: {', '.join(sources)}.",
        "Select a column's title to sort. {download}`The same as CSV <../results/zoo.csv>`.",
        "```{raw} html",
        as_html(table),
        "```",
    ]
    found = {"zoo/all.md": "\n\n".join(intro) + "\n"}
    for family in FAMILIES:
        name = _name(family)
        found[f"zoo/{name}.md"] = _family_page(family, [line for line in table if line.family == name])
    return found


def _exports(family: str) -> str:
    """Return the sentences about the exports that the tests make of a family."""
    cases = ", ".join(f"`{name}`" for name in EXPORTED[family])
    formats = ", ".join(f"`{name}`" for name in FORMATS)
    return (
        f"**Exports.** The tests export small models with the layers of this family ({cases} in "
        f"`tests/contract/cases.py`) as {formats}, and compare each file with the model. No published checkpoint was "
        "exported."
    )


def _family_page(family, table: list[ZooLine]) -> str:
    name = _name(family)
    models = ", ".join(f"{{py:func}}`~keras_vit.{row.name}`" for row in family.ROWS)
    tags = sum(bool(line.tag) for line in table)
    sources = sorted({line.source for line in table if line.source})
    return "\n\n".join(
        [
            f"# {TITLES[name]}",
            f"{(family.__doc__ or '').strip()}",
            f"Builders: {models}.",
            f"{tags} published checkpoints. `keras_vit.from_pretrained(tag)` downloads, verifies and caches a file."
            if tags
            else "The catalogue (`list_weights()`) has no checkpoints of this family.",
            *([f"Accuracies are the publishers' own, on ImageNet; source: {', '.join(sources)}."] if sources else []),
            _exports(name),
            f"```{{raw}} html\n{as_html(table)}\n```\n",
        ]
    )
