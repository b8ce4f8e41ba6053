"""The routes: TensorFlow Serving's REST, the Open Inference Protocol, health, metrics, and the page."""

import asyncio
import json
import time
from dataclasses import dataclass
from pathlib import Path

from anyio import CapacityLimiter, to_thread
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keras_vit.serve import inference, rest
from keras_vit.serve.errors import Refusal
from keras_vit.serve.images import answer
from keras_vit.serve.metrics import Metrics
from keras_vit.serve.repository import Repository

PAGE = Path(__file__).with_name("page.html")
THREADS = 64  # calls that compute or wait in a batch at the same time


@dataclass(frozen=True)
class Limits:
    """What a request may cost.

    Args:
        max_request_bytes: largest body.
        max_pixels: most pixels of an image file, by its header.
        max_images: most images of a request: an empty file is a few bytes, and a whole pass through the model.
        header_seconds: longest time that a client may take to send its request's line and headers.
        body_seconds: the same of its body.
        max_waiting: requests without an answer, past which one more is refused with status 503.
    """

    max_request_bytes: int = 32_000_000
    max_pixels: int = 50_000_000
    max_images: int = 1024
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    max_waiting: int = 256


class VersionNumber(IntegerConvertor):
    """Of a path: an int64 as TensorFlow Serving's; with more digits it is no version, with thousands `int` fails."""

    regex = "[0-9]{1,19}"


register_url_convertor("version", VersionNumber())


class Service:
    """The handlers of all routes over a repository."""

    def __init__(self, repository: Repository, limits: Limits):
        self.repository, self.limits, self.metrics = repository, limits, Metrics()
        self.waiting, self.threads = 0, None

    # TensorFlow Serving

    async def predict(self, request: Request) -> Response:
        def compute(version, body, headers):
            signature, inputs, rows = rest.read_predict(rest.read_json(body), version)
            return _json(rest.write_predict(self._answer(version, signature, inputs), rows))

        return await self._compute(request, compute)

    async def classify(self, request: Request) -> Response:
        def compute(version, body, headers):
            signature, inputs = rest.read_classify(rest.read_json(body), version)
            return _json(rest.write_classify(self._answer(version, signature, inputs)))

        return await self._compute(request, compute)

    async def v1_status(self, request: Request) -> Response:
        name, number = request.path_params["model"], request.path_params.get("number")
        return JSONResponse(rest.status(self.repository, name, number))

    async def v1_metadata(self, request: Request) -> Response:
        model = self.repository.model(request.path_params["model"])
        return JSONResponse(rest.metadata(model.version(request.path_params.get("number"))))

    # Open Inference Protocol

    async def v2_server(self, request: Request) -> Response:
        from keras_vit import __version__

        return JSONResponse({"name": "keras_vit", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def v2_live(self, request: Request) -> Response:
        return JSONResponse({"live": True})

    async def v2_ready(self, request: Request) -> Response:
        return JSONResponse({"ready": True})  # it listens only once every model is loaded and warm

    async def v2_models(self, request: Request) -> Response:
        return JSONResponse({"models": list(self.repository.models)})

    async def v2_metadata(self, request: Request) -> Response:
        model = self.repository.model(request.path_params["model"])
        return JSONResponse(inference.metadata(model, model.version(request.path_params.get("number"))))

    async def v2_model_ready(self, request: Request) -> Response:
        model = self.repository.model(request.path_params["model"])
        model.version(request.path_params.get("number"))
        return JSONResponse({"name": model.name, "ready": True})

    async def infer(self, request: Request) -> Response:
        def compute(version, body, headers):
            length = headers.get("inference-header-content-length")
            signature, inputs, asked = inference.read_infer(body, length, version)
            outputs = self._answer(version, signature, inputs)
            text, binary = inference.write_infer(outputs, asked, signature, version)
            if not binary:
                return Response(text, media_type="application/json")
            sizes = {"inference-header-content-length": str(len(text))}
            return Response(text + binary, headers=sizes, media_type="application/octet-stream")

        return await self._compute(request, compute)

    # The rest

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    async def prometheus(self, request: Request) -> Response:
        for name, model in self.repository.models.items():
            self.metrics.loaded.labels(name).set(max(model.versions))
        return Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    def _answer(self, version, signature, inputs):
        images = max((len(value) for value in inputs.values() if value.ndim), default=1)
        if images > (most := self.limits.max_images):
            raise Refusal(413, f"the request expected at most {most:,} images, received {images:,}.")
        outputs = answer(signature, inputs, self.limits.max_pixels)
        self.metrics.images.labels(version.model, str(version.number), signature.name).inc(images)
        return outputs

    async def _compute(self, request: Request, compute) -> Response:
        """Read the body within its limits, then compute in a thread, where calls meet in batches."""
        model = self.repository.model(request.path_params["model"])
        version = model.version(request.path_params.get("number"))
        if self.waiting >= self.limits.max_waiting:
            limit = self.limits.max_waiting
            raise Refusal(503, f"the server is at its limit of {limit} requests, try again later.", close=True)
        if self.threads is None:
            self.threads = CapacityLimiter(THREADS)  # belongs to the running event loop
        self.waiting += 1
        self.metrics.in_flight.inc()
        begun = time.perf_counter()
        try:
            body = await self._body(request)
            return await to_thread.run_sync(compute, version, body, request.headers, limiter=self.threads)
        finally:
            self.waiting -= 1
            self.metrics.in_flight.dec()
            self.metrics.seconds.labels(model.name).observe(time.perf_counter() - begun)

    async def _body(self, request: Request) -> bytes:
        limit = self.limits.max_request_bytes
        too_large = Refusal(413, f"the body expected at most {limit:,} bytes, received more.", close=True)
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        raise too_large
                    chunks.append(chunk)
        except TimeoutError:
            sentence = f"the body expected to arrive within {self.limits.body_seconds:g} s, received {size:,} bytes."
            raise Refusal(408, sentence, close=True) from None
        return b"".join(chunks)


def make_app(repository: Repository, limits: Limits | None = None) -> Starlette:
    """The ASGI application that serves a repository."""
    service = Service(repository, limits or Limits())

    def counted(handler):
        """Any end of a handler as a response, counted; what is no Refusal goes on to `_broken`."""

        async def handle(request: Request) -> Response:
            status = 500
            try:
                response = await handler(request)
                status = response.status_code
                return response
            except Refusal as refusal:
                status = refusal.status
                return refusal.response()
            except ClientDisconnect:
                status = 499
                return Response(status_code=status)  # nobody reads it
            finally:
                name = request.path_params.get("model", "")
                known = name if name in repository.models else ""  # names that clients invent are no label
                service.metrics.requests.labels(handler.__name__, known, str(status)).inc()

        return handle

    def at(path, handler, method="GET", versions=False):
        ways = [path, path.replace("{model}", "{model}/versions/{number:version}")] if versions else [path]
        return [Route(way, counted(handler), methods=[method]) for way in ways]

    routes = [
        *at("/v1/models/{model}:predict", service.predict, "POST", versions=True),
        *at("/v1/models/{model}:classify", service.classify, "POST", versions=True),
        *at("/v1/models/{model}", service.v1_status, versions=True),
        *at("/v1/models/{model}/metadata", service.v1_metadata, versions=True),
        *at("/v2", service.v2_server),
        *at("/v2/health/live", service.v2_live),
        *at("/v2/health/ready", service.v2_ready),
        *at("/v2/models", service.v2_models),
        *at("/v2/models/{model}", service.v2_metadata, versions=True),
        *at("/v2/models/{model}/ready", service.v2_model_ready, versions=True),
        *at("/v2/models/{model}/infer", service.infer, "POST", versions=True),
        *at("/metrics", service.prometheus),
        *at("/", service.page),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: _unknown, Exception: _broken})


def _unknown(request: Request, error: HTTPException) -> Response:
    """A path or method without a route, in TensorFlow Serving's words and, below its paths, with its status."""
    status = 400 if request.url.path.startswith("/v1/models") else error.status_code
    return JSONResponse({"error": f"Malformed request: {request.method} {request.url.path}"}, status, error.headers)


def _broken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the server failed on this request ({type(error).__name__})."}, 500)


def _json(answer: dict) -> Response:
    """With the tokens NaN and Infinity, which TensorFlow Serving writes and JSONResponse refuses."""
    return Response(json.dumps(answer, ensure_ascii=False).encode(), media_type="application/json")
