"""What goes wrong with a provider is told as one of three things: busy, refused, broken."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from midflight.errors import ModelBroken, ModelBusy, ModelError, ModelRefused, ModelUnavailable
from midflight.models.model import complete
from models.conftest import ASKING, Opened
from models.standin import KEY, StandIn, fails, says

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

AT = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is_worth_another_try(
    standin: StandIn, opened: Opened, status: int
) -> None:
    standin.script(fails(status))

    with pytest.raises(ModelBusy, match=f"as scripted .HTTP {status}") as caught:
        await complete(opened(), ASKING)

    assert caught.value.retryable
    assert caught.value.retry_after is None
    assert len(standin.requests) == 1  # the SDK did not retry by itself


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("soon", None),
        ("nan", None),
        ("inf", None),
    ],
)
async def test_how_long_a_provider_wants_us_to_wait(
    standin: StandIn, opened: Opened, said: str, seconds: float | None
) -> None:
    standin.script(fails(429, retry_after=said))

    with pytest.raises(ModelBusy) as caught:
        await complete(opened(clock=lambda: AT), ASKING)

    assert caught.value.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "now"),
    [
        (400, "Change the request"),
        (402, "balance"),
        (403, "may use"),
        (404, "model's name and the address http://127.0.0.1"),
        (413, "Send less"),
        (422, "Change the request"),
    ],
)
async def test_what_will_not_pass_says_what_to_do(
    standin: StandIn, opened: Opened, status: int, now: str
) -> None:
    standin.script(fails(status))

    with pytest.raises(ModelRefused, match=now) as caught:
        await complete(opened(), ASKING)

    assert not caught.value.retryable
    assert caught.value.status == status


@pytest.mark.parametrize("code", ["insufficient_quota", "enforced_spend_limit_reached"])
async def test_an_account_without_money_is_not_asked_again(
    standin: StandIn, opened: Opened, code: str
) -> None:
    standin.script(fails(429, code=code))

    with pytest.raises(ModelRefused, match="balance"):
        await complete(opened(), ASKING)


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        ("drop", "broke off"),
        ("garble", "cannot be read"),
        ("error", "broke off .as scripted"),
        ("close", "ended before the answer did"),
    ],
)
async def test_an_answer_that_breaks_off_keeps_its_text(
    standin: StandIn, opened: Opened, ending: str, why: str
) -> None:
    standin.script(says("Once ", "upon ", "a ", "time", events=5, ending=ending))
    told: list[str] = []

    with pytest.raises(ModelBroken, match=why) as caught:
        await complete(opened(), ASKING, told.append)

    assert caught.value.retryable
    assert caught.value.partial == "".join(told)
    assert caught.value.partial.startswith("Once upon ")
    assert f"({len(caught.value.partial)} characters) is kept" in str(caught.value)


@pytest.mark.parametrize("ending", ["drop", "close", "garble"])
async def test_an_answer_of_nothing_is_broken(
    standin: StandIn, opened: Opened, ending: str
) -> None:
    standin.script(says("never sent", events=0, ending=ending))

    with pytest.raises(ModelBroken, match="No text of it had come"):
        await complete(opened(), ASKING)


async def test_an_error_in_place_of_the_answer_is_busy(standin: StandIn, opened: Opened) -> None:
    standin.script(says("never sent", events=1, ending="error"))

    with pytest.raises(ModelBusy, match="as scripted"):
        await complete(opened(), ASKING)


async def test_an_answer_without_a_reason_for_its_end_is_not_whole(
    standin: StandIn, opened: Opened
) -> None:
    standin.script(says("All of it?", unfinished=True))

    with pytest.raises(ModelBroken, match="ended before the answer did"):
        await complete(opened(), ASKING)


async def test_a_reason_that_nobody_knows_is_named(standin: StandIn, opened: Opened) -> None:
    standin.script(says("All of it?", stop="cosmic_ray"))

    with pytest.raises(ModelBroken, match="cosmic_ray"):
        await complete(opened(), ASKING)


async def test_a_model_that_says_nothing_is_not_waited_for_for_ever(
    standin: StandIn, opened: Opened
) -> None:
    standin.script(says("late", first_after_s=20), says("late", headers_after_s=20))

    for number in (1, 2):
        with pytest.raises(ModelBusy, match=r"silent for 1 s"):
            await complete(opened(first_token_s=1), ASKING)
        request = await standin.asked(number)
        await request.closed()


async def test_a_model_that_falls_silent_is_broken(standin: StandIn, opened: Opened) -> None:
    standin.script(says("Once ", "upon ", events=4, ending="hang"))

    with pytest.raises(ModelBroken, match=r"silent for 0\.2 s") as caught:
        await complete(opened(between_s=0.2), ASKING)

    assert caught.value.partial.startswith("Once ")


@pytest.mark.slow
async def test_a_slow_first_token_is_waited_for(standin: StandIn, opened: Opened) -> None:
    standin.script(says("late", first_after_s=2.5))

    reply = await complete(opened(first_token_s=20, between_s=2), ASKING)

    assert reply.text == "late"


@pytest.mark.parametrize("kind", ["anthropic", "openai"])
async def test_a_server_that_is_not_there_is_named(kind: str) -> None:
    async with StandIn() as standin:
        model = getattr(standin, kind)()
        address = standin.url

    with pytest.raises(ModelBusy, match=f"{address}.* cannot be reached"):
        await complete(model, ASKING)


# ── the key ──────────────────────────────────────────────────────────────────────────────────


def everything_in(error: BaseException | None, seen: set[int]) -> str:
    """All that can be reached from an error: its words, its fields, what it came from."""
    if error is None or id(error) in seen:
        return ""
    seen.add(id(error))
    below = (error.__cause__, error.__context__)
    return f"{error!r} {error} {vars(error)}" + "".join(everything_in(e, seen) for e in below)


@pytest.mark.parametrize("status", [0, 401, 403, 400, 429, 500])
async def test_no_error_no_name_and_no_log_holds_the_key(
    standin: StandIn, opened: Opened, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = opened(**({} if status else {"key": "sk-wrong-0000"}))
    key = KEY if status else "sk-wrong-0000"
    if status:
        standin.script(fails(status, message=f"Incorrect API key provided: {key}."))

    with pytest.raises(ModelError) as caught:
        await complete(model, ASKING)

    assert standin.requests[0].headers["authorization"] == f"Bearer {key}"
    told = everything_in(caught.value, set()) + repr(model) + model.name + caplog.text
    assert key not in told
    assert "request" not in vars(caught.value)


async def test_a_key_that_is_not_accepted_names_its_variable(
    standin: StandIn, opened: Opened
) -> None:
    with pytest.raises(ModelRefused, match=r"Check (ANTHROPIC|OPENAI)_API_KEY"):
        await complete(opened(key="sk-wrong-0000"), ASKING)


@pytest.mark.parametrize("key", ["sk-1\n2", "sk 12", "sk-é"])
async def test_a_key_that_cannot_be_one_is_not_printed(opened: Opened, key: str) -> None:
    with pytest.raises(ModelUnavailable) as caught:
        opened(key=key)

    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "chunk"),
    [
        ("anthropic", {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta"}}),
        ("anthropic", {"type": "content_block_delta", "index": "x", "delta": {}}),
        ("anthropic", {"type": "message_delta", "delta": None}),
        ("anthropic", {"type": "content_block_start", "index": 1, "content_block": []}),
        ("anthropic", {"type": "message_delta", "delta": {}, "usage": {"output_tokens": -9}}),
        ("openai", {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": -9}}),
        ("openai", {"choices": "none"}),
        ("openai", {"id": "x"}),
        ("openai", {"choices": [{"delta": {"content": 3}}]}),
        ("openai", {"choices": [{"delta": {"tool_calls": [{"index": 0}]}}]}),
        ("openai", [1, 2]),
        ("openai", "text"),
    ],
)
async def test_a_chunk_of_another_shape_is_never_passed_over(
    standin: StandIn, kind: str, chunk: Any
) -> None:
    standin.script(says("Once ", extra=chunk))

    with pytest.raises(ModelBroken):
        await complete(getattr(standin, kind)(), ASKING)
