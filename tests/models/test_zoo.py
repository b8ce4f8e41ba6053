"""The builders of the rows are written out, as the table and the docstrings of `build` say."""

import ast
import inspect

import pytest
from support import run_python

import codegen.zoo
import keras_vit
from keras_vit.models.builders import builder_of
from keras_vit.models.variants import FAMILIES, ROWS

FILES = codegen.zoo.sources()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_file_of_builders_is_what_its_rows_say(file):
    text = file.read_text(encoding="utf-8")
    assert text == FILES[file], "run: python -m codegen.zoo"
    written = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    rows = next(family.ROWS for family in FAMILIES if family.__name__.endswith(f".{file.stem}"))
    assert list(written) == [row.name for row in rows]
    for name, node in written.items():
        builder = getattr(keras_vit, name)
        assert builder.__module__ == f"keras_vit.models.zoo.{file.stem}"
        assert ast.get_docstring(node) == inspect.getdoc(builder)
        arguments = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        assert arguments == list(inspect.signature(builder).parameters)


def test_a_builder_passes_all_its_arguments_on(monkeypatch):
    for row in ROWS:
        builder = getattr(keras_vit, row.name)
        monkeypatch.setitem(builder.__globals__, builder_of(row).__name__, lambda *args, **options: (args, options))
        names = list(inspect.signature(builder).parameters)
        (variant, *positional), options = builder(*names[:8], **{name: name for name in names[8:]})
        assert variant is row and positional == names[:8] and options == {name: name for name in names[8:]}


@pytest.mark.broad
def test_nothing_depends_on_docstrings():
    code = "import keras_vit, keras_vit.analysis, keras_vit.models.variants.describe, inspect\n"
    code += "print(list(inspect.signature(keras_vit.ViT_B16).parameters)[0], keras_vit.ViT_B16.__doc__)"
    assert run_python(code, options=["-OO"]).split() == ["include_top", "None"]
