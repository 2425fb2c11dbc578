"""Posts that wait to be shown are joined, in their order: chats limit how many messages come."""

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
STANDS_MAX: Final = 4
BARE: Final = "-# This chat does not take what belongs to this: buttons, files or what it answers."
UNSHOWN: Final = "Something could not be shown: this chat does not take it. It is in the thread."


class Reply(Struct, frozen=True):
    """The answer to one message that was heard: how things stand, or why it was not stored."""

    message: str
    by: str
    text: str
    notes: tuple[str, ...] = ()  # for example files that were not read
    stored: bool = True

    @property
    def words(self) -> str:
        """The whole answer; empty where the thread itself answers."""
        return "\n".join(filter(None, [self.text, *self.notes]))


def together(posts: Sequence[Post]) -> list[Post]:
    """Join neighbouring posts, in their order; the key is that of the first of them."""
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


def plainer(post: Post) -> list[Post]:
    """Return substitutes for a post that a chat does not take: its words alone, then a note."""
    bare = Post(f"{post.text}\n{BARE}", post.key)
    is_bare = not (post.buttons or post.menu or post.files or post.texts or post.answers)
    return [*([] if is_bare else [bare]), Post(UNSHOWN, post.key)]


def answer(acks: Sequence[Reply]) -> Post:
    """Return one answer to all messages that were heard meanwhile; each of them is counted.

    Only the latest lines about how things stand are kept. Messages that were not stored, and
    files that were not read, are always named.
    """
    first, key = acks[0], f"ack:{acks[0].message}"
    if len(acks) == 1:
        return Post(first.words, key, answers=first.message)
    stored = [ack for ack in acks if ack.stored]
    counts = Counter(ack.by for ack in stored).items()
    said = ", ".join(f"{shown(by)} {count}" for by, count in counts)
    stands = dict.fromkeys(line for ack in stored for line in ack.text.splitlines())
    heard = [f"Heard {len(stored)} message{'s' * (len(stored) != 1)} ({said})."] if stored else []
    notes = dict.fromkeys(note for ack in stored for note in ack.notes)
    refused = [f"{shown(ack.by)}: {ack.words}" for ack in acks if not ack.stored]
    return Post("\n".join([*heard, *list(stands)[-STANDS_MAX:], *notes, *refused]), key)
