"""Doctor's look at the servers: database, Redis, object store, clock, HTTP."""

import asyncio
import secrets
import time
import urllib.error
import urllib.request
from typing import Any

import psycopg
import redis

from penstock.cli.findings import Finding, Level, ok, skip
from penstock.cli.places import Servers
from penstock.cli.screen import text
from penstock.kernel.errors import PenstockError
from penstock.kernel.migrations import current_revision, known_revisions, newest_revision
from penstock.kernel.objectstores import StoreUrlInvalid, open_store
from penstock.kernel.sandbox import Sandbox, SandboxSettings, Strength
from penstock.kernel.settings import mask_url
from penstock.uploads.direct.store import STUCK

_OLDEST_REDIS = (6, 2)
_SKEW_WARN, _SKEW_FAIL = 1.0, 30.0


def database_is_current(servers: Servers) -> Finding:
    name = text("Database", "数据库")
    if not servers.database_url:
        return skip(name)
    try:
        found, newest = current_revision(servers.database_url), newest_revision()
    except psycopg.Error as failure:
        return _away(name, mask_url(servers.database_url), failure)
    if found == newest:
        return ok(name, text(f"answers, revision {found}", f"正常，版本 {found}"))
    if found is not None and found not in known_revisions():
        said = text(f"revision {found} is newer than this Penstock", f"版本 {found} 高于当前 Penstock")
        return Finding(name, Level.FAIL, said, text("Upgrade Penstock", "请升级 Penstock"))
    said = text(f"revision {found or 'none'}, newest is {newest}", f"版本 {found or '无'}，最新为 {newest}")
    return Finding(name, Level.FAIL, said, text("Run `penstock migrate`", "请运行 penstock migrate"))


def clocks_agree(servers: Servers) -> Finding:
    name = text("Clock", "时钟")
    if not servers.database_url:
        return skip(name)
    try:
        with psycopg.connect(servers.database_url, connect_timeout=3) as connection:
            before = time.time()
            row = connection.execute("select extract(epoch from clock_timestamp())::float8").fetchone()
            after = time.time()
    except psycopg.Error as failure:
        return _away(name, mask_url(servers.database_url), failure)
    skew = abs((row[0] if row else before) - (before + after) / 2)
    said = text(f"{skew * 1000:.0f} ms from PostgreSQL's", f"与 PostgreSQL 相差 {skew * 1000:.0f} 毫秒")
    if skew < _SKEW_WARN:
        return ok(name, said)
    todo = text("Let NTP set both machines' clocks", "请用 NTP 校准两台机器的时钟")
    return Finding(name, Level.WARN if skew < _SKEW_FAIL else Level.FAIL, said, todo)


def direct_uploads_go_on(servers: Servers) -> Finding:
    """Whatever is tried again and again in vain; mostly for a bucket that was in use before."""
    name = text("Direct uploads", "直传")
    if not servers.database_url:
        return skip(name)
    try:
        with psycopg.connect(servers.database_url, connect_timeout=3) as connection:
            found = connection.execute(STUCK).fetchall()
    except psycopg.errors.UndefinedTable:  # told by another check: the database is not current
        return skip(name)
    except psycopg.Error as failure:
        return _away(name, mask_url(servers.database_url), failure)
    if not found:
        return ok(name, text("nothing waits in vain", "没有滞留的上传"))
    waiting = ", ".join(f"{bucket} ({number})" for bucket, number in found)
    said = text(f"uploads wait for their bucket in vain: {waiting}", f"以下存储桶的上传一直无法处理：{waiting}")
    todo = text(
        "Let the credentials in use reach these buckets; the worker's log says what is wrong (direct.put_off)",
        "请让当前凭据可以访问这些存储桶；原因见 worker 日志（direct.put_off）",
    )
    return Finding(name, Level.WARN, said, todo)


def redis_works(servers: Servers) -> Finding:
    if not servers.redis_url:
        return skip("Redis")
    client = redis.Redis.from_url(servers.redis_url, socket_timeout=3, socket_connect_timeout=3)
    key = f"{servers.settings.redis_prefix}:doctor:{secrets.token_hex(4)}"
    try:
        about: Any = client.info("server")
        version = str(about["redis_version"])
        client.set(key, b"1", ex=10)
        written = client.getdel(key) == b"1"
    except redis.RedisError as failure:
        return _away("Redis", mask_url(servers.redis_url), failure)
    finally:
        client.close()
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_REDIS:
        todo = text("Use Redis 6.2 or newer", "请使用 Redis 6.2 或更高版本")
        return Finding("Redis", Level.FAIL, text(f"version {version}", f"版本 {version}"), todo)
    if not written:
        todo = text("Check its memory policy: it must not evict", "请检查其内存策略：不可淘汰数据")
        return Finding("Redis", Level.FAIL, text("does not keep what is written", "写入后读不到"), todo)
    return ok("Redis", text(f"{version}, reads and writes", f"{version}，可读写"))


def store_works(servers: Servers) -> Finding:
    name, url = text("Object store", "对象存储"), servers.store_url
    if not url:
        return skip(name)
    try:
        came_back = asyncio.run(_put_and_get(url))
    except (PenstockError, StoreUrlInvalid, OSError) as failure:
        return _away(name, url, failure)
    if not came_back:
        return Finding(name, Level.FAIL, text(f"{url} returns other bytes", f"{url} 返回的内容不一致"))
    return ok(name, text(f"{url}, put and got", f"{url}，可读写"))


async def _put_and_get(url: str) -> bool:
    store, key, body = open_store(url), f"doctor/{secrets.token_hex(8)}", secrets.token_bytes(64)
    await store.put(key, body)
    try:
        return await store.get(key) == body
    finally:
        await store.delete(key)


def sandbox_is_strong() -> Finding:
    name = text("Sandbox", "沙箱")
    try:
        strength = asyncio.run(_strength())
    except PenstockError as failure:
        return Finding(name, Level.FAIL, str(failure))
    said = {
        Strength.FULL: text("full: limits, system call filter, file rules", "完整：资源限制、系统调用过滤、文件规则"),
        Strength.NO_FILE_RULES: text(
            "no file rules (Landlock) here: a file that takes over its reader could read what our account can read",
            "此处没有文件规则（Landlock）：恶意文件一旦控制解析进程，即可读取本账户可读的文件",
        ),
        Strength.LIMITS_ONLY: text(
            "limits only on this platform: a file that takes over its reader could read files and use the network",
            "此平台仅有资源限制：恶意文件一旦控制解析进程，即可读取文件并访问网络",
        ),
    }[strength]
    if strength is Strength.FULL:
        return ok(name, said)
    todo = text(
        "Use Linux 5.13 or newer with Landlock; PENSTOCK_SANDBOX_REQUIRE=full refuses to start without it",
        "请使用启用了 Landlock 的 Linux 5.13 或更高版本；设置 PENSTOCK_SANDBOX_REQUIRE=full 可在缺少时拒绝启动",
    )
    return Finding(name, Level.WARN, said, todo)


async def _strength() -> Strength:
    async with Sandbox(SandboxSettings(workers=1)) as sandbox:
        return sandbox.strength


def http_answers(servers: Servers) -> Finding:
    holder = servers.holder
    if holder is None:
        return skip("HTTP")
    address = f"http://{holder.address}:{holder.port}/health/ready"
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(address, timeout=5):
            return ok("HTTP", text(f"{address} answers", f"{address} 正常"))
    except (urllib.error.URLError, OSError) as failure:
        todo = text(f"See {servers.home.logs}/serve.log", f"请查看 {servers.home.logs}/serve.log")
        reason = getattr(failure, "reason", failure)
        return Finding("HTTP", Level.FAIL, f"{address}: {reason}", todo)


def _away(name: str, where: str, failure: Exception) -> Finding:
    said = next(iter(str(failure).strip().splitlines()), type(failure).__name__)
    todo = text(
        "Check that it runs and that the address and password are right", "请检查服务是否运行、地址和密码是否正确"
    )
    return Finding(name, Level.FAIL, f"{where}: {said}", todo)
