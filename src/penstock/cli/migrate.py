"""`penstock migrate`: bring the database up to date. `penstock up` does it by itself."""

import typer

from penstock.cli import screen
from penstock.cli.options import AsJson, Data


def register(app: typer.Typer) -> None:
    app.command("migrate", epilog="Example: PENSTOCK_DATABASE_URL=postgresql://db/penstock penstock migrate")(migrate)


def migrate(data: Data = None, as_json: AsJson = False) -> None:
    """Bring the database up to date: forward only, safe to run by several at once."""
    import psycopg

    from penstock.cli.places import need_database
    from penstock.kernel import migrations

    url = need_database(data)
    try:
        before, after = migrations.current_revision(url), migrations.migrate(url)
    except psycopg.OperationalError as failure:
        said = str(failure).strip().splitlines()[0]
        raise screen.Refusal(f"The database does not answer: {said}", f"数据库没有响应：{said}") from failure
    except migrations.SchemaTooNew as newer:
        raise screen.Refusal(
            f"The database is at revision {newer.found}, which this version of Penstock does not know (its newest is"
            f" {newer.newest}): a newer Penstock made it. Upgrade Penstock.",
            f"数据库版本为 {newer.found}，高于当前 Penstock 所知的 {newer.newest}：请升级 Penstock。",
        ) from newer
    if as_json:
        screen.print_json({"before": before, "after": after})
    elif before == after:
        typer.echo(screen.text(f"The database is up to date (revision {after}).", f"数据库已是最新（版本 {after}）。"))
    else:
        typer.echo(screen.text(f"The database is now at revision {after}.", f"数据库已升级到版本 {after}。"))
