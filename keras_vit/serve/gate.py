"""Refuse requests that a web page of another origin makes a browser send.

Without these checks any page could send requests to this server's address or, by DNS rebinding, to a host name of the
page's owner that resolves to this machine.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from keras_vit.serve.errors import HOW_TO_SEND, Refusal

JSON_TYPES = ("", "application/json", "application/octet-stream")  # octet-stream: JSON followed by binary tensors
CURL_TYPE = "application/x-www-form-urlencoded"  # what `curl -d` sends; a browser would add an Origin
HEALTH = "/v2/health/"  # orchestrators use their own host names here


class Gate:
    """Check the headers of requests.

    Args:
        hosts: allowed host names, in addition to `localhost` and all IP addresses; `*` allows any name.
    """

    def __init__(self, hosts=()):
        self.hosts = {"localhost", *(host.lower() for host in hosts)}

    def check(self, request: Request) -> None:
        """Check host, origin and content type of a request.

        Raises:
            Refusal: the request is refused, with status 400, 403 or 415.
        """
        hosts = request.headers.getlist("host")
        if len(hosts) > 1:
            raise Refusal(400, f"the request expected one Host header, received {len(hosts)}.", close=True)
        if not request.scope["path"].startswith(HEALTH) and hosts and not self._knows(hosts[0]):
            name = _name(hosts[0])
            raise Refusal(
                403,
                f"the Host header expected localhost, an IP address or an allowed name, received {name!r}: "
                "start the server with --allowed-host and that name if it is this server's.",
                close=True,
            )
        if request.method == "POST":
            _check_origin(request, hosts)
            _check_type(request)

    def _knows(self, host: str) -> bool:
        name = _name(host)
        return "*" in self.hosts or name in self.hosts or _is_address(name)


def _name(host: str) -> str:
    """Return the lower-case name or address of a `Host` header, without the port."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    return name.strip().lower().rstrip(".")


def _is_address(name: str) -> bool:
    """Return whether a host is an IP address, which DNS rebinding cannot change."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin(request: Request, hosts: list[str]) -> None:
    """Refuse requests of pages of another origin. Browsers set these headers, and pages cannot change them."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        other = site not in ("same-origin", "none")
    else:
        other = origin is not None and urlsplit(origin).netloc.lower() != (hosts or [""])[0].lower()
    if other:
        raise Refusal(403, f"the request expected no page of another origin, received one of {origin!r}.", close=True)


def _check_type(request: Request) -> None:
    sent, encoding = (request.headers.get(f"content-{name}", "") for name in ("type", "encoding"))
    if encoding not in ("", "identity"):
        raise Refusal(415, f"the body expected no Content-Encoding, received {encoding!r}.", close=True)
    kind = sent.partition(";")[0].strip().lower()
    from_curl = kind == CURL_TYPE and "origin" not in request.headers
    if kind not in JSON_TYPES and not from_curl:
        what = f"the body expected JSON with Content-Type application/json, received {sent!r}"
        raise Refusal(415, f"{what}: {HOW_TO_SEND}", close=True)
