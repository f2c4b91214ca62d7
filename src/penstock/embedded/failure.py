"""Why `penstock up` cannot go on, said in one sentence in each language."""

import errno
from pathlib import Path

from penstock.kernel.disk import free_bytes
from penstock.kernel.errors import Language, Sentence


class EmbeddedFailure(Exception):
    """The embedded runtime cannot run; `sentence` is for the person who started it, `detail` for the curious."""

    def __init__(self, en: str, zh: str = "", *, detail: str = "") -> None:
        super().__init__(en + (f"\n{detail}" if detail else ""))
        self.sentence = Sentence(zh=zh or en, en=en)
        self.detail = detail

    def in_language(self, language: Language) -> str:
        said = self.sentence.in_language(language)
        return f"{said}\n{self.detail}" if self.detail else said


def cannot_use(path: Path, failure: OSError) -> EmbeddedFailure:
    """An operating system's refusal, as a sentence that says what to do."""
    match failure.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return disk_full(path)
        case errno.EROFS:
            return EmbeddedFailure(
                f"{path} is on a read-only file system: choose another directory with --data.",
                f"{path} 位于只读文件系统：请用 --data 指定其他目录。",
            )
        case errno.EACCES | errno.EPERM:
            return EmbeddedFailure(
                f"{path} cannot be written by this account: change its permissions or choose another with --data.",
                f"当前账号无法写入 {path}：请修改权限，或用 --data 指定其他目录。",
            )
        case errno.ENOTDIR | errno.EEXIST:
            return EmbeddedFailure(
                f"{path} is not a directory: choose another place with --data.",
                f"{path} 不是目录：请用 --data 指定其他位置。",
            )
        case errno.ENAMETOOLONG | errno.ELOOP:
            return EmbeddedFailure(
                f"{path} is not a usable path ({failure.strerror}): choose another with --data.",
                f"{path} 不是可用的路径（{failure.strerror}）：请用 --data 指定其他目录。",
            )
    return EmbeddedFailure(
        f"{path} cannot be used: {failure.strerror or failure}.", f"无法使用 {path}：{failure.strerror or failure}。"
    )


def disk_full(path: Path) -> EmbeddedFailure:
    free = free_megabytes(path)
    return EmbeddedFailure(
        f"The disk that holds {path} is full ({free} MB free): free some space or choose another directory with"
        " --data.",
        f"{path} 所在磁盘空间不足（剩余 {free} MB）：请清理空间，或用 --data 指定其他目录。",
    )


def free_megabytes(path: Path) -> int:
    return free_bytes(path) // (1024 * 1024)
