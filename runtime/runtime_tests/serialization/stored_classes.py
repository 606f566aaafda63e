"""Classes as a program's later versions would have them; names end in the version."""

import dataclasses
import enum
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
import numpy as np
import numpy.typing as npt
import pydantic

from headrace.common.typeinfo import FormerName


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


@dataclasses.dataclass
class CounterOptional:
    count: int | None
    name: str | None = ""


@dataclasses.dataclass
class CounterOfDouble:
    count: float
    name: str = ""


@dataclasses.dataclass
class CounterReordered:
    name: str
    count: int


@dataclasses.dataclass
class CounterRenamed:
    total: Annotated[int, FormerName("amount"), FormerName("count")]
    name: str = ""


@dataclasses.dataclass
class CounterPositive:
    count: Annotated[int, msgspec.Meta(gt=0)]
    name: str = ""


class CounterModel(pydantic.BaseModel):
    count: int
    name: str = ""


class CounterStruct(msgspec.Struct, array_like=True):
    count: int
    name: str = ""


class Unrelated(msgspec.Struct):
    flag: bool = False


class NodeOfDouble(msgspec.Struct):
    value: float
    next: "NodeOfDouble | None" = None


class Withdrawn(msgspec.Struct, tag="withdrawn"):
    cents: int


class Deposited(msgspec.Struct, tag="deposited"):
    cents: int


class DepositedWithNote(msgspec.Struct, tag="deposited"):
    cents: int
    note: str = ""


@dataclasses.dataclass
class Ledger:
    last: Withdrawn | Deposited | None = None


@dataclasses.dataclass
class LedgerWithNote:
    last: Withdrawn | DepositedWithNote | str | None = None


class TierWithNew(enum.Enum):
    GOLD = "gold"
    BASE = "base"
    NEW = "new"


@dataclasses.dataclass
class Member:
    tier: Tier
    since: date
    tags: list[str]
    seen: tuple[datetime, ...] = ()
    pair: tuple[int, str] = (0, "")
    by_day: dict[date, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class MemberLater:
    tier: TierWithNew
    since: date
    tags: tuple[str, ...]
    seen: list[datetime] = dataclasses.field(default_factory=list)
    pair: tuple[float, str | None] = (0, "")
    by_day: dict[date, int | None] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class OnlyGold:
    tier: Literal["gold"]
    since: date
    tags: list[str]


@dataclasses.dataclass
class Embedding:
    name: str
    vector: npt.NDArray[np.float32]
    parts: list[npt.NDArray[np.float32]] = dataclasses.field(default_factory=list)


class Profile(pydantic.BaseModel):
    name: str
    address: Address
    counters: list[CounterModel] = []
    best: CounterModel | None = None
    by_name: dict[str, CounterModel] = {}
    parent: "Profile | None" = None
    at: datetime | None = None
    vector: npt.NDArray[np.int16] | None = None

    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


class Spent(pydantic.BaseModel):
    amount: Decimal

    @pydantic.field_validator("amount")
    @classmethod
    def doubled(cls, value: Decimal) -> Decimal:
        return value * 2
