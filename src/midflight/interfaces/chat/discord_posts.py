"""Posts, forms and messages as Discord takes and gives them; its failures as our errors."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from hashlib import blake2b
from io import BytesIO
from typing import Any, Final, Protocol

import aiohttp
import anyio
import discord
from anyio import to_thread

from midflight.interfaces.chat.channel import (
    Button,
    ChatGone,
    Field,
    Form,
    Heard,
    Menu,
    NotNow,
    NotTaken,
    Post,
    PostGone,
    attached,
    split,
)
from midflight.interfaces.chat.switchboard import Switchboard
from midflight.journal.record import Actor

TEXT_MAX: Final = 2_000
PIECES_MAX: Final = 5  # a text that is longer than these goes as a file
FILES_MAX: Final = 10
OPTIONS_MAX: Final = 25
MENUS_MAX: Final = 4
WHOLE: Final = "\n…\n-# The whole of it is in message.md"
TITLE_MAX: Final = 45
HINT_MAX: Final = 100
VALUE_MAX: Final = 4_000
TOO_LONG: Final = "It has {:,} characters, too many for here. What you write replaces all of it."
STYLES: Final = {
    "plain": discord.ButtonStyle.secondary,
    "good": discord.ButtonStyle.success,
    "bad": discord.ButtonStyle.danger,
}
MARKS: Final = (0x200E, 0x200F, 0x061C)
TURNING: Final = dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A), *MARKS), 0xFFFD)
"""Embeddings, overrides, isolates and marks. What reads from right to left needs none of them."""


def straight(text: str) -> str:
    """Replace each character that turns the direction of reading by a sign.

    The words of a message are one text, so such a character would also turn our words behind it.
    """
    return text.translate(TURNING)  # layer turns-direction-of-reading


def pieces(post: Post) -> tuple[list[str], list[discord.File]]:
    """Return the texts of a post, each of which fits, and its files."""
    shown = straight(post.text)
    texts, files = split(shown, TEXT_MAX), attached(post)
    if len(texts) > PIECES_MAX:
        begins = split(shown, TEXT_MAX - len(WHOLE))[0]
        texts, files = [begins + WHOLE], [("message.md", post.text.encode()), *files]
    made = [discord.File(BytesIO(data), straight(name)) for name, data in files[:FILES_MAX]]
    return texts or [""], made


def nonce(key: str, piece: int) -> str:
    """Return the nonce by which Discord knows a repeated message: at most 25 characters."""
    return blake2b(f"{key} {piece}".encode(), digest_size=12).hexdigest()


def view_of(post: Post) -> discord.ui.View | None:
    """Return buttons and menus. Their ids say all about a press, so the view need not wait."""
    if not post.buttons and post.menu is None:
        return None
    view = discord.ui.View(timeout=None)
    for button in post.buttons[:OPTIONS_MAX]:
        view.add_item(_button(button))
    for select in _selects(post.menu) if post.menu is not None else ():
        view.add_item(select)
    view.stop()
    return view


def _button(button: Button) -> discord.ui.Button[discord.ui.View]:
    return discord.ui.Button(
        label=straight(button.label[:80]),
        style=STYLES[button.style],
        custom_id=button.action.code,
        disabled=not button.enabled,
    )


def _selects(menu: Menu) -> Iterator[discord.ui.Select[discord.ui.View]]:
    """Yield as many menus as it takes: one has 25 options at most."""
    starts = range(0, len(menu.options), OPTIONS_MAX)
    for number, start in enumerate(list(starts)[:MENUS_MAX]):
        options = [
            discord.SelectOption(label=straight(shown[:100]), value=value)
            for shown, value in menu.options[start : start + OPTIONS_MAX]
        ]
        code = f"{menu.action.code}#{number}"
        yield discord.ui.Select(custom_id=code, placeholder=straight(menu.hint), options=options)


def modal_of(form: Form) -> discord.ui.Modal:
    """Return a form for Discord; its values come back under the names of its fields."""
    modal = discord.ui.Modal(
        title=straight(form.title[:TITLE_MAX]) or "?", custom_id=form.action.code
    )
    for field in form.fields[:5]:
        is_cut = len(field.value) > VALUE_MAX
        hint = (TOO_LONG.format(len(field.value)) if is_cut else field.hint)[:HINT_MAX] or None
        item: Any = _choice(field) if field.options else _text(field)
        label, about = straight(field.label[:TITLE_MAX]), straight(hint) if hint else None
        modal.add_item(discord.ui.Label(text=label, description=about, component=item))
    modal.stop()
    return modal


def _text(field: Field) -> discord.ui.TextInput[discord.ui.Modal]:
    style = discord.TextStyle.paragraph if field.long else discord.TextStyle.short
    return discord.ui.TextInput(
        custom_id=field.name,
        style=style,
        default=(field.value if len(field.value) <= VALUE_MAX else "") or None,
        required=field.required,
        max_length=VALUE_MAX,
    )


def _choice(field: Field) -> discord.ui.Select[discord.ui.Modal]:
    options = [
        discord.SelectOption(
            label=straight(option[:100]), value=option[:100], default=option == field.value
        )
        for option in field.options[:OPTIONS_MAX]
    ]
    return discord.ui.Select(custom_id=field.name, options=options, required=field.required)


def filled(components: Any) -> dict[str, str]:
    """Return the values that somebody has put into a form, by the names of its fields."""
    found: dict[str, str] = {}
    for part in components if isinstance(components, list) else [components]:
        if not isinstance(part, Mapping):
            continue
        if "custom_id" in part:
            values = part.get("values") or [part.get("value") or ""]
            found[str(part["custom_id"])] = str(values[0])
        for inner in ("components", "component"):
            found |= filled(part[inner]) if inner in part else {}
    return found


NAME: Final = "discord"
UNKNOWN_MESSAGE: Final = 10008
NO_REPLIES: Final = 160002  # the bot may not read the history of the channel
TOO_LARGE: Final = 413
NOTE_MAX: Final = 300
ELSEWHERE: Final = "Answer on the page or in a terminal."
REVOKED: Final = (
    "Discord does not accept the token any more. Make a new one in the developer portal, set it, "
    "and start again: runs and messages are kept, and the chats go on where they were."
)
Refuse = Callable[[str], Awaitable[None]]
"""Called with the reason when Discord does not let us in any more."""


class DiscordChannel:
    """The channel: posts and edits."""

    name = NAME

    def __init__(self, client: discord.Client, refuse: Refuse) -> None:
        self._client = client
        self._edge = Edge(refuse)

    async def post(self, chat: str, post: Post) -> str:
        """Post in as many messages as it takes; the last of them has the buttons."""
        texts, files = await to_thread.run_sync(pieces, post)  # it reads files
        message = ""
        place = self._client.get_partial_messageable(int(chat))
        for number, text in enumerate(texts, 1):
            more: dict[str, Any] = {}
            if number == len(texts):
                view = view_of(post)
                more = {"files": files} if files else {}
                more |= {"view": view} if view is not None else {}
            if number == 1 and post.answers:
                more["reference"] = discord.MessageReference(
                    message_id=int(post.answers), channel_id=int(chat), fail_if_not_exists=False
                )
            if post.key:
                more["nonce"] = nonce(f"{chat} {post.key}", number)
            async with self._edge:
                message = str((await self._send(place, text, more)).id)
        return message

    async def _send(
        self, place: discord.PartialMessageable, text: str, more: dict[str, Any]
    ) -> discord.Message:
        """Send a message, or as much of it as the bot may send: a missing right loses no chat.

        Links get no preview: fetching an address that a model has written could carry a secret
        to the owner of that address.
        """
        try:
            return await place.send(text, suppress_embeds=True, **more)
        except discord.HTTPException as error:
            if error.code == NO_REPLIES and more.pop("reference", None) is not None:
                return await self._send(place, text, more)
            why = _kept_from(error)
            files = more.pop("files", []) if why else []
            if not files:
                raise
        names = ", ".join(file.filename for file in files)
        note = f"-# {why}, and not shown here: {names}"[:NOTE_MAX]
        # layer what-cannot-attached
        if more.pop("view", None) is not None:  # nobody answers what they cannot read
            note = f"{note}. {ELSEWHERE}"
        shorter = f"{text[: TEXT_MAX - NOTE_MAX - len(ELSEWHERE) - 3]}\n{note}"
        return await place.send(shorter, suppress_embeds=True, **more)

    async def edit(self, chat: str, message: str, post: Post) -> None:
        """Replace the text and the buttons of a message."""
        place = self._client.get_partial_messageable(int(chat))
        texts, _ = pieces(post)
        async with self._edge:
            partial = place.get_partial_message(int(message))
            await partial.edit(content=texts[0], view=view_of(post))


def _kept_from(error: discord.HTTPException) -> str:
    """Return why files may have been refused; empty if the error is not about files."""
    if error.status == TOO_LARGE:  # layer files-too-much-do-not-hold
        return "Too much for Discord"
    return (
        "The bot may not attach files in this chat" if isinstance(error, discord.Forbidden) else ""
    )


class Edge:
    """Turns errors of Discord into those of a channel, around each call."""

    def __init__(self, refuse: Refuse) -> None:
        self._refuse = refuse

    async def __aenter__(self) -> None:
        """Nothing to do."""

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Raise ``NotNow`` for an error that may pass, and another channel error for the rest."""
        match error:
            case discord.NotFound(code=code) if code == UNKNOWN_MESSAGE:
                raise PostGone(str(error)) from error
            case discord.NotFound() | discord.Forbidden():
                raise ChatGone(str(error)) from error
            case discord.HTTPException(status=401):
                await self._refuse(REVOKED)
                raise NotNow(str(error)) from error
            case discord.HTTPException(status=status) if status < 500 and status != 429:
                raise NotTaken(str(error)) from error
            case discord.DiscordException() | aiohttp.ClientError() | OSError():
                raise NotNow(str(error) or type(error).__name__) from error
            case _:
                return


FILE_BYTES_MAX: Final = 64 * 1024
FETCH_S: Final = 10.0
TEXT_KINDS: Final = re.compile(r"text/|application/(json|xml|yaml|toml|x-yaml|x-ndjson|javascript)")


class Bot(Protocol):
    """Our client of Discord, as far as its parts know it."""

    board: Switchboard
    _connection: Any

    @property
    def user(self) -> discord.ClientUser | None:
        """Our own user, once we are known."""

    def is_closed(self) -> bool:
        """Return whether the connection was closed for good."""

    def get_channel(self, channel_id: int, /) -> Any:
        """Return a channel that is known already."""

    async def fetch_channel(self, channel_id: int, /) -> Any:
        """Look a channel up."""

    def who(self, user: discord.abc.User, chat: str) -> Actor | None:
        """Return the person behind a user, with their role; None for a stranger."""

    async def on_message(self, message: discord.Message) -> None:
        """Take a message that somebody has written, if it is for us."""


async def heard_from(message: discord.Message, us: int) -> Heard:
    """Return the words of a message, without the mention of us, and of the files beside it."""
    words = re.sub(rf"<@!?{us}>", "", message.content).strip()
    parts, notes = [words] if words else [], []
    for attachment in message.attachments:
        text, why_not = await _text_of(attachment)
        if why_not:
            notes.append(f"{attachment.filename} was not read: {why_not}.")
        else:
            parts.append(f"[{attachment.filename}]\n{text}")
    if parts and notes:  # or the agent would not know that there was more
        parts += [f"[{note}]" for note in notes]
    return Heard(str(message.id), "\n\n".join(parts), tuple(notes))


async def _text_of(attachment: discord.Attachment) -> tuple[str, str]:
    kind = attachment.content_type or "an unknown kind"
    if not TEXT_KINDS.match(kind):
        return "", f"it is {kind}, and I read text only"
    if attachment.size > FILE_BYTES_MAX:
        return "", f"it has {attachment.size:,} bytes, and I read {FILE_BYTES_MAX:,} at most"
    try:
        with anyio.fail_after(FETCH_S):
            data = await attachment.read()
    except (TimeoutError, discord.DiscordException, aiohttp.ClientError, OSError) as error:
        return "", f"Discord did not give it ({type(error).__name__}); send it again"
    try:
        return data.decode(), ""
    except UnicodeDecodeError:
        return "", "it is not UTF-8"
