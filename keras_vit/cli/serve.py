"""The command `keras-vit serve EXPORT...`."""

from pathlib import Path


def add(verb) -> None:
    """Add the verb and its options to the command line."""
    sub = verb("serve", run, "Serve exported models over HTTP.", "serve saved_models/digits --port 8501")
    sub.add_argument("models", metavar="EXPORT", nargs="+", help="folders of version folders, saved_models/NAME")
    sub.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1; 0.0.0.0 for all)")
    sub.add_argument("--port", type=int, default=8501, help="port to listen on (default 8501; 0 for a free one)")
    sub.add_argument(
        "--max-batch-size", type=int, default=32, help="maximum batch size (default 32; 1 turns batching off)"
    )
    sub.add_argument(
        "--batch-timeout",
        type=float,
        default=2.0,
        metavar="MS",
        help="longest wait for a full batch, in ms (default 2)",
    )
    sub.add_argument("--max-request-bytes", type=int, default=32_000_000, help="maximum body size (default 32,000,000)")
    sub.add_argument("--max-pixels", type=int, default=50_000_000, help="maximum pixels per image (default 50,000,000)")
    sub.add_argument(
        "--max-request-pixels", type=int, default=200_000_000, help="maximum pixels per request (default 200,000,000)"
    )
    sub.add_argument("--max-images", type=int, default=1024, help="maximum images per request (default 1,024)")
    sub.add_argument(
        "--header-timeout",
        type=float,
        default=10.0,
        metavar="S",
        help="time limit for headers (default 10 s)",
    )
    sub.add_argument(
        "--body-timeout", type=float, default=30.0, metavar="S", help="time limit for a body (default 30 s)"
    )
    sub.add_argument(
        "--answer-timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="time limit to start the last image (default 60 s)",
    )
    sub.add_argument("--max-waiting", type=int, default=256, help="maximum number of pending requests (default 256)")
    sub.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name of the server, in addition to localhost and IP addresses; can be repeated",
    )
    sub.add_argument("--versions", type=int, default=1, help="number of newest versions to serve per model (default 1)")
    sub.add_argument(
        "--poll", type=float, default=2.0, metavar="S", help="seconds between checks for new versions (default 2)"
    )


def run(options) -> None:
    """Serve exports until the process is stopped."""
    from keras_vit.serve import serve
    from keras_vit.serve.limits import Limits
    from keras_vit.serve.signature import Batching
    from keras_vit.serve.tensorflow_switches import prepack_weights, use_system_allocator

    batching = Batching(options.max_batch_size, options.batch_timeout)
    limits = Limits(
        max_request_bytes=options.max_request_bytes,
        max_pixels=options.max_pixels,
        max_request_pixels=options.max_request_pixels,
        max_images=options.max_images,
        header_seconds=options.header_timeout,
        body_seconds=options.body_timeout,
        answer_seconds=options.answer_timeout,
        max_waiting=options.max_waiting,
    )
    use_system_allocator()
    prepack_weights(options.models)
    settings = (options.host, options.port, batching, limits, options.versions, options.poll, options.allowed_host)
    serve(options.models, *settings, ready=lambda *found: options.printer.line(*_ready(options.models, *found)))


def _ready(folders: list[str], address: str, models: dict[str, list[int]]) -> tuple[dict, str]:
    """Return the address and the models as JSON values, and as a sentence."""
    from keras_vit.exported.folders import formats_in
    from keras_vit.serve.server import ready_sentence

    of_name = {Path(folder).resolve().name: Path(folder) for folder in folders}
    found = [
        {"name": name, "versions": versions, "formats": list(formats_in(of_name[name] / str(max(versions))))}
        for name, versions in models.items()
    ]
    return {"address": address, "models": found}, ready_sentence(address, models)
