"""Pure functions that turn the lines of a thread, said or chosen, into posts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from midflight.channels.people import shown
from midflight.channels.render import label
from midflight.channels.shapes import Action, Button, Post, mark
from midflight.control.transcript import Line
from midflight.kernel.diff import word_diff
from midflight.kernel.preview import Offer
from midflight.view.summaries import short

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
