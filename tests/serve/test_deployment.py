"""The files of docker/ and saved_models/: they name what the server and the command line really have."""

import importlib.util
import io
import json
import re
import urllib.error
import urllib.request

import numpy as np
import pytest
from PIL import Image
from support import ROOT

from keras_vit import cli

DOCKERFILES = ("serve", "train")
KSERVE = ROOT / "saved_models/kserve.yaml"


def instructions(name) -> list[tuple[str, str]]:
    """Return (instruction, arguments) of a Dockerfile, with continued lines joined and without comments."""
    lines = [line for line in (ROOT / f"docker/{name}.Dockerfile").read_text().splitlines() if not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in "\n".join(lines).replace("\\\n", "").splitlines() if line]


def arguments_of(words):
    """Parse `keras-vit ...` by the parser of the command line."""
    command, *rest = words
    assert command == "keras-vit"
    return cli.command_parser().parse_args(rest)


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_dockerfile_runs_a_verb_with_options_that_exist(name):
    found = dict(instructions(name))
    options = arguments_of([*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])])
    assert options.verb == name
    if name == "serve":
        assert (options.host, str(options.port)) == ("0.0.0.0", found["EXPOSE"])
    else:
        assert (ROOT / options.recipe).is_file() and options.workdir


@pytest.mark.parametrize("name", DOCKERFILES)
def test_the_example_of_a_dockerfile_parses(name):
    text = (ROOT / f"docker/{name}.Dockerfile").read_text()
    example = re.search(rf"keras-vit-{name} (?!\.)((?:.*\\\n#)?.*)\n(?!.*docker build)", text.split("docker run")[1])[1]
    options = arguments_of(["keras-vit", name, *example.replace("\\\n#", "").split()])
    assert name == "serve" or (ROOT / options.recipe).is_file()


@pytest.mark.parametrize("name", DOCKERFILES)
def test_a_dockerfile_has_another_user_one_extra_and_files_that_are_sent_to_docker(name):
    found = instructions(name)
    user = [value for instruction, value in found if instruction == "USER"]
    assert user == ["1000"] and found.index(("USER", "1000")) < [i for i, _ in found].index("ENTRYPOINT")
    (extras,) = re.findall(r'pip install .*"\.\[(.*)\]"', "\n".join(value for _, value in found))
    assert extras == {"serve": "serve", "train": "recipes"}[name]
    assert re.search(rf"^{extras} = \[", (ROOT / "setup.py").read_text(), re.MULTILINE)
    sent = (ROOT / f"docker/{name}.Dockerfile.dockerignore").read_text().splitlines()
    copied = [file for instruction, value in found if instruction == "COPY" for file in value.split()[:-1]]
    assert all((ROOT / file).exists() and f"!{file}" in sent for file in copied) and sent[0] == "*"
    assert len(copied) == len([line for line in sent if line.startswith("!")])


@pytest.mark.broad
def test_the_health_check_of_the_container_answers_for_a_running_server_only(running):
    check = dict(instructions("serve"))["HEALTHCHECK"]
    python, flag, code = json.loads(check.partition("CMD ")[2])
    assert (python, flag) == ("python", "-c")
    with pytest.raises(urllib.error.URLError):
        exec(code.replace("8501", "9"))  # a port where nothing listens
    exec(code.replace("8501", str(running.port)))


@pytest.mark.broad
def test_the_manifest_for_kserve_runs_the_server(running):
    yaml = pytest.importorskip("yaml")
    manifest = yaml.safe_load(KSERVE.read_text())
    assert (manifest["apiVersion"], manifest["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    (container,) = manifest["spec"]["predictor"]["containers"]
    options = arguments_of([*container["command"], *container["args"]])
    (port,) = container["ports"]
    assert options.verb == "serve" and options.port == port["containerPort"] == 8501 and options.host == "0.0.0.0"
    assert options.allowed_host == ["*"]
    assert options.models == [f"/mnt/models/{manifest['metadata']['name']}"]  # the name in the requests
    for probe in ("readinessProbe", "livenessProbe"):
        get = container[probe]["httpGet"]
        assert get["port"] == options.port and running.ask("GET", get["path"])[0] == 200
    assert {"name": "PROTOCOL", "value": "v2"} in container["env"]
    assert running.ask("GET", "/v2/models/photos")[0] == 200  # the protocol that it names


@pytest.mark.broad
def test_the_fields_of_the_manifest_are_kserves():
    yaml, models = pytest.importorskip("yaml"), pytest.importorskip("kserve.models")
    predictor = yaml.safe_load(KSERVE.read_text())["spec"]["predictor"]
    assert set(predictor) <= set(models.V1beta1PredictorSpec.attribute_map.values())


@pytest.fixture(scope="module")
def ray_serve():
    spec = importlib.util.spec_from_file_location("ray_serve", ROOT / "saved_models/ray_serve.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def png(seed=0):
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype="uint8")
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


@pytest.mark.broad
def test_the_classifier_of_ray_serve_answers_as_the_newest_export(ray_serve, exports, own, tmp_path):
    files = [png(0), b"no image", png(1)]
    first, broken, last = ray_serve.Classifier(exports / "photos").classify(files)
    for answer, file in ((first, files[0]), (last, files[2])):
        import tensorflow as tf

        expected = own("photos", 2)["classify_bytes"](image_bytes=tf.constant([file]))
        scores = [best["score"] for best in answer["predictions"]]
        np.testing.assert_allclose(scores, expected["scores"][0].numpy(), rtol=1e-5)
        assert [best["label"].encode() for best in answer["predictions"]] == expected["labels"][0].numpy().tolist()
    assert list(broken) == ["error"] and broken["error"]
    with pytest.raises(ValueError, match="folder expected versions with a SavedModel"):
        ray_serve.Classifier(tmp_path)
