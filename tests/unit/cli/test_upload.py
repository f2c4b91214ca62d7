"""`penstock upload` before a byte is sent, its memory, and servers that behave oddly."""

import base64
import json
import os
import stat
from pathlib import Path

import pytest
from tests.support.answering import Answering, Asked, Said
from tests.support.edge import free_port
from tests.support.places import not_as_root

from penstock.cli.screen import Refusal
from penstock.cli.upload_memory import Likeness, Note, directory, remembering
from penstock.cli.uploading import chunk_bytes

CONTENT = b"%PDF-1.7\n" + b"x" * 300_000
SERVER = "http://127.0.0.1:8000"
JOB = {"job_id": "3f0c8a52-1f0e-4b59-9a35-0c6f5b0f6a11", "status": "UPLOADED", "user_status": "processing",
       "total_pages": 1, "error_message": None, "action_hint": "Waiting to be processed"}  # fmt: skip


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "t")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "offer.pdf"
    made.write_bytes(CONTENT)
    return made


class Store:
    """As much of a server as an upload needs; `first` answers instead, as long as it has something to say."""

    def __init__(self, *first: tuple[str, Said]) -> None:
        self.first = list(first)
        self.received: dict[str, bytes] = {}
        self.length = 0

    def __call__(self, asked: Asked) -> Said:
        if self.first and self.first[0][0] == asked.method and asked.path != "/health/live":
            return self.first.pop(0)[1]
        name = asked.path.rpartition("/")[2]
        match asked.method, asked.path:
            case "POST", "/api/v1/uploads":
                self.length = int(asked.headers["upload-length"])
                name = f"upl_{len(self.received)}"
                self.received[name] = b""
                return Said(201, headers={"Location": f"/api/v1/uploads/{name}"})
            case "POST", "/api/v1/jobs":
                return Said(201, JOB)
            case "PATCH" | "HEAD", _ if name not in self.received:
                return Said(404)
            case "PATCH", _:
                assert int(asked.headers["upload-offset"]) == len(self.received[name])
                self.received[name] += asked.body
        offset = len(self.received.get(name, b""))
        return Said(200, headers={"Upload-Offset": str(offset), "Upload-Length": str(self.length)})


def asked_for(server: Answering, method: str) -> list[str]:
    return [asked.path for asked in server.asked if asked.method == method]


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "content", "said"),
        [
            ("none.pdf", None, "There is no such file"),
            ("empty.pdf", b"", "The file is empty"),
            ("page.pdf", b"<html>" * 1000, "is not a PDF"),
            ("late.pdf", b"x" * 2000 + b"%PDF-1.7", "is not a PDF"),
            ("", None, "That is a directory"),
        ],
    )
    def test_a_file_that_is_none_of_ours_is_not_sent(self, run, tmp_path, name, content, said):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with Answering(Store()) as server:
            code, out, error = run("upload", str(path), "--server", server.address)
        assert code == 1
        assert said in out
        assert asked_for(server, "POST") == []
        assert "Traceback" not in out + error

    def test_a_pipe_is_no_file(self, run, tmp_path):
        os.mkfifo(tmp_path / "pipe.pdf")
        with Answering(Store()) as server:
            code, out, _ = run("upload", str(tmp_path / "pipe.pdf"), "--server", server.address)
        assert code == 1
        assert "not a file" in out

    @not_as_root
    def test_a_file_that_may_not_be_read_is_said(self, run, file):
        file.chmod(0)
        with Answering(Store()) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "cannot be read" in out

    @pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file whose reading fails")
    def test_a_disk_that_fails_is_said(self, run):
        with Answering(Store()) as server:
            code, out, _ = run("upload", "/proc/self/mem", "--server", server.address)
        assert code == 1
        assert "cannot be read: Input/output error" in out

    def test_nobody_there_is_said_at_once(self, run, file):
        code, _, error = run("upload", str(file), "--server", f"http://127.0.0.1:{free_port()}")
        assert code == 1
        assert "does not answer" in error

    @pytest.mark.parametrize("size", ["", "8", "8 apples", "1KiB", "2GiB", "-8MiB"])
    def test_a_wrong_chunk_size_is_refused(self, size):
        with pytest.raises(Refusal, match="--chunk-size"):
            chunk_bytes(size)

    def test_sizes_are_read_as_people_write_them(self):
        assert chunk_bytes("8MiB") == chunk_bytes("8192 KiB") == chunk_bytes("8388608") == 8 << 20

    def test_what_the_server_refuses_is_said_and_the_other_files_go_on(self, run, file, tmp_path):
        other = tmp_path / "other.pdf"
        other.write_bytes(CONTENT)
        refusal = {
            "code": "FILE_SIZE_EXCEEDED",
            "message": "The file is too large",
            "remedy": "Split it",
            "details": {},
        }
        with Answering(Store(("POST", Said(413, refusal)))) as server:
            code, out, _ = run("upload", str(file), str(other), "--server", server.address)
        assert code == 1
        assert "✗ offer.pdf\n  The file is too large (FILE_SIZE_EXCEEDED). Split it." in out
        assert "✓ other.pdf" in out


class TestNames:
    @pytest.mark.parametrize(
        "name", ["春季目录.pdf", "[bold]x.pdf", "a b,c.pdf", "line\nbreak\x1b[2J.pdf", b"\xff.pdf"]
    )
    def test_any_name_goes_and_none_reaches_the_terminal_as_it_is(self, run, tmp_path, name):
        path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + os.fsencode(name)))
        path.write_bytes(CONTENT)
        with Answering(Store()) as server:
            code, out, error = run("upload", str(path), "--server", server.address)
        assert code == 0
        assert "\x1b" not in out + error
        sent = next(asked for asked in server.asked if asked.method == "POST").headers["upload-metadata"]
        encoded = sent.split(",")[0].removeprefix("filename ")
        assert base64.b64decode(encoded).decode() == os.fsencode(name).decode(errors="replace")


class TestJobs:
    def test_every_reason_is_listed_with_what_to_do(self, run, file):
        issues = [{"code": "SECURITY_ENCRYPTED_PDF"}, {"code": "SECURITY_JAVASCRIPT_EMBEDDED", "place": "page 3"}]
        refusal = {"code": issues[0]["code"], "message": "m", "remedy": "r",
                   "details": {"job_id": JOB["job_id"], "issues": issues}}  # fmt: skip
        store = Store()
        with Answering(lambda asked: Said(400, refusal) if asked.path.endswith("/jobs") else store(asked)) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "(SECURITY_ENCRYPTED_PDF)" in out
        assert "(SECURITY_JAVASCRIPT_EMBEDDED: page 3)" in out
        assert JOB["job_id"] in out
        assert list(directory().iterdir()) == []

    def test_a_duplicate_names_the_job_and_is_not_sent_again_when_it_is_wanted(self, run, file):
        refusal = {"code": "FILE_HASH_DUPLICATE", "message": "Uploaded before", "details": {"job_id": "earlier"}}
        store = Store()

        def answer(asked: Asked) -> Said:
            once_more = asked.path.endswith("/jobs") and not json.loads(asked.body)["allow_duplicate"]
            return Said(409, refusal) if once_more else store(asked)

        with Answering(answer) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
            assert (code, "earlier" in out, "--allow-duplicate" in out) == (1, True, True)
            sent = len(asked_for(server, "PATCH"))
            assert run("upload", str(file), "--server", server.address, "--allow-duplicate")[0] == 0
        assert len(asked_for(server, "PATCH")) == sent
        keys = [asked.headers["idempotency-key"] for asked in server.asked if asked.path.endswith("/jobs")]
        assert len(set(keys)) == 2  # another request, another key
        assert all(key.startswith("upl_0-") for key in keys)

    def test_jobs_are_made_for_another_merchant_when_one_is_named(self, run, file):
        with Answering(Store()) as server:
            assert run("upload", str(file), "--server", server.address, "--act-for", "m-2")[0] == 0
        [asked] = [asked for asked in server.asked if asked.path.endswith("/jobs")]
        assert json.loads(asked.body)["impersonate_merchant_id"] == "m-2"

    def test_a_job_is_asked_for_under_one_key_however_often(self, run, file):
        store, away = Store(), [Said(503, {"code": "DB_UNAVAILABLE"}), Said(200, cut=True)]

        def answer(asked: Asked) -> Said:
            return away.pop() if asked.path.endswith("/jobs") and away else store(asked)

        with Answering(answer) as server:
            code, out, _ = run("upload", str(file), "--server", server.address, "--json")
        assert code == 0
        assert json.loads(out)["job"] == JOB
        keys = [asked.headers["idempotency-key"] for asked in server.asked if asked.path.endswith("/jobs")]
        assert (len(keys), len(set(keys))) == (3, 1)


class TestTrouble:
    def test_an_upload_that_the_server_lost_begins_anew_and_says_so(self, run, file):
        store = Store(("PATCH", Said(410, {"code": "UPLOAD_GONE"})), ("HEAD", Said(410)))
        with Answering(store) as server:
            code, _, error = run("upload", str(file), "--server", server.address)
        assert code == 0
        assert "begins anew: the server has it no longer" in error
        assert store.received["upl_1"] == CONTENT

    def test_a_server_that_loses_every_upload_is_not_sent_the_file_for_ever(self, run, file):
        store = Store()
        with Answering(lambda asked: Said(404) if asked.method in ("PATCH", "HEAD") else store(asked)) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "404" in out
        assert len(store.received) <= 5

    def test_a_server_that_takes_bytes_and_counts_none_is_given_up(self, run, file):
        store = Store(*[("PATCH", Said(204, headers={"Upload-Offset": "0"}))] * 2)
        with Answering(store) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "does not answer as Penstock does" in out

    def test_an_upload_that_has_expired_between_runs_begins_anew(self, run, file):
        store = Store(("PATCH", Said(413, {"code": "UPLOAD_LENGTH_EXCEEDED", "message": "stop"})))
        with Answering(store) as server:
            options = ("--server", server.address)
            assert run("upload", str(file), *options)[0] == 1
            del store.received["upl_0"]
            store.received["gone"] = b""
            code, _, error = run("upload", str(file), *options)
        assert code == 0
        assert "begins anew: the server has it no longer" in error
        assert "going on" not in error
        assert store.received["upl_1"] == CONTENT

    def test_a_chunk_that_arrived_damaged_is_sent_again(self, run, file):
        store = Store(("PATCH", Said(460, {"code": "CHECKSUM_FAILED", "message": "Damaged"})))
        with Answering(store) as server:
            code, _, error = run("upload", str(file), "--server", server.address)
        assert code == 0
        assert "Damaged; trying again" in error
        assert store.received == {"upl_0": CONTENT}

    def test_a_server_that_stays_away_is_given_up_and_the_next_run_goes_on(self, run, file):
        broken = [("PATCH", Said(503, {"code": "STORE_UNAVAILABLE", "message": "Away"}))] + [
            ("HEAD", Said(503)) for _ in range(20)
        ]
        store = Store(*broken)
        with Answering(store) as server:
            options = ("--server", server.address, "--wait", "1s")
            assert run("upload", str(file), *options)[0] == 1
            store.first.clear()
            code, _, error = run("upload", str(file), *options)
        assert code == 0
        assert "going on at 0%" in error
        assert store.received == {"upl_0": CONTENT}

    @pytest.mark.parametrize(
        "said",
        [Said(201), Said(200, b"<html>"), Said(204, headers={"Location": "/x", "Upload-Offset": "many"})],
    )
    def test_what_is_no_upload_server_ends_in_a_sentence(self, run, file, said):
        with Answering(lambda _: said) as server:
            code, out, error = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "does not answer as Penstock does" in out
        assert "Traceback" not in out + error

    def test_a_file_that_changes_meanwhile_is_not_put_together(self, run, file):
        store = Store()

        def answer(asked: Asked) -> Said:
            if asked.method == "PATCH":
                os.utime(file, ns=(1, 1))
            return store(asked)

        with Answering(answer) as server:
            code, out, _ = run("upload", str(file), "--server", server.address)
        assert code == 1
        assert "changed while it was being uploaded" in out
        assert asked_for(server, "DELETE") == ["/api/v1/uploads/upl_0"]
        assert list(directory().iterdir()) == []

    @pytest.mark.parametrize("checksum", ["sha256", "sha1", "none"])
    def test_chunks_carry_the_checksum_that_was_wished_for(self, run, file, checksum):
        with Answering(Store()) as server:
            options = ("--server", server.address, "--checksum", checksum, "--chunk-size", "128KiB")
            assert run("upload", str(file), *options)[0] == 0
        sent = [asked.headers.get("upload-checksum", "none").split()[0] for asked in server.asked
                if asked.method == "PATCH"]  # fmt: skip
        assert sent == [checksum] * 3


class TestMemory:
    @pytest.fixture
    def note(self, file) -> Note:
        with file.open("rb") as source:
            return Note("http://x/upl_1", str(file), Likeness.of(source))

    def test_it_is_kept_for_the_same_file_on_the_same_server(self, file, note):
        with remembering(SERVER, file) as first:
            first.keep(note)
        with remembering(SERVER, file) as again:
            assert again.note == note
        with remembering("http://elsewhere", file) as other, remembering(SERVER, file.with_name("b.pdf")) as another:
            assert (other.note, another.note) == (None, None)

    def test_it_is_closed_to_others(self, file, note):
        with remembering(SERVER, file) as first:
            first.keep(note)
        [kept] = directory().iterdir()
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert stat.S_IMODE(directory().stat().st_mode) == 0o700

    def test_an_old_one_is_removed_in_passing(self, file, note):
        with remembering(SERVER, file) as first:
            first.keep(note)
        [kept] = directory().iterdir()
        os.utime(kept, (0, 0))
        with remembering(SERVER, file.with_name("other.pdf")):
            assert not kept.exists()

    def test_nothing_is_left_when_it_is_forgotten(self, file, note):
        with remembering(SERVER, file) as first:
            first.keep(note)
            first.forget()
        assert list(directory().iterdir()) == []

    def test_one_file_is_sent_by_one_process_at_a_time(self, file):
        with remembering(SERVER, file), pytest.raises(Refusal, match="just now"), remembering(SERVER, file):
            pass

    @pytest.mark.parametrize("damage", [b"", b"{", b'{"url": 1}', b"\xff\xfe", b"[]"])
    def test_one_that_cannot_be_read_counts_as_none(self, file, note, damage):
        with remembering(SERVER, file) as first:
            first.keep(note)
        next(directory().iterdir()).write_bytes(damage)
        with remembering(SERVER, file) as again:
            assert again.note is None

    def test_no_place_for_it_is_no_reason_not_to_upload(self, run, file, monkeypatch):
        monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
        with Answering(Store()) as server:
            assert run("upload", str(file), "--server", server.address)[0] == 0

    @pytest.mark.parametrize("change", ["longer", "touched", "other end", "other middle"])
    def test_a_file_that_changed_since_begins_anew(self, run, file, change):
        store = Store(*[("PATCH", Said(413, {"code": "UPLOAD_LENGTH_EXCEEDED", "message": "stop"}))])
        with Answering(store) as server:
            options = ("--server", server.address)
            assert run("upload", str(file), *options)[0] == 1
            changed = {
                "longer": CONTENT + b"x", "touched": CONTENT, "other end": CONTENT[:-1] + b"y",
                "other middle": CONTENT[:1000] + b"y" + CONTENT[1001:],
            }[change]  # fmt: skip
            file.write_bytes(changed)
            os.utime(file, ns=(5, 5))
            code, _, error = run("upload", str(file), *options)
        assert code == 0
        assert "begins anew: it has changed" in error
        assert store.received["upl_1"] == changed
        assert asked_for(server, "DELETE") == ["/api/v1/uploads/upl_0"]
