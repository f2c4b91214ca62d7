"""The HTTP application, put together from its parts."""

from functools import partial

from fastapi import FastAPI

import penstock
from penstock.api import errors, openapi
from penstock.api.at_once import RequestsAtOnce
from penstock.api.cross_origin import CrossOrigin
from penstock.api.edge import Edge, UnderWay
from penstock.api.entrance import Entrance
from penstock.api.guard import every_route_declared
from penstock.api.routes import (
    dashboard,
    deliveries,
    direct_uploads,
    etl_rules,
    etl_tasks,
    gcs_callback,
    harvest_plans,
    harvest_progress,
    harvest_records,
    harvest_sources,
    health,
    job_contents,
    job_events,
    jobs,
    pages,
    requeue,
    session,
    uploads,
    videos,
    webhooks,
    workers,
)
from penstock.bootstrap import Parts
from penstock.kernel.health import Health, database_check, schema_check
from penstock.kernel.migrations import newest_revision
from penstock.kernel.telemetry import TraceMiddleware
from penstock.kernel.telemetry.metrics import Exposition
from penstock.kernel.trusted_peers import TrustedPeers

ROUTERS = (
    uploads.router,  # first, as routes are tried in their order and these are asked for most often
    gcs_callback.router,
    direct_uploads.router,
    pages.router,
    health.router,
    session.router,
    dashboard.router,
    workers.router,
    deliveries.router,
    requeue.router,
    webhooks.router,
    jobs.router,
    job_contents.router,
    job_events.router,
    videos.router,
    etl_tasks.router,
    etl_rules.router,
    harvest_sources.router,
    harvest_plans.router,
    harvest_progress.router,
    harvest_records.router,
)


def create_app(parts: Parts) -> FastAPI:
    """Raises LookupError when a route and the table of who may call it do not agree."""
    app = FastAPI(
        title="Penstock",
        version=penstock.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.state.trusted_peers = TrustedPeers()
    app.state.at_once = RequestsAtOnce(parts.settings.runtime.requests_per_merchant)
    app.state.exposition = Exposition(parts.settings.telemetry.metrics_shared_sec)
    app.state.readiness = _readiness(parts)
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    every_route_declared(app.routes)
    errors.install(app)
    app.state.under_way = UnderWay()
    app.add_middleware(CrossOrigin, origins=parts.settings.runtime.cors_origins)
    app.add_middleware(Edge, under_way=app.state.under_way)
    app.add_middleware(TraceMiddleware)  # outside of the edge: our log lines carry its trace
    app.add_middleware(Entrance)
    setattr(app, "openapi", partial(openapi.describe, app))  # noqa: B010  FastAPI's own way; a method to mypy
    return app


def _readiness(parts: Parts) -> Health:
    checks = {
        "database": database_check(parts.database),
        "schema": schema_check(parts.database, newest_revision()),
    }
    return Health(checks, parts.clock, vital=frozenset(checks))
