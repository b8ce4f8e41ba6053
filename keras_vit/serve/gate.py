"""Who may ask: a web page of another origin that a user has open in a browser may not.

Without these checks any page could have the browser send it requests, either to this server's own address or, by DNS
rebinding, to a name of the page's owner that suddenly means this machine.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.requests import Request

from keras_vit.serve.errors import HOW_TO_SEND, Refusal

JSON_TYPES = ("", "application/json", "application/octet-stream")  # octets: JSON with binary tensors behind it
CURL_TYPE = "application/x-www-form-urlencoded"  # what `curl -d` says of any body; a browser says where its own is from
HEALTH = "/v2/health/"  # asked by orchestrators under names of their own


class Gate:
    """The checks of a request's head.

    Args:
        hosts: names under which the server is reached, beside `localhost` and all IP addresses; `*` for any name.
    """

    def __init__(self, hosts=()):
        self.hosts = {"localhost", *(host.lower() for host in hosts)}

    def check(self, request: Request) -> None:
        """Refuse a request whose `Host`, origin or type is not one that this server answers.

        Raises:
            Refusal: with status 400, 403 or 415, and what to send.
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
    """The name or address of `Host`, in small letters, without its port."""
    name = host.partition("]")[0][1:] if host.startswith("[") else host.partition(":")[0]
    return name.strip().lower().rstrip(".")


def _is_address(name: str) -> bool:
    """Whether a host is an IP address: what no page's owner can have mean another machine."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _check_origin(request: Request, hosts: list[str]) -> None:
    """Refuse what a page of another origin sends; only browsers send these headers, and no page can change them."""
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
