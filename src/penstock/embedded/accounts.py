"""Who the servers run as. PostgreSQL refuses root, so root lends it an ordinary account."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from penstock.embedded.failure import EmbeddedFailure, cannot_use
from penstock.kernel.errors import Sentence


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account."""

    uid: int
    gid: int

    @property
    def name(self) -> str:
        return account_name(self.uid)

    def can_enter(self, directory: Path) -> bool:
        """Asked of the kernel rather than worked out, so that access lists count too."""
        tried = subprocess.run(
            ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)],
            check=False, capture_output=True, cwd="/", user=self.uid, group=self.gid, extra_groups=[],
        )  # fmt: skip
        return tried.returncode == 0


def server_account(existing: Path) -> Account | None:
    """None when we are not root: then servers run as ourselves. Data that exists keeps its owner."""
    if os.geteuid() != 0:
        return None
    if existing.exists() and (owner := existing.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise EmbeddedFailure(
        "PostgreSQL does not run as root, and there is no account 'postgres' or 'nobody' to run it as:"
        " start Penstock as an ordinary user.",
        "PostgreSQL 不能以 root 运行，且系统没有 postgres 或 nobody 账号：请以普通用户启动 Penstock。",
    )


def account_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


ELSEWHERE = Sentence(
    zh="请改用它可进入的目录（--data /var/lib/penstock）", en="use one that is open (--data /var/lib/penstock)"
)
INSTALL_ELSEWHERE = Sentence(
    zh="请将 Penstock 安装到它可进入的目录（如 /opt）", en="install Penstock where it is open (such as /opt)"
)


def refuse_unreachable(directory: Path, account: Account | None, remedy: Sentence = ELSEWHERE) -> None:
    """Root can go where the servers' account cannot: name the directory that stands in the way."""
    if account is None or account.can_enter(directory):
        return
    closed = next((part for part in reversed(directory.parents) if not account.can_enter(part)), directory)
    raise EmbeddedFailure(
        f"Started by root, PostgreSQL and Redis run as '{account.name}', and that account cannot enter {closed}, where"
        f" {directory} is: {remedy.en}, or run Penstock as an ordinary user.",
        f"以 root 启动时 PostgreSQL 与 Redis 以“{account.name}”账号运行，而该账号无法进入 {closed}"
        f"（{directory} 位于其中）：{remedy.zh}，或以普通用户运行 Penstock。",
    )


def make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise cannot_use(directory, failure) from failure


def own(path: Path, account: Account | None) -> None:
    """Make a private directory that the server's account owns; a stranger's directory is refused."""
    path.mkdir(parents=True, exist_ok=True)
    found = path.stat()
    ours = {os.geteuid(), account.uid if account else os.geteuid()}
    if not {path.lstat().st_uid, found.st_uid} <= ours:  # of a link, both the link and its target
        raise EmbeddedFailure(
            f"{path} belongs to {account_name(found.st_uid)}, so the servers cannot trust it: remove it.",
            f"{path} 属于 {account_name(found.st_uid)}，不可信任：请将其删除。",
        )
    if account is not None and found.st_uid != account.uid:
        os.chown(path, account.uid, account.gid)
    path.chmod(0o700)
