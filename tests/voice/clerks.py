"""An agent for servers that tests start: whatever it is asked, it has much to say."""

from __future__ import annotations

from midflight.assistant import Profile, assistant
from midflight.models.model import Prompt
from midflight.models.scripted import Line, ScriptedModel, say

SUMMARY = (
    "Here is the summary you asked for. Revenue has grown in every region this year. The largest "
    "share came from the enterprise plan. Churn was highest among trials in the second quarter. "
    "Support tickets have fallen by a third since March. The team in Hamburg closed the largest "
    "contract of the year, and the one in Lyon the second largest."
)
GERMANY = "Germany has grown by nine percent."


def _answer(prompt: Prompt) -> Line:
    last = prompt.turns[-1].text.casefold()
    return say(GERMANY if "germany" in last else SUMMARY)


clerk = assistant("clerk", Profile(ScriptedModel(_answer), actions=()), delegates=False)
