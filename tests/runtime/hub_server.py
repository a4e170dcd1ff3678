"""A stand-in for the Hugging Face Hub: repositories in memory, the calls that its client makes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_ours"
"""Writes; anybody reads."""


class Hub:
    """Repositories by name; each is a list of commits, which map paths to contents."""

    def __init__(self) -> None:
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.messages: list[str] = []
        self.url = ""
        self.sent: list[str] = []
        """Paths of files whose content was asked for."""

    def files(self, name: str) -> dict[str, bytes]:
        """Return what the repository's newest commit holds."""
        return self.repositories[name][-1]


@contextlib.contextmanager
def served() -> Iterator[Hub]:
    """Give a hub that answers at its ``url``."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()


def asked(hub: Hub, folder: Path, monkeypatch: Any) -> None:
    """Have the client ask ``hub``, here and in processes that begin now; its caches are below
    ``folder``.
    """
    from huggingface_hub import constants

    template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    for name, value in {"ENDPOINT": hub.url, "HOME": str(folder), "TOKEN": TOKEN}.items():
        monkeypatch.setenv(f"HF_{name}", value)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def _sha(count: int) -> str:
    return hashlib.sha1(str(count).encode()).hexdigest()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self, status: int, body: object = None, **headers: str) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def missing(self, code: str) -> None:
            self.answer(404, {"error": code}, X_Error_Code=code, X_Error_Message=code)

        def commit_of(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
            commits = hub.repositories[name]
            found = {"main": len(commits) - 1} | {_sha(i): i for i in range(len(commits))}
            return (_sha(found[revision]), commits[found[revision]]) if revision in found else None

        def do_GET(self) -> None:
            path = unquote(urlsplit(self.path).path)
            api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?", path)
            file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
            name = (api or file)[1] if api or file else ""
            if name not in hub.repositories:
                return self.missing("RepoNotFound")
            found = self.commit_of(name, (api[3] or "main") if api else file[2])
            if found is None:
                return self.missing("RevisionNotFound")
            sha, files = found
            if file:
                return self.content(sha, files, file[3])
            if api[2] == "tree":
                return self.answer(200, [_entry(p, c) for p, c in files.items()])
            listed = [{"rfilename": p} for p in files]
            return self.answer(200, {"id": name, "sha": sha, "siblings": listed})

        do_HEAD = do_GET

        def content(self, sha: str, files: dict[str, bytes], path: str) -> None:
            if path not in files:
                return self.missing("EntryNotFound")
            if self.command == "GET":
                hub.sent.append(path)
            etag = f'"{hashlib.sha1(files[path]).hexdigest()}"'
            return self.answer(200, files[path], ETag=etag, X_Repo_Commit=sha)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/api/validate-yaml":
                return self.answer(200, {"warnings": [], "errors": []})
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.answer(401, {"error": "Invalid credentials"})
            if self.path == "/api/repos/create":
                asked = json.loads(body)
                name = f"{asked.get('organization', 'me')}/{asked['name']}"
                hub.repositories.setdefault(name, [{".gitattributes": b""}])
                return self.answer(200, {"url": f"{hub.url}/{name}", "name": name})
            found = re.fullmatch(r"/api/models/([^/]+/[^/]+)/(preupload|commit)/main", self.path)
            if found is None:
                return self.answer(404, {"error": self.path})
            return self.preupload(body) if found[2] == "preupload" else self.commit(found[1], body)

        def preupload(self, body: bytes) -> None:
            files = [file["path"] for file in json.loads(body)["files"]]
            mode = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
            self.answer(200, {"files": [{"path": path, **mode} for path in files]})

        def commit(self, name: str, body: bytes) -> None:
            files = dict(hub.files(name))
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "header":
                    hub.messages.append(value["summary"])
                elif line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                else:
                    del files[value["path"]]
            hub.repositories[name].append(files)
            sha = _sha(len(hub.repositories[name]) - 1)
            url = f"{hub.url}/{name}/commit/{sha}"
            self.answer(200, {"commitUrl": url, "commitOid": sha, "success": True})

    return Handler


def _entry(path: str, content: bytes) -> dict[str, object]:
    oid = hashlib.sha1(content).hexdigest()
    return {"type": "file", "path": path, "size": len(content), "oid": oid}
