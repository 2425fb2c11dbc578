"""The core of what is said about messages, told again on a real Postgres server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from midflight.stores.postgres import PostgresStore
from midflight.stores.protocol import Store
from scenarios.test_conversation import (
    test_a_pause_aborts_the_triage_and_it_is_made_again_after_the_resume,
    test_after_its_end_a_message_begins_the_next_run_of_the_agent,
    test_while_it_works_a_message_is_incorporated_after_the_current_step,
)
from scenarios.test_messages_hard import (
    test_a_message_during_an_overnight_approval_is_answered_in_seconds,
    test_twenty_messages_in_two_seconds_are_two_calls_at_most_and_none_is_lost,
)
from scenarios.test_overrule import (
    test_a_side_question_is_answered_by_a_run_beside_and_touches_nothing,
    test_a_switch_taken_back_cancels_what_was_begun_for_it,
    test_go_back_brings_the_parked_run_and_parks_what_is_in_front,
)
from scenarios.test_switching import (
    test_after_a_kill_nothing_goes_on_before_the_release,
    test_removing_a_parked_todo_cancels_its_run_and_says_so_before,
    test_three_levels_deep_the_way_back_is_newest_first,
    test_two_processes_never_take_the_same_todo,
    test_what_is_deferred_is_done_after_the_work_oldest_first,
)
from stores.backends import postgres_server

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.postgres,
    pytest.mark.slow,
    pytest.mark.timeout(120),
]

__all__ = [
    "test_a_message_during_an_overnight_approval_is_answered_in_seconds",
    "test_a_pause_aborts_the_triage_and_it_is_made_again_after_the_resume",
    "test_a_side_question_is_answered_by_a_run_beside_and_touches_nothing",
    "test_a_switch_taken_back_cancels_what_was_begun_for_it",
    "test_after_a_kill_nothing_goes_on_before_the_release",
    "test_after_its_end_a_message_begins_the_next_run_of_the_agent",
    "test_go_back_brings_the_parked_run_and_parks_what_is_in_front",
    "test_removing_a_parked_todo_cancels_its_run_and_says_so_before",
    "test_three_levels_deep_the_way_back_is_newest_first",
    "test_twenty_messages_in_two_seconds_are_two_calls_at_most_and_none_is_lost",
    "test_two_processes_never_take_the_same_todo",
    "test_what_is_deferred_is_done_after_the_work_oldest_first",
    "test_while_it_works_a_message_is_incorporated_after_the_current_step",
]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as address:
        yield address


@pytest.fixture
async def store(server: str) -> AsyncIterator[Store]:
    async with PostgresStore.open(server, schema=f"test_{uuid4().hex}") as opened:
        yield opened


@pytest.fixture
def shared(server: str) -> str:
    return f"{server}{'&' if '?' in server else '?'}schema=test_{uuid4().hex}"
