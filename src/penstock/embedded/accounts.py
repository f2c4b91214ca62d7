"""Who the servers run as. PostgreSQL refuses root, so root lends it an ordinary account.

Root may have put Penstock, or its data, where that account cannot go (a checkout under /root, a private temporary
directory). Then the account keeps one right of root's: to pass through closed directories.
"""

import ctypes
import os
import pwd
import stat
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from penstock.embedded.failure import EmbeddedFailure, cannot_use
from penstock.kernel.errors import Sentence


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged account."""

    uid: int
    gid: int
    has_passage: bool = False  # keeps root's right to pass through closed directories

    @property
    def name(self) -> str:
        return account_name(self.uid)

    def become(self) -> None:
        """Called in a new process, before its program: stop being root."""
        if self.has_passage:
            _prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP)
        os.setgroups([])
        os.setgid(self.gid)
        os.setuid(self.uid)
        if self.has_passage:
            _keep_passage()

    def can_enter(self, directory: Path) -> bool:
        """Asked of the kernel rather than worked out, so that access lists count too."""
        tried = subprocess.run(
            ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(directory)],
            check=False, capture_output=True, cwd="/", preexec_fn=self.become,
        )  # fmt: skip
        return tried.returncode == 0


_PR_SET_SECUREBITS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 28, 47, 2
_SECBIT_NO_SETUID_FIXUP = 1 << 2  # rights outlive the change of account, and access() counts them, as initdb does
_CAPABILITY_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH = 2
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _prctl(*arguments: int) -> int:
    return -1 if _LIBC is None else int(_LIBC.prctl(*arguments, *[0] * (5 - len(arguments))))


def _keep_passage() -> None:
    """Of root's rights, carry the one to read and pass into the program, and drop the rest."""
    if _LIBC is None:
        return
    bit = 1 << _CAP_DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)  # effective, permitted, inheritable; twice 32 bits
    if _LIBC.capset(header, sets) == 0:
        _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)


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


def reaching(account: Account | None, directory: Path, remedy: Sentence = ELSEWHERE) -> Account | None:
    """The account, with passage if it needs that to get there; a sentence names the closed directory if it cannot."""
    if account is None or account.can_enter(directory):
        return account
    lent = replace(account, has_passage=True)
    if lent.can_enter(directory):
        return lent
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


def make_parents(path: Path) -> None:
    """Makes the directories above `path`; the servers' account, where root lends one, passes through them."""
    for parent in [above for above in reversed(path.parents) if not above.exists()]:
        parent.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            parent.chmod(0o711)


def own(path: Path, account: Account | None) -> None:
    """Make a private directory that the server's account owns; a stranger's directory is refused.

    Only a link of our own is followed, and what was looked at is what is given away: in the temporary
    directory anybody may put something else under this name, also between two looks.
    """
    make_parents(path)
    path.mkdir(exist_ok=True)
    lies_there = path.lstat()
    our_link = stat.S_ISLNK(lies_there.st_mode) and lies_there.st_uid == os.geteuid()
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if our_link else os.O_NOFOLLOW))
    try:
        owner = os.fstat(opened).st_uid
        if owner not in (os.geteuid(), account.uid if account else os.geteuid()):
            raise EmbeddedFailure(
                f"{path} belongs to {account_name(owner)}, so the servers cannot trust it: remove it.",
                f"{path} 属于 {account_name(owner)}，不可信任：请将其删除。",
            )
        if account is not None and owner != account.uid:
            os.fchown(opened, account.uid, account.gid)
        os.fchmod(opened, 0o700)
    finally:
        os.close(opened)
