"""Serve an export with Ray Serve. It needs Ray and TensorFlow, not keras_vit.

    pip install 'ray[serve]' tensorflow
    cd saved_models && serve run ray_serve:build folder=$PWD/digits
    curl --data-binary @image.png -H 'content-type: application/octet-stream' http://localhost:8000/

A request is the bytes of one image file. Ray Serve batches requests, and starts replicas as the load grows.
"""

from pathlib import Path

import tensorflow as tf

MAX_BATCH_SIZE = 32
BATCH_SECONDS = 0.002  # longest wait for a full batch


class Classifier:
    """Classifies image files by the newest version of an export.

    Args:
        folder: the folder of the versions, `saved_models/NAME`.

    Raises:
        ValueError: the folder has no version with a SavedModel.
    """

    def __init__(self, folder):
        versions = [path for path in Path(folder).glob("[0-9]*") if (path / "saved_model.pb").is_file()]
        if not versions:
            raise ValueError(
                f"folder expected versions with a SavedModel, such as 1/saved_model.pb, found none at {folder!r}."
            )
        self._model = tf.saved_model.load(str(max(versions, key=lambda path: int(path.name))))
        self._classify = self._model.signatures["classify_bytes"]

    def classify(self, files: list[bytes]) -> list[dict]:
        """Return one dict per image file: `predictions`, best first, or `error` for an unreadable file."""
        answers = {name: tensor.numpy() for name, tensor in self._classify(image_bytes=tf.constant(files)).items()}
        rows = zip(answers["error"], answers["labels"], answers["scores"], strict=True)
        return [{"error": error.decode()} if error else _best(labels, scores) for error, labels, scores in rows]


def _best(labels, scores):
    rows = zip(labels, scores, strict=True)
    return {"predictions": [{"label": label.decode(), "score": float(score)} for label, score in rows]}


def build(arguments: dict):
    """Return Ray Serve's application of the export in `arguments["folder"]`."""
    from ray import serve
    from starlette.responses import JSONResponse

    @serve.deployment(name="classifier", autoscaling_config={"min_replicas": 1, "max_replicas": 8})
    class Deployment(Classifier):
        @serve.batch(max_batch_size=MAX_BATCH_SIZE, batch_wait_timeout_s=BATCH_SECONDS)
        async def batched(self, files):
            return self.classify(files)

        async def __call__(self, request):
            answer = await self.batched(await request.body())
            return JSONResponse(answer, status_code=400 if "error" in answer else 200)

    return Deployment.bind(arguments["folder"])
