"""`penstock up` with small children of its own: the runtime is real, the roles are a few lines each.

Run as a program: `python -m tests.support.small_up --data DIR [--port P] [--child 'CODE' …]`. Children get
the real environment. Without --child there is one that answers HTTP and two that only wait.
"""

import argparse
import sys
from pathlib import Path

from penstock.cli import main
from penstock.cli import up as command
from penstock.embedded.runtime import Place, Program

_ANSWER = """
import http.server, os, signal
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"ok")
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
http.server.HTTPServer((os.environ["PENSTOCK_HOST"], int(os.environ["PENSTOCK_PORT"])), Answer).serve_forever()
"""
_WAIT = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); print('waiting'); signal.pause()"


def programs(place: Place, extra: list[str]) -> list[Program]:
    serve = Program("serve", [sys.executable, "-c", _ANSWER], command.answers(f"{place.address}/health/live"))
    others = extra or [_WAIT, _WAIT]
    names = ["worker", "scheduler", "third", "fourth"]
    return [serve, *(Program(names[i], [sys.executable, "-c", code]) for i, code in enumerate(others))]


def run() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--child", action="append", default=[])
    given, rest = parser.parse_known_args()
    command.programs = lambda place: programs(place, given.child)
    main(["up", "--data", str(given.data), *rest], roles={})


if __name__ == "__main__":
    run()
