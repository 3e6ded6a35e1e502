"""Fetching a public file from a server on this machine: the right file, whole, or nothing at all."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path

import pytest

from pagesim.sim.errors import TraceError, UsageError
from pagesim.sim.fetch import PublicTrace, cache_folder, fetch, find_public_trace, public_traces

BODY = b"TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n" * 3_000
SHARED = Path(__file__).resolve().parents[3] / "shared" / "traces"


class Answers(BaseHTTPRequestHandler):
    """The file, and the ways in which a server can fail to give it."""

    def do_GET(self) -> None:
        if self.path == "/moved.csv":
            self.send_response(302)
            self.send_header("Location", "/trace.csv")
            self.end_headers()
        elif self.path == "/away.csv":
            self.send_response(302)
            self.send_header("Location", "http://example.invalid/trace.csv")
            self.end_headers()
        elif self.path in ("/trace.csv", "/cut.csv"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY[:100_000] if self.path == "/cut.csv" else BODY)
        elif self.path == "/endless.csv":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(BODY * 2)
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def entry(url: str) -> PublicTrace:
    return PublicTrace("test", "a file", "azure", "CC0-1.0", len(BODY), hashlib.sha256(BODY).hexdigest(), url)


@pytest.mark.parametrize("name", ["trace.csv", "moved.csv"])
def test_the_right_file_arrives_once(tmp_path: Path, address: str, name: str) -> None:
    steps: list[int] = []
    folder = tmp_path / "new" / "folder"
    path, fetched = fetch(entry(f"{address}/{name}"), folder, steps.append)
    assert (path, fetched, sum(steps)) == (folder / "test.csv", True, len(BODY))
    assert path.read_bytes() == BODY
    assert fetch(entry(f"{address}/gone.csv"), folder) == (path, False)  # it is there: nobody is asked


FAILURES = [
    ("nothing.csv", "the server answers 404 Not Found"),
    ("cut.csv", "ended after 100,000 of 228,000 bytes; nothing was kept"),
    ("endless.csv", "did not end after 228,000 bytes; nothing was kept"),
    ("away.csv", "http://example.invalid/trace.csv: accepted: an https address"),
]


@pytest.mark.parametrize(("name", "message"), FAILURES)
def test_failures_are_one_line_and_leave_nothing(tmp_path: Path, address: str, name: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        fetch(entry(f"{address}/{name}"), tmp_path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_another_file_of_the_same_size_is_refused(tmp_path: Path, address: str) -> None:
    wanted = replace(entry(f"{address}/trace.csv"), sha256="0" * 64)
    with pytest.raises(TraceError, match=r"SHA-256 is .*; accepted: 0{64}, the file that was meant"):
        fetch(wanted, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(TraceError, match=r"cannot be reached \(Connection refused\)"):
        fetch(entry(f"http://127.0.0.1:{port}/trace.csv"), tmp_path)


@pytest.mark.parametrize("url", ["http://example.invalid/a.csv", "ftp://127.0.0.1/a.csv", "file:///etc/passwd"])
def test_only_https_is_used(tmp_path: Path, url: str) -> None:
    with pytest.raises(TraceError, match="accepted: an https address"):
        fetch(entry(url), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_the_user_is_not_overwritten(tmp_path: Path, address: str) -> None:
    (tmp_path / "test.csv").write_text("mine")
    with pytest.raises(UsageError, match="is there already and is not test; remove it, or choose another folder"):
        fetch(entry(f"{address}/trace.csv"), tmp_path)
    assert (tmp_path / "test.csv").read_text() == "mine"
    with pytest.raises(UsageError, match="cannot be made"):
        fetch(entry(f"{address}/trace.csv"), tmp_path / "test.csv" / "folder")


def test_the_table_is_package_data_and_sound() -> None:
    assert resources.files("pagesim.sim").joinpath("public_traces.toml").is_file()
    for name, trace in public_traces().items():
        assert trace.url.startswith("https://raw.githubusercontent.com/"), name
        assert any(len(part) == 40 for part in trace.url.split("/")), "an address that can change under our hands"
        assert len(bytes.fromhex(trace.sha256)) == 32
        assert trace.size_bytes > 0


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no public trace is called 'azur'; accepted: azure-2023-code, "):
        find_public_trace("azur")


@pytest.mark.parametrize("name", ["azure-2023-code", "azure-2023-conv", "mooncake-conversation"])
def test_the_hashes_are_those_of_the_real_files(name: str) -> None:
    trace = find_public_trace(name)
    found = list(SHARED.glob(f"*/{trace.url.rsplit('/', 1)[1]}"))
    if not found:
        pytest.skip(f"the public trace {name} is not beside the repository, in ../shared/traces")
    data = found[0].read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (trace.size_bytes, trace.sha256)


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "pagesim" / "traces"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "pagesim" / "traces"
