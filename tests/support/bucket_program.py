"""The embedded bucket alone in a process, settings from the environment: quick to start, for tests that kill it."""

import argparse
import asyncio

from penstock.embedded.bucket.server import BucketServer
from penstock.embedded.bucket.settings import BucketSettings
from penstock.kernel.runtime import RuntimeSettings

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    server = BucketServer(BucketSettings(), RuntimeSettings(bucket_port=parser.parse_args().port))
    asyncio.run(server.run(asyncio.Event()))
