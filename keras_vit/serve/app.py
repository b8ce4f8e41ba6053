"""Define the routes: TensorFlow Serving's REST API, the Open Inference Protocol, health, metrics and the page."""

import json
import os
import time
from pathlib import Path

from anyio import CapacityLimiter, to_thread
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from keras_vit.serve import images, inference, rest
from keras_vit.serve.bodies import Bodies
from keras_vit.serve.errors import Refusal
from keras_vit.serve.gate import Gate
from keras_vit.serve.limits import Limits
from keras_vit.serve.metrics import Metrics
from keras_vit.serve.repository import Repository

PAGE = Path(__file__).with_name("page.html")
LARGE_BODY = 1_000_000  # bytes; larger bodies are parsed one at a time, because parsing multiplies their memory
PARSERS = 4  # threads that parse smaller bodies
THREADS = 64  # threads that compute, or wait for a batch


class VersionNumber(IntegerConvertor):
    """Parse a version number in a path, an int64 as in TensorFlow Serving. Longer numbers match no route."""

    regex = "[0-9]{1,19}"


register_url_convertor("version", VersionNumber())


class Service:
    """Handle the requests of all routes.

    Args:
        repository: the served models.
        limits: limits of a request.
    """

    def __init__(self, repository: Repository, limits: Limits):
        self.repository, self.limits, self.metrics = repository, limits, Metrics()
        self.bodies, self.budget = Bodies(limits), images.Budget(limits.max_pixels)
        self.waiting = self.waiting_large = 0
        self.lanes = None

    # TensorFlow Serving

    async def predict(self, request: Request) -> Response:
        def read(body, headers, version):
            return rest.read_predict(rest.read_json(body), version)

        def write(outputs, signature, version, in_rows):
            return _json(rest.write_predict(outputs, in_rows))

        return await self._compute(request, read, write)

    async def classify(self, request: Request) -> Response:
        def read(body, headers, version):
            return *rest.read_classify(rest.read_json(body), version), None

        def write(outputs, signature, version, _):
            return _json(rest.write_classify(outputs))

        return await self._compute(request, read, write)

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
        return JSONResponse({"ready": True})  # the server listens only after every model is loaded and warm

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
        def read(body, headers, version):
            return inference.read_infer(body, headers.get("inference-header-content-length"), version)

        def write(outputs, signature, version, request_object):
            text, binary = inference.write_infer(outputs, request_object, signature, version)
            if not binary:
                return Response(text, media_type="application/json")
            sizes = {"inference-header-content-length": str(len(text))}
            return Response(text + binary, headers=sizes, media_type="application/octet-stream")

        return await self._compute(request, read, write)

    # Other routes

    async def page(self, request: Request) -> Response:
        return HTMLResponse(PAGE.read_text(encoding="utf-8"))

    async def prometheus(self, request: Request) -> Response:
        for name, model in self.repository.models.items():
            self.metrics.loaded.labels(name).set(max(model.versions))
        return Response(generate_latest(self.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    async def _compute(self, request: Request, read, write) -> Response:
        """Read a body, measure its images and compute the response. Large requests do not block small ones."""
        model = self.repository.model(request.path_params["model"])
        version = model.version(request.path_params.get("number"))
        self._refuse_past_the_limit()
        self.lanes = self.lanes or Lanes()
        begun = time.perf_counter()
        try:
            with self.metrics.in_flight.track_inprogress():
                async with self.bodies.read(request) as body:
                    return await self._answer(version, body, request.headers, read, write)
        finally:
            self.metrics.seconds.labels(model.name).observe(time.perf_counter() - begun)

    async def _answer(self, version, body: bytes, headers, read, write) -> Response:
        self._refuse_past_the_limit()
        self.waiting += 1
        large, seconds = False, self.limits.answer_seconds
        deadline = time.monotonic() + seconds

        def prepare():
            signature, inputs, extra = read(body, headers, version)
            count = max((len(value) for value in inputs.values() if value.ndim), default=1)
            if count > (most := self.limits.max_images):
                raise Refusal(413, f"the request expected at most {most:,} images, received {count:,}.")
            return images.check(signature, inputs, self.limits), extra, count

        def compute(call, extra, count):
            outputs = images.compute(call, self.budget, deadline, seconds)
            self.metrics.images.labels(version.model, str(version.number), call.signature.name).inc(count)
            return write(outputs, call.signature, version, extra)

        try:
            lane = self.lanes.large_bodies if len(body) > LARGE_BODY else self.lanes.bodies
            prepared = await to_thread.run_sync(prepare, limiter=lane)
            if large := prepared[0].large:
                if self.waiting_large >= max(1, self.limits.max_waiting // 4):
                    raise Refusal(503, "the server is at its limit of large images, try again later.")
                self.waiting_large += 1
            lane = self.lanes.large_calls if large else self.lanes.calls
            return await to_thread.run_sync(compute, *prepared, limiter=lane)
        finally:
            self.waiting -= 1
            self.waiting_large -= large

    def _refuse_past_the_limit(self) -> None:
        if self.waiting >= (limit := self.limits.max_waiting):
            raise Refusal(503, f"the server is at its limit of {limit} requests, try again later.", close=True)


class Lanes:
    """Limits of threads per kind of work. They belong to the running event loop."""

    def __init__(self):
        self.bodies, self.large_bodies = CapacityLimiter(PARSERS), CapacityLimiter(1)
        self.calls, self.large_calls = CapacityLimiter(THREADS), CapacityLimiter(max(1, (os.cpu_count() or 1) - 1))


def make_app(repository: Repository, limits: Limits | None = None, gate: Gate | None = None) -> Starlette:
    """Return the ASGI application that serves a repository to the requests that the gate accepts."""
    service, gate = Service(repository, limits or Limits()), gate or Gate()

    def counted(handler):
        """Wrap a handler: turn a Refusal into a response, and count the response. Other errors go to `_broken`."""

        async def handle(request: Request) -> Response:
            status = 500
            try:
                gate.check(request)
                response = await handler(request)
                status = response.status_code
                return response
            except Refusal as refusal:
                status = refusal.status
                return refusal.response()
            except ClientDisconnect:
                status = 499
                return Response(status_code=status)  # the client is gone
            finally:
                name = request.path_params.get("model", "")
                known = name if name in repository.models else ""  # clients must not create labels
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
    """Answer a request without a route with TensorFlow Serving's message, and its status under /v1/models."""
    path = request.scope["path"]
    status = 400 if path.startswith("/v1/models") else error.status_code
    return JSONResponse({"error": f"Malformed request: {request.method} {path}"}, status, error.headers)


def _broken(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": f"the server failed on this request ({type(error).__name__})."}, 500)


def _json(answer: dict) -> Response:
    """Return a JSON response that can contain NaN and Infinity, as TensorFlow Serving's can."""
    return Response(json.dumps(answer, ensure_ascii=False).encode(), media_type="application/json")
