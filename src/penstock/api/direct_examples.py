"""What the description of the API shows of direct uploads: one film, from a phone to the media pipeline."""

import base64

from penstock.api.examples import MERCHANT, Document
from penstock.kernel import cursors, json

UPLOAD_ID = "0d8e3b1c-7a52-4f7e-9c1d-2b6f5a4e3d21"
VIDEO_ID = "b7a1c9e4-5d3f-4e2a-8f60-91c2d3e4f5a6"
USER_ID = "5a0c7f6e-1b2c-4d3e-8f90-a1b2c3d4e5f6"
CURSOR = cursors.pack("direct-uploads", "2026-03-02T09:00:00+00:00", UPLOAD_ID)

_MD5 = "9e107d9d372bb6826bd81d3542a419d6"
_OBJECT = f"videos/{USER_ID}/{_MD5}"
_BUCKET = "acme-uploads"
_SIZE = 31_457_280

WISH: Document = {
    "filename": "holiday.mp4",
    "size_bytes": _SIZE,
    "content_type": "video/mp4",
    "content_md5_hex": _MD5,
    "duration_seconds": 42,
}
OPENED: Document = {
    "upload_id": UPLOAD_ID,
    "status": "pending",
    "bucket": _BUCKET,
    "object_name": _OBJECT,
    "already_completed": False,
    "resumable_init_url": f"https://storage.googleapis.com/{_BUCKET}/{_OBJECT}?X-Goog-Signature=…",
    "resumable_init_headers": {
        "content-type": "video/mp4",
        "x-goog-content-length-range": f"0,{_SIZE}",
        "x-goog-if-generation-match": "0",
        "x-goog-resumable": "start",
        "x-upload-content-type": "video/mp4",
    },
    "expires_at": "2026-03-02T09:15:00Z",
    "part_bytes": None,
    "video_id": None,
}
NUMBERS: Document = {"numbers": [3, 4]}
PARTS: Document = {
    "upload_id": UPLOAD_ID,
    "status": "uploading",
    "part_bytes": 8_388_608,
    "total": 4,
    "present": [{"number": 1, "size": 8_388_608}, {"number": 2, "size": 8_388_608}],
    "addresses": [
        {
            "number": number,
            "url": f"https://{_BUCKET}.s3.amazonaws.com/{_OBJECT}?partNumber={number}&X-Amz-Signature=…",
            "headers": {},
            "expires_at": "2026-03-02T09:15:00Z",
        }
        for number in (3, 4)
    ],
}
UPLOAD: Document = {
    "upload_id": UPLOAD_ID,
    "user_id": USER_ID,
    "merchant_id": MERCHANT,
    "status": "completed",
    "policy": "video",
    "bucket": _BUCKET,
    "object_name": _OBJECT,
    "filename": "holiday.mp4",
    "content_type": "video/mp4",
    "content_md5_hex": _MD5,
    "expected_size": _SIZE,
    "size_bytes": _SIZE,
    "md5_hash_hex": _MD5,
    "gcs_generation": "1772442090250123",
    "gcs_etag": "CMuDk4f9y5ADEAE=",
    "video_id": VIDEO_ID,
    "job_id": None,
    "error_code": None,
    "error_message": None,
    "created_at": "2026-03-02T09:00:00Z",
    "opened_at": "2026-03-02T09:00:00Z",
    "completed_at": "2026-03-02T09:01:30Z",
    "updated_at": "2026-03-02T09:01:30Z",
}
UPLOADS: Document = {"uploads": [UPLOAD], "next_cursor": CURSOR}

UPLOADING: Document = UPLOAD | {
    "status": "uploading", "size_bytes": 0, "md5_hash_hex": None, "gcs_generation": None, "gcs_etag": None,
    "video_id": None, "completed_at": None,
}  # fmt: skip

NEW_VIDEO: Document = {"title": "Holiday by the sea"}
VIDEO: Document = {
    "video_id": VIDEO_ID,
    "user_id": USER_ID,
    "merchant_id": MERCHANT,
    "title": "Holiday by the sea",
    "status": "processing",
    "raw_file_reference": f"gs://{_BUCKET}/{_OBJECT}",
    "content_type": "video/mp4",
    "size_bytes": _SIZE,
    "declared_seconds": 42,
    "duration_seconds": 41.9,
    "container": "MPEG-4",
    "error_code": None,
    "error_message": None,
    "created_at": "2026-03-02T09:00:00Z",
    "updated_at": "2026-03-02T09:01:30Z",
}
WAITING_VIDEO: Document = VIDEO | {
    "status": "pending_upload", "raw_file_reference": None, "content_type": None, "size_bytes": None,
    "declared_seconds": None, "duration_seconds": None, "container": None, "updated_at": VIDEO["created_at"],
}  # fmt: skip
VIDEOS: Document = {"videos": [VIDEO], "next_cursor": None}
READY: Document = {"status": "ready"}

_RESOURCE = {"bucket": _BUCKET, "name": _OBJECT, "generation": "1772442090250123", "size": str(_SIZE),
             "contentType": "video/mp4", "md5Hash": base64.b64encode(bytes.fromhex(_MD5)).decode()}  # fmt: skip
PUSH: Document = {
    "subscription": "projects/acme/subscriptions/video-uploads",
    "message": {
        "messageId": "12345678901",
        "publishTime": "2026-03-02T09:01:30Z",
        "attributes": {"eventType": "OBJECT_FINALIZE", "bucketId": _BUCKET, "objectId": _OBJECT},
        "data": base64.b64encode(json.dump_bytes(_RESOURCE)).decode(),
    },
}
