"""A whole system for phones: server, worker, scheduler and bucket, with somebody who sends."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.direct_system import DirectSystem, running_system
from tests.support.edge import token
from tests.support.phones import PatientPhone
from tests.support.send_shell import send_shell
from tests.support.shells import Shell
from tests.support.terminals import Terminal


@pytest.fixture(scope="module")
def bucket_settings() -> dict[str, str]:
    """None: the bucket is the embedded one."""
    return {}


@pytest.fixture(scope="module")
def module_system(postgres, redis_server, bucket_settings) -> Iterator[DirectSystem]:
    with running_system(postgres, redis_server, **bucket_settings) as running:
        yield running


@pytest.fixture
def system(module_system: DirectSystem) -> Iterator[DirectSystem]:
    yield module_system
    module_system.calm()


@pytest.fixture
def phone(system: DirectSystem) -> Iterator[PatientPhone]:
    with PatientPhone(system.serve.address, token(seconds=600)) as made:
        yield made


@pytest.fixture
def shell(system: DirectSystem, tmp_path: Path) -> Shell:
    return send_shell(system, tmp_path)


@pytest.fixture
def terminal(shell: Shell) -> Iterator[Callable[..., Terminal]]:
    with shell.terminals() as start:
        yield start
