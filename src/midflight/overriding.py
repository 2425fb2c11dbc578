"""``override`` says that a method replaces one of a parent; ``typing`` has it from 3.12 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override  # which the type checker brings; nobody installs it
else:

    def override(method):
        """Give the method back as it is: only the type checker asks."""
        return method


__all__ = ["override"]
