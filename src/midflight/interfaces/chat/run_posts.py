"""The status, the questions, the end and the words of a run as posts, by pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from midflight.control.todos import TodoOffer
from midflight.control.transcript import Line
from midflight.interfaces.chat.allow_list import shown
from midflight.interfaces.chat.channel import Action, Button, Menu, Post, mark
from midflight.interfaces.chat.chat_questions import Way, escaped, in_block, ways
from midflight.journal.phases import ENDS, Phase
from midflight.journal.preview import Offer
from midflight.journal.requests import HANDED_OVER
from midflight.journal.status import Receipt, word_diff
from midflight.view.amounts import clock, elapsed, is_near, nearest, spending
from midflight.view.control_bar import PHASE_WORDS, UNDRIVEN
from midflight.view.data import Asked, RunSheet
from midflight.view.exact_text import short

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
UNDRIVEN_SIGN: Final = "∅"
LABEL_MAX: Final = 80
FACTS_FILE: Final = "what-is-asked.txt"
BUTTONS_IN_A_ROW: Final = 4  # more choices than this are a menu
TODOS_SHOWN: Final = 5


class Standing(Struct, frozen=True):
    """A run as a chat shows it: its sheet, where it is, and the time."""

    sheet: RunSheet
    place: str
    now: float


# ── the status message ───────────────────────────────────────────────────────────────────────────


def status(standing: Standing, todos: Sequence[TodoOffer]) -> Post:
    """Return the live status message: phase, time, steps, spending, todos and controls."""
    sheet = standing.sheet
    sign = SYMBOLS[sheet.phase] if sheet.undriven_since is None else UNDRIVEN_SIGN
    parts = [f"{sign} **{_head(sheet)}** {_what(sheet)}".rstrip(), meters(standing)]
    parts += [_todo_list(todos)] if todos else []
    parts += [f"-# {note}" for note in _consequences(sheet)]
    return Post("\n".join(parts), buttons=controls(sheet))


def _head(sheet: RunSheet) -> str:
    if sheet.undriven_since is not None:
        return UNDRIVEN
    parked = sheet.phase is Phase.PAUSED and "parked" in sheet.holds
    at_cap = sheet.phase is Phase.PAUSED and "cap" in sheet.holds
    return "Parked" if parked else "Paused at the cap" if at_cap else PHASE_WORDS[sheet.phase]


def _what(sheet: RunSheet) -> str:
    if sheet.undriven_since is not None:
        if sheet.phase in ENDS:
            return f"{short(sheet.brief, 80)} — what is to be undone waits for its process"
        was = f"was {PHASE_WORDS[sheet.phase].lower()}"
        return f"{short(sheet.brief, 80)} — it {was}; it goes on when its process is back"
    match sheet.phase:
        case Phase.RUNNING | Phase.PAUSING:
            doing = ", ".join(dict.fromkeys(each.name for each in sheet.in_flight))
            return f"{short(sheet.brief, 80)}" + (f" — {doing}" if doing else "")
        case Phase.FAILED:
            return short(sheet.error or sheet.failed_step)
        case Phase.CANCELLED | Phase.KILLED:
            return f"{short(sheet.brief, 80)}" + (
                f" (by {shown(sheet.ended_by)})" * bool(sheet.ended_by)
            )
        case _:
            return short(sheet.brief, 80)


def meters(standing: Standing) -> str:
    """Return the line of figures: time, step, spending, the nearest cap."""
    sheet, now = standing.sheet, standing.now
    place = standing.place if sheet.phase not in ENDED else _steps(sheet.done)
    warned = spending(sheet, now) + " ⚠" * is_near(nearest(sheet, now))
    return f"`{'  '.join(filter(None, [clock(elapsed(sheet, now)), place, warned]))}`"


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _todo_list(todos: Sequence[TodoOffer]) -> str:
    lines = [
        f"{number}. {short(todo.text, 90)}" for number, todo in enumerate(todos[:TODOS_SHOWN], 1)
    ]
    more = len(todos) - TODOS_SHOWN
    return "\n".join(["**To do**", *lines, *([f"and {more} more"] if more > 0 else [])])


ENDED: Final = frozenset({Phase.DONE, Phase.FAILED, Phase.CANCELLED, Phase.KILLED})


def _slots(sheet: RunSheet) -> tuple[str, ...]:
    first = "resume" if sheet.phase in {Phase.PAUSING, Phase.PAUSED} else "pause"
    return () if sheet.phase in ENDED else (first, "redirect", "cancel")


def controls(sheet: RunSheet) -> tuple[Button, ...]:
    """Return Pause or Resume, Redirect and Cancel, in this order, each with its consequence."""
    return tuple(_control(sheet, sheet.preview[verb]) for verb in _slots(sheet))


def _control(sheet: RunSheet, offer: Offer) -> Button:
    now = "now" if offer.verb == "cancel" and sheet.phase is Phase.CANCELLING else ""
    action = Action(offer.verb, mark(sheet.run), sheet.position, now)
    style = {"cancel": "bad", "resume": "good"}.get(offer.verb, "plain")
    return Button(label(f"{offer.label} · {offer.consequence}"), action, style, offer.enabled)


def _consequences(sheet: RunSheet) -> list[str]:
    """Return the consequences that are too long for their buttons; they stand above them."""
    offers = [sheet.preview[verb] for verb in _slots(sheet)]
    said = [f"{offer.label} · {offer.consequence}" for offer in offers]
    return [text for text in said if len(text) > LABEL_MAX]


def label(text: str) -> str:
    """Return as much of a text as a button takes."""
    return text if len(text) <= LABEL_MAX else f"{text[: LABEL_MAX - 1]}…"


# ── questions ────────────────────────────────────────────────────────────────────────────────────


def card(run: str, asked: Asked, key: str = "") -> Post:
    """Return a question with its facts, and its answers as buttons or as a menu."""
    schema = msgspec.json.decode(asked.schema)
    facts, file = in_block(schema)
    until = f"-# expires <t:{int(asked.expires_at)}:R>" if asked.expires_at else ""
    named = f"-# for {', '.join(map(shown, asked.answerers))}" if asked.answerers else ""
    beside = f"-# It is about what {FACTS_FILE} holds: read that before you answer." * bool(file)
    asks = f"❓ **{escaped(asked.message)}**"
    text = "\n".join(filter(None, [asks, facts, beside, until, named]))
    files = ((FACTS_FILE, file),) if file else ()
    instead = {"cap": ("Raise cap", "caps"), HANDED_OVER: ("Hand back", "hand_back")}
    if asked.kind in instead:
        words, verb = instead[asked.kind]
        button = Button(words, Action(verb, mark(run), asked.question), "good")
        return Post(text, key, buttons=(button,), texts=files)
    return _answers(Post(text, key, texts=files), run, asked, schema)


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
    text = "\n".join([post.text, *_in_full(ways(schema))])
    return msgspec.structs.replace(post, text=text, buttons=tuple(buttons), menu=menu)


def _in_full(offered: Iterable[Way]) -> list[str]:
    """Return the answers that a button would cut; they stand above it, whole."""
    return [f"- {escaped(way.label)}" for way in offered if len(way.label) > LABEL_MAX]


def _tone(value: object) -> str:
    return {"approve": "good", "reject": "bad", "cancel": "bad"}.get(str(value), "plain")


def settled(asked: Asked, how: str) -> Post:
    """Return the card of a question that is not open any more."""
    return Post(f"❓ {escaped(asked.message)}\n**{how}**")


# ── ends ─────────────────────────────────────────────────────────────────────────────────────────


def ended(sheet: RunSheet, key: str) -> Post | None:
    """Return how a run ended, and its receipt; None if it is done, which needs no post."""
    if sheet.phase is Phase.DONE:
        return None
    head = f"{SYMBOLS[sheet.phase]} **{PHASE_WORDS[sheet.phase]}** {_what(sheet)}".rstrip()
    return Post("\n".join([head, *receipt(sheet.receipt)]), key)


def receipt(found: Receipt) -> list[str]:
    """Return the lines of a receipt, one for each effect."""
    return [f"- {line.text}" for line in found.lines] or ["-# It had changed nothing."]


LINE_MAX: Final = 160


class Scene(Struct, frozen=True):
    """One line of a thread, with all that its post needs: the chat, and what the line refers to."""

    line: Line
    key: str
    here: bool = False  # written in this very chat
    via: str = ""
    text: str = ""  # of the message or todo that it is about
    parked: bool = False  # whether that todo is a run
    place: str = ""
    answers: str = ""
    files: tuple[str, ...] = ()
    not_shown: tuple[str, ...] = ()  # files that are too large or too many
    cancel: Offer | None = None


def told(scene: Scene) -> Post | None:
    """Return one line of a thread as a post; None where this chat need not be told."""
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
    """Show the first paragraph of saved work; the whole of it and the run's files go beside it."""
    head, _, rest = scene.line.text.partition("\n\n")
    texts = (("partial-work.md", scene.line.text),) if rest else ()
    others = short(", ".join(scene.not_shown), 200)
    note = f"\n-# Not shown here, but kept in the run's folder: {others}" if others else ""
    return Post(head + note, scene.key, files=scene.files, texts=texts)


def _cancel_asked(scene: Scene) -> Post:
    """Offer Resume and Cancel after a panic word has paused the run; Cancel says what it does.

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
    """Say what was chosen for a message, in one line, with a button for another choice."""
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
    """Return the change that a redirect made, in one line: words struck out and words in bold."""
    marks = {"same": "", "removed": "~~", "added": "**"}
    words = " ".join(f"{marks[p.kind]}{p.text}{marks[p.kind]}" for p in word_diff(before, now))
    if len(words) > LINE_MAX:  # many small marks say less than both in short
        words = f"from “{short(before, 60)}” to “{short(now, 60)}”"
    return f"↳ **Redirected:** {words}"
