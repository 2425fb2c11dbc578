"""An address as people see it says where a store is, and nothing that is secret."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import anyio
import certifi
import pytest

from engines.link import all_have_left, let_nobody_else_in
from midflight.errors import StoreUnavailable
from midflight.stores import open_store, shown


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


async def heard_by_who_offers_no_tls(options: str) -> bytes:
    """All that a listener hears that answers, as Postgres does, that it has no TLS."""
    heard, guests = bytearray(), set[asyncio.StreamWriter]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guests.add(writer)
        heard.extend(await reader.readexactly(8))
        writer.write(b"N")
        with suppress(asyncio.IncompleteReadError, OSError):
            heard.extend(await reader.readexactly(8))
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        guests.discard(writer)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(StoreUnavailable):
        await opened(f"postgresql://ann:s3cret@127.0.0.1:{port}/runs?schema=mine{options}")
    await let_nobody_else_in(server)
    server.close()
    await all_have_left(guests)
    return bytes(heard)


@pytest.mark.anyio
async def test_where_tls_is_asked_for_nothing_is_said_without_it() -> None:
    asked = f"&sslmode=verify-full&sslrootcert={certifi.where()}"

    assert len(await heard_by_who_offers_no_tls("")) > 8  # who asks for nothing is not refused
    assert len(await heard_by_who_offers_no_tls(asked)) == 8
