"""Codes of files that phones send straight to a bucket, and of videos."""

from penstock.kernel.error_codes.table import ERROR as _E
from penstock.kernel.error_codes.table import WARNING as _W
from penstock.kernel.error_codes.table import row as _row
from penstock.kernel.errors import Kind

# fmt: off
DIRECT_UPLOADS_OFF = _row("DIRECT_UPLOADS_OFF", Kind.UNAVAILABLE, _E,
    "本服务未启用直传", "Direct uploads are switched off here",
    "请联系管理员设置 DIRECT_BUCKET_URL", "Ask the operator to set DIRECT_BUCKET_URL")
DIRECT_TYPE_REFUSED = _row("DIRECT_TYPE_REFUSED", Kind.INVALID, _E,
    "不支持该文件类型", "Files of this type are not taken",
    "请转换为 accepted 中列出的类型后再上传", "Convert the file to one of the types in `accepted`")
DIRECT_UPLOAD_DIFFERS = _row("DIRECT_UPLOAD_DIFFERS", Kind.CONFLICT, _W,
    "相同内容的上传已登记，但信息不一致", "The same content was announced before, with other facts",
    "请核对 fields 中的字段，按原信息继续上传", "Check the fields named, and go on with the facts announced first")
DIRECT_OBJECT_EXISTS = _row("DIRECT_OBJECT_EXISTS", Kind.CONFLICT, _W,
    "存储桶中已有该对象，未被覆盖", "The bucket already has this object; it was not overwritten",
    "请查询上传状态：之前的上传可能已经成功", "Ask for the upload's status: an earlier try may have succeeded")
DIRECT_PARTS_MISSING = _row("DIRECT_PARTS_MISSING", Kind.CONFLICT, _W,
    "文件的部分分片尚未到达", "Parts of the file are still missing",
    "请上传 missing 中列出的分片后再完成", "Send the parts in `missing`, then complete the upload")
DIRECT_NO_PARTS = _row("DIRECT_NO_PARTS", Kind.INVALID, _E,
    "该存储桶不按分片上传", "Files do not go to this bucket in parts",
    "请用初始化时返回的地址上传", "Send the file to the address that the opening answered")
MD5_MISMATCH = _row("MD5_MISMATCH", Kind.INVALID, _E,
    "收到的文件与登记的 MD5 不一致", "The file that arrived does not have the MD5 that was announced",
    "请重新计算 MD5 并重新上传", "Compute the MD5 again and send the file again")
MD5_MISSING = _row("MD5_MISSING", Kind.INVALID, _E,
    "存储桶未给出文件的 MD5，无法核对", "The bucket gives no MD5 of the file, so it cannot be checked",
    "请用一次可续传会话重新上传整个文件", "Send the whole file again in one resumable session")
SIZE_MISMATCH = _row("SIZE_MISMATCH", Kind.INVALID, _E,
    "收到的文件大小与登记的不一致", "The file that arrived is not as large as was announced",
    "请核对文件后重新上传", "Check the file and send it again")
CONTENT_TYPE_MISMATCH = _row("CONTENT_TYPE_MISMATCH", Kind.INVALID, _E,
    "收到的文件类型与登记的不一致", "The file that arrived has another type than was announced",
    "请用登记时的类型重新上传", "Send it again with the type that was announced")
SESSION_EXPIRED = _row("SESSION_EXPIRED", Kind.INVALID, _W,
    "上传会话已过期，文件没有到达", "The session is over and the file never came",
    "请重新初始化并上传", "Begin again: ask for a new session and send the file")
VIDEO_NOT_FOUND = _row("VIDEO_NOT_FOUND", Kind.NOT_FOUND, _E,
    "视频不存在", "There is no such video",
    "请检查视频编号", "Check the video's id")
VIDEO_TAKEN = _row("VIDEO_TAKEN", Kind.CONFLICT, _E,
    "该视频已有文件", "The video already has its file",
    "请为新文件创建新的视频", "Make a new video for a new file")
VIDEO_TOO_LONG = _row("VIDEO_TOO_LONG", Kind.INVALID, _E,
    "视频时长超过限制", "The video is longer than allowed",
    "请剪短后重新上传", "Cut it shorter and send it again")
VIDEO_UNREADABLE = _row("VIDEO_UNREADABLE", Kind.INVALID, _E,
    "无法读取视频文件", "The file cannot be read as a video",
    "请重新导出视频后上传", "Export the video anew and send that")
PUSH_TOKEN_INVALID = _row("PUSH_TOKEN_INVALID", Kind.DENIED, _W,
    "通知的令牌无效", "The notification's token is not valid",
    "请检查推送订阅的服务账号与受众设置", "Check the push subscription's service account and audience")
