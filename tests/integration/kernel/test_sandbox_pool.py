"""The pool: its template, its places, its start and end; nobody waits for ever and nothing is left behind."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from tests.support.sandboxes import SUPPORT, linux, make, until

from penstock.kernel.errors import PenstockError
from penstock.kernel.sandbox import Ending, Sandbox, SandboxSettings


class TestThePool:
    async def test_as_many_calls_run_at_once_as_there_are_workers(self) -> None:
        async with make(workers=2) as two:
            began = time.monotonic()
            await asyncio.gather(*(two.call("hostile:sleep", 0.5) for _ in range(2)))
            assert time.monotonic() - began < 2 * 0.5

    async def test_the_others_wait_in_order(self) -> None:
        async with make() as one:
            order: list[int] = []

            async def nap(number: int) -> None:
                await one.call("hostile:sleep", 0.01)
                order.append(number)

            await asyncio.gather(*(nap(each) for each in range(8)))
            assert order == list(range(8))

    async def test_waiting_in_line_is_not_wall_time(self) -> None:
        async with make() as one:
            short = replace(one.limits, wall_seconds=0.2)
            calls = (one.call("hostile:sleep", 0.1, limits=short) for _ in range(4))
            assert all(outcome.ok for outcome in await asyncio.gather(*calls))

    async def test_cancelling_the_caller_kills_the_call(self) -> None:
        async with make() as one:
            calling = asyncio.create_task(one.call("hostile:loop_in_c"))
            worker = await running_process(one)
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            assert not psutil.pid_exists(worker)
            assert (await one.call("hostile:add", 1, 2)).value == 3

    async def test_cancelling_a_caller_in_line_keeps_the_line_moving(self) -> None:
        async with make() as one:
            calls = [asyncio.create_task(one.call("hostile:sleep", 0.05)) for _ in range(5)]
            await asyncio.sleep(0.01)
            for waiting in calls[1:4]:
                waiting.cancel()
            assert (await calls[0]).ok
            assert (await calls[4]).ok

    async def test_many_callers_among_bombs_each_get_their_own_answer(self) -> None:
        async with make(workers=2) as two:
            bombs = ["segfault", "fork", "babble", "raise_value_error"]
            calls = [
                two.call(f"hostile:{bombs[each // 5 % 4]}") if each % 5 == 0 else two.call("hostile:add", each, 0)
                for each in range(60)
            ]
            outcomes = await asyncio.gather(*calls)
            assert [each for each in range(60) if outcomes[each].value == each] == [
                each for each in range(60) if each % 5
            ]
            assert not any(outcomes[each].ok for each in range(0, 60, 5))


class TestFairShares:
    async def test_a_merchants_first_call_begins_at_once_however_many_calls_another_has(self) -> None:
        async with make(workers=2) as two:
            greedy = [asyncio.create_task(two.call("hostile:sleep", 30, tenant="m-greedy")) for _ in range(20)]
            await until(lambda: len(processes_of(two)) == 2)
            began = time.monotonic()
            assert (await two.call("hostile:add", 1, 2, tenant="m-a")).value == 3
            assert time.monotonic() - began < 5
            assert len(processes_of(two)) == 2  # the place on top is for others
            for each in greedy:
                each.cancel()
            await asyncio.gather(*greedy, return_exceptions=True)

    async def test_merchants_that_wait_take_turns(self) -> None:
        order: list[str] = []
        async with make(workers=1) as one:

            async def nap(tenant: str) -> None:
                await one.call("hostile:sleep", 0.02, tenant=tenant)
                order.append(tenant)

            names = ["m-a"] * 6 + ["m-b"] * 2 + ["m-c"] * 2
            await asyncio.gather(*(nap(each) for each in names))
        assert order.index("m-b") < 3
        assert order.index("m-c") < 4
        assert order[-1] == "m-a"

    async def test_a_merchants_second_call_at_once_makes_way_for_anothers_first(self) -> None:
        async with make(workers=2) as two:
            busy = asyncio.create_task(two.call("hostile:sleep", 1, tenant="m-a"))
            await running_process(two)
            second = await two.call("hostile:niceness", tenant="m-a")
            first = await two.call("hostile:niceness", tenant="m-b")
            assert second.value > first.value
            await busy

    async def test_a_call_that_takes_long_makes_way_for_those_that_begin(self) -> None:
        async with make(workers=2) as two:
            long, short = await asyncio.gather(
                two.call("hostile:niceness", 0.5, tenant="m-a"), two.call("hostile:niceness", tenant="m-b")
            )
            assert long.value == short.value + 10


def processes_of(sandbox: Sandbox) -> list[int]:
    """Those that the template of a pool has forked and that still run."""
    assert sandbox._template is not None
    return [each.pid for each in psutil.Process(sandbox._template.pid).children()]


async def running_process(sandbox: Sandbox) -> int:
    await until(lambda: len(processes_of(sandbox)) == 1)
    return processes_of(sandbox)[0]


class TestBeingKilled:
    @linux
    async def test_a_call_that_a_stranger_kills_is_made_once_more_from_the_start(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"all of it")
        (tmp_path / "gate").touch()
        async with make() as one:
            files = [tmp_path / "file", tmp_path / "gate"]
            reading = asyncio.create_task(one.call("hostile:read_and_wait", files=files))
            await until(lambda: _position(tmp_path / "file") == 9)
            worker = await running_process(one)
            os.kill(worker, signal.SIGKILL)
            await until(lambda: not _alive(worker))
            (tmp_path / "gate").write_bytes(b"open")
            assert (await reading).value == b"all of it"

    async def test_a_call_that_is_killed_twice_is_not_made_again(self) -> None:
        async with make() as one:
            outcome = await one.call("hostile:die_of", signal.SIGKILL)
            assert (outcome.ending, outcome.signal) == (Ending.CRASHED, signal.SIGKILL)
            assert outcome.is_killed
            assert not outcome.is_verdict

    async def test_a_killed_template_costs_no_call_its_result(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"all of it")
        (tmp_path / "gate").touch()
        async with make() as one:
            files = [tmp_path / "file", tmp_path / "gate"]
            reading = asyncio.create_task(one.call("hostile:read_and_wait", files=files))
            worker = await running_process(one)
            assert one._template is not None
            os.kill(one._template.pid, signal.SIGKILL)
            await until(lambda: not _alive(worker))  # it goes with the template
            (tmp_path / "gate").write_bytes(b"open")
            assert (await reading).value == b"all of it"


def _position(path: Path) -> int:
    """How far a file that this process has open has been read, by whoever shares its descriptor."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if each.readlink() == path:
                return int(Path(f"/proc/self/fdinfo/{each.name}").read_text().split()[1])
    return -1


class TestStartingAndStopping:
    async def test_a_module_that_cannot_be_loaded_stops_the_start(self) -> None:
        pool = Sandbox(SandboxSettings(workers=3), preload=("no_such_module",))
        before = _children()
        with pytest.raises(PenstockError, match=r"SANDBOX_UNAVAILABLE.*no_such_module"):
            await pool.start()
        assert _children() <= before

    @linux
    async def test_a_module_that_starts_threads_stops_the_start(self, tmp_path: Path) -> None:
        """A process forked beside a thread that holds a lock would wait for that lock for ever."""
        module = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
        (tmp_path / "threaded.py").write_text(module)
        pool = Sandbox(SandboxSettings(), preload=("threaded",), paths=(tmp_path,))
        with pytest.raises(PenstockError, match=r"SANDBOX_UNAVAILABLE.*started 1 threads"):
            await pool.start()

    @pytest.mark.parametrize("after", [0, 0.01, 0.03, 0.06])
    async def test_a_cancelled_start_leaves_nothing(self, after: float) -> None:
        pool, before = make(workers=3), _children()
        starting = asyncio.create_task(pool.start())
        await asyncio.sleep(after)
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await pool.close()
        assert _children() <= before

    async def test_no_descriptors_left_is_a_clear_error_and_passes(self) -> None:
        async with make() as one:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (4, hard))
            try:
                with pytest.raises(PenstockError, match="SANDBOX_UNAVAILABLE"):
                    await one.call("hostile:add", 1, 2)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert (await one.call("hostile:add", 1, 2)).value == 3

    async def test_a_start_that_takes_too_long_is_given_up(self) -> None:
        with pytest.raises(PenstockError, match="did not answer"):
            await make(start_seconds=0.001).start()

    async def test_closing_ends_calls_and_refuses_those_in_line(self) -> None:
        one = make()
        await one.start()
        running, waiting = (asyncio.create_task(one.call("hostile:loop_in_c")) for _ in range(2))
        worker = await running_process(one)
        await one.close()
        for each in (running, waiting):  # it says nothing about what they were reading
            with pytest.raises(PenstockError, match=r"SANDBOX_UNAVAILABLE.*closed"):
                await each
        with pytest.raises(PenstockError, match="closed"):
            await one.call("hostile:add", 1, 2)
        assert not psutil.pid_exists(worker)

    async def test_a_closed_pool_can_be_started_again(self) -> None:
        one = make()
        for _ in range(2):
            async with one:
                assert (await one.call("hostile:add", 1, 2)).value == 3

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
    @linux
    async def test_workers_die_with_their_parent_even_in_a_loop(self, how: signal.Signals, tmp_path: Path) -> None:
        program = f"""
            import asyncio
            import psutil
            from pathlib import Path
            from penstock.kernel.sandbox import Sandbox, SandboxSettings

            async def main():
                sandbox = Sandbox(SandboxSettings(workers=2), paths=(Path({str(SUPPORT)!r}),))
                await sandbox.start()
                busy = asyncio.create_task(sandbox.call("hostile:loop_deaf_to_signals"))
                template = psutil.Process(sandbox._template.pid)
                while not template.children():
                    await asyncio.sleep(0.01)
                print(template.pid, template.children()[0].pid, flush=True)
                await busy

            asyncio.run(main())
        """
        parent = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", textwrap.dedent(program)],
            stdout=subprocess.PIPE,
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        with parent:
            assert parent.stdout is not None
            line = await asyncio.to_thread(parent.stdout.readline)
            pids = [int(each) for each in line.split()]
            assert len(pids) == 2
            assert all(psutil.pid_exists(pid) for pid in pids)
            parent.send_signal(how)
        await until(lambda: not any(_alive(pid) for pid in pids))


def _children() -> set[int]:
    return {each.pid for each in psutil.Process().children()}


def _alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
