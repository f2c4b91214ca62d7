"""Writes the Python code of the .proto files: `make proto`. The results are committed; a test compares them."""

import sys
from pathlib import Path

from grpc_tools import protoc

HERE = Path(__file__).parent
PACKAGE = "penstock/rpc"  # the generated code imports its own parts from below this


def generate(into: Path) -> None:
    files = [f"{PACKAGE}/{path.relative_to(HERE).as_posix()}" for path in sorted(HERE.rglob("*.proto"))]
    outputs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    if protoc.main(["protoc", f"-I{PACKAGE}={HERE}", *outputs, *files]):
        sys.exit("The code of proto/ could not be generated.")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE.parent / "src")
