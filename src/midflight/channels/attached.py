"""The files of a post: texts that go as files, and files of a run's folder."""

from __future__ import annotations

from pathlib import Path

from midflight.channels.shapes import Post


def attached(post: Post) -> list[tuple[str, bytes]]:
    """Names and contents. What cannot be read any more says so, and holds nothing else up."""
    return [*((name, text.encode()) for name, text in post.texts), *map(_read, post.files)]


def _read(path: str) -> tuple[str, bytes]:
    name = Path(path).name
    try:
        return name, Path(path).read_bytes()
    except OSError as error:
        return f"{name}.txt", f"{name} cannot be read here: {error.strerror}.".encode()
