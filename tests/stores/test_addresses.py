"""An address as people see it says where a store is, and nothing that is secret."""

from __future__ import annotations

import anyio
import pytest

from midflight.errors import StoreUnavailable
from midflight.stores.opening import open_store, shown


@pytest.mark.parametrize(
    ("address", "seen"),
    [
        ("midflight.db", "midflight.db"),
        ("sqlite:runs/a b.db", "sqlite:runs/a b.db"),
        ("sqlite:///runs/a.db", "sqlite:///runs/a.db"),
        ("memory:", "memory:"),
        ("mysql://ann:s3cret@db.example/runs", "mysql://…"),
        ("postgresql://ann@db.example/runs", "postgresql://ann@db.example/runs"),
        ("postgresql://ann:s3cret@db.example:5432/runs", "postgresql://ann@db.example:5432/runs"),
        ("postgresql://ann:a@b:c@db.example/runs", "postgresql://ann@db.example/runs"),
        ("postgresql://ann:s3#cret@db.example/runs", "postgresql://…"),
        ("postgresql://ann:s3?cret@db.example/runs", "postgresql://…"),
        ("postgresql://ann:s3[cret@db.example/runs", "postgresql://…"),
        ("postgresql://ann:s3/cret@db.example/runs", "postgresql://…"),
        (
            "postgresql://db.example/runs?password=s3cret&schema=mine",
            "postgresql://db.example/runs?schema=mine",
        ),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, seen: str) -> None:
    assert shown(address) == seen


@pytest.mark.parametrize("password", ["s3#cret", "s3?cret", "s3[cret", "s3/cret", "s3@cret"])
def test_an_address_that_cannot_be_one_is_refused_in_words(password: str) -> None:
    with pytest.raises(StoreUnavailable, match="must look like postgresql://") as refusal:
        anyio.run(opened, f"postgresql://ann:{password}@127.0.0.1:1/runs")

    assert "cret" not in str(refusal.value)


async def opened(address: str) -> None:
    async with open_store(address):
        pass
