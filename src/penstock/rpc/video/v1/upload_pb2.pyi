from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class InitResumableUploadRequest(_message.Message):
    __slots__ = ("filename", "size_bytes", "content_type", "content_md5_hex", "duration_seconds", "video_id")
    FILENAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_MD5_HEX_FIELD_NUMBER: _ClassVar[int]
    DURATION_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VIDEO_ID_FIELD_NUMBER: _ClassVar[int]
    filename: str
    size_bytes: int
    content_type: str
    content_md5_hex: str
    duration_seconds: int
    video_id: str
    def __init__(self, filename: _Optional[str] = ..., size_bytes: _Optional[int] = ..., content_type: _Optional[str] = ..., content_md5_hex: _Optional[str] = ..., duration_seconds: _Optional[int] = ..., video_id: _Optional[str] = ...) -> None: ...

class InitResumableUploadResponse(_message.Message):
    __slots__ = ("upload_id", "bucket", "object_name", "resumable_init_url", "expires_at_unixms", "already_completed", "resumable_init_headers")
    class ResumableInitHeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    OBJECT_NAME_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_INIT_URL_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_UNIXMS_FIELD_NUMBER: _ClassVar[int]
    ALREADY_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    RESUMABLE_INIT_HEADERS_FIELD_NUMBER: _ClassVar[int]
    upload_id: str
    bucket: str
    object_name: str
    resumable_init_url: str
    expires_at_unixms: int
    already_completed: bool
    resumable_init_headers: _containers.ScalarMap[str, str]
    def __init__(self, upload_id: _Optional[str] = ..., bucket: _Optional[str] = ..., object_name: _Optional[str] = ..., resumable_init_url: _Optional[str] = ..., expires_at_unixms: _Optional[int] = ..., already_completed: _Optional[bool] = ..., resumable_init_headers: _Optional[_Mapping[str, str]] = ...) -> None: ...

class GetUploadRequest(_message.Message):
    __slots__ = ("upload_id",)
    UPLOAD_ID_FIELD_NUMBER: _ClassVar[int]
    upload_id: str
    def __init__(self, upload_id: _Optional[str] = ...) -> None: ...

class GetUploadResponse(_message.Message):
    __slots__ = ("status", "bucket", "object_name", "gcs_etag", "gcs_generation", "size_bytes", "md5_hash_hex")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    OBJECT_NAME_FIELD_NUMBER: _ClassVar[int]
    GCS_ETAG_FIELD_NUMBER: _ClassVar[int]
    GCS_GENERATION_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MD5_HASH_HEX_FIELD_NUMBER: _ClassVar[int]
    status: str
    bucket: str
    object_name: str
    gcs_etag: str
    gcs_generation: str
    size_bytes: int
    md5_hash_hex: str
    def __init__(self, status: _Optional[str] = ..., bucket: _Optional[str] = ..., object_name: _Optional[str] = ..., gcs_etag: _Optional[str] = ..., gcs_generation: _Optional[str] = ..., size_bytes: _Optional[int] = ..., md5_hash_hex: _Optional[str] = ...) -> None: ...
