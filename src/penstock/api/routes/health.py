"""How we are: for people and load balancers (`/health`), for supervisors (`/live`), for rollouts (`/ready`)."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Response
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field
from starlette.requests import Request

import penstock
from penstock.api import examples
from penstock.api.guard import GuardedRoute
from penstock.api.large_answer import LargeAnswer
from penstock.kernel.health import ComponentStatus, Health, HealthStatus, Report
from penstock.kernel.telemetry import metrics

router = APIRouter(route_class=GuardedRoute, tags=["health"])

_OK: examples.Document = {"status": "ok", "latency_ms": 0.8, "reason": None}
_DOWN: examples.Document = {"status": "down", "latency_ms": 3.1, "reason": "does not answer"}


def _example(status: HealthStatus, **components: examples.Document) -> examples.Document:
    return {"status": status.value, "version": penstock.__version__, "components": components}


class ComponentHealth(BaseModel):
    """One thing we stand on."""

    status: ComponentStatus
    latency_ms: float = Field(description="How long the answer took")
    reason: str | None = Field(None, description="What is wrong, when something is")


class HealthAnswer(BaseModel):
    """The whole and its components."""

    model_config = examples.shown(_example(HealthStatus.HEALTHY, database=_OK, redis=_OK, disk=_OK, object_store=_OK))

    status: HealthStatus
    version: str
    components: dict[str, ComponentHealth]


class Alive(BaseModel):
    """This process answers."""

    model_config = examples.shown({"status": "alive"})

    status: Literal["alive"] = "alive"


async def _health(request: Request) -> Health:
    health: Health = request.app.state.parts.health
    return health


async def _readiness(request: Request) -> Health:
    readiness: Health = request.app.state.readiness
    return readiness


_UNHEALTHY: dict[int | str, dict[str, Any]] = {
    503: {
        "model": HealthAnswer,
        "description": "The database does not answer",
        **examples.answer(_example(HealthStatus.UNHEALTHY, database=_DOWN)),
    }
}


@router.get("/health", summary="Health of the whole and of each component", responses=_UNHEALTHY)
async def read_health(health: Annotated[Health, Depends(_health)], response: Response) -> HealthAnswer:
    """Always answers within five seconds. `degraded` still serves (200); `unhealthy` does not (503)."""
    return _answer(await health.report(), response)


@router.get("/health/live", summary="Is this process alive")
async def read_liveness() -> Alive:
    """Asks nothing of anyone: restart the process if this does not answer."""
    return Alive()


@router.get(
    "/health/ready",
    summary="May requests be sent here",
    responses={**_UNHEALTHY, 200: examples.answer(_example(HealthStatus.HEALTHY, database=_OK, schema=_OK))},
)
async def read_readiness(readiness: Annotated[Health, Depends(_readiness)], response: Response) -> HealthAnswer:
    """The database answers and has the tables this release needs."""
    return _answer(await readiness.report(), response)


@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"example": "gateway_heartbeat_reported_total 42.0\n"}}}},
)
async def read_metrics(request: Request) -> Response:
    """Of this process, or of all roles on this machine where `penstock up` runs them together; up to a second old."""
    exposition: metrics.Exposition = request.app.state.exposition
    return LargeAnswer(await exposition.read(), headers={"content-type": metrics.CONTENT_TYPE})


def _answer(report: Report, response: Response) -> HealthAnswer:
    if report.status is HealthStatus.UNHEALTHY:
        response.status_code = 503
    components = {
        name: ComponentHealth(status=found.status, latency_ms=found.latency_ms, reason=found.reason)
        for name, found in report.components.items()
    }
    return HealthAnswer(status=report.status, version=penstock.__version__, components=components)
