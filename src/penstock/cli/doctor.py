"""`penstock doctor`: look at everything Penstock stands on, and say what to do."""

import dataclasses
from functools import partial

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.findings import Check, Finding, Level
from penstock.cli.options import AsJson, Data

_MARKS = {
    Level.OK: Text("✓ ok", "green"),
    Level.WARN: Text("! warn", "yellow"),
    Level.FAIL: Text("✗ fail", "bold red"),
    Level.SKIP: Text("– skip", "dim"),
}


def register(app: typer.Typer) -> None:
    app.command("doctor", epilog="Example: penstock doctor --data ~/penstock-data")(doctor)


def doctor(data: Data = None, as_json: AsJson = False) -> None:
    """Check this machine and the servers, and say what to do. Exit code 1 when something fails."""
    found = [check() for check in checks(data)]
    failed = sum(finding.level is Level.FAIL for finding in found)
    if as_json:
        screen.print_json({"ok": not failed, "checks": [dataclasses.asdict(finding) for finding in found]})
    else:
        _print(found, failed)
    if failed:
        raise typer.Exit(1)


def checks(data: "Data") -> list[Check]:
    from penstock.cli import machine_checks as machine
    from penstock.cli import server_checks as server
    from penstock.cli.places import find_servers

    servers = find_servers(data)
    return [
        machine.python_is_new_enough,
        machine.platform_is_known,
        partial(machine.postgres_runs, servers),
        partial(machine.redis_runs, servers),
        partial(machine.data_directory_is_usable, servers),
        partial(machine.disk_has_room, servers),
        partial(machine.up_is_running, servers),
        *(partial(machine.port_is_usable, servers, option) for option in ("--port", "--grpc-port", "--bucket-port")),
        partial(server.http_answers, servers),
        partial(server.database_is_current, servers),
        partial(server.redis_works, servers),
        partial(server.store_works, servers),
        partial(server.clocks_agree, servers),
        partial(server.direct_uploads_go_on, servers),
        server.sandbox_is_strong,
    ]


def _print(found: list[Finding], failed: int) -> None:
    console = screen.console()
    rows = [(_MARKS[finding.level], finding.name, _said(finding)) for finding in found]
    console.print(screen.table(("", screen.text("Check", "检查项"), screen.text("Result", "结果")), rows))
    console.print()
    if failed:
        said = screen.text(f"{failed} of {len(found)} checks failed.", f"{len(found)} 项检查中有 {failed} 项失败。")
        console.print(said, style="bold red")
    else:
        console.print(screen.text("All is well.", "一切正常。"), style="bold green")
    if any(finding.level is Level.SKIP for finding in found):
        said = screen.text(
            "Skipped: start `penstock up`, or name the servers in the settings, to check the rest.",
            "部分跳过：启动 penstock up 或在设置中指定服务地址后可检查其余项目。",
        )
        console.print(said, style="dim")


def _said(finding: Finding) -> Text:
    said = Text(finding.said)
    if finding.todo:
        said.append(f"\n→ {finding.todo}", style="dim" if finding.level is Level.SKIP else "yellow")
    return said
