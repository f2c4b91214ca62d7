"""A process that admits one upload, or removes the files of cancelled jobs, and can be killed while it does."""

import asyncio
import sys

from penstock import documents
from penstock.bootstrap import load_settings, started
from penstock.kernel.errors import PenstockError
from penstock.kernel.identity import Caller, Role


async def main(deed: str, upload_id: str = "") -> None:
    async with started(load_settings(), role="serve") as parts:
        if deed == "remove":
            await documents.remove_files(parts.desk)
            return
        alice = Caller("alice", "m-1", Role.UPLOADER)
        order = documents.Order(upload_id=upload_id, caller=alice, owner=alice, idempotency_key="k-1")
        try:
            job = await documents.admit(parts.desk, order)
        except PenstockError as refusal:
            _say(refusal.code.code, refusal.details.get("job_id"))
        else:
            _say("CREATED", job["job_id"])


def _say(what: str, job_id: object) -> None:
    sys.stdout.write(f"{what} {job_id}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
