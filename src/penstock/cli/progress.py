"""What `penstock up` shows: each step as it is done, then where to look, then only what is worth knowing."""

import contextlib
import sys
import time
from typing import Any

from rich.cells import cell_len
from rich.markup import escape
from rich.text import Text

import penstock
from penstock.cli import screen
from penstock.cli.sign_in import sign_in_code
from penstock.embedded import Home
from penstock.embedded.logs import Follower
from penstock.embedded.ports import is_loopback
from penstock.embedded.runtime import MIGRATIONS, Place, Plan
from penstock.embedded.supervisor import Notice, What
from penstock.kernel.errors import Sentence

_NAMES = {
    MIGRATIONS: Sentence(zh="数据库升级", en="Migrations"),
    "serve": Sentence(zh="HTTP 与 gRPC", en="HTTP and gRPC"),
    "worker": Sentence(zh="任务执行", en="Worker"),
    "executor": Sentence(zh="采集执行", en="Executor"),
    "scheduler": Sentence(zh="调度", en="Scheduler"),
    "bucket": Sentence(zh="存储桶", en="Bucket"),
}
_LOGS = ("serve", "worker", "executor", "scheduler", "bucket", "redis", "postgres")


class Progress:
    """The terminal of one `penstock up`."""

    def __init__(self, plan: Plan, *, verbose: bool, ignored: list[str]) -> None:
        self._plan = plan
        self._home = Home(plan.home)
        self._ignored = ignored
        self._console = screen.console()
        self._begun = time.monotonic()
        self._since: dict[str, float] = {}
        self._logs = {name: Follower(self._home.logs / f"{name}.log") for name in _LOGS} if verbose else {}

    def begin(self) -> None:
        self._print(f"[bold]Penstock {penstock.__version__}[/bold]")
        for name in self._ignored:
            self._warn(
                f"{name} is not used: `penstock up` brings its own.", f"{name} 不会被使用：penstock up 自带服务。"
            )
        if not is_loopback(self._plan.host):
            self._warn(
                f"Listening on {self._plan.host}: everyone who can reach this machine can reach Penstock.",
                f"正在监听 {self._plan.host}：能访问本机的任何人都能访问 Penstock。",
            )

    def tell(self, notice: Notice) -> None:
        name = _name(notice.name)
        match notice.what:
            case What.STARTING:
                self._since[notice.name] = time.monotonic()
                if self._console.is_terminal:
                    self._print(f"  [dim]· {name} …[/dim]", end="\r")
            case What.READY:
                took = time.monotonic() - self._since.get(notice.name, time.monotonic())
                self._print(f"  [green]✓[/green] {_padded(name, 16)}[dim]{took:5.1f} s[/dim]")
            case What.STOPPING:
                self._print()
                self._print(screen.text("Stopping (Ctrl-C again: at once) …", "正在停止（再按一次 Ctrl-C 立即结束）……"))
            case What.STOPPED:
                self._print(f"  [green]✓[/green] {name}")
            case What.KILLED:
                self._warn(f"{name} did not stop in time and was ended.", f"{name} 未能按时停止，已强制结束。")
            case _:
                self._trouble(notice, name)
        self.show_logs()

    def ready(self, place: Place) -> None:
        """Where to look."""
        took = f"{time.monotonic() - self._begun:.1f}"
        self._print()
        self._print(f"[bold green]{screen.text(f'Ready in {took} s.', f'已就绪，用时 {took} 秒。')}[/bold green]")
        self._print()
        for label, value in _places(place):
            self._print(f"  [dim]{_padded(label, 10)}[/dim]{escape(value)}")
        self._print()
        self._say_how_to_sign_in(place)
        self._print()
        self._print(
            screen.text("Ctrl-C stops everything; data stays.", "按 Ctrl-C 停止全部服务；数据会保留。"), style="dim"
        )

    def _say_how_to_sign_in(self, place: Place) -> None:
        """A link for the person at the terminal; in a file or a service's log it would lie there for others."""
        if not sys.stdout.isatty():
            command = f"penstock sign-in --data {place.home.path}"
            self._print(Text(screen.text(f"To sign in: {command}", f"获取登录链接：{command}")), soft_wrap=True)
        elif code := sign_in_code(place.database_url):
            self._print(screen.text("Sign in, once, within an hour:", "一次性登录链接（一小时内有效）："), style="dim")
            self._print(Text(f"{place.address}/sign-in?code={code}", style="bold"), soft_wrap=True)

    def show_logs(self) -> None:
        """With --verbose: what the processes have written since the last look."""
        for name, log in self._logs.items():
            for line in log.lines():
                self._print(Text.assemble((f"{name:>9} │ ", "cyan"), Text.from_ansi(line)))

    def end(self, *, clean: bool) -> None:
        said = screen.text("Stopped; data stays in", "已停止；数据保留在")
        if not clean:
            said = screen.text(
                "Stopped by force; nothing saved is lost. Data stays in", "已强制停止；已保存的数据不会丢失，位于"
            )
        self._print(f"{said} {escape(str(self._home.path))}")

    def _trouble(self, notice: Notice, name: str) -> None:
        logs = self._home.logs
        if notice.what is What.BACK:
            self._print(f"  [green]✓[/green] {screen.text(f'{name} runs again', f'{name} 已恢复')}")
        elif notice.what is What.KEEPS_ENDING:
            wait = f"{notice.seconds:g}"
            self._warn(
                f"{name} keeps ending and is tried again every {wait} s; the rest goes on. See {logs}.",
                f"{name} 反复退出，将每隔 {wait} 秒重试一次；其余服务继续运行。请查看 {logs}。",
            )
        elif notice.seconds:
            wait = f"{notice.seconds:g}"
            self._warn(f"{name} ended; starting it again in {wait} s.", f"{name} 已退出；{wait} 秒后重新启动。")
        else:
            self._warn(f"{name} ended; starting it again.", f"{name} 已退出；正在重新启动。")

    def _warn(self, en: str, zh: str) -> None:
        self._print(f"  [yellow]![/yellow] {escape(screen.text(en, zh))}")

    def _print(self, what: str | Text = "", **options: Any) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone away must not keep us from stopping
            self._console.print(what, **options)


def _name(part: str) -> str:
    return screen.text(_NAMES[part].en, _NAMES[part].zh) if part in _NAMES else part


def _padded(label: str, width: int) -> str:
    """To a width of cells: a Chinese character takes two."""
    return label + " " * max(1, width - cell_len(label))


def _places(place: Place) -> list[tuple[str, str]]:
    bucket = [] if place.bucket_port is None else [(screen.text("Bucket", "存储桶"), place.bucket_address)]
    return [
        (screen.text("Open", "地址"), place.address),
        (screen.text("API docs", "接口文档"), f"{place.address}/docs"),
        ("gRPC", f"{place.host}:{place.grpc_port}"),
        *bucket,
        (screen.text("Data", "数据目录"), str(place.home.path)),
        (screen.text("Logs", "日志目录"), str(place.home.logs)),
    ]
