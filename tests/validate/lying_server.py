"""A small server that speaks vLLM's protocol and keeps no model: honest as it is made, and a liar as a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NUM_BLOCKS, BLOCK_SIZE = 50, 16


@dataclass
class Lies:
    """Each is off by default. `answered`: how many were. What a `*_line` holds is sent in the place of the truth."""

    fewer_tokens: int = 0
    more_counted: int = 0
    longer_prompt: int = 0
    close_in_answer: int | None = None  # of the request with this number
    event_line: bytes | None = None
    error_event: str | None = None
    no_token_ids: bool = False
    refuse: int | None = None  # with this status
    die_after: int | None = None
    hang: bool = False
    metrics_text: str | None = None
    models_text: str | None = None
    without: tuple[str, ...] = ()
    engines: tuple[str, ...] = ("0",)
    running: int = 0
    more_generated: int = 0
    num_blocks: str = str(NUM_BLOCKS)
    answered: int = 0
    generated: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)


class LyingServer(ThreadingHTTPServer):
    daemon_threads = True
    lies: Lies

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a connection that was closed on it


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LyingServer

    def do_GET(self) -> None:
        lies = self.server.lies
        if self.path == "/v1/models":
            honest = json.dumps({"data": [{"id": "m", "max_model_len": 512}]})
            self._whole(200, lies.models_text if lies.models_text is not None else honest)
        else:
            self._whole(200, lies.metrics_text if lies.metrics_text is not None else self._metrics())

    def do_POST(self) -> None:
        lies = self.server.lies
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        lies.bodies.append(body)
        number = lies.answered
        lies.answered += 1
        if lies.die_after is not None and number >= lies.die_after:
            self.server.socket.close()
            threading.Thread(target=self.server.shutdown, daemon=True).start()
            self.close_connection = True
            return
        if lies.hang:
            lies.released.wait()
        if lies.refuse is not None:
            self._whole(lies.refuse, '{"error": {"message": "no room"}}')
            return
        self._stream(body, number)

    def _stream(self, body: dict[str, Any], number: int) -> None:
        lies = self.server.lies
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        count = body["max_tokens"] - lies.fewer_tokens
        for place in range(count):
            if lies.close_in_answer == number and place == 1:
                return
            if lies.event_line is not None:
                self.wfile.write(lies.event_line + b"\n\n")
            if lies.error_event is not None:
                self._event({"error": {"message": lies.error_event}})
                return
            choice = {"index": 0, "text": "a", "token_ids": [place]}
            if lies.no_token_ids:
                del choice["token_ids"]
            self._event({"choices": [choice]})
        lies.generated += count
        prompt = len(body["prompt"]) + lies.longer_prompt
        used = {"prompt_tokens": prompt, "completion_tokens": count + lies.more_counted}
        self._event({"choices": [], "usage": used})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, value: Any) -> None:
        self.wfile.write(b"data: " + json.dumps(value).encode() + b"\n\n")

    def _metrics(self) -> str:
        lies = self.server.lies
        values = {
            "num_requests_running": lies.running, "num_requests_waiting": 0, "kv_cache_usage_perc": 0.0,
            "num_preemptions_total": 0, "prefix_cache_queries_total": 0, "prefix_cache_hits_total": 0,
            "generation_tokens_total": lies.generated + (lies.more_generated if lies.answered else 0),
        }  # fmt: skip
        lines = [
            f'vllm:{k}{{engine="{e}"}} {v}' for e in lies.engines for k, v in values.items() if k not in lies.without
        ]
        if "cache_config_info" not in lies.without:
            labels = f'block_size="{BLOCK_SIZE}",num_gpu_blocks="{lies.num_blocks}",enable_prefix_caching="False"'
            lines.append(f"vllm:cache_config_info{{{labels}}} 1.0")
        return "\n".join(lines) + "\n"

    def _whole(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def lying(**lies: Any) -> Iterator[LyingServer]:
    server = LyingServer(("127.0.0.1", 0), Handler)
    server.lies = Lies(**lies)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.lies.released.set()
        server.shutdown()
        server.server_close()
        thread.join()
