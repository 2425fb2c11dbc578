"""The internet as a tool: what may be reached, what is sent where, and how it can end."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from midflight.journal.phases import Effect
from midflight.tools.declaration import ToolFailed, ToolRefused
from midflight.tools.http import Http, Page, is_public
from midflight.tools.options import Approval
from midflight.tools.specs import spec
from tools.sites import Names, Request, Site, answer, site

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def web(*sites: Site | str, **options: object) -> Http:
    """The tools, with some hosts of ours allowed."""
    allowed = tuple(each if isinstance(each, str) else each.host for each in sites)
    name = f"http-{abs(hash((allowed, *options)))}"
    return Http(allow=allowed, name=name, **options)  # type: ignore[arg-type]


# ── who may be spoken to ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.9.9.9",
        "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.192", "192.168.1.1",
        "192.0.2.1", "192.88.99.1", "198.18.0.1", "224.0.0.1", "239.1.1.1", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
        "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::7f00:1",
        "2002:7f00:1::", "2002:808:808::", "2001::1", "2001:db8::1", "3fff::1", "fc00::1",
        "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1", "100::1", "5f00::1",
        "2600::1%eth0", "not an address", "",
    ],
)  # fmt: skip
def test_an_address_that_is_not_of_the_internet_at_large_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00::1"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "localhost", "LOCALHOST",
     "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0", "0.0.0.0", "\uff11\uff12\uff17.0.0.1"],
)  # fmt: skip
async def test_no_spelling_of_this_machine_is_reached(host: str) -> None:
    async with site() as mine:
        for call in (web().http_get, web().http_send):
            with pytest.raises(ToolRefused, match="Nothing was sent"):
                await call(f"http://{host}:{mine.port}/")

    assert mine.connections == 0


@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1"])
async def test_a_name_is_judged_by_what_it_resolves_to(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    Names(monkeypatch).say("public.test", [address])

    with pytest.raises(ToolRefused, match="not on the public internet"):
        await web().http_get("https://public.test/")


async def test_the_connection_goes_to_the_very_address_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = Names(monkeypatch)
    async with site("127.0.0.1") as first, site("127.0.0.2", first.port) as second:
        names.say("rebind.test", ["127.0.0.1"], ["127.0.0.2"])
        first.replies["/"] = answer(200, "the one that was looked at")

        page = await web(f"rebind.test:{first.port}").http_get(first.url("/", "rebind.test"))

        assert page.text == "the one that was looked at"
        assert names.asked == ["rebind.test"]
        assert second.connections == 0
        assert first.asked[0].headers["host"] == f"rebind.test:{first.port}"


async def test_a_redirect_is_judged_like_the_first_address(monkeypatch: pytest.MonkeyPatch) -> None:
    Names(monkeypatch).say("inner.test", ["127.0.0.1"])
    async with site() as outer, site() as inner:
        for target in (
            inner.url("/"),
            inner.url("/", "inner.test"),
            "file:///etc/passwd",
            "http://[",
        ):
            outer.replies["/"] = answer(302, "", Location=target)
            with pytest.raises(ToolRefused, match="Nothing was sent"):
                await web(outer).http_get(outer.url("/"))

        assert inner.connections == 0


async def test_only_the_port_that_is_allowed_is_reached() -> None:
    async with site() as allowed, site() as other:
        with pytest.raises(ToolRefused, match="not on the public internet"):
            await web(allowed).http_get(other.url("/"))
        assert other.connections == 0


@pytest.mark.parametrize(
    "url",
    ["ftp://example.org/", "file:///etc/passwd", "gopher://x/", "http://", "//x", "x", "http://[",
     "http://a:b@example.org/", "https://user@example.org/", "http://exa mple/", "http://x\r\ny/",
     "http://" + "x" * 300 + "/"],
)  # fmt: skip
async def test_what_is_no_plain_web_address_is_refused(url: str) -> None:
    with pytest.raises(ToolRefused, match="Nothing was sent") as refused:
        await web().http_get(url)

    assert "a:b" not in str(refused.value)


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with site() as mine, site() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url("/"))
        mine.replies["/"] = answer(200, "hello")

        assert (await web(mine).http_get(mine.url("/"))).text == "hello"
        assert proxy.connections == 0


# ── what is sent, and what comes back ────────────────────────────────────────────────────────


async def test_a_page_is_read_with_its_status() -> None:
    async with site() as mine:
        mine.replies["/a?b=c"] = answer(200, "grün", ETag="1", Set_Cookie="x=y")

        page = await web(mine).http_get(mine.url("/a?b=c#part"))
        head = await web(mine).http_get(mine.url("/a?b=c"), method="HEAD")
        absent = await web(mine).http_get(mine.url("/absent"))

        assert page == Page(
            200,
            mine.url("/a?b=c"),
            "grün",
            {"content-type": "text/plain", "content-length": "5", "etag": "1"},
        )
        assert (head.status, head.text, mine.asked[1].method) == (200, "", "HEAD")
        assert (absent.status, absent.text) == (404, "nothing here")
        assert all("cookie" not in request.headers for request in mine.asked)


async def test_what_was_meant_for_one_site_is_not_told_to_another() -> None:
    secrets = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/csv"}
    async with site() as first, site() as second:
        first.replies["/"] = answer(302, "", Location="/moved")
        first.replies["/moved"] = answer(307, "", Location=second.url("/there"))
        second.replies["/there"] = answer(301, "", Location=first.url("/end"))
        first.replies["/end"] = answer(200, "end")

        page = await web(first, second).http_get(first.url("/"), headers=secrets)

        assert (page.text, page.url) == ("end", first.url("/end"))
        assert first.asked[1].headers["authorization"] == "Bearer x"  # the same site
        for request in (second.asked[0], first.asked[2]):
            assert {"authorization", "cookie", "x-api-key"}.isdisjoint(request.headers)
            assert request.headers["accept"] == "text/csv"


async def test_redirects_in_a_circle_come_to_an_end() -> None:
    async with site() as mine:
        mine.replies["/"] = answer(302, "", Location="/")

        with pytest.raises(ToolFailed, match="more than 5 redirects"):
            await web(mine).http_get(mine.url("/"))
        assert len(mine.asked) == 6


async def test_sending_does_it_once_and_follows_nothing() -> None:
    async with site() as mine, site() as other:
        mine.replies["/orders"] = answer(307, "", Location=other.url("/"))

        page = await web(mine, other).http_send(
            mine.url("/orders"), body='{"a": 1}', idempotency_key="run:step"
        )

        assert (page.status, page.headers["location"]) == (307, other.url("/"))
        assert (mine.asked[0].method, mine.asked[0].body) == ("POST", b'{"a": 1}')
        assert len(mine.asked[0].headers["idempotency-key"]) == 32
        assert "run" not in mine.asked[0].headers["idempotency-key"]
        assert other.connections == 0


@pytest.mark.parametrize(
    "headers",
    [{"Host": "x"}, {"Content-Length": "5"}, {"Transfer-Encoding": "chunked"}, {"X": "a\r\nY: b"},
     {"A B": "c"}, {"Proxy-Authorization": "x"}, {"X\r\nY": "a"}, {"": "x"}, {"X": "a\0"},
     {f"X-{n}": "" for n in range(50)}],
    ids=lambda headers: ascii(next(iter(headers)))[:20],
)  # fmt: skip
async def test_headers_that_would_bend_the_request_are_refused(headers: dict[str, str]) -> None:
    async with site() as mine:
        with pytest.raises(ToolRefused, match="Nothing was sent"):
            await web(mine).http_send(mine.url("/"), headers=headers)
        assert mine.connections == 0


async def test_an_answer_without_end_is_cut_and_that_is_said() -> None:
    async def pour(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with site() as mine:
        mine.replies["/"] = pour

        page = await web(mine, body_bytes_max=100_000).http_get(mine.url("/"))

        assert 99_000 < len(page.text) <= 100_000
        assert page.note == "only the first 100,000 bytes are shown"


async def test_what_is_no_text_is_not_shown_nor_unpacked() -> None:
    async with site() as mine:
        mine.replies["/image"] = answer(200, b"\x89PNG\x00\x01", Content_Type="image/png")
        mine.replies["/bomb"] = answer(200, b"\x1f\x8b" * 50, Content_Encoding="gzip")
        mine.replies["/latin"] = answer(
            200, "grün".encode("latin-1"), Content_Type="text/html; charset=ISO-8859-1"
        )
        mine.replies["/odd"] = answer(200, "grün", Content_Type="text/plain; charset=punycode")

        assert (await web(mine).http_get(mine.url("/image"))).note.startswith("not text")
        assert (await web(mine).http_get(mine.url("/bomb"))).text == ""
        assert (await web(mine).http_get(mine.url("/latin"))).text == "grün"
        assert (await web(mine).http_get(mine.url("/odd"))).text == "grün"
        assert mine.asked[0].headers["accept-encoding"] == "identity"


# ── how it can end ───────────────────────────────────────────────────────────────────────────


async def test_what_was_never_sent_is_proven_not_done() -> None:
    async with site() as gone:
        pass
    for call in (web(gone).http_get, web(gone).http_send):
        with pytest.raises(ToolRefused, match=r"cannot be reached.*Nothing was sent"):
            await call(gone.url("/"))


async def test_what_was_sent_and_not_answered_may_have_happened() -> None:
    async def hang_up(_request: Request, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with site() as mine:
        mine.replies["/"] = hang_up
        with pytest.raises(ToolFailed, match="request may have arrived"):
            await web(mine).http_send(mine.url("/"), body="x")


@pytest.mark.parametrize("when", ["before the head", "within the body"])
async def test_a_server_that_dawdles_is_given_up_in_time(when: str) -> None:
    async def dawdle(_request: Request, writer: asyncio.StreamWriter) -> None:
        if when == "within the body":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" if when == "within the body" else b"")
            await writer.drain()
            await anyio.sleep(0.02)

    async with site() as mine:
        mine.replies["/"] = dawdle
        with anyio.fail_after(10), pytest.raises(ToolFailed, match=r"longer than 0\.3 s"):
            await web(mine, timeout_s=0.3).http_get(mine.url("/"))


async def test_a_read_is_a_read_and_all_else_happens_once_and_is_approved() -> None:
    tools = Http(name="web")

    assert tools.http_get.effect is Effect.READ
    assert (tools.http_send.effect, tools.http_send.approval) == (Effect.ONCE, Approval())
    assert spec(tools.http_get).schema["properties"]["method"]["enum"] == ["GET", "HEAD"]
    assert "GET" not in spec(tools.http_send).schema["properties"]["method"]["enum"]


def certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for a name, and a server's side of it."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(begin)
        .not_valid_after(begin + datetime.timedelta(days=365 * 100))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "cert.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return file, server


async def test_a_certificate_must_be_for_the_name_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = Names(monkeypatch)
    names.say("good.test", ["127.0.0.1"])
    names.say("bad.test", ["127.0.0.1"])
    file, server = certificate(tmp_path, "good.test")
    trusting = ssl.create_default_context(cafile=str(file))
    async with site(ssl=server) as mine:
        mine.replies["/"] = answer(200, "private")
        allowed = (f"good.test:{mine.port}", f"bad.test:{mine.port}")
        trusts = web(*allowed, tls=trusting)

        page = await trusts.http_get(mine.url("/", "good.test", "https"))
        with pytest.raises(ToolRefused, match="CERTIFICATE_VERIFY_FAILED"):
            await trusts.http_get(mine.url("/", "bad.test", "https"))
        with pytest.raises(ToolRefused, match="CERTIFICATE_VERIFY_FAILED"):
            await web(*allowed).http_get(mine.url("/", "good.test", "https"))

        assert page.text == "private"
        assert len(mine.asked) == 1


def test_without_the_extra_it_says_which_one_is_missing() -> None:
    code = "import sys; sys.modules['httpcore'] = None; import midflight.tools.http"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "pip install './midflight[http]'" in done.stderr
