"""Chats as front doors: what people write and press becomes verbs of ``Control``, and back.

A channel is a small adapter: it hands in what it hears, and posts and edits what it is given. What
a chat shows follows from sheets by pure functions, and is the same in all of them.
"""

from midflight.channels.base import Channel, ChatGone, NotNow
from midflight.channels.people import People
from midflight.channels.shapes import Action, Button, Field, Form, Heard, Menu, Post
from midflight.channels.switchboard import Switchboard

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
