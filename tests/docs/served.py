"""The figures of saved_models/README.md, each with its source or the reason of a constant."""

import ast

from docs.figures import Claim
from docs.sources import change, text_of


def tolerances(name: str) -> tuple:
    from keras_vit.export import tolerance

    found = getattr(tolerance, name)
    limit = f"{found.difference:.0e}".replace("e-0", "e-")
    return limit, f"{100 * found.agreement:g}", limit, f"{100 * found.error:g}"


def spread_of_rollouts() -> tuple:
    from keras_vit.export.parity import MIN_SPREAD

    return (f"{100 * MIN_SPREAD['rollout']:g}",)


def top_k() -> tuple:
    from keras_vit.export.serving_module import TOP_K

    return (TOP_K,)


def limits():
    from keras_vit.serve.limits import Limits

    return Limits()


def megabytes() -> str:
    return f"{limits().max_request_bytes / 1e6:g}"


def millions() -> tuple:
    return tuple(f"{pixels / 1e6:g}" for pixels in (limits().max_pixels, limits().max_request_pixels))


def waits() -> tuple:
    return limits().header_seconds, limits().body_seconds, limits().answer_seconds


def served(name: str) -> int:
    """A constant `module.NAME` of `keras_vit/serve/`, read from its text."""
    module, constant = name.split(".")
    return constants(f"keras_vit/serve/{module}.py")[constant]


def constants(file: str) -> dict:
    """The constants of a file by name, also those of an assignment of several."""
    found = {}
    for node in ast.parse(text_of(file)).body:
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(target, ast.Tuple) else [node.value]
            pairs = zip(names, values, strict=True)
            found |= {name.id: value.value for name, value in pairs if isinstance(value, ast.Constant)}
    return found


def most_memory() -> tuple:
    """The bound on the server's memory in GB: by default, and with the options that the page names."""
    usual, bodies = limits(), served("bodies.MAX_BODIES")
    sizes = ((usual.max_request_bytes, usual.max_pixels), (4_000_000, 5_000_000))
    return tuple(f"{(bodies + 25) * body / 1e9 + 12 * pixels / 1e9 + 0.4:.1f}" for body, pixels in sizes)


STATUS = "a status of HTTP"
_CLAIMS = (
    ("| float32 | within {} | {} % (except ties within {}) | {} % |", lambda: tolerances("EXACT")),
    ("`tflite-int8-dynamic` | | {} % | {} % |", lambda: tolerances("REDUCED")[1::2]),
    ("`tflite-int16x8` | | {} % | {} % |", lambda: tolerances("CALIBRATED")[1::2]),
    ("where it exceeds 1. The", "the scale of a tolerance, in keras_vit/export/parity.py"),
    ("({} % for rollouts)", spread_of_rollouts),
    ("has an error of about 100 %", "the definition of the error"),
    ("`NUM_STREAMS` 2, one", "the two halves of the sentence"),
    ("end at 2 GiB of", "the limit of protobuf"),
    ("`labels` and `scores` (B, {} or", top_k),
    ("`Sec-Fetch-Site` gets status 403", STATUS),
    ("type gets status 415", STATUS),
    ("| {} MB; {} times as much | 413;", lambda: (megabytes(), served("bodies.MAX_BODIES"))),
    ("longest time gets 503", STATUS),
    ("| {} million; {} million | the image gets an error; 413 |", millions),
    ("| {}, and {} times the most", lambda: (served("images.MAX_SCANS"), served("images.MAX_WORK"))),
    ("images of a request | {:,} | 413 |", lambda: (limits().max_images,)),
    ("| {:g}; {:g}; {:g} | 408; 408; 503 |", waits),
    ("without an answer | {}, a quarter of them with large images | 503 at once", lambda: (limits().max_waiting,)),
    ("of more than {} scans, is computed", lambda: (served("images.LARGE_SCANS"),)),
    ("A pixel takes up to 12 bytes", "the bound's own factor; observed once per decoder, without a recorded run"),
    ("{} x max_request_bytes + 25 x max_request_bytes", lambda: (served("bodies.MAX_BODIES"),)),
    ("+ 12 x max_pixels + 0.4 GB which is {} GB by default, and {} GB with", most_memory),
    ("The 0.4 GB are batches", "the remainder of the bound, for batches of small images"),
    ("takes {1} GB instead of {0} GB", lambda: change("xeon_amx.md", "`keras-vit serve`", 2)),
    ("one image takes {1} ms instead of {0} ms", lambda: change("xeon_amx.md", "`keras-vit serve`", 0)),
    ("a batch of 32 takes {1} ms instead of {0} ms", lambda: change("xeon_amx.md", "`keras-vit serve`", 1)),
)
SAVED_MODELS = [Claim("saved_models/README.md", *claim) for claim in _CLAIMS]
