"""A resolver whose answers a test decides; all other names are looked up as ever."""

import socket
from collections.abc import Sequence
from typing import Any

import pytest


class Names:
    """`told[name]` is a list of answers, each a list of addresses; the last one stays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: dict[str, list[Sequence[str]]] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._answer)

    def _answer(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in self.told:
            return self._real(host, port, *args, **options)
        self.asked.append(host)
        answers = self.told[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        if not addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
