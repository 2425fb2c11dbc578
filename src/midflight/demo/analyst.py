"""The demo's agent: a loop of its own on ``run``, with the demo model's rules in place of a model.

It compares what is there with what is wanted and does the first thing that is missing. A message or
a redirect changes only what is wanted, so whatever is still good is kept, and the rest follows.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from msgspec.structs import asdict, replace

from midflight.agents import Agent, agent
from midflight.conversation import BACKGROUND, Choice, Message, TriageView, rule_triage
from midflight.demo.analyst_tools import TO, AnalystTools, Recipients
from midflight.demo.company import Tasks, Written
from midflight.demo.memo import Overview, Revenue, Scored, composed
from midflight.demo.wishes import (
    Heard,
    Question,
    Scope,
    Slide,
    Status,
    Unknown,
    Wishes,
    counted,
    understood,
)
from midflight.errors import StepFailed
from midflight.journal.record import Limits
from midflight.run import Child, Redirected, Run

NAME: Final = "analyst"
BRIEF: Final = "Write a memo on churn risk and send it"
LIMITS: Final = Limits(steps=60, seconds=3600.0, tokens=20_000, usd=1.0)
AUDIT: Final = "Check the revenue figures"
TITLE: Final = "Who may leave us"
SAYS: Final = " says: "
"""In the error of a step, the words of a person who did not approve it come after this."""

ONCE_ANSWERED: Final = "I read it as soon as you have answered me; a redirect I hear at once."
FETCH, JOIN, SCORE = "Fetch customer list", "Join against MRR", "Score churn risk"
TASKS, MEMO, SEND = "Create follow-up tasks", "Write memo with chart", "Send memo"

Do = Callable[[str], Awaitable[None]]


class Analysis:
    """One run of the analyst: what it has, what is wanted, and what it has still to say."""

    def __init__(self, run: Run, tools: AnalystTools, auditor: Agent) -> None:
        self._run, self._tools, self._auditor = run, tools, auditor
        self._wishes = Wishes()
        self._errands: list[Question | Slide] = []
        self._unsaid: list[str] = []
        self._planned: list[str] = []
        self._wants_memo = False
        self._customers: Overview | None = None
        self._revenue: Revenue | None = None
        self._audit: Child | None = None
        self._scored: tuple[Scope, Scored] | None = None
        self._tasks: tuple[Scope, Tasks] | None = None
        self._memo: tuple[Wishes, Written] | None = None
        self._to: Recipients | None = None
        self._ending = ""
        self._begin(understood(run.brief, self._wishes))

    def _begin(self, heard: Heard) -> None:
        if isinstance(heard, Wishes):
            self._wants_memo = True
            self._wishes = heard
            self._unsaid.append(f"I write a memo about {heard.words()}, in six steps.")
        else:
            self._take(heard)

    # ── what is told ─────────────────────────────────────────────────────────────────────────

    def redirected(self, text: str) -> None:
        """Change the wishes as the text of a redirect asks."""
        heard = understood(text, self._wishes)
        if isinstance(heard, Wishes):
            self._unsaid.append(f"Changed course: {heard.words()}.")
        self._take(heard)

    def _hear(self, messages: Iterable[Message]) -> None:
        for message in messages:
            if message.role == BACKGROUND:
                continue  # its report is asked for where it is needed
            if message.role == "viewer":
                self._unsaid.append(f"{message.by} may look but not direct me; I leave it at that.")
                continue
            heard = understood(message.text, self._wishes)
            if isinstance(heard, Wishes) and heard != self._wishes:
                self._unsaid.append(f"Taken into account: {heard.words()}.")
            self._take(heard)

    def _take(self, heard: Heard) -> None:
        match heard:
            case Wishes():
                self._wishes, self._wants_memo = heard, True
            case Question() | Slide():
                self._errands.append(heard)
            case Status() | Unknown():
                words = heard.words() if isinstance(heard, Unknown) else self._standing()
                self._unsaid.append(words)
                self._ending = self._ending or words

    def _standing(self) -> str:
        left = self._left()
        return (
            f"Next: {left[0][0]}; then {len(left) - 1} more." if left else "Nothing is to be done."
        )

    # ── what is next ─────────────────────────────────────────────────────────────────────────

    async def go_on(self) -> str:
        """Do the first step that is missing and read the inbox, until no step is missing."""
        while True:
            await self._speak()
            left = self._left()
            if not left:
                return self._ending
            names = [name for name, _ in left]
            if names != self._planned:
                await self._run.plan(*names)
                self._planned = names
            name, do = left[0]
            await do(name)
            self._planned = names[1:]
            self._hear(await self._run.inbox())

    def _left(self) -> list[tuple[str, Do]]:
        """Return the names and functions of the steps that are still to be done, errands first."""
        scope, again = self._wishes.scope, " again"
        scored = self._scored is not None and self._scored[0] == scope
        tasked = self._tasks is not None and self._tasks[0] == scope
        written = self._memo is not None and self._memo[0] == self._wishes
        errands: list[tuple[str, Do]] = [(_name(e), self._do_errand) for e in self._errands]
        if not self._wants_memo:
            return errands
        memo: list[tuple[bool, str, Do]] = [
            (self._customers is None, FETCH, self._fetch),
            (self._revenue is None, JOIN, self._join),
            (not scored, SCORE + again * (self._scored is not None), self._score),
            (not tasked, "Adjust follow-up tasks" if self._tasks else TASKS, self._follow_up),
            (not written, "Rewrite memo" if self._memo else MEMO, self._write),
            (True, SEND, self._send),
        ]
        return errands + [(name, do) for missing, name, do in memo if missing]

    async def _speak(self) -> None:
        while self._unsaid:
            await self._run.say(self._unsaid[0])
            self._unsaid.pop(0)

    # ── the six steps ────────────────────────────────────────────────────────────────────────

    async def _fetch(self, name: str) -> None:
        self._customers = await self._run.step(name, self._tools.fetch_customers)

    async def _join(self, name: str) -> None:
        self._revenue = await self._run.step(name, self._tools.join_mrr)
        self._audit = await self._run.spawn(self._auditor, AUDIT, limits=Limits(steps=5, usd=0.1))

    async def _score(self, name: str) -> None:
        scope = self._wishes.scope
        found = await self._run.step(name, self._tools.score_churn_risk, **asdict(scope))
        self._scored = scope, found

    async def _follow_up(self, name: str) -> None:
        scope, found = self._scores()
        wanted = [account.id for account in found.accounts]
        noun = counted(len(wanted), "task") if self._tasks is None else "changed tasks"
        change = replace(self._tools.set_tasks, label=noun, describe=noun)
        self._tasks = scope, await self._run.step(name, change, wanted)

    async def _write(self, name: str) -> None:
        wishes, (scope, found) = self._wishes, self._scores()
        assert self._tasks is not None
        text = composed(found, wishes, tasks=self._tasks[1].open, checked=await self._checked())
        step = self._run.step
        self._memo = wishes, await step(name, self._tools.write_memo, TITLE, text, **asdict(scope))

    async def _send(self, name: str) -> None:
        """Ask who shall get the memo, and send it once a person approves: it cannot be unsent."""
        if not self._to:
            schema = {"type": "string", "title": "Recipients", "enum": list(TO)}
            self._to = (await self._run.ask("Who shall get the memo?", schema=schema)).payload
            self._hear(await self._run.inbox())  # people write while they are waited for
            if self._left()[0][0] != name:
                return
        assert self._memo is not None
        memo = self._memo[1].path
        if self._to is None:
            self._end(f"Nobody has said who shall get the memo. It was not sent, and is in {memo}.")
            return
        sending = replace(
            self._tools.send_memo, label=f"email to {self._to}", describe=f"email to {self._to}"
        )
        try:
            sent = await self._run.step(name, sending, memo=memo, to=self._to)
        except StepFailed as failed:
            self._not_sent(failed, memo)
        else:
            self._end(f"The memo went out: {sent.text}. It is about {self._wishes.words()}.")

    def _not_sent(self, failed: StepFailed, memo: str) -> None:
        """Take up the changes that a person wants before an approval, or end without sending."""
        wanted = understood(failed.error.partition(SAYS)[2], self._wishes)
        if isinstance(wanted, Wishes) and wanted != self._wishes:
            self._unsaid.append(f"Not sent. Changed first: {wanted.words()}.")
            self._wishes = wanted
        else:
            self._end(f"Nothing was sent ({failed.error}). The memo is in {memo}.")

    def _end(self, words: str) -> None:
        self._unsaid.append(words)
        self._ending, self._wants_memo, self._to = words, False, None

    def _scores(self) -> tuple[Scope, Scored]:
        assert self._scored is not None
        return self._scored

    async def _checked(self) -> str:
        """Return the result of the background run, or an empty text if it has none."""
        if self._audit is None:
            return ""
        try:
            return str(await self._audit.result())
        except StepFailed:
            return ""

    # ── errands ──────────────────────────────────────────────────────────────────────────────

    async def _do_errand(self, name: str) -> None:
        errand = self._errands[0]
        if isinstance(errand, Question):
            words = str(await self._run.step(name, self._tools.count, **asdict(errand)))
        else:
            points = [self._tools.books.answer(Question(kind)) for kind in ("customers", "churned")]
            found: Scored = await self._run.step(SCORE, self._tools.score_churn_risk)
            points.append(f"{found.text[0].upper()}{found.text[1:]}.")
            drafted = await self._run.step(name, self._tools.draft_slide, TITLE, points)
            words = f"The slide is drafted: {drafted.path}."
        self._errands.pop(0)
        self._unsaid.append(words)
        self._ending = self._ending or words


def _name(errand: Question | Slide) -> str:
    if isinstance(errand, Slide):
        return "Draft a slide"
    month = f" in {errand.month}" if errand.month else ""
    return {"churned": f"Count who churned{month}", "revenue": f"Look up revenue{month}"}.get(
        errand.kind, "Count customers"
    )


# ── the agent ────────────────────────────────────────────────────────────────────────────────


def analyst(tools: AnalystTools) -> Agent:
    """Return the agent, with its background run and its side answers, over these tools."""

    @agent(f"{NAME}.auditor", limits=LIMITS)
    async def audit(run: Run) -> str:
        months = await run.step("Add up the months", tools.check_months)
        leavers = await run.step("Look at those who left", tools.check_leavers)
        return f"{months}, and {leavers}"

    async def aside(run: Run) -> str:
        said = await _beside(run, tools)
        await run.say(said)
        return said

    @agent(NAME, limits=LIMITS, converses=True, triage=choose, aside=aside, helpers=(audit,))
    async def analyse(run: Run) -> str:
        analysis = Analysis(run, tools, audit)
        while True:
            try:
                return await analysis.go_on()
            except Redirected as told:
                analysis.redirected(told.brief)

    return analyse


async def _beside(run: Run, tools: AnalystTools) -> str:
    """Answer a side question with a count or with the state of the work; change nothing."""
    heard, seen = understood(run.brief, Wishes()), run.input or {}
    if isinstance(heard, Question):
        return str(await run.step(_name(heard), tools.count, **asdict(heard)))
    if isinstance(heard, Unknown):
        return heard.words()
    return f"I am {seen.get('status', 'at rest')}."


async def choose(view: TriageView) -> Sequence[Choice]:
    """Choose what to do about each message by plain rules, and answer it in one sentence."""
    plain = {choice.message: choice.action for choice in await rule_triage(view)}
    return [_choice(message, plain[message.id], view) for message in view.messages]


def _choice(message: Message, action: str, view: TriageView) -> Choice:
    heard: Any = understood(message.text, Wishes())
    match heard, action:
        case Unknown(), _:
            return Choice(message.id, "incorporate", say=f"{heard.words()} I go on as before.")
        case Wishes(), "incorporate" | "switch":
            waits = view.status.startswith("waiting")
            say = ONCE_ANSWERED if waits else "From the next step on, yes."
            return Choice(message.id, "incorporate", say=say)
        case Status(), _:
            return Choice(message.id, "incorporate", say=f"I am {view.status}.")
        case ((Question() | Slide()), "switch"):
            say = "First this; then I come back to the memo."
            return Choice(message.id, "switch", say=say, title=_name(heard))
        case Question(), "incorporate":
            return Choice(message.id, "incorporate", say="I count that right after this step.")
        case _:
            title = _name(heard) if isinstance(heard, Question | Slide) else message.text
            return Choice(message.id, "defer", say="Noted; after the memo.", title=title)
