"""Classes as a program's later versions would have them; names end in the version."""

import dataclasses
import enum
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

import msgspec


class Tier(enum.Enum):
    GOLD = "gold"
    BASE = "base"


@dataclasses.dataclass
class Address:
    city: str
    lines: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class AccountV1:
    owner: str
    balance: Decimal
    opened: datetime
    address: Address
    tier: Tier = Tier.BASE
    note: str | None = None
    tags: dict[str, int] = dataclasses.field(default_factory=dict)
    pair: tuple[int, str] = (0, "")
    id: UUID | None = None
    mode: Literal["a", "b"] = "a"


@dataclasses.dataclass
class CounterV1:
    count: int
    name: str = ""


@dataclasses.dataclass
class CounterWithDefault:
    count: int
    name: str = ""
    limit: int = 10


@dataclasses.dataclass
class CounterWithoutName:
    count: int


@dataclasses.dataclass
class CounterWithRequired:
    count: int
    limit: int
    name: str = ""


@dataclasses.dataclass
class CounterOfText:
    count: str
    name: str = ""


class PointV1(msgspec.Struct, array_like=True):
    x: int
    y: int = 0


class PointAppended(msgspec.Struct, array_like=True):
    x: int
    y: int = 0
    z: int = 0


class PointSwapped(msgspec.Struct, array_like=True):
    y: int = 0
    x: int = 0


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    count: int


class Tagged(msgspec.Struct, tag="t1"):
    count: int


class Untagged(msgspec.Struct):
    count: int


class Node(msgspec.Struct):
    value: int
    next: "Node | None" = None


@dataclasses.dataclass
class WithAny:
    anything: Any


class Opaque:
    pass


@dataclasses.dataclass
class WithOpaque:
    part: Opaque
