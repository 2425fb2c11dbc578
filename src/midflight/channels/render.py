"""What a chat shows, made from sheets, lines and events by pure functions: same in, same out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from midflight.channels.asking import facts, ways
from midflight.channels.people import shown
from midflight.channels.shapes import Action, Button, Menu, Post, mark
from midflight.kernel.decide import HANDED_OVER
from midflight.kernel.diff import word_diff
from midflight.kernel.phases import Phase
from midflight.kernel.preview import Offer
from midflight.kernel.receipt import Receipt
from midflight.sheets.shapes import Asked, RunSheet
from midflight.sheets.words import short
from midflight.talks import TodoOffer
from midflight.transcript import Line

SYMBOLS: Final = {
    Phase.QUEUED: "◌",
    Phase.RUNNING: "▶",
    Phase.PAUSING: "◐",
    Phase.PAUSED: "⏸",
    Phase.WAITING: "❓",
    Phase.CANCELLING: "↩",
    Phase.CANCELLED: "⏹",
    Phase.DONE: "✔",
    Phase.FAILED: "✖",
    Phase.KILLED: "⛔",
}
HEADS: Final = {
    Phase.QUEUED: "Queued",
    Phase.RUNNING: "Running",
    Phase.PAUSING: "Pausing",
    Phase.PAUSED: "Paused",
    Phase.WAITING: "Waiting for you",
    Phase.CANCELLING: "Cancelling",
    Phase.CANCELLED: "Cancelled",
    Phase.DONE: "Done",
    Phase.FAILED: "Failed",
    Phase.KILLED: "Stopped by an operator",
}
LABEL_MAX: Final = 80
BUTTONS_IN_A_ROW: Final = 4  # more choices than this are a menu
TODOS_SHOWN: Final = 5
LINE_MAX: Final = 160
NEAR: Final = 0.8  # of a cap: from here on it is marked


class Standing(Struct, frozen=True):
    """A run as a chat shows it: its sheet, where it is, and the time."""

    sheet: RunSheet
    place: str
    now: float

    @property
    def seconds(self) -> float:
        """In motion so far."""
        sheet = self.sheet
        going = sheet.moving_since is not None
        return sheet.spent.seconds + (max(0.0, self.now - sheet.updated_at) if going else 0.0)


# ── the status message ───────────────────────────────────────────────────────────────────────────


def status(standing: Standing, todos: Sequence[TodoOffer]) -> Post:
    """The one live message: state, elapsed, steps, spend, what is to be done, the controls."""
    sheet = standing.sheet
    parts = [f"{SYMBOLS[sheet.phase]} **{_head(sheet)}** {_what(sheet)}".rstrip(), meters(standing)]
    parts += [_todo_list(todos)] if todos else []
    parts += [f"-# {note}" for note in _consequences(sheet)]
    return Post("\n".join(parts), buttons=controls(sheet))


def _head(sheet: RunSheet) -> str:
    parked = sheet.phase is Phase.PAUSED and "parked" in sheet.holds
    at_cap = sheet.phase is Phase.PAUSED and "cap" in sheet.holds
    return "Parked" if parked else "Paused at the cap" if at_cap else HEADS[sheet.phase]


def _what(sheet: RunSheet) -> str:
    match sheet.phase:
        case Phase.RUNNING | Phase.PAUSING:
            doing = ", ".join(dict.fromkeys(each.name for each in sheet.in_flight))
            return f"{short(sheet.brief, 80)}" + (f" — {doing}" if doing else "")
        case Phase.FAILED:
            return short(sheet.error or sheet.failed_step)
        case Phase.DONE:
            return short(sheet.brief, 80)
        case Phase.CANCELLED | Phase.KILLED:
            return f"{short(sheet.brief, 80)}" + (
                f" (by {shown(sheet.ended_by)})" * bool(sheet.ended_by)
            )
        case _:
            return short(sheet.brief, 80)


def meters(standing: Standing) -> str:
    """The small line in even letters: elapsed, step, spend against its cap."""
    sheet = standing.sheet
    minutes, seconds = divmod(int(standing.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"
    place = standing.place if sheet.phase not in ENDED else f"{_steps(sheet.spent.steps)}"
    return f"`{clock}  {place}  {_money(sheet)}`"


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _money(sheet: RunSheet) -> str:
    spent, cap = sheet.spent.usd, sheet.limits.usd
    at_least = "≥" if sheet.spent.unpriced else ""  # some of it has no known price
    if cap is None:
        return f"{at_least}${spent:.2f}"
    return f"{at_least}${spent:.2f} of ${cap:.2f}" + " ⚠" * (spent >= NEAR * cap)


def _todo_list(todos: Sequence[TodoOffer]) -> str:
    lines = [
        f"{number}. {short(todo.text, 90)}" for number, todo in enumerate(todos[:TODOS_SHOWN], 1)
    ]
    more = len(todos) - TODOS_SHOWN
    return "\n".join(["**To do**", *lines, *([f"and {more} more"] if more > 0 else [])])


ENDED: Final = frozenset({Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.KILLED})
SLOTS: Final[dict[Phase, tuple[str, ...]]] = {
    Phase.PAUSING: ("resume", "redirect", "cancel"),
    Phase.PAUSED: ("resume", "redirect", "cancel"),
}


def controls(sheet: RunSheet) -> tuple[Button, ...]:
    """Pause or Resume, Redirect, Cancel: always in this order, each with what it would do now."""
    if sheet.phase in ENDED:
        return ()
    verbs = SLOTS.get(sheet.phase, ("pause", "redirect", "cancel"))
    return tuple(_control(sheet, sheet.preview[verb]) for verb in verbs)


def _control(sheet: RunSheet, offer: Offer) -> Button:
    now = "now" if offer.verb == "cancel" and sheet.phase is Phase.CANCELLING else ""
    action = Action(offer.verb, mark(sheet.run), sheet.position, now)
    style = {"cancel": "bad", "resume": "good"}.get(offer.verb, "plain")
    return Button(label(f"{offer.label} · {offer.consequence}"), action, style, offer.enabled)


def _consequences(sheet: RunSheet) -> list[str]:
    """What does not fit on a button stands above it, whole."""
    if sheet.phase in ENDED:
        return []
    verbs = SLOTS.get(sheet.phase, ("pause", "redirect", "cancel"))
    said = [f"{sheet.preview[verb].label} · {sheet.preview[verb].consequence}" for verb in verbs]
    return [text for text in said if len(text) > LABEL_MAX]


def label(text: str) -> str:
    """As much of it as a button takes."""
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


# ── questions ────────────────────────────────────────────────────────────────────────────────────


def card(run: str, asked: Asked, key: str = "") -> Post:
    """A question with its facts and its answers as buttons or as a menu."""
    schema = msgspec.json.decode(asked.schema)
    about = facts(schema.get("x-details")) if isinstance(schema, dict) else ""
    until = f"-# expires <t:{int(asked.expires_at)}:R>" if asked.expires_at else ""
    named = f"-# for {', '.join(map(shown, asked.answerers))}" if asked.answerers else ""
    text = "\n".join(filter(None, [f"❓ **{asked.message}**", about, until, named]))
    instead = {"cap": ("Raise cap", "caps"), HANDED_OVER: ("Hand back", "hand_back")}
    if asked.kind in instead:
        words, verb = instead[asked.kind]
        button = Button(words, Action(verb, mark(run), asked.question), "good")
        return Post(text, key, buttons=(button,))
    return _answers(Post(text, key), run, asked, schema)


def _answers(post: Post, run: str, asked: Asked, schema: object) -> Post:
    open_ways = list(enumerate(ways(schema)))
    direct = [(n, way) for n, way in open_ways if not way.needs_form]
    menu = None
    if len(open_ways) > BUTTONS_IN_A_ROW and len(direct) > 1:
        options = tuple((way.label, str(n)) for n, way in direct)
        menu = Menu("Choose", Action("answer", mark(run), asked.question), options)
        open_ways = [(n, way) for n, way in open_ways if way.needs_form]
    buttons = []
    for number, way in open_ways:
        verb = "fill" if way.needs_form else "answer"
        action = Action(verb, mark(run), asked.question, str(number))
        buttons.append(Button(label(way.label), action, _tone(way.value)))
    return msgspec.structs.replace(post, buttons=tuple(buttons), menu=menu)


def _tone(value: object) -> str:
    return {"approve": "good", "reject": "bad", "cancel": "bad"}.get(str(value), "plain")


def settled(asked: Asked, how: str) -> Post:
    """The card of a question that is not open any more."""
    return Post(f"❓ {asked.message}\n**{how}**")


# ── lines ────────────────────────────────────────────────────────────────────────────────────────


class Scene(Struct, frozen=True):
    """What a line of a thread is told beside itself: whose chat this is, and what it refers to."""

    line: Line
    key: str
    here: bool = False  # written in this very chat
    via: str = ""
    text: str = ""  # of the message or todo that it is about
    parked: bool = False  # whether that todo is a run
    place: str = ""
    brief: str = ""
    answers: str = ""
    files: tuple[str, ...] = ()
    cancel: Offer | None = None


def told(scene: Scene) -> Post | None:
    """One line of a thread as a post; None where this chat need not be told."""
    tell = _TOLD.get(scene.line.kind)
    return tell(scene) if tell else None


def _message(scene: Scene) -> Post | None:
    line = scene.line
    if scene.here:
        return None
    return Post(f"**{shown(line.by)}** ({scene.via}): {line.text}", scene.key)


def _said(scene: Scene) -> Post:
    return Post(scene.line.text, scene.key)


def _aside(scene: Scene) -> Post:
    return Post(f"**Aside:** {scene.line.text}", scene.key)


def _report(scene: Scene) -> Post:
    return Post(f"**Background work reports:** {scene.line.text}", scene.key)


def _partial(scene: Scene) -> Post:
    """What was kept: its first lines here, all of it and the files beside it."""
    head, _, rest = scene.line.text.partition("\n\n")
    texts = (("partial-work.md", scene.line.text),) if rest else ()
    return Post(head, scene.key, files=scene.files, texts=texts)


def _cancel_asked(scene: Scene) -> Post:
    """The panic word has paused; to cancel is one more press, and says what that would do.

    Its presses name no position: the pause itself may not have been told here yet.
    """
    offer = scene.cancel
    if offer is None or not offer.enabled:
        return Post(scene.line.text, scene.key)
    run = mark(scene.line.run)
    cancel = Button(label(f"{offer.label} · {offer.consequence}"), Action("cancel", run), "bad")
    resume = Button("Resume · Continues with context kept", Action("resume", run), "good")
    return Post(scene.line.text, scene.key, buttons=(resume, cancel))


def _choice(scene: Scene) -> Post | None:
    """What became of a message, in one line, with the way back."""
    line = scene.line
    about = f"“{short(scene.text, 60)}”"
    words = {
        "incorporate": (f"**Incorporated** into {scene.place}: {about}", "Undo", "undo"),
        "switch": (f"**Switched** to this now: {about}", "Go back", "back"),
        "defer": (f"**Deferred** to later: {about}", "Do it now", "switch"),
    }
    if line.choice not in words:
        return None
    text, way_back, choice = words[line.choice]
    why = f" — {line.why}" if line.why else ""
    which = label(f"{way_back} “{short(scene.text, 40)}”")  # it may stand beside others
    button = Button(which, Action("overrule", "", line.message, choice))
    return Post(f"↳ {text}{why}", scene.key, buttons=(button,), answers=scene.answers)


def _overruled(scene: Scene) -> Post:
    wanted = {"back": "go back", "undo": "leave it out", "switch": "do it now"}
    choice = wanted.get(scene.line.choice, scene.line.choice)
    return Post(
        f"↳ **{shown(scene.line.by)}** wants: {choice}: “{short(scene.text, 60)}”", scene.key
    )


def _parked(scene: Scene) -> Post:
    return Post(f"⏸ **Parked**, comes back by itself: {short(scene.line.text)}", scene.key)


def _taken(scene: Scene) -> Post:
    head = "Back to" if scene.parked else "Now, from the list"
    return Post(f"▶ **{head}:** {short(scene.text)}", scene.key)


def _gone(scene: Scene) -> Post:
    return Post(f"**Off the list:** {short(scene.text)}", scene.key)


_TOLD: Final[dict[str, Callable[[Scene], Post | None]]] = {
    "message": _message,
    "question aside": _message,
    "said: text": _said,
    "said: triage": _said,
    "said: aside": _aside,
    "said: report": _report,
    "said: partial": _partial,
    "said: cancel?": _cancel_asked,
    "choice": _choice,
    "overruled": _overruled,
    "todo: parked": _parked,
    "todo taken": _taken,
    "todo removed": _gone,
    "todo dropped": _gone,
}


def redirected(before: str, now: str) -> str:
    """What a redirect has changed, in one line: words struck out and words in bold."""
    marks = {"same": "", "removed": "~~", "added": "**"}
    words = " ".join(f"{marks[p.kind]}{p.text}{marks[p.kind]}" for p in word_diff(before, now))
    if len(words) > LINE_MAX:  # many small marks say less than both in short
        words = f"from “{short(before, 60)}” to “{short(now, 60)}”"
    return f"↳ **Redirected:** {words}"


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────


def ended(sheet: RunSheet, key: str) -> Post | None:
    """What a person has to know of an end that has not been said in the thread."""
    if sheet.phase is Phase.DONE:
        return None
    head = f"{SYMBOLS[sheet.phase]} **{HEADS[sheet.phase]}** {_what(sheet)}".rstrip()
    return Post("\n".join([head, *receipt(sheet.receipt)]), key)


def receipt(found: Receipt) -> list[str]:
    """What became of every effect, a line each."""
    return [f"- {line.text}" for line in found.lines] or ["-# It had changed nothing."]
