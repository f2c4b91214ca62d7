"""The start page and /docs: everything they need is here."""

import base64
import hashlib
import re

import pytest


class TestTheStartPage:
    async def test_it_speaks_the_readers_language(self, client):
        assert "运行状态" in (await client.get("/", headers={"Accept-Language": "zh-CN"})).text
        assert "Where to look" in (await client.get("/", headers={"Accept-Language": "en"})).text
        assert "运行状态" in (await client.get("/?lang=zh", headers={"Accept-Language": "en"})).text

    async def test_its_policy_allows_its_own_style_and_nothing_else(self, client):
        answer = await client.get("/")
        style = re.search(r"<style>(.*)</style>", answer.text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
        assert "<script" not in answer.text

    async def test_a_stale_cookie_makes_a_stranger_not_an_error(self, client):
        answer = await client.get("/", headers={"Cookie": "penstock_session=stale"})
        assert answer.status_code == 200
        assert "Not signed in" in answer.text

    async def test_a_strange_host_header_stays_text(self, client):
        answer = await client.get("/", headers={"Host": 'x"><script>alert(1)</script>'})
        assert "<script" not in answer.text


class TestDocs:
    @pytest.mark.parametrize("path", ["/", "/docs"])
    async def test_nothing_comes_from_elsewhere(self, client, path):
        text = (await client.get(path)).text
        assert re.findall(r'(?:src|href)="(?:https?:)?//[^"]*"', text) == []

    async def test_every_file_it_names_is_here(self, client):
        text = (await client.get("/docs")).text
        names = re.findall(r'(?:src|href)="(/docs/[^"]+)"', text)
        assert len(names) == 4
        for name in names:
            answer = await client.get(name)
            assert answer.status_code == 200
            assert answer.content

    async def test_no_other_file_is(self, client):
        assert (await client.get("/docs/__init__.py")).status_code == 404
        assert (await client.get("/docs/..%2Fserver.py")).status_code == 404
