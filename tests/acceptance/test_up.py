"""A new user's first minutes: `penstock up`, a look around, a stop, and again."""

import http.cookiejar
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.places import open_directory
from tests.support.programs import environment
from tests.support.ups import Up


def command(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "penstock", *arguments, "--data", str(home)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )


def get(address: str, token: str = "") -> tuple[int, str]:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    with open_directory() as directory:
        first = Up(directory / "data", module="penstock").ready()
        yield first
        assert first.end(signal.SIGINT) == 0
        assert "did not stop in time" not in first.said
        again = Up(directory / "data", module="penstock").ready()
        assert get(f"{again.address}/health/ready")[0] == 200
        assert again.end() == 0


class TestTheFirstMinutes:
    def test_it_is_ready_soon(self, up):
        took = float(re.search(r"Ready in ([0-9.]+) s", up.said)[1])
        assert took < 30  # under ten on a machine of its own; tests share theirs

    def test_health_metrics_and_docs_answer(self, up):
        status, body = get(f"{up.address}/health")
        assert (status, json.loads(body)["status"]) == (200, "healthy")
        assert get(f"{up.address}/metrics")[0] == 200
        assert get(f"{up.address}/docs")[0] == 200

    def test_the_sign_in_link_works_once(self, up):
        link = command(up.home, "sign-in").stdout.strip()
        jar = http.cookiejar.CookieJar()
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        with browser.open(link, timeout=10) as page:
            assert page.status == 200
        assert len(jar) == 1
        assert get(link)[0] in (400, 401, 403, 404, 410)

    def test_another_link_is_printed_on_request(self, up):
        printed = command(up.home, "sign-in").stdout.strip()
        assert printed.startswith(f"{up.address}/sign-in?code=")
        with urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(printed, timeout=10) as page:
            assert "administrator" in page.read().decode()

    def test_a_token_for_scripts_is_taken(self, up):
        made = command(up.home, "token", "--role", "admin")
        assert made.returncode == 0
        assert get(f"{up.address}/api/v1/me", made.stdout.strip())[0] == 200
        assert get(f"{up.address}/api/v1/me")[0] == 401

    def test_what_the_roles_write_is_closed_to_others(self, up):
        files = [path for path in up.home.rglob("*") if path.is_file() and "pgdata" not in path.parts]
        assert {"serve.log", "redis.log", "secret", "postgres.key"} <= {path.name for path in files}
        assert [path for path in files if path.stat().st_mode & 0o077] == []

    def test_the_doctor_finds_nothing_wrong(self, up):
        found = command(up.home, "doctor", "--json")
        assert found.returncode == 0, found.stdout
        checks = json.loads(found.stdout)["checks"]
        assert {check["level"] for check in checks} <= {"ok", "warn"}
        assert len(checks) == 17
