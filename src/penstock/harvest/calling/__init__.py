"""Requests to sources: rendered, authenticated, paced, sent, repeated when that helps, and accounted for."""

from penstock.harvest.calling.answers import Answer
from penstock.harvest.calling.auth import SIGNING, Outgoing, Signature
from penstock.harvest.calling.credentials import Credentials, Secret
from penstock.harvest.calling.fetch import Fetched, Fetcher, Order
from penstock.harvest.calling.masking import Mask
from penstock.harvest.calling.pacing import Pacer
from penstock.harvest.calling.render import Context, PageVars, for_count, public_url, render
from penstock.harvest.calling.request import Request
from penstock.harvest.calling.transport import Transport, Transports

__all__ = [
    "SIGNING",
    "Answer",
    "Context",
    "Credentials",
    "Fetched",
    "Fetcher",
    "Mask",
    "Order",
    "Outgoing",
    "Pacer",
    "PageVars",
    "Request",
    "Secret",
    "Signature",
    "Transport",
    "Transports",
    "for_count",
    "public_url",
    "render",
]
