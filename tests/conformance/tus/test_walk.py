"""Random walks: whatever clients, networks and kills do, the server agrees with a model of a few lines.

The model knows what counts. Where the protocol leaves something open (how much of a broken body arrived), the model
takes the server's word, after checking that it is one of the possible ones.
"""

import secrets
import threading
import time
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from tests.support.gateway import Gateway
from tests.support.tus import Answer, Wire, checksum, encoded

SIZES = st.one_of(st.integers(0, 12), st.integers(0, 6000))
LETTERS = st.integers(0, 255)
BREAKS = st.sampled_from(["end", "reset", "stall"])
CHECKS = st.sampled_from([None, None, "sha1", "sha256", "wrong", "unknown"])


@dataclass
class Model:
    """An upload as it should be."""

    path: str
    length: int | None
    kind: str = "whole"  # or partial, final
    content: bytes = b""
    gone: bool = False
    deferred: bool = field(default=False)

    @property
    def finished(self) -> bool:
        return self.length == len(self.content)


class Walk(RuleBasedStateMachine):
    """One walk; the server and its database live on from walk to walk."""

    uploads = Bundle("uploads")

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self.gateway = gateway
        self.tus = gateway.caller(f"m-{secrets.token_hex(6)}")
        self.models: list[Model] = []
        self.restarted = False

    @initialize(target=uploads, length=st.integers(1, 6000))
    def begin(self, length: int) -> Model:
        return self._add(Model(self.tus.created(length), length))

    @rule(target=uploads, length=st.one_of(st.none(), SIZES), partial=st.booleans(), size=SIZES, letter=LETTERS)
    def create(self, length: int | None, partial: bool, size: int, letter: int) -> Model:
        body = bytes([letter]) * (size if length is None else min(size, length))
        more = {"upload_concat": "partial", "upload_metadata": None} if partial else {}
        path = self.tus.created(length, body=body, **more)
        return self._add(Model(path, length, "partial" if partial else "whole", body, deferred=length is None))

    @rule(model=uploads, size=SIZES, letter=LETTERS, check=CHECKS, offset=st.sampled_from([0, 0, 0, 0, -1, 1, 50]))
    def patch(self, model: Model, size: int, letter: int, check: str | None, offset: int) -> None:
        body, at = bytes([letter]) * size, max(0, len(model.content) + offset)
        answer = self.tus.patch(model.path, at, body, upload_checksum=_header(check, body))
        self._judge(model, answer, self._faults(model, at, size, check), body)

    @rule(model=uploads, size=SIZES, letter=LETTERS)
    def send_the_rest(self, model: Model, size: int, letter: int) -> None:
        missing = size if model.length is None else model.length - len(model.content)
        body = bytes([letter]) * missing
        answer = self.tus.patch(model.path, len(model.content), body)
        self._judge(model, answer, self._faults(model, len(model.content), missing), body)

    @rule(model=uploads, more=st.integers(-2, 500))
    def declare(self, model: Model, more: int) -> None:
        length = max(0, len(model.content) + more)
        answer = self.tus.patch(model.path, len(model.content), upload_length=str(length))
        faults = self._faults(model, len(model.content), 0)
        if not faults and length != model.length and (model.length is not None or length < len(model.content)):
            faults = {400}
        self._judge(model, answer, faults, b"")
        if answer.status == 204:
            model.length = length

    @rule(model=uploads, size=st.integers(1, 6000), sent=SIZES, letter=LETTERS, how=BREAKS)
    def break_off(self, model: Model, size: int, sent: int, letter: int, how: str) -> None:
        body = bytes([letter]) * min(sent, size - 1)
        with self.tus.begin_patch(model.path, len(model.content), size, expect="100-continue") as wire:
            if not self._admitted(model, wire, size):
                return
            wire.send(body)
            if how == "reset":
                wire.drop()
            elif how == "end":
                wire.no_more()
            else:
                time.sleep(0.15)  # stalling is doing nothing
            self._adopt(model, body)

    @rule(model=uploads, size=st.integers(1, 6000), check=st.sampled_from(["sha1", "sha256"]), letter=LETTERS)
    def break_off_with_a_checksum(self, model: Model, size: int, check: str, letter: int) -> None:
        body = bytes([letter]) * (size - 1)
        header = _header(check, body + b"!")
        offset = len(model.content)
        with self.tus.begin_patch(model.path, offset, size, expect="100-continue", upload_checksum=header) as wire:
            if self._admitted(model, wire, size):
                wire.send(body)
                wire.drop()

    @rule(model=uploads, size=st.integers(1, 6000))
    def two_at_once(self, model: Model, size: int) -> None:
        bodies, answers = [b"<" * size, b">" * size], {}
        offset = len(model.content)

        def send(body: bytes) -> None:
            answers[body] = self.tus.patch(model.path, offset, body)

        threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        won = [body for body, answer in answers.items() if answer.status == 204]
        faults = self._faults(model, offset, size)
        lost = {answer.status for body, answer in answers.items() if body not in won}
        assert lost <= (faults or {409, 413, 423}), lost
        assert len(won) <= (0 if faults else 1)
        if won:
            model.content += won[0]

    @rule(target=uploads, parts=st.lists(uploads, min_size=1, max_size=4))
    def join(self, parts: list[Model]) -> Model | object:
        answer = self.tus.create(upload_concat="final;" + " ".join(part.path for part in parts))
        if not all(part.kind == "partial" and part.finished and not part.gone for part in parts):
            assert answer.status in (400, 404, 409, 410), answer.status
            return multiple()
        assert answer.status == 201, answer.body
        content = b"".join(part.content for part in parts)
        return self._add(Model(answer["Location"] or "", len(content), "final", content))

    @rule(model=uploads)
    def cancel(self, model: Model) -> None:
        status = self.tus.delete(model.path).status
        deadline = time.monotonic() + 10
        while status == 423 and time.monotonic() < deadline:
            status = self.tus.delete(model.path).status
        assert status == (410 if model.gone else 204)
        model.gone = True

    @rule(model=uploads)
    def expire(self, model: Model) -> None:
        if not model.gone and not model.finished:
            self.gateway.expire(model.path)
            model.gone = True

    @rule(dice=st.integers(0, 3))
    def kill_the_server(self, dice: int) -> None:
        if dice == 0 and not self.restarted:
            self.restarted = True
            self.gateway.restart()

    @invariant()
    def the_server_agrees(self) -> None:
        for model in self.models:
            answer = self.tus.head(model.path)
            if model.gone:
                assert answer.status == 410
                assert "Upload-Offset" not in answer
                continue
            assert answer.status in (200, 204), answer.status
            assert answer.offset == len(model.content)
            assert answer["Upload-Length"] == (None if model.length is None else str(model.length))
            assert answer["Upload-Defer-Length"] == ("1" if model.length is None else None)
            assert self.gateway.bytes_of(model.path) == model.content
            assert self.gateway.row(model.path)["status"] == ("FINISHED" if model.finished else "UPLOADING")

    def _add(self, model: Model) -> Model:
        self.models.append(model)
        return model

    def _faults(self, model: Model, offset: int, size: int, check: str | None = None) -> set[int]:
        """The refusals that are right; none when it must be taken."""
        faults = {400} if check == "unknown" else set()
        if model.gone or model.kind == "final":
            return faults | {410 if model.gone else 403}
        faults |= {409} if offset != len(model.content) else set()
        faults |= {413} if model.length is not None and offset + size > model.length else set()
        return faults | ({460} if check == "wrong" else set())

    def _judge(self, model: Model, answer: Answer, faults: set[int], body: bytes) -> None:
        assert answer.status in (faults or {204}), (answer.status, answer.body, faults)
        if answer.status == 204:
            model.content += body
            assert answer.offset == len(model.content)

    def _admitted(self, model: Model, wire: Wire, size: int) -> bool:
        """Whether the server wants the body; it must, unless there is a fault."""
        status, faults = int(wire.line().split()[1]), self._faults(model, len(model.content), size)
        assert status in (faults or {100})
        wire.line()
        return status == 100

    def _adopt(self, model: Model, body: bytes) -> None:
        """How much of a broken body counts is for the server to say, once the writer is out of the way."""
        deadline = time.monotonic() + 10
        while True:
            offset = self.tus.head(model.path).offset
            answer = self.tus.patch(model.path, offset)
            if answer.status == 204:
                break
            assert answer.status in (409, 423)
            assert time.monotonic() < deadline
        kept = offset - len(model.content)
        assert 0 <= kept <= len(body)
        model.content += body[:kept]


def _header(check: str | None, body: bytes) -> str | None:
    if check is None:
        return None
    if check == "wrong":
        return checksum(body + b"!")
    return f"md5 {encoded(b'x' * 16)}" if check == "unknown" else checksum(body, check)


class TestRandomWalks:
    def test_the_server_and_the_model_agree(self, gateway: Gateway, scheduler: None):
        few = settings(
            max_examples=25,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        run_state_machine_as_test(lambda: Walk(gateway), settings=few)
