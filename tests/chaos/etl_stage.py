"""The stage with documents on it: tasks, workers that read them, stand-ins of what they ask, and what came of it."""

import asyncio
import signal
import threading
from collections.abc import Coroutine, Iterable
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from penstock.extraction import queries, rules
from penstock.extraction.cancel import cancel
from penstock.extraction.desk import EtlDesk
from penstock.extraction.retry import retry
from penstock.extraction.runstate import RunState, RunStates
from penstock.extraction.settings import EtlSettings
from penstock.extraction.states import Stage
from penstock.extraction.submit import Submission, submit
from penstock.extraction.sweep import sweep
from penstock.kernel.clock import SystemClock
from penstock.kernel.db import Database
from penstock.kernel.errors import PenstockError
from penstock.kernel.objectstores import open_store
from penstock.kernel.queue import Queue
from penstock.kernel.redis import Keys, connect
from tests.chaos import stage
from tests.standins.mineru import Mineru
from tests.standins.openai_like import KEY, OpenAiLike, openai_like, says
from tests.support.etl import ALICE
from tests.support.nursery import Child
from tests.support.rule_places import TERMS

T = TypeVar("T")


class EtlStage(stage.Stage):
    """Leases are long: on a busy machine nobody but the dead may lose a task. `bury` ends theirs at once.

    A queue of its own keeps a task for one worker; whatever is swept goes to the queue of everybody else.
    """

    module = "tests.chaos.etl_actors"
    lease_seconds = 60.0
    worker_count = 4

    def environment(self, name: str) -> dict[str, str]:
        return {
            **super().environment(name),
            "ETL_LEASE_SECONDS": str(self.lease_seconds),
            "ETL_SWEEP_SECONDS": "0.3",
            "ETL_RETRY_BACKOFF_BASE_SECONDS": "0.1",
            "ETL_RETRY_BACKOFF_MAX_SECONDS": "0.3",
            "ETL_MAX_LOST_WORKERS": "1000",
            "ETL_WORKER_COUNT": str(self.worker_count),
            "ETL_POSTPROCESS_CHUNK_SIZE_CHARS": "1000",
            "PENSTOCK_HOME": str(self.home),
            "PENSTOCK_SANDBOX_WORKERS": "1",
            "PENSTOCK_SHUTDOWN_SECONDS": "10",
            "PENSTOCK_MINERU_BASE_URL": self.mineru.base_url,
            "PENSTOCK_MINERU_TOKEN": self.mineru.token,
            "PENSTOCK_MINERU_POLL_FIRST_SECONDS": "0.05",
            "PENSTOCK_LLM_BASE_URL": self.model.base_url,
            "PENSTOCK_LLM_API_KEY": KEY,
            "PENSTOCK_LLM_MODEL": "reader",
        }

    def open(self) -> None:
        super().open()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        self.mineru: Mineru
        self.model: OpenAiLike
        self.do(self._open())

    async def _open(self) -> None:
        self._database = Database(self.postgres.url, name="desk", size=4, stall_seconds=2)
        await self._database.open()
        self._stack.push_async_callback(self._database.close)
        self._redis = connect(self.redis.url)
        self._stack.push_async_callback(self._redis.aclose)
        self.store = open_store(f"file://{self.home / 'store'}")
        self.mineru = await self._stack.enter_async_context(Mineru("hosted").running())
        self.model = await self._stack.enter_async_context(openai_like(says({})))

    def close(self) -> None:
        super().close()
        self.do(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def desk(self, queue: str = "etl", **settings: Any) -> EtlDesk:
        etl, keys = (
            EtlSettings(
                **{"max_lost_workers": 1000, "retry_backoff_base_seconds": 0.1, "arq_queue_name": queue} | settings
            ),
            Keys("chaos"),
        )
        states = RunStates(self._redis, keys, etl, SystemClock())
        return EtlDesk(self._database, self.store, Queue(self._redis, keys, queue), states, etl, self.home / "uploads")

    # Processes -------------------------------------------------------------------------------------------------------
    def process(self, name: str, **environment: str) -> Child:
        return self.start(name, **environment)

    def worker(self, name: str, queue: str = "etl", failpoint: str = "", **environment: str) -> Child:
        return self.process(name, ETL_ARQ_QUEUE_NAME=queue, PENSTOCK_FAILPOINT=failpoint, **environment)

    def expect_killed(self, process: Child) -> None:
        self.wait_for(lambda: process.poll() is not None, 60, "it is killed")
        assert process.returncode == -signal.SIGKILL, self.logs()
        self.kills += 1

    def await_stop(self, process: Child, *, sweeping: str | None = None) -> None:
        state = Path(f"/proc/{process.pid}/stat")

        def is_stopped() -> bool:
            if sweeping:
                with suppress(PenstockError):  # PostgreSQL may not be back yet
                    self.sweep(sweeping)
            return state.read_text().rsplit(")", 1)[1].split()[0] == "T"

        self.wait_for(is_stopped, 60, "it has stopped")

    def dismiss(self, name: str) -> None:
        """Let it end what it has in hand, and go."""
        self.actors[name].terminate()
        assert self.actors[name].wait(60) == 0, self.logs()

    # Tasks -----------------------------------------------------------------------------------------------------------
    def place(self, data: bytes, name: str) -> str:
        key = f"inbox/{ALICE.merchant_id}/{name}"
        self.do(self.store.put(key, data))
        return key

    def submit(self, data: bytes, name: str, desk: EtlDesk | None = None, **more: Any) -> int:
        given = Submission(ALICE, object_key=self.place(data, name), **more)
        return int(self.do(submit(desk or self.desk(), given))["task_id"])

    def rule(self, **content: Any) -> int:
        async def write() -> int:
            return (await rules.create_rule(self._database, ALICE, content, TERMS)).rule.rule_id

        return self.do(write())

    def retry(self, task_id: int, stage: Stage) -> None:
        self.do(retry(self.desk(), task_id, stage, ALICE))

    def cancel(self, task_id: int) -> None:
        self.do(cancel(self.desk(), task_id, ALICE))

    def sweep(self, queue: str = "etl", **settings: Any) -> None:
        self.do(sweep(self.desk(queue, **settings)))

    def bury(self, *tasks: int) -> None:
        """The leases of these tasks are over."""
        self.query(
            "update etl_task set leased_until = now() - interval '1 second' where leased_until is not null"
            " and task_id = any(%(tasks)s) returning 1",
            {"tasks": list(tasks)},
        )

    def look(self, task_id: int) -> RunState:
        return self.do(queries.look(self.desk(), task_id, ALICE)).state

    def row(self, task_id: int) -> dict[str, Any]:
        return self.rows([task_id])[task_id]

    def rows(self, tasks: Iterable[int]) -> dict[int, dict[str, Any]]:
        found = self.query(
            "select to_jsonb(t) - '{leased_until,lease_count}'::text[] from etl_task t where task_id = any(%(tasks)s)",
            {"tasks": list(tasks)},
        )
        return {row["task_id"]: row for (row,) in found}

    def wait_until_ended(
        self, tasks: Iterable[int], seconds: float = 60, queue: str = "etl", **settings: Any
    ) -> dict[int, dict[str, Any]]:
        """Their rows; what was lost meanwhile is swept up."""
        wanted = list(tasks)

        def over() -> bool:
            with suppress(PenstockError):  # as above
                self.sweep(queue, **settings)
            return all(row["status"] != "pending" for row in self.rows(wanted).values())

        self.wait_for(over, seconds, f"tasks {wanted} have ended")
        return self.rows(wanted)

    # What came of it -------------------------------------------------------------------------------------------------
    def files(self, task_id: int) -> dict[str, tuple[int, bytes]]:
        """Everything that lies in the store for a task, and when it was written."""
        root = self.home / "store"
        return {
            str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes())
            for path in (root / "etl" / str(task_id)).rglob("*")
            if path.is_file()
        }

    def outcome(self, row: dict[str, Any]) -> dict[str, Any]:
        """What an undisturbed run would have given too: without keys, times, and how often something was tried."""
        store = self.home / "store"
        result = msgspec.json.decode((store / row["result"]["output_s3_key"]).read_bytes())
        inline = {name: value for name, value in row["result"].items() if name != "output_s3_key"}
        assert inline == result, "the row says something else than the file"
        return {
            "status": row["status"],
            "error": row["error"],
            "markdown": (store / result["markdown_s3_key"]).read_text().replace(f"etl/{row['task_id']}/", "etl/…/"),
            "pages": result["page_count"],
            "images": [Path(key).name for key in result["images"]],
            "data": result.get("data"),
            "provenance": result.get("provenance"),
        }
