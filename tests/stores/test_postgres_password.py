"""A server that asks for a password: who is not let in is told which setting to look at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from midflight.errors import StoreUnavailable
from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Query
from stores.backends import SETTINGS, postgres_server

pytestmark = [pytest.mark.postgres, pytest.mark.anyio]


@pytest.fixture(scope="module")
def strict_address() -> Iterator[str]:
    """A server of its own, which wants a password of ann and lets bob in nowhere."""
    rules = "local all ann scram-sha-256\nlocal all bob reject\n"
    with postgres_server(SETTINGS, rules) as address:
        yield address


@pytest.fixture
async def address(strict_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.delenv("PGPASSWORD", raising=False)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    connection = await asyncpg.connect(strict_address)
    await connection.execute("DROP SCHEMA IF EXISTS midflight CASCADE")
    for role in ("ann", "bob"):
        await connection.execute(f"DROP ROLE IF EXISTS {role}")
        await connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 's3cret'")
    await connection.close()
    return strict_address


def logged_in(address: str, credentials: str) -> str:
    return address.replace("//postgres:@", f"//{credentials}@")


async def test_the_right_password_is_let_in(address: str) -> None:
    async with PostgresStore.open(logged_in(address, "ann:s3cret")) as store:
        assert await store.rows(Query()) == []


async def test_a_password_in_a_file_needs_to_be_in_no_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in deploy/, so that it is in no command line and in no environment."""
    file = tmp_path / "pgpass"
    file.touch(mode=0o600)
    file.write_text("*:*:postgres:ann:s3cret\n")
    monkeypatch.setenv("PGPASSFILE", str(file))

    async with PostgresStore.open(logged_in(address, "ann")) as store:
        assert await store.rows(Query()) == []


@pytest.mark.parametrize(
    ("credentials", "user"),
    [("ann:wr0ng", "ann"), ("ann", "ann"), ("bob:s3cret", "bob"), ("carl:s3cret", "carl")],
    ids=["wrong password", "no password", "kept out by a rule", "unknown user"],
)
async def test_who_is_not_let_in_is_told_what_to_check_and_not_the_password(
    address: str, credentials: str, user: str
) -> None:
    with pytest.raises(StoreUnavailable) as refusal:
        async with PostgresStore.open(logged_in(address, credentials)):
            pass

    told = str(refusal.value)
    assert f"does not let user {user} in: check user, password and" in told
    assert "s3cret" not in told
    assert "wr0ng" not in told
