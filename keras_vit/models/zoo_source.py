"""Writes `zoo.py`, the builders of the table's rows, after a row or an argument changed: run this file as a module.

python -m keras_vit.models.zoo_source
"""

import inspect
import textwrap
from pathlib import Path

from keras_vit.models import variants
from keras_vit.models.bit import build_bit
from keras_vit.models.table import describe_variant
from keras_vit.models.vit import build

FILE = Path(__file__).with_name("zoo.py")
_HEAD = '''"""One builder per row of the table: `ViT_B16()` is `build(B16)`, with the arguments of `keras.applications`.

Written by `python -m keras_vit.models.zoo_source`: change that file, the table or the docstring of `build`.
"""

import keras

from keras_vit.models import variants
from keras_vit.models.builders import build

# fmt: off
'''


def source() -> str:
    """Return the text of `zoo.py`."""
    names = {id(row): name for name, row in vars(variants).items()}
    rows = (*variants.VARIANTS, *variants.BIT_VARIANTS)
    return _HEAD + "".join(_builder(row, f"variants.{names[id(row)]}") for row in rows)


def _builder(row, reference: str) -> str:
    """Return the source of a row's builder: signature, docstring and call."""
    own = build_bit if isinstance(row, variants.BiTVariant) else build
    parameters = list(inspect.signature(own).parameters.values())[1:]
    if getattr(row, "axial", False):
        parameters = [p.replace(default="gap") if p.name == "pooling" else p for p in parameters]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    declared = [*map(str, parameters[: -len(keywords)]), "*", *map(str, keywords)]
    given = [p.name for p in parameters[: -len(keywords)]] + [f"{p.name}={p.name}" for p in keywords]
    rest = inspect.getdoc(own).split("    include_top:", 1)[1].replace("\n", "\n    ").replace("\n    \n", "\n\n")
    return (
        f"\n\ndef {row.name}(\n{_wrapped(declared, 4)},\n) -> keras.Model:\n"
        f'    """Build {row.paper_name}: {row.parameters.classes_1000:,} parameters with 1000 classes.\n\n'
        f"    It has {describe_variant(row)}.\n\n    Args:\n        include_top:{rest}\n"
        f'    """\n    return build(\n{_wrapped([reference, *given], 8)},\n    )\n'
    )


def _wrapped(words: list[str], indent: int) -> str:
    text = ", ".join(word.replace("'", '"') for word in words)
    lines = textwrap.wrap(text.replace(" = ", "\0=\0").replace(" | ", "\0|\0").replace(": ", ":\0"), 119 - indent)
    return textwrap.indent("\n".join(lines).replace("\0", " "), " " * indent)


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
