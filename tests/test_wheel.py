"""The wheel: what is in it, and that it works without the clone."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from support import ROOT, needs_tensorflow

pytestmark = [pytest.mark.broad, needs_tensorflow]
SMOKE = """
import sys
from pathlib import Path
import numpy as np, keras_vit
from keras_vit.cost.published import published
assert Path(keras_vit.__file__).is_relative_to(sys.prefix), keras_vit.__file__
row = keras_vit.Variant("tiny", width=8, depth=1, mlp_dim=8, num_heads=2, patch_size=4)
model = keras_vit.build(row, input_shape=(8, 8, 3), classes=1000)
print(model(np.zeros((2, 8, 8, 3))).shape, keras_vit.decode_predictions(np.eye(1000)[:1], top=1)[0][0][1])
print(len(published(6)) > 5, len(keras_vit.list_weights()) > 10)
"""


def run(*command, **options) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command}: {done.stdout[-1500:]} {done.stderr[-1500:]}"
    return done.stdout


@pytest.fixture(scope="module")
def tracked():
    """The files of the clone that Git tracks."""
    if not shutil.which("git") or not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    return [Path(name) for name in run("git", "-C", ROOT, "ls-files", "-z").split("\0") if (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tracked, tmp_path_factory):
    """Build the wheel from a copy of the tracked files, because a build writes into its folder."""
    pytest.importorskip("setuptools")
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for file in tracked:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, source / file)
    pip = ("-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation", "--no-index")
    run(sys.executable, *pip, "--wheel-dir", output, source)
    (found,) = output.glob("*.whl")
    return found


def test_the_wheel_has_the_package_its_data_and_its_licence_and_nothing_else(wheel, tracked):
    with zipfile.ZipFile(wheel) as archive:
        files = {name for name in archive.namelist() if not name.endswith("/")}
        (licence,) = [name for name in files if name.split("/")[0].endswith(".dist-info") and "LICENSE" in name]
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()
    assert {name.split("/")[0] for name in files} == {"keras_vit", licence.split("/")[0]}  # no benchmarks, no tests
    expected = {file.as_posix() for file in tracked if file.parts[0] == "keras_vit"}
    assert {"keras_vit/py.typed", "keras_vit/serve/page.html"} <= expected
    assert {name for name in files if name.startswith("keras_vit/")} == expected


def test_the_wheel_works_without_the_clone(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv/bin/python"
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    shared = [path for path in sys.path if path.endswith("site-packages")]
    (site / "shared.pth").write_text("\n".join(shared))  # TensorFlow and the other dependencies
    pip = ("-m", "pip", "--disable-pip-version-check", "--python", python, "install", "--no-deps", "--no-index")
    run(sys.executable, *pip, "--ignore-installed", wheel)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    outside = {"cwd": tmp_path, "env": environment}
    assert run(python, "-c", SMOKE, **outside).split() == ["(2,", "1000)", "tench", "True", "True"]
    command = tmp_path / "venv/bin/keras-vit"
    assert "usage: keras-vit" in run(command, "--help", **outside)
    assert "ViT_B16" in run(command, "list", **outside)
