"""A user's script is checked by the types of the public names."""

import os
import re
import subprocess
import sys

import pytest
from support import ROOT

RIGHT = """
import keras_vit
import numpy as np

model = keras_vit.ViT_B16(weights=None, classes=10)
scores = model.predict(np.zeros((1, 224, 224, 3)))
named: list[list[tuple[str, str, float]]] = keras_vit.decode_predictions(scores, top=3)
size: tuple[int, int] | None = keras_vit.preprocessing_of(model).size
prefix: tuple[str, ...] = keras_vit.token_layout(model).prefix
fast = keras_vit.compiled(keras_vit.create_model("ViT-B/16", classes=10), frozen=True)
fast.refresh()
fast(np.zeros((1, 224, 224, 3)))
keras_vit.load_weights(model, "weights.npz", strict=False)
keras_vit.save_weights(keras_vit.from_pretrained("weights.npz", num_heads=12), "other.npz")
block = keras_vit.layers.EncoderBlock(num_heads=12, mlp_dim=3072, name="block")
row = keras_vit.Variant("own", width=16, depth=1, mlp_dim=24, num_heads=2, patch_size=4)
features = keras_vit.feature_model(keras_vit.build(row), ["encoder_norm"], as_grid=True)
names: list[str] = keras_vit.list_models()
"""
WRONG = {
    "keras_vit.ViT_B16(clases=10)": "call-arg",
    "keras_vit.ViT_B16(classes='ten')": "arg-type",
    "keras_vit.BiT_R50x1(patch_size=16)": "call-arg",
    "keras_vit.ViT_B61()": "attr-defined",
    "keras_vit.compiled(keras_vit.ViT_B16(), freeze=True)": "call-arg",
    "keras_vit.decode_predictions()": "call-arg",
    "keras_vit.layers.EncoderBlock(12)": "call-arg",
    "keras_vit.Variant('own', width=16, depths=1, mlp_dim=24, num_heads=2, patch_size=4)": "call-arg",
    "keras_vit.preprocess_input(pixels=0)": "call-arg",
    "keras_vit.load_weights(keras_vit.ViT_B16(), 3)": "arg-type",
}


def test_a_right_script_passes_and_each_wrong_line_is_an_error(tmp_path):
    pytest.importorskip("mypy", reason="extra `dev` is not installed")
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text("\n".join(["import keras_vit", *WRONG]))
    command = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
    command += ["--cache-dir", ROOT / ".mypy_cache", right, wrong]
    done = subprocess.run(
        command, env=os.environ | {"MYPYPATH": str(ROOT)}, cwd=tmp_path, capture_output=True, text=True
    )
    found = re.findall(r"^(right|wrong)\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)
    assert found == [("wrong", str(line), code) for line, code in enumerate(WRONG.values(), 2)], (
        done.stdout + done.stderr
    )


def test_the_wheel_has_the_mark_of_a_typed_package():
    assert (ROOT / "keras_vit" / "py.typed").is_file() and '"py.typed"' in (ROOT / "setup.py").read_text()
