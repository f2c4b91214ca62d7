"""One pipeline for every log line, ours or a library's: context, masking, then one line on stderr.

    log = structlog.get_logger(__name__)
    with bound(request_id="…", job_id="…"):
        log.info("page.done", page=3)

What is bound travels with the task or thread (contextvars). After masking only our own role, worker id,
trace id and time are added, so nothing else reaches the renderer unmasked, exceptions and libraries' lines
included.
"""

import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, TextIO

import structlog
from structlog.contextvars import bound_contextvars, merge_contextvars

from penstock.kernel import json
from penstock.kernel.telemetry.masking import Masker
from penstock.kernel.telemetry.settings import LogFormat, TelemetrySettings
from penstock.kernel.telemetry.tracing import current_trace_id

_Event = MutableMapping[str, Any]
# Their chatter below warning helps nobody, and some of them tell what they sign.
_QUIET = (
    "urllib3", "httpx", "httpcore", "hpack", "asyncio", "arq", "alembic.runtime.plugins",
    "boto3", "botocore", "s3transfer", "google",
)  # fmt: skip


@contextmanager
def bound(**values: Any) -> Iterator[None]:
    """Every line inside the block carries these values; None is left out."""
    with bound_contextvars(**{name: value for name, value in values.items() if value is not None}):
        yield


def configure_logging(
    role: str, worker_id: str, settings: TelemetrySettings, *, masker: Masker, stream: TextIO | None = None
) -> None:
    """Take over the process's logging. Calling it again replaces what was there."""
    sink = stream or sys.stderr
    gathering: list[Any] = [
        merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *gathering,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(stream) if stream else _Stderr()
    rendering: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        _masking(masker),
        _with_identity(role, worker_id),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="timestamp"),
        _renderer(settings, sink),
    ]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=gathering, processors=rendering))
    _install(handler, settings.log_level.upper())


class _Stderr(logging.StreamHandler[TextIO]):
    """Whatever stderr is at the moment of writing, as it may be replaced or closed under us."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _install(handler: logging.Handler, level: str) -> None:
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    for logger in logging.root.manager.loggerDict.values():  # granian and others bring handlers of their own
        if isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
    logging.captureWarnings(capture=True)


def _renderer(settings: TelemetrySettings, sink: TextIO) -> Callable[..., str]:
    terminal = sink.isatty()
    if settings.log_format is LogFormat.JSON or (settings.log_format is LogFormat.AUTO and not terminal):
        return _as_json
    plain = structlog.dev.plain_traceback  # the rich one would print local variables
    return structlog.dev.ConsoleRenderer(colors=terminal, exception_formatter=plain)


def _with_identity(role: str, worker_id: str) -> Callable[[Any, str, _Event], _Event]:
    def added(_logger: Any, _method: str, event: _Event) -> _Event:
        event["role"] = role
        event["worker_id"] = worker_id
        trace_id = current_trace_id()
        if trace_id is not None:
            event["trace_id"] = trace_id
        return event

    return added


def _masking(masker: Masker) -> Callable[[Any, str, _Event], _Event]:
    def masked(_logger: Any, _method: str, event: _Event) -> _Event:
        safe: dict[str, Any] = masker.value(event)
        return safe

    return masked


def _as_json(_logger: Any, _method: str, event: _Event) -> str:
    first = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return json.dumps_storable(first | dict(event))
