"""`penstock rules init`: a first rule to begin with, and a made-up invoice to try it on."""

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli import screen
from penstock.cli.etl.outputs import Placing, refused_as
from penstock.cli.screen import Refusal, printable

EXAMPLE = """\
# What is wanted of an invoice. Try it:
#   penstock etl invoice.pdf --rule invoice.yaml
name: invoice
description: Number, date, seller, lines and total of an invoice

# rules: labels and tables are matched to the schema; no model, no network, the same result every time.
# llm:   a language model fills in the schema; needs PENSTOCK_LLM_BASE_URL, _API_KEY and _MODEL, and `penstock up`.
postprocess_mode: rules

json_schema:
  type: object
  required: [invoice_number, total]       # not found, the result is refused and says so
  properties:
    invoice_number: {type: string}
    invoice_date: {type: string, format: date}
    seller: {type: string}
    currency: {type: string}
    total: {type: number}
    lines:
      type: array
      items:
        type: object
        properties:
          description: {type: string}
          quantity: {type: number}
          unit_price: {type: number}
          amount: {type: number}

# How your documents call these. Names and titles of the schema count anyway; used by the mode rules only.
options:
  fields:
    /invoice_number: {label: [Invoice number, Invoice no., 发票号码]}
    /invoice_date: {label: [Date, Invoice date, 开票日期], order: dmy}
    /seller: {label: [Seller, From, 销售方]}
    /currency: {label: [Currency, 币种], regex: "[A-Z]{3}"}
    /total: {label: [Total, Total amount, Amount due, 价税合计, 合计]}
    /lines:
      table:                              # what a column is headed by: where its values go
        {Item: description, Qty: quantity, Price: unit_price, 名称: description, 数量: quantity, 单价: unit_price,
         金额: amount}

# Used by the mode llm only:
# system_prompt: what a language model should know besides.
# examples:                               # a few texts, and the JSON that is right for each
#   - text: "Invoice A-7. To pay: 12.50"
#     result: {invoice_number: A-7, total: 12.5}
"""


def register(app: typer.Typer) -> None:
    app.command("init", epilog="Example: penstock rules init --sample")(init)


def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The rule file to write.", show_default=True)] = Path(
        "invoice.yaml"
    ),
    sample: Annotated[
        bool, typer.Option("--sample", help="Also write a made-up invoice to try it on, beside the rule.")
    ] = False,
) -> None:
    """Write a small example rule for invoices, with what its keys mean."""
    wanted = {
        file: EXAMPLE.replace("invoice.yaml", file.name).replace("name: invoice\n", f"name: {_name(file)}\n").encode()
    }
    if sample:
        from penstock.cli.rules.sample import invoice_pdf

        wanted[file.with_suffix(".pdf")] = invoice_pdf()
    for path in wanted:
        shown = printable(str(path))
        if path.exists():
            raise Refusal(f"{shown} is there already; nothing was written.", f"{shown} 已存在；未写入任何内容。")
        if not path.parent.is_dir():
            where = printable(str(path.parent))
            raise Refusal(f"{where} is not a directory; make it first.", f"{where} 不是目录；请先创建。")
    with Placing() as placing:
        for path, content in wanted.items():
            temporary = placing.file(path)
            with refused_as(path):
                temporary.write_bytes(content)
        placing.place()
    console = screen.console()
    for path in wanted:
        console.print(Text.assemble(("✓ ", "green"), printable(str(path))), soft_wrap=True)
    document = file.with_suffix(".pdf") if sample else screen.text("YOUR.pdf", "你的.pdf")
    hint = screen.text("Next:", "下一步：")
    console.print(Text(f"{hint} penstock etl {document} --rule {file}", style="dim"), soft_wrap=True)


def _name(file: Path) -> str:
    """As the file is called; quoted as YAML wants it where that is more than a word."""
    import json

    return (
        file.stem
        if file.stem.replace("-", "").replace("_", "").isalnum() and not file.stem.isdigit()
        else json.dumps(file.stem, ensure_ascii=False)
    )
