"""With a key the demo's work is done by a real model's client, over the same tools."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from anyio.to_thread import run_sync
from genai_prices.data_snapshot import get_snapshot

from demo.arithmetic import at_risk
from demo.test_memo import MAY, is_about
from demo.theatre import Playing, Theatre
from midflight.demo.cast import ANTHROPIC, DEMO, OPENAI, address_in
from models.standin import KEY, Request, StandIn, calls, says
from models.standin_wire import Answer

WHO = "Who shall get it?"
STEPS = ["Fetch customer list", "Join against MRR", "Score churn risk"]


def result_in(request: Request) -> Any:
    """What the last tool has given, in either provider's shape."""
    content = request.body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[-1]["content"]
    text = text if isinstance(text, str) else text[0]["text"]
    return json.loads(text) if text.startswith("{") else text


def analyst_by_script() -> Callable[[Request], Answer]:
    """A model that does the six steps and takes its arguments from what the tools have said."""
    asked, seen = 0, {}

    def answer(request: Request) -> Answer:
        nonlocal asked
        asked += 1
        match asked:
            case 1:
                return calls(("set_plan", {"steps": STEPS}), prefix="plan")
            case 2:
                return calls(("demo_fetch_customers", {}), ("demo_join_mrr", {}), prefix="look")
            case 3:
                return calls(("demo_score_churn_risk", {"region": "EU"}), prefix="score")
            case 4:
                seen["scored"] = result_in(request)
                ids = [account["id"] for account in seen["scored"]["accounts"]]
                return calls(("demo_set_tasks", {"customers": ids}), prefix="tasks")
            case 5:
                scored = seen["scored"]
                text = f"{scored['at_risk']} of {scored['customers']} customers may leave "
                text += (
                    f"(paying customers in the EU). They pay ${scored['mrr_at_risk']:,} a month."
                )
                memo = {"title": "Who may leave us", "text": text, "region": "EU"}
                return calls(("demo_write_memo", memo), prefix="memo")
            case 6:
                seen["path"] = result_in(request)["path"]
                who = {"question": WHO, "choices": ["Sales leads", "The board"]}
                return calls(("ask_person", who), prefix="ask")
            case 7:
                sending = {"memo": seen["path"], "to": "Sales leads"}
                return calls(("demo_send_memo", sending), prefix="send")
            case _:
                return says("The memo went out.")

    return answer


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as there:
        there.answer_by(analyst_by_script())
        yield there


def see_it_through(playing: Playing) -> None:
    playing.answer(WHO, "Sales leads")
    is_about(
        playing,
        at_risk(playing, where="NOT trial AND region = 'EU'"),
        "paying customers in the EU",
    )
    playing.answer(MAY.removesuffix(" to"), "approve")
    playing.ended("done")
    assert playing.heard("The memo went out.")
    assert len(playing.files("outbox")) == 1
    assert playing.state()["limits"]["usd"] == 1


@pytest.mark.slow
@pytest.mark.anyio
@pytest.mark.timeout(120)
@pytest.mark.parametrize("provider", ["openai by its base URL", "anthropic by its address"])
async def test_a_real_client_does_the_six_steps_with_the_same_tools(
    theatre: Theatre, standin: StandIn, provider: str
) -> None:
    def play() -> Playing:
        if provider.startswith("openai"):
            server = {"OPENAI_BASE_URL": f"{standin.url}/v1", "OPENAI_MODEL": "gpt-standin"}
            return theatre.play(**server, OPENAI_API_KEY=KEY)
        address = f"anthropic:claude-standin@{standin.url}"
        return theatre.play("--model", address, ANTHROPIC_API_KEY=KEY)

    playing = await run_sync(play)
    assert "with openai:gpt-" in playing.said or "with anthropic:claude-" in playing.said
    assert "it may cost money" in playing.said
    await run_sync(see_it_through, playing)
    assert not [request.complaint for request in standin.requests if request.complaint]


@pytest.mark.parametrize(
    ("environment", "address"),
    [
        ({}, DEMO),
        ({"ANTHROPIC_API_KEY": "k"}, ANTHROPIC),
        ({"OPENAI_API_KEY": "k"}, f"openai:{OPENAI}"),
        ({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, "openai:m"),
        ({"OPENAI_BASE_URL": "http://x/v1", "OPENAI_MODEL": "m"}, "openai:m@http://x/v1"),
    ],
)
def test_the_model_is_the_one_that_there_is_a_key_for(
    environment: dict[str, str], address: str
) -> None:
    assert address_in(environment) == address


def test_the_models_that_a_key_alone_chooses_have_a_price_so_that_the_cap_holds() -> None:
    known = {model.id for provider in get_snapshot().providers for model in provider.models}

    assert {ANTHROPIC.partition(":")[2], OPENAI} <= known


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_run_by_rules_goes_on_by_rules_when_there_is_a_key_later(
    theatre: Theatre, tmp_path: Path
) -> None:
    playing = theatre.play()
    playing.asked("Who shall get the memo?")
    playing.leave()

    again = theatre.play(
        OPENAI_BASE_URL="http://127.0.0.1:9/v1", OPENAI_MODEL="m", OPENAI_API_KEY="k"
    )
    assert again.run == playing.run
    again.answer("Who shall get the memo?", "The board")
    again.answer(MAY, "approve")
    again.ended("done")
