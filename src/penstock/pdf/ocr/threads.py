"""Imported before all else in a worker: numeric libraries read this when they are loaded, and the pool has a process
per core, so each of them has one thread.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = "1"
