"""Chats as front doors: messages and presses become verbs of ``Control``, and journals posts.

A channel is a small adapter: it hands in what it hears, and posts and edits what it is given. Pure
functions make the posts from sheets, so that all kinds of chats show the same.
"""

from midflight.interfaces.chat.channel import (
    Action,
    Button,
    Channel,
    ChatGone,
    Field,
    Form,
    Heard,
    Menu,
    NotNow,
    People,
    Post,
)
from midflight.interfaces.chat.switchboard import Switchboard

__all__ = [
    "Action",
    "Button",
    "Channel",
    "ChatGone",
    "Field",
    "Form",
    "Heard",
    "Menu",
    "NotNow",
    "People",
    "Post",
    "Switchboard",
]
