"""`penstock bench`: run the benchmarks in `bench/` and print how they compare.

Each file there has `run()`, which returns {"name": …, "ratios": {against: ratio}, "figures": {what: value}}.
"""

import asyncio
import importlib
import inspect
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import penstock
from penstock.cli import screen
from penstock.cli.options import AsJson


def register(app: typer.Typer) -> None:
    app.command("bench", epilog="Example: penstock bench relay --json")(bench)


def bench(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One benchmark; without it, all.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the benchmarks and print ratios against the raw limit and against peers that are installed."""
    directory = bench_directory()
    available = sorted(path.stem for path in directory.glob("*.py") if "\ndef run(" in path.read_text())
    if name is not None and name not in available:
        listed = ", ".join(available) or "none"
        raise screen.Refusal(
            f"There is no benchmark {name}; there are: {listed}.", f"没有基准测试 {name}；现有：{listed}。"
        )
    sys.path.insert(0, str(directory.parent))
    results = []
    for each in [name] if name else available:
        if not as_json:
            screen.console(stderr=True).print(f"[dim]{each} …[/dim]")
        results.append(run_one(each))
    if as_json:
        screen.print_json(results[0] if name else results)
    else:
        _print(results)


def bench_directory() -> Path:
    """Benchmarks live at the root of the repository; an installed wheel does not carry them."""
    for root in (Path.cwd(), Path(penstock.__file__).parents[2]):
        if (root / "bench").is_dir():
            return root / "bench"
    raise screen.Refusal(
        "Benchmarks are not part of the installed package: run this inside a clone of the repository, where bench/ is.",
        "基准测试不在安装包中：请在代码仓库（含 bench/ 目录）内运行。",
    )


def run_one(name: str) -> dict[str, Any]:
    module = importlib.import_module(f"bench.{name}")
    result = module.run()
    if inspect.iscoroutine(result):
        result = asyncio.run(result)
    return {"name": name, "ratios": {}, "figures": {}, **result}


def _print(results: list[dict[str, Any]]) -> None:
    ratios = [
        (result["name"], against, f"{ratio:.2f} ×") for result in results for against, ratio in result["ratios"].items()
    ]
    figures = [
        (result["name"], what, _figure(value)) for result in results for what, value in result["figures"].items()
    ]
    console = screen.console()
    if ratios:
        console.print(screen.table(("Benchmark", "Against", "Ratio"), ratios))
    if figures:
        console.print()
        console.print(screen.table(("Benchmark", "Figure", "Value"), figures))


def _figure(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
