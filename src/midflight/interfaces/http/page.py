"""The page: built files of the package, for everybody; what it shows comes by the API alone.

Files are found by their names in a list that is read once, so no path can lead outside of it.
"""

from __future__ import annotations

import gzip
import mimetypes
from functools import cache
from html import escape
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response

from midflight.interfaces.http.problems import Problem

WEB: Final = Path(__file__).resolve().parents[2] / "_web"
BASE: Final = b'<base href="/">'
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "font-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'self'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
FOR_EVER: Final = "public, max-age=31536000, immutable"  # an asset's name changes with its content
PACKED: Final = frozenset({".js", ".css", ".html", ".svg", ".json", ".map"})
LOOKING: Final = ["GET", "HEAD"]
NOT_BUILT: Final = """This copy of Midflight has no page: it was not built.

In a checkout, `make web` builds it. The API works without it: see openapi.json.
"""
router: Final = APIRouter(include_in_schema=False)


def is_page(path: str) -> bool:
    """Return whether a path belongs to the page, which holds no secret and is open to all."""
    return path == "/" or path.startswith(("/runs/", "/threads/", "/assets/"))


@router.api_route("/", methods=LOOKING)
@router.api_route("/runs/{run}", methods=LOOKING)
@router.api_route("/threads/{thread}", methods=LOOKING)
async def app(request: Request) -> Response:
    """The app; which run or thread it shows it reads from its own address."""
    found = _files(WEB).get("index.html")
    if found is None:
        return PlainTextResponse(NOT_BUILT, 503)
    root = escape(str(request.scope.get("root_path", "")), quote=True)
    body = found.read_bytes().replace(BASE, f'<base href="{root}/">'.encode())
    headers = {"content-security-policy": POLICY, "cache-control": "no-cache"}
    return Response(body, headers=headers, media_type="text/html")


@router.api_route("/assets/{name}", methods=LOOKING)
async def asset(request: Request, name: str) -> Response:
    """A script, a style, a font."""
    found = _files(WEB).get(f"assets/{name}")  # layer only-files-of-page-given
    if found is None:
        raise Problem(404, "not_found", "the page has no such file. Load the page again.")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"content-security-policy": POLICY, "cache-control": FOR_EVER}
    packed = found.suffix in PACKED
    if packed:
        headers["vary"] = "accept-encoding"
    if packed and "gzip" in Headers(scope=request.scope).get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(_packed(found), headers=headers, media_type=kind)
    return Response(_plain(found), headers=headers, media_type=kind)


@cache
def _files(folder: Path) -> dict[str, Path]:
    """Return all files of a folder, by the name under which a browser asks for them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in files}


@cache
def _plain(path: Path) -> bytes:
    """Return a file's bytes, the same ones for everybody: strangers may take them slowly."""
    return path.read_bytes()


@cache
def _packed(path: Path) -> bytes:
    return gzip.compress(path.read_bytes(), mtime=0)
