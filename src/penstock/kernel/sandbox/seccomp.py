"""The system calls a worker may not make, as a BPF program for the Linux kernel.

The list names what is refused, not what is allowed: parsers are other people's native code, and a list of
allowed calls breaks with each new libc. What keeps such a list safe is that every call newer than the last
one reviewed does not exist for the worker (ENOSYS), the same for other calling conventions, and that file
rules, account and limits stand behind it. A refusal is an error code (EPERM), not a kill: a library that
merely probes goes on, and one that insists ends with a clear outcome.

The parent assembles the program; the worker only installs it (`worker.py`).
"""

import errno
import platform
import struct
import sys

# name: (x86_64, aarch64); None where the machine has no such call.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    # network
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200),
    "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    # other processes
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434), "pidfd_getfd": (438, 438), "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # memory that outlives the process
    "shmget": (29, 194), "shmat": (30, 196), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    # ... and that of other programs, by a number that can be guessed
    "shmctl": (31, 195), "msgctl": (71, 187), "msgsnd": (69, 189), "msgrcv": (70, 188), "semctl": (66, 191),
    "semop": (65, 193), "semtimedop": (220, 192), "mq_unlink": (241, 181),
    # owner, permissions, attributes and times of files, of which file rules know nothing (older ones: nor of length)
    "truncate": (76, 45),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    # another view of the file system, or a way around its rules
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "open_tree": (428, 428), "move_mount": (429, 429),
    "mount_setattr": (442, 442), "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265),
    "statmount": (457, 457), "listmount": (458, 458),
    "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),  # on any path
    "fanotify_init": (300, 262), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    # the kernel's rarely needed and often broken doors
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219),
    "add_key": (248, 217), "request_key": (249, 218), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "swapon": (167, 224), "swapoff": (168, 225), "syslog": (103, 116), "acct": (163, 89),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "personality": (135, 92), "vhangup": (153, 58),
    "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None), "uselib": (134, None),
    "memfd_secret": (447, 447),
}  # fmt: skip
_CLONE, _CLONE3 = (56, 220), (435, 435)
_KILL, _TGKILL, _PRLIMIT, _PRCTL = (62, 129), (234, 131), (302, 261), (157, 167)
_FCNTL, _IOCTL = (72, 25), (16, 29)
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column above, AUDIT_ARCH
_LAST_REVIEWED = 462  # mseal

_CLONE_THREAD = 0x00010000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
# The owner of a file is sent a signal, of any number, when something happens to it: a second kill().
_FILE_OWNERS = (8, 10, 15, 1024)  # F_SETOWN, F_SETSIG, F_SETOWN_EX; F_SETLEASE makes others wait for us
_LINE_OWNERS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_NUMBER, _ARCH, _FIRST_ARGUMENT, _SECOND_ARGUMENT = (
    0,
    4,
    16,
    24,
)  # offsets in struct seccomp_data; arguments by their low half
_LOAD, _RETURN = 0x20, 0x06
_IF_EQUAL, _IF_ABOVE, _IF_ANY_BIT = 0x15, 0x25, 0x45
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def filter_for(pid: int) -> bytes | None:
    """The program for the process `pid`, as an array of `struct sock_filter`; None where there is no such filter."""
    machine = _MACHINES.get(platform.machine()) if sys.platform == "linux" else None
    if machine is None:
        return None
    column, arch = machine
    refuse, absent = _ERRNO | errno.EPERM, _ERRNO | errno.ENOSYS
    program = [
        _step(_LOAD, _ARCH), _step(_IF_EQUAL, arch, 1, 0), _step(_RETURN, _KILL_PROCESS),
        _step(_LOAD, _NUMBER), _step(_IF_ABOVE, _LAST_REVIEWED, 0, 1), _step(_RETURN, absent),
        # libc asks with clone3 first, whose flags a filter cannot see, and falls back to clone
        _step(_IF_EQUAL, _CLONE3[column], 0, 1), _step(_RETURN, absent),
    ]  # fmt: skip
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            program += [_step(_IF_EQUAL, number, 0, 1), _step(_RETURN, refuse)]
    program += _only_if(_CLONE[column], _IF_ANY_BIT, _CLONE_THREAD, refuse)  # threads, no processes
    program += _only_if(_KILL[column], _IF_EQUAL, pid, refuse)
    program += _only_if(_TGKILL[column], _IF_EQUAL, pid, refuse)  # abort() signals itself
    program += _only_if(_PRLIMIT[column], _IF_EQUAL, 0, refuse)  # own limits, nobody else's
    program += _never_with(_FCNTL[column], _SECOND_ARGUMENT, _FILE_OWNERS, refuse)
    program += _never_with(_IOCTL[column], _SECOND_ARGUMENT, _LINE_OWNERS, refuse)
    # all of prctl but the signal that ends us with our parent, and who may look into our memory
    program += _never_with(_PRCTL[column], _FIRST_ARGUMENT, (_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE), refuse)
    program += [_step(_RETURN, _ALLOW)]
    return b"".join(program)


def _only_if(number: int, test: int, value: int, otherwise: int) -> list[bytes]:
    """System call `number` is allowed only when its first argument passes `test`."""
    return [
        _step(_IF_EQUAL, number, 0, 4), _step(_LOAD, _FIRST_ARGUMENT), _step(test, value, 0, 1),
        _step(_RETURN, _ALLOW), _step(_RETURN, otherwise),
    ]  # fmt: skip


def _never_with(number: int, argument: int, values: tuple[int, ...], otherwise: int) -> list[bytes]:
    """System call `number` is allowed unless this argument is one of `values`."""
    tests = [step for each in values for step in (_step(_IF_EQUAL, each, 0, 1), _step(_RETURN, otherwise))]
    inside = [_step(_LOAD, argument), *tests, _step(_RETURN, _ALLOW)]
    return [_step(_IF_EQUAL, number, 0, len(inside)), *inside]


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
