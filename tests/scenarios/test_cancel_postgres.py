"""What a cancel writes, and when, told again on a real Postgres server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from scenarios.test_cancel_written import (
    counting,
    test_a_crash_before_or_after_the_one_append_leads_to_the_same_end,
    test_a_kill_before_the_end_loses_nothing_that_is_known,
    test_what_is_to_be_undone_is_on_record_before_the_undo_begins,
    test_what_was_aborted_comes_on_record_in_one_append_with_the_end,
    test_where_the_function_takes_its_time_the_outcome_is_on_record_meanwhile,
)
from stores.backends import postgres_server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(120),
]

__all__ = [
    "counting",
    "test_a_crash_before_or_after_the_one_append_leads_to_the_same_end",
    "test_a_kill_before_the_end_loses_nothing_that_is_known",
    "test_what_is_to_be_undone_is_on_record_before_the_undo_begins",
    "test_what_was_aborted_comes_on_record_in_one_append_with_the_end",
    "test_where_the_function_takes_its_time_the_outcome_is_on_record_meanwhile",
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture
async def store(server: str) -> AsyncIterator[Store]:
    async with PostgresStore.open(server, schema=f"test_{uuid4().hex}") as opened:
        yield opened
