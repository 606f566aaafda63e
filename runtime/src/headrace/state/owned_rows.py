"""Rows of one state together with whose they are: the ground that states and timers stand on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import InternalError

if TYPE_CHECKING:
    from headrace.ids import KeyGroup
    from headrace.keygroups import KeyGroupRange
    from headrace.serialization.serializer import KeySerializer
    from headrace.state.contract import KeyContext
    from headrace.state.storage import RowStore


@dataclass(frozen=True, slots=True)
class OwnedRows:
    """One state of one operator in one slot.

    Attributes:
        name: the state's name, for messages.
        context: the current key.
        store: where the rows are.
        key_serializer: type of the keys.
        key_groups: the only key groups that may be touched.
    """

    name: str
    context: KeyContext
    store: RowStore
    key_serializer: KeySerializer[object]
    key_groups: KeyGroupRange

    def check_owned(self, key_group: KeyGroup) -> None:
        """Assert that a key group belongs to this slot (T11).

        Raises:
            InternalError: rows were routed to the wrong slot.
        """
        # Spelled out, since it runs for every miss, first write and timer.
        if not self.key_groups.start <= key_group <= self.key_groups.end:
            msg = (
                "a key of another slot's key group reached this state; "
                f"state={self.name} key_group={key_group} "
                f"owned={self.key_groups.start}..{self.key_groups.end}"
            )
            raise InternalError(msg)
