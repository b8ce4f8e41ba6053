"""The house keeps its walls: who imports whom, what is public, and what an import costs."""

import ast
import inspect
import platform
import re

import keras
import pytest
from support import ROOT, run_python

import keras_vit
from keras_vit import analysis

PACKAGE = ROOT / "keras_vit"
# room: (rooms of keras_vit it may import, whether it may import TensorFlow)
RULES = {
    "private": (set(), False),
    "composed": (set(), False),
    "checks": (set(), False),
    "terminal": (set(), False),
    "disk": (set(), False),
    "layers": (set(), False),
    "preprocessing": (set(), False),
    "weights": ({"preprocessing"}, False),
    "models": ({"kernels", "layers", "preprocessing", "weights"}, False),
    "kernels": ({"layers"}, True),
    "data": ({"preprocessing"}, True),
    "train.recipe": ({"data", "models"}, False),
    "tasks": ({"data", "evaluate", "layers", "models", "train.recipe"}, True),
    "analysis": ({"layers", "models", "preprocessing"}, False),
    "cost": ({"analysis", "layers", "models", "weights"}, False),
    # its suites fine-tune
    "evaluate": ({"cost", "data", "layers", "models", "preprocessing", "train", "train.recipe", "weights"}, True),
    # its stages rewire layers, and its evaluations are those of `evaluate`
    "train": (
        {"analysis", "cost", "data", "evaluate", "kernels", "layers", "models", "preprocessing", "tasks"}
        | {"train.recipe", "weights"},
        True,
    ),
    "export": ({"analysis", "disk", "kernels", "layers", "models", "preprocessing"}, True),
    "exported": ({"export", "models", "preprocessing"}, False),
    "predict": ({"exported", "models", "preprocessing", "terminal"}, False),
    "serve": ({"preprocessing"}, True),
}
TENSORFLOW = {"tensorflow", "tensorflow_datasets", "keras_cv"}
PEERS = {"torch", "timm", "transformers", "keras_hub", "flax"}
# may import TensorFlow inside a function: each backend has gradients of its own
LAZILY = {
    "analysis/gradients.py",
    "private.py",
}
ANYTHING = {"cli", "__init__", "public"}


# may import TensorFlow when it is imported, in a room that needs none
IN_GRAPHS = {"preprocessing/graph.py"}


# Public names beside the builders, which are the rows of the table.
PUBLIC = {
    "BiTVariant",
    "EfficientNetVariant",
    "ImageSpec",
    "Picture",
    "ResNetStem",
    "ConvStem",
    "Rope",
    "TokenLayout",
    "Variant",
}
PUBLIC |= {"build", "compiled", "create_model", "feature_model", "from_pretrained", "layers", "load_model"}
PUBLIC |= {"list_models", "list_weights", "load_weights", "save_weights", "show", "token_layout"}
PUBLIC |= {"load_adapter", "merge_adapters", "save_adapter"}
PUBLIC |= {"decode_predictions", "fold_normalization", "patch_sequence_model", "patch_sequences"}
PUBLIC |= {"preprocess_input", "preprocessing_of"}
LAYERS = {name for name, value in vars(keras_vit.layers).items() if inspect.isfunction(value) or inspect.isclass(value)}
KERAS_METHODS = {"build", "call", "compute_output_shape", "get_config", "from_config"}  # Keras calls them, untyped


def room_of(path):
    return room(*path.relative_to(PACKAGE).with_suffix("").parts)


def room(first, *rest):
    return "train.recipe" if [first, *rest[:1]] == ["train", "recipe"] else first


def imports_of(path):
    """(module, whether it is imported when the file is) of every import in a file."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((name.name, id(node) in top) for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names = [node.module] if node.module != "keras_vit" else [f"keras_vit.{name.name}" for name in node.names]
            yield from ((name, id(node) in top) for name in names)


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_room_imports_only_what_it_may(path):
    own, name = room_of(path), str(path.relative_to(PACKAGE))
    assert own in RULES or own in ANYTHING, f"{own} has no rule here"
    for module, at_import in imports_of(path):
        first, *rest = module.split(".")
        if first == "keras_vit" and own not in ANYTHING:
            other = room(*rest) if rest else "__init__"
            allowed = RULES[own][0] | {own, "__version__", "private", "composed", "checks"}
            assert other in allowed, f"{own} imports {module}"
        if first in TENSORFLOW:
            lazily = not at_import and name in LAZILY
            may = own == "cli" or RULES.get(own, (set(), False))[1] or lazily or name in IN_GRAPHS
            assert may, f"{own} imports {module}"
        if first in PEERS:
            assert not at_import, f"{path} imports {module} when it is imported"
        if own == "cli" and first in TENSORFLOW | {"keras"}:
            assert not at_import, "the command line imports TensorFlow before it knows its command"
        assert first != "benchmarks" or name == "cli/bench.py", f"{path} needs a clone"


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*.py")), ids=lambda path: path.name)
def test_recipes_are_values(path):
    assert {module for module, _ in imports_of(path) if module.startswith("keras_vit")} == {"keras_vit.train.recipe"}
    assert ast.get_docstring(ast.parse(path.read_text())), "a recipe opens with its lab note"


def test_architecture_md_shows_these_rules():
    table = re.findall(r"^\| `([a-z.]+)` \| (.*) \| (yes|no) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert {name: (set(re.findall(r"`(.*?)`", others)), may == "yes") for name, others, may in table} == RULES


def test_the_public_names_are_these():
    tree = ast.parse((PACKAGE / "public.py").read_text())
    assert all(name.asname == name.name for node in tree.body[1:] for name in node.names)
    brought = {name.name for node in tree.body[1:] for name in node.names}
    imported = {
        name
        for name, value in vars(keras_vit).items()
        if not name.startswith("_") and (not inspect.ismodule(value) or name in brought)
    }
    assert brought == imported == PUBLIC | set(keras_vit.list_models())


@pytest.mark.parametrize("name", sorted(PUBLIC) + keras_vit.list_models())
def test_a_public_name_has_a_page_a_docstring_and_types(name):
    value = getattr(keras_vit, name)
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert re.search(rf"\b{name}\b", pages), f"no page of docs/ mentions {name}"
    assert value.__doc__
    assert inspect.ismodule(value) or not untyped(value)  # of `layers`, each class below


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_a_public_layer_has_a_docstring_and_types(name):
    value = getattr(keras_vit.layers, name)
    assert value.__doc__ and not untyped(value)


def untyped(value) -> list[str]:
    """Return the parameters and results without types of a function, or of a class's constructor and public methods."""
    if inspect.isclass(value):
        methods = {name: getattr(method, "fget", method) for name, method in vars(value).items()}
        public = {name: method for name, method in methods.items() if name == "__init__" or name[0] != "_"}
        return [
            f"{name}: {missing}"
            for name, method in public.items()
            if inspect.isfunction(method) and name not in KERAS_METHODS
            for missing in untyped(method)
        ]
    signature = inspect.signature(value)
    missing = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
    no_result = signature.return_annotation is signature.empty and value.__name__ != "__init__"
    return missing + ["return"] * no_result


def test_no_file_and_no_function_is_too_long():
    files, functions = [], []
    for path in FILES:
        name, text = str(path.relative_to(PACKAGE)), path.read_text()
        if len(text.splitlines()) > 300 and not name.startswith("models/zoo/"):  # written by codegen/zoo.py
            files.append(name)
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= 60:
                functions.append(f"{name}:{node.name}")
    assert not files and not functions


def test_the_names_of_the_analysis_are_listed_by_hand_and_say_what_they_do():
    text = (PACKAGE / "analysis" / "__init__.py").read_text()
    listed = set(re.findall(r" as ([a-zA-Z]\w*)$", text, re.MULTILINE))
    public = {name for name, value in vars(analysis).items() if not name.startswith("_") and callable(value)}
    assert public == listed
    contract = {"analyze", "attention_distance", "attention_maps", "capture", "class_attention", "embedding_filters"}
    contract |= {"features_of", "grad_cam", "gradient_attention", "layer_outputs", "layer_similarity", "linear_cka"}
    contract |= {"nearest", "plot_figure7", "plot_layer_outputs", "position_similarity", "project", "rollout"}
    contract |= {"rollout_maps"}
    assert contract <= listed
    pages = "".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert all(getattr(analysis, name).__doc__ and (name in pages or name not in contract) for name in listed)


def test_without_tensorflow_the_zoo_needs_no_tensorflow():
    pytest.importorskip("jax", reason="the JAX backend is not installed")
    code = (
        "import sys, keras_vit, keras_vit.analysis, keras_vit.cli, keras_vit.predict\n"
        "keras_vit.ViT_Ti16(); print('tensorflow' in sys.modules)"
    )
    assert run_python(code, backend="jax").strip() == "False"


def test_importing_brings_in_no_optional_library():
    code = (
        "import gc, keras, sys, warnings; before, show = set(sys.modules), warnings.showwarning; import keras_vit\n"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))\n"
        "print(keras.saving.get_registered_object('keras_vit>EncoderBlock').__name__)\n"
        "print(warnings.showwarning is show, gc.isenabled(), sys.meta_path[0].__class__.__name__ == '_SilentImport')"
    )
    *brought, registered, unchanged, collecting, silent = run_python(code, backend=keras.backend.backend()).split()
    assert (registered, unchanged, collecting, silent) == ("EncoderBlock", "True", "True", "False")
    brought = set(brought)
    optional = {"PIL", "matplotlib", "tensorflow_datasets", "keras_cv", "sklearn", "scipy", "torch", "tqdm", "pyarrow"}
    assert not brought & optional


# Of one kind of model, beside what compares with other code; JAX compiles each step anew, which takes its time.
ALIKE = "test_layers or test_on_jax or logits_and_features or every_resolution or another_resolution"
ALL = "round_trip or one_step or declared or half_precision or static_and_free or looked_into"


@pytest.mark.parametrize(
    ("backend", "kept"),
    [
        pytest.param("jax", "round_trip and [token] or logits_and_features and g2", id="token on jax"),
        pytest.param(
            "jax",
            "test_layers or test_on_jax or logits_and_features or (round_trip or one_step) and [token]",
            id="layers on jax",
            marks=pytest.mark.broad,
        ),
        pytest.param("jax", f"{ALIKE} or {ALL}", id="all on jax", marks=pytest.mark.large),
        pytest.param("torch", f"{ALIKE} or {ALL}", id="all on torch", marks=pytest.mark.large),
    ],
)
def test_the_contract_holds_on_another_backend(backend, kept):
    pytest.importorskip(backend, reason=f"{backend} is not installed")
    if keras.backend.backend() == backend:
        pytest.skip(f"this is the run on {backend}")
    code = (
        "import pytest, sys\n"
        "files = ['contract', 'layers', 'kernels/test_on_jax.py', 'weights/test_plain_goldens.py']\n"
        f"sys.exit(pytest.main([*(f'tests/{{f}}' for f in files), '-q', '-p', 'no:cacheprovider', '-k', {kept!r}]))"
    )
    assert " passed" in run_python(code, backend=backend)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="a switch of x86 processors")
@pytest.mark.parametrize(("asked", "switch"), [(None, "1"), pytest.param("0", "0", marks=pytest.mark.large)])
def test_the_import_turns_tensorflows_onednn_on_unless_told_otherwise(asked, switch, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    if asked is not None:
        monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", asked)
    code = "import os, keras_vit; from keras.saving import get_registered_object as found\n"
    code += "from tensorflow.python.util import _pywrap_util_port as port; "
    code += "print(os.environ['TF_ENABLE_ONEDNN_OPTS'], port.IsMklEnabled(), found('keras_vit>StdConv').__name__)"
    assert run_python(code).split() == [switch, str(switch == "1"), "StdConv"]


def test_no_test_begins_after_the_end_of_ci(pytestconfig, monkeypatch):
    plugins = pytestconfig.pluginmanager.get_plugins()
    (own,) = [each for each in plugins if getattr(each, "__file__", None) == str(ROOT / "tests/conftest.py")]
    monkeypatch.setenv("KERAS_VIT_TESTS_END", "1")
    with pytest.raises(pytest.skip.Exception, match="no time is left"):
        own.pytest_runtest_setup(None)
    monkeypatch.setenv("KERAS_VIT_TESTS_END", "1e12")
    own.pytest_runtest_setup(None)
    monkeypatch.delenv("KERAS_VIT_TESTS_END")
    own.pytest_runtest_setup(None)
