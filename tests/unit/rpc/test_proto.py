"""The proto: what phones rely on, and what keeps it so."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from penstock.rpc.video.v1 import upload_pb2 as wire

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "proto"
RELEASED = PROTO / "released.txtpb"  # made by `buf build` when a version goes out
TYPES = {
    FieldDescriptor.TYPE_STRING: "string", FieldDescriptor.TYPE_INT64: "int64", FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_BOOL: "bool", FieldDescriptor.TYPE_MESSAGE: "message",
}  # fmt: skip
MESSAGES = {
    "InitResumableUploadRequest": [
        "string filename 1", "int64 size_bytes 2", "string content_type 3", "string content_md5_hex 4",
        "int32 duration_seconds 5", "string video_id 6",
    ],
    "InitResumableUploadResponse": [
        "string upload_id 1", "string bucket 2", "string object_name 3", "string resumable_init_url 4",
        "int64 expires_at_unixms 5", "bool already_completed 6", "message resumable_init_headers 7",
    ],
    "GetUploadRequest": ["string upload_id 1"],
    "GetUploadResponse": [
        "string status 1", "string bucket 2", "string object_name 3", "string gcs_etag 4", "string gcs_generation 5",
        "int64 size_bytes 6", "string md5_hash_hex 7",
    ],
}  # fmt: skip


@pytest.fixture
def changed(tmp_path):
    """A copy of the proto that a test may spoil."""
    shutil.copytree(PROTO, tmp_path / "proto", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "proto"


def buf(*given):
    command = [Path(sys.executable).parent / "buf", *given]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)


def spoil(proto, old, new):
    file = proto / "video" / "v1" / "upload.proto"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new, 1))


class TestTheWire:
    def test_the_messages_are_as_phones_know_them(self):
        found = {
            name: [f"{TYPES[field.type]} {field.name} {field.number}" for field in message.fields]
            for name, message in wire.DESCRIPTOR.message_types_by_name.items()
        }
        assert found == MESSAGES

    def test_so_are_the_calls(self):
        service = wire.DESCRIPTOR.services_by_name["UploadService"]
        assert service.full_name == "video.v1.UploadService"
        calls = {method.name: (method.input_type.name, method.output_type.name) for method in service.methods}
        assert calls == {
            "InitResumableUpload": ("InitResumableUploadRequest", "InitResumableUploadResponse"),
            "GetUpload": ("GetUploadRequest", "GetUploadResponse"),
        }


class TestGeneratedCode:
    def test_it_is_what_the_proto_gives(self, tmp_path):
        subprocess.run([sys.executable, PROTO / "generate.py", tmp_path], check=True, cwd=ROOT)
        made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*_pb2*.py*")}
        assert len(made) == 3
        assert {path: (ROOT / "src" / path).read_text() for path in made} == made


class TestGuards:
    def test_it_is_written_as_others_expect(self):
        done = buf("lint", PROTO)
        assert (done.returncode, done.stdout) == (0, "")

    def test_a_service_without_a_word_of_explanation_is_found(self, changed):
        spoil(changed, "// How an upload stands.", "")
        assert "GetUpload" in buf("lint", changed).stdout

    def test_it_understands_what_was_released(self):
        done = buf("breaking", PROTO, "--against", RELEASED)
        assert (done.returncode, done.stdout) == (0, "")

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("string filename = 1;", "string filename = 7;"),
            ("string filename = 1;", "bytes filename = 1;"),
            ("string gcs_etag = 4;", ""),
            ("string gcs_etag = 4;", "string etag = 4;"),
            ("rpc GetUpload(GetUploadRequest)", "rpc FindUpload(GetUploadRequest)"),
            ("package video.v1;", "package video.v2;"),
        ],
        ids=["renumbered", "another type", "taken away", "renamed", "another call", "another package"],
    )
    def test_a_change_that_would_break_a_phone_is_found(self, changed, old, new):
        spoil(changed, old, new)
        done = buf("breaking", changed, "--against", RELEASED)
        assert done.returncode != 0
        assert "upload.proto" in done.stdout + done.stderr

    def test_a_new_field_is_welcome(self, changed):
        spoil(changed, "string video_id = 6;", "string video_id = 6;\n  string caption = 7;")
        done = buf("breaking", changed, "--against", RELEASED)
        assert (done.returncode, done.stdout) == (0, "")
