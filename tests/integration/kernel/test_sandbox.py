"""The sandbox with real processes: whatever happens in there is a result out here, and the next call works."""

import errno
import os
import resource
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from tests.support.sandboxes import QUICK, MiB, linux, make

from penstock.kernel.sandbox import Ending, Limits, Outcome, Sandbox, Strength
from penstock.kernel.sandbox.pool import _module_paths


def _within_reach(file: Path, uid: int) -> Path:
    """A file that belongs to the worker's account, in a place that this account can enter."""
    file.write_text("hunter2")
    file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(file, uid, -1)
        for folder in file.parents:
            if folder.stat().st_mode & 0o001 == 0 and "pytest" in str(folder):
                folder.chmod(0o711)
    return file


class TestCalling:
    async def test_a_function_returns_its_value(self, sandbox: Sandbox) -> None:
        assert await sandbox.call("hostile:add", 2, 3) == Outcome(Ending.RETURNED, 5)

    @pytest.mark.parametrize("value", [None, True, 1.5, "中文", b"\x00\xff", [1, [2]], {"a": {"b": []}}, 2**63])
    async def test_plain_values_pass_both_ways(self, sandbox: Sandbox, value: Any) -> None:
        assert (await sandbox.call("hostile:echo", value)).value == value

    async def test_large_arguments_and_results_pass(self, sandbox: Sandbox) -> None:
        large = os.urandom(900_000)
        assert (await sandbox.call("hostile:echo", large)).value == large

    async def test_the_result_is_checked_against_the_type_asked_for(self, sandbox: Sandbox) -> None:
        class Findings(msgspec.Struct):
            pages: int

        good = await sandbox.call("hostile:echo", {"pages": 3}, returns=Findings)
        assert good.value == Findings(3)
        bad = await sandbox.call("hostile:echo", {"pages": "three"}, returns=Findings)
        assert bad.ending is Ending.GARBLED
        assert "pages" in bad.message

    async def test_an_exception_is_an_outcome_with_its_type_and_message(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.call("hostile:raise_value_error")
        expected = Outcome(Ending.FAILED, error="ValueError", message="the cross-reference table is upside down")
        assert outcome == expected
        assert not outcome.ok

    async def test_an_exception_without_a_text_is_an_outcome(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.call("hostile:raise_without_words")
        assert (outcome.ending, outcome.error) == (Ending.FAILED, "Mute")

    async def test_system_exit_does_not_end_the_worker(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.call("hostile:raise_system_exit")
        assert (outcome.ending, outcome.error) == (Ending.FAILED, "SystemExit")

    async def test_a_function_that_is_not_there_is_named(self, sandbox: Sandbox) -> None:
        assert "nosuch" in (await sandbox.call("hostile:nosuch")).message
        assert (await sandbox.call("nosuch:add")).error == "ModuleNotFoundError"

    async def test_output_goes_nowhere_and_input_is_empty(self, sandbox: Sandbox, capfd: Any) -> None:
        assert (await sandbox.call("hostile:talk")).value == "said"
        assert capfd.readouterr() == ("", "")

    async def test_a_result_that_cannot_travel_is_a_failure(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:unencodable")).error == "TypeError"

    async def test_arguments_that_cannot_travel_are_the_callers_fault(self, sandbox: Sandbox) -> None:
        with pytest.raises(TypeError):
            await sandbox.call("hostile:echo", object())

    async def test_a_call_cannot_ask_for_more_than_its_pool_has(self, sandbox: Sandbox) -> None:
        with pytest.raises(ValueError, match="started with"):
            await sandbox.call("hostile:add", 1, 2, limits=Limits(memory=1 << 40))
        with pytest.raises(ValueError, match="above 0"):
            Limits(wall_seconds=0)


class TestFiles:
    async def test_a_file_arrives_open(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one")
        for _ in range(50):  # more than a worker may hold open: each is closed after its call
            outcome = await sandbox.call("hostile:read", files=[tmp_path / "a"])
            assert outcome.value == b"one"

    @linux
    async def test_it_cannot_be_written(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one")
        assert (await sandbox.call("hostile:write_through", files=[tmp_path / "a"])).error == "OSError"
        assert (await sandbox.call("hostile:reopen_to_write", files=[tmp_path / "a"])).ending is Ending.DENIED
        assert (tmp_path / "a").read_bytes() == b"one"

    async def test_a_missing_file_or_a_pipe_is_refused_at_once(self, sandbox: Sandbox, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            await sandbox.call("hostile:read", files=[tmp_path / "none"])
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="not a regular file"):
            await sandbox.call("hostile:read", files=[tmp_path / "pipe"])

    async def test_sixteen_files_pass_and_more_are_refused(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one")
        outcome = await sandbox.call("hostile:count", files=[tmp_path / "a"] * 16)
        assert outcome.value == 16
        with pytest.raises(ValueError, match="at most 16"):
            await sandbox.call("hostile:count", files=[tmp_path / "a"] * 17)

    async def test_no_descriptor_is_lost(self, sandbox: Sandbox, tmp_path: Path) -> None:
        (tmp_path / "a").write_bytes(b"one")
        before = psutil.Process().num_fds()
        for _ in range(5):
            await sandbox.call("hostile:read", files=[tmp_path / "a"])
            with pytest.raises(FileNotFoundError):
                await sandbox.call("hostile:read", files=[tmp_path / "a", tmp_path / "none"])
        assert psutil.Process().num_fds() <= before  # fewer: what an earlier test left was collected meanwhile


class TestBombs:
    @pytest.mark.parametrize("function", ["allocate", "map_memory_in_c"])
    async def test_four_gigabytes_are_out_of_memory(self, sandbox: Sandbox, function: str) -> None:
        assert (await sandbox.call(f"hostile:{function}", 4 << 30)).ending is Ending.OUT_OF_MEMORY

    async def test_memory_is_limited_per_call(self, sandbox: Sandbox) -> None:
        small = replace(QUICK, memory=32 * MiB)
        assert (await sandbox.call("hostile:allocate", 100 * MiB)).ok
        assert (await sandbox.call("hostile:allocate", 100 * MiB, limits=small)).ending is Ending.OUT_OF_MEMORY

    @pytest.mark.parametrize("function", ["loop_in_python", "loop_in_c", "loop_deaf_to_signals"])
    async def test_a_loop_is_killed_at_its_cpu_time(self, sandbox: Sandbox, function: str) -> None:
        outcome = await sandbox.call(f"hostile:{function}", limits=replace(QUICK, cpu_seconds=0.2))
        assert outcome == Outcome(Ending.TIMED_OUT, message="used up its 0.2 s of CPU time")
        assert outcome.is_verdict
        assert 0.1 < outcome.seconds < 3  # at the latest when the kernel kills what does not listen

    async def test_a_call_that_has_cpu_time_left_at_its_wall_time_is_killed_without_a_verdict(
        self, sandbox: Sandbox
    ) -> None:
        began = time.monotonic()
        outcome = await sandbox.call("hostile:sleep", 60, limits=replace(QUICK, wall_seconds=0.2))
        assert outcome.ending is Ending.STALLED
        assert not outcome.is_verdict
        assert 0.4 <= time.monotonic() - began < 3  # it was tried twice

    async def test_cpu_time_is_measured_and_waiting_is_not(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:sleep", 0.3)).seconds < 0.2

    @pytest.mark.parametrize(
        ("function", "number"),
        [("segfault", signal.SIGSEGV), ("abort", signal.SIGABRT), ("overflow_the_stack", signal.SIGSEGV)],
    )
    async def test_a_crash_names_its_signal(self, sandbox: Sandbox, function: str, number: signal.Signals) -> None:
        outcome = await sandbox.call(f"hostile:{function}")
        assert (outcome.ending, outcome.signal) == (Ending.CRASHED, number)

    @pytest.mark.skipif(not hasattr(signal, "SIGRTMIN"), reason="this system has no real-time signals")
    async def test_a_signal_without_a_name_is_a_crash(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.call("hostile:die_of", signal.SIGRTMIN + 6)
        assert (outcome.ending, outcome.signal) == (Ending.CRASHED, None)
        assert str(signal.SIGRTMIN + 6) in outcome.message

    async def test_leaving_names_its_status(self, sandbox: Sandbox) -> None:
        outcome = await sandbox.call("hostile:leave", 3)
        assert (outcome.ending, outcome.exit_status) == (Ending.CRASHED, 3)
        assert (await sandbox.call("hostile:leave", 0)).ending is Ending.CRASHED

    async def test_ten_thousand_open_files_are_too_many(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:open_files", 10_000)).ending is Ending.TOO_MANY_FILES
        fewer = replace(QUICK, open_files=2)
        assert (await sandbox.call("hostile:open_files", 20)).value == 20
        assert (await sandbox.call("hostile:open_files", 20, limits=fewer)).ending is Ending.TOO_MANY_FILES

    async def test_deep_recursion_is_a_failure(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:recurse", 1_000_000)).error == "RecursionError"

    async def test_a_huge_result_is_an_outcome(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:result_of", 1 << 30)).ending is Ending.OUT_OF_MEMORY
        assert (await sandbox.call("hostile:result_of", 2 * MiB)).ending is Ending.RESULT_TOO_LARGE

    async def test_a_deeply_nested_result_is_an_outcome(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:nested_result", 100_000)).error == "RecursionError"

    async def test_threads_work_but_do_not_stay(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:run_threads", 8)).value == 8
        left = (await sandbox.call("hostile:leave_a_thread")).value
        assert not psutil.pid_exists(left)

    async def test_a_thread_bomb_is_a_failure(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:thread_bomb", limits=QUICK)).ending is Ending.FAILED


@linux
class TestForbidden:
    @pytest.mark.parametrize("function", ["fork", "execute", "spawn", "open_socket_pair"])
    async def test_no_process_and_no_line_to_elsewhere(self, sandbox: Sandbox, function: str) -> None:
        assert (await sandbox.call(f"hostile:{function}")).ending is Ending.DENIED

    @pytest.mark.parametrize("family", [1, 2, 10, 16, 40])  # unix, IPv4, IPv6, netlink, vsock
    async def test_no_socket_of_any_family(self, sandbox: Sandbox, family: int) -> None:
        assert (await sandbox.call("hostile:open_socket", family)).ending is Ending.DENIED

    async def test_no_reach_to_other_processes(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:kill", os.getpid())).ending is Ending.DENIED
        assert (await sandbox.call("hostile:starve", os.getpid())).ending is Ending.DENIED
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0

    @pytest.mark.parametrize("function", ["be_signalled", "be_signalled_by_ioctl"])
    async def test_no_signal_by_way_of_a_file(self, sandbox: Sandbox, function: str) -> None:
        assert (await sandbox.call(f"hostile:{function}", os.getpid())).ending is Ending.DENIED

    @pytest.mark.parametrize("change", ["mode", "owner", "time", "length", "attribute"])
    async def test_a_file_of_its_own_account_keeps_what_is_written_beside_it(
        self, sandbox: Sandbox, change: str, tmp_path: Path
    ) -> None:
        """File rules say nothing of permissions: a worker that runs as we do could open our secret to all."""
        secret = _within_reach(tmp_path / "secret", (await sandbox.call("hostile:own_uid")).value)
        before = secret.stat()
        assert (await sandbox.call(f"hostile:change_{change}", str(secret))).ending is Ending.DENIED
        assert secret.stat() == before

    @pytest.mark.parametrize("number", [425, 434, 438, 435, 500, 0x40000000 + 41])
    async def test_no_newer_or_stranger_system_call(self, sandbox: Sandbox, number: int) -> None:
        """io_uring, pidfd_open, pidfd_getfd, clone3, one not yet invented, and socket by its x32 name."""
        assert (await sandbox.call("hostile:system_call", number)).value in {errno.EPERM, errno.ENOSYS}

    @pytest.mark.parametrize(("option", "value"), [(1, 0), (4, 1)])
    async def test_it_cannot_outlive_its_parent_nor_open_its_memory(
        self, sandbox: Sandbox, option: int, value: int
    ) -> None:
        """PR_SET_PDEATHSIG and PR_SET_DUMPABLE."""
        assert (await sandbox.call("hostile:control_process", option, value)).value == errno.EPERM

    async def test_it_cannot_watch_files(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:watch_files")).value == errno.EPERM

    async def test_our_environment_is_not_visible(self, sandbox: Sandbox, monkeypatch: Any) -> None:
        monkeypatch.setenv("PENSTOCK_SECRET", "hunter2")
        async with make() as fresh:
            inside = (await fresh.call("hostile:environment")).value
            assert set(inside) <= {
                "PYTHONPATH", "PYTHONUTF8", "LC_ALL", "LC_CTYPE", "MALLOC_ARENA_MAX", "TZ", "LD_LIBRARY_PATH",
                "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
            }  # fmt: skip
            outcome = await fresh.call("hostile:read_path", f"/proc/{os.getpid()}/environ")
            assert outcome.ending is Ending.DENIED

    @pytest.mark.parametrize(
        "path",
        [
            "/etc/passwd", "/proc/1/cmdline", "/proc/self/mem", "/proc/1/environ",
            "/proc/self/net/tcp", "/proc/net/tcp",
        ],
    )  # fmt: skip
    async def test_files_outside_are_not_readable(self, sandbox: Sandbox, path: str) -> None:
        if sandbox.strength is not Strength.FULL:
            pytest.skip("this kernel has no file rules")
        assert (await sandbox.call("hostile:read_path", path)).ending is not Ending.RETURNED

    async def test_a_file_of_ours_is_not_readable(self, sandbox: Sandbox, tmp_path: Path) -> None:
        if sandbox.strength is not Strength.FULL:
            pytest.skip("this kernel has no file rules")
        (tmp_path / "penstock.toml").write_text("secret")
        assert (await sandbox.call("hostile:read_path", str(tmp_path / "penstock.toml"))).ending is Ending.DENIED

    async def test_the_working_directory_is_no_place_of_modules(self, monkeypatch: Any, tmp_path: Path) -> None:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", ["", str(tmp_path), *sys.path])
        assert str(tmp_path) not in _module_paths(())
        assert str(tmp_path) in _module_paths((tmp_path,))

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become someone else")
    async def test_root_becomes_nobody(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:own_uid")).value != 0


class TestWriting:
    async def test_nothing_is_written(self, sandbox: Sandbox, tmp_path: Path) -> None:
        tmp_path.chmod(0o777)  # noqa: ASYNC240
        assert (await sandbox.call("hostile:write_to", str(tmp_path / "a"))).ending is Ending.DENIED
        assert not (await sandbox.call("hostile:write_file", 10 << 30)).ok


class TestOneProcessPerCall:
    async def test_it_holds_its_line_and_its_files_and_nothing_of_the_template(
        self, sandbox: Sandbox, tmp_path: Path
    ) -> None:
        """With what the template waits with, one call could stop the calls of all merchants."""
        (tmp_path / "a").write_bytes(b"one")
        assert len((await sandbox.call("hostile:descriptors")).value) == 4  # standard ones and the line
        assert len((await sandbox.call("hostile:count_descriptors", files=[tmp_path / "a"])).value) == 5

    async def test_it_cannot_call_itself_stalled_to_be_tried_again(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:call_itself_stalled")).ending is Ending.GARBLED

    async def test_a_template_that_does_not_answer_costs_a_call_its_time_and_the_next_nothing(self) -> None:
        async with make() as one:
            assert one._template is not None
            os.kill(one._template.pid, signal.SIGSTOP)
            outcome = await one.call("hostile:add", 1, 2, limits=replace(QUICK, wall_seconds=0.2))
            assert outcome.value == 3  # made once more, by a new template

    async def test_every_call_has_a_process_of_its_own_that_is_gone_when_it_answers(self, sandbox: Sandbox) -> None:
        pids = [(await sandbox.call("hostile:own_pid")).value for _ in range(5)]
        assert len(set(pids)) == 5
        assert not any(psutil.pid_exists(pid) for pid in pids)

    async def test_what_one_call_leaves_behind_the_next_does_not_see(self, sandbox: Sandbox) -> None:
        """A merchant's bytes stayed in the process that read another's."""
        assert [(await sandbox.call("hostile:remember", name)).value for name in ("a", "b")] == [["a"], ["b"]]

    async def test_it_makes_way_for_those_who_answer_requests(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:niceness")).value > os.getpriority(os.PRIO_PROCESS, 0)


class TestTheLine:
    @pytest.mark.parametrize("function", ["babble", "answer_twice", "hang_up"])
    async def test_a_worker_that_breaks_the_protocol_is_garbled(self, sandbox: Sandbox, function: str) -> None:
        assert (await sandbox.call(f"hostile:{function}", limits=QUICK)).ending is Ending.GARBLED

    async def test_an_announced_gigabyte_is_not_read(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:announce_a_gigabyte")).ending is Ending.RESULT_TOO_LARGE

    async def test_hanging_up_and_leaving_is_a_crash(self, sandbox: Sandbox) -> None:
        assert (await sandbox.call("hostile:hang_up_and_leave")).exit_status == 7
