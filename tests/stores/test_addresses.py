"""An address as people see it says where a store is, and nothing that is secret."""

from __future__ import annotations

import pytest

from midflight.stores.opening import shown


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("midflight.db", "midflight.db"),
        ("sqlite:runs/a b.db", "sqlite:runs/a b.db"),
        ("memory:", "memory:"),
        ("postgresql://ann@db.example/runs", "postgresql://ann@db.example/runs"),
        ("postgresql://ann:s3cret@db.example:5432/runs", "postgresql://ann@db.example:5432/runs"),
        ("postgresql://ann:a@b:c@db.example/runs", "postgresql://ann@db.example/runs"),
        (
            "postgresql://db.example/runs?password=s3cret&schema=mine",
            "postgresql://db.example/runs?schema=mine",
        ),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, seen: str) -> None:
    assert shown(address) == seen
