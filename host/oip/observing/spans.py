"""Spans of requests to a collector, by OpenTelemetry's SDK, which only this file imports.

>>> spans_to("collector:4318")
Traceback (most recent call last):
fluidnpu.host.errors.DriverUsageError: spans must go to http://HOST:PORT or https://, not to 'collector:4318'
"""

from __future__ import annotations

import os
import re
from typing import Any

from ...errors import DriverUsageError
from .journal import OpenTracer, Span

_SERVICE = "fluidnpu"


def spans_to(url: str) -> OpenTracer:
    """Return what opens a tracer to a collector that takes OTLP over HTTP. Raises DriverUsageError.

    The opening imports the SDK. The SDK's own environment variables (`OTEL_SERVICE_NAME`,
    `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_EXPORTER_OTLP_HEADERS`) hold.
    """
    if re.fullmatch(r"https?://[^/\s]+[^\s]*", url) is None:
        raise DriverUsageError(f"spans must go to http://HOST:PORT or https://, not to '{url:.80}'")

    def open_tracer() -> OpenTelemetry:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        return OpenTelemetry(BatchSpanProcessor(OTLPSpanExporter(f"{url.rstrip('/')}/v1/traces")))

    return open_tracer


class OpenTelemetry:
    """Makes OpenTelemetry's spans of ours, of the kind SERVER, for a span processor of its SDK."""

    def __init__(self, processor: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", _SERVICE)})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer(_SERVICE)
        self._trace, self._above = trace, TraceContextTextMapPropagator()

    def record(self, span: Span) -> None:
        """Take a span; a processor sends it in a thread of its own."""
        made = self._tracer.start_span(
            span.name,
            context=self._above.extract({"traceparent": span.traceparent}),
            kind=self._trace.SpanKind.SERVER,
            attributes=span.attributes,
            start_time=span.start_ns,
        )
        if span.failed:
            made.set_status(self._trace.Status(self._trace.StatusCode.ERROR, span.failed))
        made.end(span.end_ns)

    def close(self) -> None:
        """Send what was taken."""
        self._provider.shutdown()
