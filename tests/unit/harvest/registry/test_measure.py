"""How much one source file may say: it is compiled by whoever plans it."""

import time

import pytest

from penstock.harvest.desk import check
from penstock.harvest.registry.dictionaries import DICTIONARIES
from penstock.harvest.registry.document import read_source, try_source
from penstock.harvest.registry.source import RegisteredSource

CODES = {each.code: frozenset(item.code for item in each.items) for each in DICTIONARIES}
_SECONDS = 15.0  # measured: 0.6; before there were limits 6 for one endpoint, as often as there are endpoints


def written(templates: int, endpoints: int) -> bytes:
    """Long expressions in the defaults, so that each endpoint has all of them."""
    long = "1," * 990 + "1"
    queries = "".join(f"      q{no}: '${{{no} == 1 ? [{long}][0] : 1}}'\n" for no in range(templates))
    names = "".join(f"  e{no}: {{default: {str(no == 0).lower()}}}\n" for no in range(endpoints))
    return f"""source: demo
name: Demo
defaults:
  http:
    baseUrl: https://api.example.org
    pathTemplate: /works
    queryTemplate:
      rows: '${{page.size}}'
      offset: '${{page.offset}}'
      since: '${{window.from}}'
{queries}  pagination: {{type: OFFSET}}
  window: {{supportsUpdatedSince: true, watermarkKey: updated_at}}
  response: {{itemsPath: $.items, idPath: $.id, updatedAtPath: $.updated}}
endpoints:
{names}""".encode()


class TestMeasure:
    @pytest.mark.parametrize(("templates", "endpoints", "rule"), [(40, 1, "template.many"), (1, 101, "endpoint.many")])
    def test_a_file_that_says_too_much_is_refused(self, templates, endpoints, rule):
        document, problems = try_source(written(templates, endpoints), "demo.yaml")
        assert document is None
        assert [problem.rule for problem in problems] == [rule]

    def test_the_longest_file_that_is_allowed_is_checked_soon(self):
        document = read_source(written(32, 5), "demo.yaml")
        source = RegisteredSource.of(document.canonical(), version=1, origins=document.origins, codes=CODES)
        began = time.process_time()
        assert check(source) == []
        assert time.process_time() - began < _SECONDS
