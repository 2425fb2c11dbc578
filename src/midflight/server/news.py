"""The events that a stream sends to a page: sheets, patches, rows of the list, kill switches."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from midflight.kernel.decide import Switch
from midflight.stores.protocol import Row


class ViewNews(Struct, frozen=True):
    """``event: view``: the whole sheet of a journal."""

    journal: str
    at: float
    view: Any  # Sheet; msgspec cannot tell two structs apart that have no tag


class PatchOp(Struct, frozen=True, omit_defaults=True):
    """One step of a JSON Patch (RFC 6902): ``add``, ``replace`` or ``remove``."""

    op: str
    path: str
    value: Any = None


class PatchNews(Struct, frozen=True):
    """``event: patch``: what has changed since the last view or patch of this journal."""

    journal: str
    at: float
    head: int
    patch: list[Any]


class RowNews(Struct, frozen=True):
    """``event: row``: a run in the list is new or has changed."""

    at: float
    row: Row


class SwitchNews(Struct, frozen=True):
    """``event: switches``: the kill switches that are on."""

    at: float
    switches: list[Switch]
