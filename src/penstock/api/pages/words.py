"""The words of the start page, in each language."""

from collections.abc import Mapping

from penstock.kernel.errors import Language

Words = Mapping[str, str]

_EN: Words = {
    "lead": "Takes in documents and records, once each, and turns them into checked, structured records.",
    "health_title": "Health",
    "look_title": "Where to look",
    "session_title": "Access",
    "healthy": "Healthy",
    "degraded": "Degraded",
    "unhealthy": "Unhealthy",
    "ok": "ok",
    "down": "down",
    "circuit_open": "paused",
    "database": "PostgreSQL",
    "redis": "Redis",
    "disk": "Disk",
    "object_store": "Object store",
    "/docs": "API, to read and try",
    "/openapi.json": "API, for programs",
    "/health": "health, for machines",
    "/metrics": "for Prometheus",
    "signed_in": "Signed in as <strong>{user}</strong> of <strong>{merchant}</strong>, {role}.",
    "signed_out": "Not signed in. <code>penstock sign-in</code> prints a link that signs you in; scripts send a token:",
    "uploader": "uploader",
    "annotator": "annotator",
    "operator": "operator",
    "admin": "administrator",
}

_ZH: Words = {
    "lead": "接收文档与数据记录，每份只处理一次，产出经过校验的结构化记录。",
    "health_title": "运行状态",
    "look_title": "入口",
    "session_title": "访问",
    "healthy": "正常",
    "degraded": "部分降级",
    "unhealthy": "不可用",
    "ok": "正常",
    "down": "不可用",
    "circuit_open": "熔断中",
    "database": "PostgreSQL",
    "redis": "Redis",
    "disk": "磁盘",
    "object_store": "对象存储",
    "/docs": "接口文档（可在线调试）",
    "/openapi.json": "接口描述（供程序读取）",
    "/health": "健康检查",
    "/metrics": "Prometheus 指标",
    "signed_in": "已登录：<strong>{user}</strong>，商户 <strong>{merchant}</strong>，{role}。",
    "signed_out": "尚未登录。<code>penstock sign-in</code> 可生成登录链接；脚本请携带令牌：",
    "uploader": "上传者",
    "annotator": "标注员",
    "operator": "运维人员",
    "admin": "管理员",
}


def of(language: Language) -> Words:
    return _ZH if language is Language.ZH else _EN
