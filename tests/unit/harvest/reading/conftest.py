"""Sections for reading, written as in a source file."""

import pytest

from penstock.harvest.reading import Reader
from penstock.harvest.spec import Sections


def _reader(*, ids_only=False, pagination=None, window=None, fields=(), **response):
    said = {"itemsPath": "$.items", "idPath": "$.id", "updatedAtPath": "$.at"} | response
    return Reader(
        Sections.model_validate(
            {
                "response": said,
                "pagination": pagination or {},
                "window": window or {},
                "mapping": {"outputFields": list(fields)},
            }
        ),
        ids_only=ids_only,
    )


@pytest.fixture(scope="session")
def reader():
    """Makes a reader from keys of the response section, over a simple JSON source."""
    return _reader
