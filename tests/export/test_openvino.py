"""OpenVINO's files: split matmuls, and a runner of two streams that is shared by threads."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from support import max_difference, randomise

import keras_vit
from keras_vit.export import openvino, openvino_graph
from keras_vit.export.openvino import write_openvino

library = pytest.importorskip("openvino", reason="extra `formats` is not installed")
ROW = keras_vit.Variant("wide", width=64, depth=2, mlp_dim=256, num_heads=4, patch_size=4, image_size=16)
IMAGES = np.random.default_rng(0).uniform(-1, 1, (6, 16, 16, 3)).astype("float32")


@pytest.fixture(scope="module")
def model():
    return randomise(keras_vit.build(ROW, classes=5))


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    file = tmp_path_factory.mktemp("openvino") / "model.xml"
    write_openvino(model, file)
    return file


def operations(file, kind):
    return [op for op in library.Core().read_model(str(file)).get_ops() if op.get_type_name() == kind]


def test_a_file_has_a_product_each_for_query_key_and_value_and_keys_are_transposed_by_theirs(
    model, file, tmp_path, monkeypatch
):
    monkeypatch.setattr(openvino_graph, "_overrides", lambda model: [])
    write_openvino(model, tmp_path / "model.xml")
    plain, found = (operations(each, "MatMul") for each in (tmp_path / "model.xml", file))
    assert len(found) - len(plain) == 2  # the last block's is for the class token alone
    names = [[op.get_friendly_name() for op in some if op.get_attributes()["transpose_b"]] for some in (plain, found)]
    assert not names[0] and len(names[1]) == 1 and "block_00" in names[1][0]


@pytest.mark.parametrize("epsilon", [1e-12, 0.5])
def test_its_layer_norms_are_operations_of_openvinos_own(epsilon, tmp_path):
    model = randomise(keras_vit.build(ROW, classes=5, layer_norm_epsilon=epsilon))
    write_openvino(model, tmp_path / "model.xml")
    compiled = library.Core().compile_model(tmp_path / "model.xml", "CPU")
    kinds = [op.get_rt_info()["layerType"].astype(str) for op in compiled.get_runtime_model().get_ops()]
    assert kinds.count("MVN") == 5 and not {"ReduceMean", "RMS"} & {*kinds}
    answer = openvino.runner(tmp_path / "model.xml")(images=IMAGES)["probabilities"]
    assert max_difference(answer, model(IMAGES)) < 1e-5


@pytest.mark.parametrize(
    ("flags", "found"), [("avx2 fma", True), ("avx2 avx512_vnni", False), ("avx2 avx_vnni", False), ("asimd", False)]
)
def test_sums_overflow_with_avx2_alone(flags, found):
    assert openvino.overflows(flags) == found


@pytest.mark.broad
@pytest.mark.parametrize(("flags", "narrow"), [("avx2 fma", True), ("avx2 avx512_vnni", False)])
def test_kernels_have_7_bits_where_sums_of_products_would_overflow(flags, narrow, model, tmp_path, monkeypatch):
    nncf = pytest.importorskip("nncf", reason="extra `formats` is not installed")
    given, quantize = [], nncf.quantize
    spy = lambda *a, **options: given.append(options["advanced_parameters"]) or quantize(*a, **options)  # noqa: E731
    monkeypatch.setattr(nncf, "quantize", spy)
    monkeypatch.setattr(openvino, "processor", lambda: flags)
    monkeypatch.setattr(openvino, "processor", lambda: flags)
    write_openvino(model, tmp_path / "model.xml", IMAGES)
    kernels = [
        op.get_data()
        for op in operations(tmp_path / "model.xml", "Constant")
        if op.get_element_type() == library.Type.i8
    ]
    assert [parameters.overflow_fix.name for parameters in given] == ["ENABLE" if narrow else "FIRST_LAYER"]
    assert len(kernels) == 12 and all((np.abs(kernel.astype(int)).max() < 65) == narrow for kernel in kernels)
    openvino.runner(tmp_path / "model.xml")  # says nothing where it was made
    monkeypatch.setattr(openvino, "processor", lambda: "avx2 fma")
    told = nullcontext() if narrow else pytest.warns(UserWarning, match="model.xml expected a processor with VNNI")
    with told:
        openvino.runner(tmp_path / "model.xml")


def test_a_file_in_float32_is_right_on_every_processor(file, monkeypatch):
    monkeypatch.setattr(openvino, "processor", lambda: "avx2 fma")
    openvino.runner(file)


@pytest.mark.broad
def test_four_images_are_shared_out_over_two_streams(model, file, monkeypatch):
    asked, compile_model = [], library.Core.compile_model
    spy = lambda core, network, device, options: asked.append(options) or compile_model(core, network, device, options)  # noqa: E731
    monkeypatch.setattr(library.Core, "compile_model", spy)
    monkeypatch.setattr(openvino.os, "cpu_count", lambda: 2)
    run = openvino.runner(file)
    for count in (1, 3, 4, 5, 6):
        images = IMAGES[:count]
        assert max_difference(run(images=images)["probabilities"], model(images)) < 1e-5
    assert [options["NUM_STREAMS"] for options in asked] == [1, 2]


@pytest.mark.parametrize("count", [1, 4])
def test_images_of_another_size_are_refused_and_the_next_batch_is_answered(count, model, file):
    run = openvino.runner(file)
    with pytest.raises(RuntimeError, match="incompatible"):
        run(images=np.zeros((count, 32, 32, 3)))
    assert max_difference(run(images=IMAGES[:count])["probabilities"], model(IMAGES[:count])) < 1e-5


@pytest.mark.broad
def test_threads_that_share_a_runner_get_their_own_answers(model, file):
    run, batches = openvino.runner(file), [np.tile(IMAGES, (4, 1, 1, 1)) * sign for sign in (1, -1)]
    expected = [np.asarray(model(images)) for images in batches]
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda i: run(images=batches[i % 2])["probabilities"], range(40)))
    assert all(max_difference(answer, expected[i % 2]) < 1e-5 for i, answer in enumerate(answers))
