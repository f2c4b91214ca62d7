"""All SQL of the dictionaries: `sys_dict_*`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.kernel.db import Tx, fetch_all


@dataclass(frozen=True, slots=True)
class Item:
    code: str
    zh: str
    en: str
    also: tuple[str, ...] = ()

    @property
    def aliases(self) -> tuple[str, ...]:
        return (self.code.lower(), *self.also)


@dataclass(frozen=True, slots=True)
class Dictionary:
    code: str
    zh: str
    en: str
    items: tuple[Item, ...]


async def insert(tx: Tx, dictionaries: Sequence[Dictionary]) -> None:
    """Always in the same order, so that two at once wait for each other and no more."""
    async with tx.cursor() as cursor:
        await cursor.executemany(
            "insert into sys_dict_type (type_code, name_zh, name_en) values (%s, %s, %s) on conflict do nothing",
            [(each.code, each.zh, each.en) for each in dictionaries],
        )
        await cursor.executemany(
            "insert into sys_dict_item (type_code, item_code, name_zh, name_en, sort_no) values (%s, %s, %s, %s, %s)"
            " on conflict do nothing",
            [
                (each.code, item.code, item.zh, item.en, number)
                for each in dictionaries
                for number, item in enumerate(each.items)
            ],
        )
        await cursor.executemany(
            "insert into sys_dict_item_alias (type_code, alias, item_code) values (%s, %s, %s) on conflict do nothing",
            [(each.code, alias, item.code) for each in dictionaries for item in each.items for alias in item.aliases],
        )


async def items(tx: Tx) -> list[dict[str, Any]]:
    return await fetch_all(
        tx,
        "select i.type_code, i.item_code, i.is_active,"
        " coalesce(array_agg(a.alias) filter (where a.alias is not null), '{}') aliases"
        " from sys_dict_item i left join sys_dict_item_alias a using (type_code, item_code)"
        " group by i.type_code, i.item_code, i.is_active",
    )
