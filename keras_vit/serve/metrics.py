"""Metrics for Prometheus at `/metrics`."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """Count the requests of one server, in a separate registry."""

    def __init__(self):
        self.registry = CollectorRegistry()
        to = {"registry": self.registry}
        self.requests = Counter(
            "keras_vit_requests", "Responses by handler, model and HTTP status.", ["handler", "model", "status"], **to
        )
        self.seconds = Histogram(
            "keras_vit_request_seconds",
            "Time from a request's headers to its response.",
            ["model"],
            buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30),
            **to,
        )
        self.images = Counter("keras_vit_images", "Computed images.", ["model", "version", "signature"], **to)
        self.in_flight = Gauge("keras_vit_requests_in_flight", "Requests without a response yet.", **to)
        self.loaded = Gauge("keras_vit_newest_version", "The newest version that is served.", ["model"], **to)
