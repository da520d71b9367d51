"""Who may ask: tokens, admin surfaces without one, and the lines that refusals and acts leave."""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from oip_worlds import NAME, Served, served

import fluidnpu
from fluidnpu.host import DriverUsageError
from fluidnpu.host.oip import NetworkServer, ServeOptions
from fluidnpu.host.oip.admission.access import AccessControl, read_token
from fluidnpu.host.oip.observing.logs import JsonLines, Lossy, dropped_lines
from fluidnpu.host.serving import AccessError, ModelOptions, Models, ProtocolError

TOKEN = "a-token-of-many-signs"
EXITS = f"/v2/models/{NAME}/exits"


@pytest.fixture(scope="module")
def s(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("admin"), surfaces={"admin": 0, "grpc": None}) as one:
        yield one


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("token")
    (folder / "token").write_text(TOKEN)
    with served(folder, surfaces={"admin": 0, "grpc": None, "token_file": folder / "token"}) as one:
        yield one


def exchange(s: Served, verb: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
    status, content, _ = s.exchange(verb, path, body, "admin", **headers)
    return status, json.loads(content)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"Origin": "http://evil.example"}, "for no page"),
        ({"Origin": "null"}, "for no page"),
        ({"Host": "evil.example"}, "as localhost"),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, "as localhost"),
        ({"Host": ""}, "as localhost"),
        ({"Content_Type": "text/plain"}, "application/json"),
        ({"Content_Type": "application/x-www-form-urlencoded"}, "application/json"),
    ],
)
def test_pages_of_other_origins_are_refused(
    s: Served, headers: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    for verb, path in (("POST", f"/v2/repository/models/{NAME}/unload"), ("POST", EXITS), ("GET", EXITS)):
        status, answer = exchange(s, verb, path, b"{}" if verb == "POST" else None, **headers)
        assert (status, answer["type"]) == (403, "AccessError")
        assert said in answer["error"]
    assert s.model.ready
    lines = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(lines) == 3
    assert all("of 127.0.0.1 was refused" in line for line in lines)


def test_pages_of_its_own_and_programs_are_not(s: Served, caplog: pytest.LogCaptureFixture) -> None:
    port = s.server.ports["admin"]
    name = s.model.bundle.program.exits[0].name
    change = json.dumps({"thresholds": {name: 0.5}, "why": "a trial"}).encode()
    assert exchange(s, "POST", EXITS, change, Content_Type="application/json; charset=utf-8")[0] == 200
    assert exchange(s, "GET", EXITS, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200
    assert exchange(s, "GET", EXITS, Host=f"[::1]:{port}")[0] == 200
    with fluidnpu.connect(s.server.url("admin")) as admin:
        admin.load()
        with pytest.raises(ProtocolError):
            admin.change_exits({"nobody": 0.5})
    (s.model.folder / "design.json").rename(s.model.folder / "away")
    assert exchange(s, "POST", f"/v2/repository/models/{NAME}/load")[0] == 400
    (s.model.folder / "away").rename(s.model.folder / "design.json")
    lines = [record.message for record in caplog.records if record.name.endswith(".access")]
    assert [line.partition(" by 127.0.0.1")[0] for line in lines] == [
        f"change of the exits of model '{NAME}' to {change.decode()}",
        f"load of model '{NAME}'",
        f'change of the exits of model \'{NAME}\' to {{"thresholds": {{"nobody": 0.5}}, "why": "by hand"}}',
        f"load of model '{NAME}'",
    ]
    assert [" failed: " in line for line in lines] == [False, False, True, True]


def test_schemes_are_read_in_any_case(locked: Served, caplog: pytest.LogCaptureFixture) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert exchange(locked, "GET", "/v2", Authorization=f"{scheme} {TOKEN}")[0] == 200
    for wrong in (TOKEN, f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", "Basic ====", "\xff"):
        assert exchange(locked, "GET", "/v2", Authorization=wrong)[0] == 401
    assert len([record for record in caplog.records if "GET /v2 of 127.0.0.1 was refused" in record.message]) == 6
    assert TOKEN not in caplog.text


def logged_in(s: Served, token: str, path: str = "/login") -> tuple[int, str, dict[str, str]]:
    """What a browser gets that sends the login's form."""
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    status, content, headers = s.exchange("POST", path, f"token={quote_plus(token)}".encode(), **form)
    return status, content.decode(), headers


def test_the_live_page_opens_with_the_token(locked: Served) -> None:
    status, content, headers = locked.exchange("GET", "/")
    assert (status, headers["www-authenticate"]) == (401, "Bearer")  # which opens no window of a browser
    assert b'<input id="token" name="token" type="password"' in content
    assert "form-action 'self'; frame-ancestors 'none'" in headers["content-security-policy"]
    status, _, headers = logged_in(locked, f" {TOKEN} ")
    assert (status, headers["location"]) == (303, "./")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert attributes == ["Path=/", "HttpOnly", "SameSite=Lax"]
    assert TOKEN not in cookie
    status, content, headers = locked.exchange("GET", "/", Cookie=f"other=1; {cookie}")
    assert (status, b"live.json" in content) == (200, True)
    assert locked.exchange("GET", "/live.json", Cookie=cookie)[0] == 200
    for path in ("/v2", "/metrics", "/openapi.json"):  # which a page of others may make a browser ask
        status, _, headers = locked.exchange("GET", path, Cookie=cookie)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
    with pytest.raises(AccessError):
        AccessControl(TOKEN + "x").check("/live.json", b"", cookie.encode())  # of another token
    assert AccessControl(TOKEN).log_in(TOKEN.encode(), secure=True).endswith("; Secure")
    assert AccessControl(None).log_in(b"", secure=True) == ""


def test_a_wrong_token_is_refused_in_one_sentence(locked: Served, caplog: pytest.LogCaptureFixture) -> None:
    for number, wrong in enumerate(("", "x", TOKEN[:-1], TOKEN + "é", "<b>"), 1):
        status, content, headers = logged_in(locked, wrong)
        assert (status, "set-cookie" in headers) == (401, False)
        assert content.count("must be the one in this server's token file".replace("'", "&#x27;")) == 1
        assert "<b>" not in content
        assert len([line for line in caplog.messages if "POST /login of 127.0.0.1 was refused" in line]) == number
    for cookie in ("", "fluidnpu_=", TOKEN, "\xff=\xff;;"):
        assert locked.exchange("GET", "/live.json", Cookie=cookie)[0] == 401
        assert b'name="token"' in locked.exchange("GET", "/", Cookie=cookie)[1]
    assert locked.exchange("GET", "/login")[2]["location"] == "./"
    assert TOKEN not in caplog.text


def test_without_a_token_the_login_goes_on_to_the_page(s: Served) -> None:
    status, _, headers = logged_in(s, "anything")
    assert (status, headers["location"], "set-cookie" in headers) == (303, "./", False)


def test_the_first_line_of_a_file_is_the_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for text in (TOKEN, f"{TOKEN}\n", f"{TOKEN} \r\n# of the lab\n"):
        file.write_text(text)
        assert read_token(file) == TOKEN
    for text in ("", "\n", TOKEN[:15], f"{TOKEN} more", TOKEN + "é"):
        file.write_text(text)
        with pytest.raises(DriverUsageError, match="at least 16 printable characters without spaces"):
            read_token(file)


def test_with_a_token_any_name_will_do(locked: Served) -> None:
    headers: dict[str, Any] = {
        "Authorization": f"Bearer {TOKEN}",
        "Host": "npu.example",
        "Origin": "http://console.example",
    }
    assert exchange(locked, "GET", EXITS, **headers)[0] == 200


def test_an_admin_surface_off_the_loopback_must_have_a_token(tmp_path: Path) -> None:
    models, surfaces = Models({NAME: tmp_path}, ModelOptions()), list[dict[str, Any]]([{"admin": 0}, {"admin_grpc": 0}])
    for surface in surfaces:
        with pytest.raises(DriverUsageError, match="off the loopback must have a token"):
            NetworkServer(models, ServeOptions(host="0.0.0.0", **surface))
    NetworkServer(models, ServeOptions(host="0.0.0.0"))


def test_a_log_reader_that_stalls_stops_nobody() -> None:
    read, write = os.pipe()
    logger = logging.getLogger("fluidnpu")
    with os.fdopen(write, "w") as stream:
        handler = Lossy(stream)
        handler.setFormatter(JsonLines())
        logger.addHandler(handler)
        try:
            for number in range(4000):  # more than a pipe holds
                handler.emit(logging.LogRecord("x", logging.INFO, "", 0, f"line {number}", None, None))
            dropped = handler.dropped
            assert dropped > 100
            assert dropped_lines() == dropped
            os.read(read, 1 << 20)
            handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "here again", None, None))
        finally:
            logger.removeHandler(handler)
    lines = os.read(read, 1 << 20).decode().splitlines()
    os.close(read)
    assert [json.loads(line)["message"] for line in lines[-2:]] == [
        f"{dropped} lines of this log were dropped before this one",
        "here again",
    ]


def test_a_line_that_was_written_in_part_is_ended_before_the_next() -> None:
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        handler = Lossy(stream)
        handler.setFormatter(JsonLines())
        for _ in range(40):  # more than a pipe holds, in lines longer than it is filled by
            handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "long " * 1200, None, None))
        text = os.read(read, 1 << 20)
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "here again", None, None))
        text += os.read(read, 1 << 20)
    os.close(read)
    *_, torn, dropped, last = text.decode().splitlines()
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(torn)
    assert "were dropped" in json.loads(dropped)["message"]
    assert json.loads(last)["message"] == "here again"


def test_a_full_disk_under_the_log_stops_nobody() -> None:
    try:
        stream = Path("/dev/full").open("w")  # noqa: SIM115  -- closing it fails, too
    except OSError:
        pytest.skip("this system has no /dev/full")
    handler = Lossy(stream)
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "line", None, None))
    assert handler.dropped == 1
    stream.close()
