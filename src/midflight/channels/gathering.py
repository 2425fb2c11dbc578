"""Several posts that wait to be shown become few: chats count messages, people count on order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from midflight.channels.people import shown
from midflight.channels.shapes import Post

TOGETHER_MAX: Final = 1_800  # characters of what is put together; longer ones stand alone
BUTTONS_MAX: Final = 5


class Ack(Struct, frozen=True):
    """The answer to one message that was heard."""

    message: str
    by: str
    text: str


def together(posts: Sequence[Post]) -> list[Post]:
    """The same in the same order, neighbours joined; the key is that of the first of them."""
    found: list[Post] = []
    for post in posts:
        if found and _fit(found[-1], post):
            found[-1] = _joined(found[-1], post)
        else:
            found.append(post)
    return found


def _fit(first: Post, second: Post) -> bool:
    apart = any(post.menu or post.files or post.texts for post in (first, second))
    few = len(first.buttons) + len(second.buttons) <= BUTTONS_MAX
    return not apart and few and len(first.text) + len(second.text) < TOGETHER_MAX


def _joined(first: Post, second: Post) -> Post:
    same = not first.answers or not second.answers or first.answers == second.answers
    return replace(
        first,
        text=f"{first.text}\n{second.text}",
        buttons=first.buttons + second.buttons,
        answers=(first.answers or second.answers) if same else "",
    )


def answer(acks: Sequence[Ack]) -> Post:
    """One answer to all that were heard meanwhile: each is counted, none is answered twice."""
    first = acks[0]
    if len(acks) == 1:
        return Post(first.text, f"ack:{first.message}", answers=first.message)
    said = ", ".join(f"{shown(by)} {count}" for by, count in Counter(a.by for a in acks).items())
    texts = list(dict.fromkeys(line for ack in acks for line in ack.text.splitlines()))
    lines = [f"Heard {len(acks)} messages ({said}).", *texts[-4:]]
    return Post("\n".join(lines), f"ack:{first.message}")
