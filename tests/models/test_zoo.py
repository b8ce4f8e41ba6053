"""The builders of the rows are written out, as the table and the docstrings of `build` say."""

import ast
import inspect

import pytest
from support import run_python

import keras_vit
from keras_vit.models import zoo, zoo_source
from keras_vit.models.variants import BIT_VARIANTS, VARIANTS


def test_the_file_is_what_the_table_says():
    text = zoo_source.FILE.read_text(encoding="utf-8")
    assert text == zoo_source.source(), "run: python -m keras_vit.models.zoo_source"
    written = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert written.keys() == {row.name for row in (*VARIANTS, *BIT_VARIANTS)}
    for name, node in written.items():
        assert ast.get_docstring(node) == inspect.getdoc(getattr(keras_vit, name))
        arguments = [argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)]
        assert arguments == list(inspect.signature(getattr(zoo, name)).parameters)


def test_a_builder_hands_all_its_arguments_on(monkeypatch):
    monkeypatch.setattr(zoo, "build", lambda *args, **options: (args, options))
    for row in (*VARIANTS, *BIT_VARIANTS):
        builder = getattr(zoo, row.name)
        names = list(inspect.signature(builder).parameters)
        (variant, *positional), options = builder(*names[:8], **{name: name for name in names[8:]})
        assert variant is row and positional == names[:8] and options == {name: name for name in names[8:]}


@pytest.mark.broad
def test_nothing_depends_on_docstrings():
    code = "import keras_vit, keras_vit.analysis, keras_vit.models.table, inspect\n"
    code += "print(list(inspect.signature(keras_vit.ViT_B16).parameters)[0], keras_vit.ViT_B16.__doc__)"
    assert run_python(code, options=["-OO"]).split() == ["include_top", "None"]
