"""The role that Penstock connects as: it owns the database and is no superuser.

As a superuser, one injected statement could run programs and read files of the server. So nobody can sign in as the
superuser: the rules below let one role in, by a password that lies in a file of our own account. The role is made,
and old data given to it, by PostgreSQL's single-user mode, which asks for no password and runs before the server
does. A mark in the cluster tells for which password that was done.
"""

import hashlib
import os
import secrets
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from penstock.embedded import process
from penstock.embedded.accounts import Account
from penstock.embedded.failure import EmbeddedFailure

ROLE = "penstock"
_RULES = f"""# Written by Penstock at every start.
local all {ROLE} scram-sha-256
local all all reject
"""
_MARK = "penstock_owner"
_SUPERUSER_OBJECTS = """
select format('alter table %s owner to penstock', c.oid::regclass)
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relowner = 10 and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
   and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
   and not exists (select from pg_depend d where d.objid = c.oid and d.classid = 'pg_class'::regclass
                   and d.refclassid = 'pg_class'::regclass and d.deptype in ('a', 'i') and c.relkind = 'S')
union all
select format('alter schema %I owner to penstock', nspname) from pg_namespace
 where nspowner = 10 and nspname !~ '^pg_' and nspname not in ('information_schema', 'public')
union all
select format('alter routine %s owner to penstock', p.oid::regprocedure)
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
 where p.proowner = 10 and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
union all
select format('alter type %s owner to penstock', t.oid::regtype)
  from pg_type t join pg_namespace n on n.oid = t.typnamespace
 where t.typowner = 10 and t.typtype in ('d', 'e', 'r') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
"""


class Owner:
    """The role of one cluster, and its password."""

    def __init__(self, home: Path) -> None:
        self._key = home / "postgres.key"
        self._rules = home / "pgdata" / "penstock_hba.conf"
        self._mark = home / "pgdata" / _MARK

    def url(self, sockets: Path) -> str:
        """Without a password for those who may not read it."""
        return f"postgresql://{ROLE}:{self._password()}@/postgres?host={quote(str(sockets), safe='')}"

    @property
    def options(self) -> list[str]:
        return ["-c", f"hba_file={self._rules}"]

    def prepare(self, postgres: Sequence[str], account: Account | None) -> None:
        """Let the role in and nobody else; made, or made anew for another password, before the server starts."""
        self._rules.write_text(_RULES)
        self._rules.chmod(0o644)  # the server's account reads it, in a directory that is closed to others
        wanted = hashlib.sha256(self._password().encode()).hexdigest()
        if self._mark.exists() and self._mark.read_text() == wanted:
            return
        self._run_alone(postgres, account, _statements(self._password()))
        self._mark.write_text(wanted)
        self._mark.chmod(0o644)

    def _password(self) -> str:
        try:
            if not self._key.exists():
                self._write_key()
            return self._key.read_text().strip()
        except PermissionError:
            return ""

    def _write_key(self) -> None:
        self._key.parent.mkdir(parents=True, exist_ok=True)
        draft = self._key.with_name(f"{self._key.name}.new.{os.getpid()}")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as target:
            target.write(secrets.token_hex(24) + "\n")
        draft.rename(self._key)

    def _run_alone(self, postgres: Sequence[str], account: Account | None, statements: Sequence[str]) -> None:
        command = [postgres[0], "--single", "-j", *postgres[1:], "-c", "exit_on_error=on"]
        quiet = ["-c", "log_min_error_statement=panic"]  # a failure must not tell the password
        done = subprocess.run(
            [*command, *quiet, "postgres"],
            input="".join(f"{statement.strip()};\n\n" for statement in statements).encode(),
            capture_output=True,
            check=False,
            env=process.server_environment(),
            preexec_fn=process.entering(account, signal.SIGKILL),
        )
        if done.returncode != 0:
            raise EmbeddedFailure(
                f"PostgreSQL could not give {self._mark.parent} to the role {ROLE}; it said:",
                f"PostgreSQL 无法将 {self._mark.parent} 移交给角色 {ROLE}：",
                detail=done.stderr.decode(errors="replace").strip(),
            )


def _statements(password: str) -> list[str]:
    known = f"select from pg_roles where rolname = '{ROLE}'"
    return [
        "set scram_iterations = 1",  # a random key needs no slow hash, and every connection would pay for it
        f"do $do$ begin if not exists ({known}) then create role {ROLE}; end if; end $do$",
        f"alter role {ROLE} login nosuperuser nocreaterole noreplication nobypassrls createdb password '{password}'",
        f"alter database postgres owner to {ROLE}",
        f"do $do$ declare each text; begin for each in {_SUPERUSER_OBJECTS} loop execute each; end loop; end $do$",
    ]
