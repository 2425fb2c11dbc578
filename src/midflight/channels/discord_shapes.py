"""Posts and forms as Discord takes them, and its filled forms as ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from io import BytesIO
from typing import Any, Final

import discord

from midflight.channels.attached import attached
from midflight.channels.shapes import Button, Field, Form, Menu, Post
from midflight.channels.splitting import split

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
    return text.translate(TURNING)


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
