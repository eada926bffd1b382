"""A Kubernetes API server over HTTP in this process, which behaves as a real one of version 1.36 was seen to.

It is generic: controllers and nodes are clients of its store like any other (`kubernetes_cluster`).
"""

import base64
import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

import yaml
from api_objects import ApiError, Kind, Object, json_patched, matcher, merged
from object_store import Event, ObjectStore

_READS = ("get", "list", "watch")


@dataclass(frozen=True)
class Rule:
    """Verbs that a user may do on resources such as ``pods``, ``pods/log``. namespace: one, or of all."""

    verbs: tuple[str, ...]
    resources: tuple[str, ...] = ("*",)
    namespace: str = ""

    def allows(self, verb: str, resource: str, namespace: str) -> bool:
        """Whether a request is allowed by it."""
        return (
            ("*" in self.verbs or verb in self.verbs)
            and ("*" in self.resources or resource in self.resources)
            and self.namespace in ("", namespace)
        )


ALL = Rule(("*",))
READ_ONLY = Rule(_READS)


@dataclass(frozen=True)
class User:
    """A user, known by a bearer token."""

    name: str
    rules: tuple[Rule, ...] = (ALL,)


class Request(NamedTuple):
    """A request that was understood."""

    verb: str
    kind: Kind
    version: str
    namespace: str
    name: str
    subresource: str
    query: Mapping[str, str]


Fault = Callable[[Request], ApiError | float | None]
"""What goes wrong with a request: an error, a delay in seconds, or a connection that breaks before the
request is carried out (-1) or after that, without an answer (-2)."""


@dataclass
class FakeApiServer:
    """Serves ``store`` at ``url``. users: by token; none: everybody may do everything.

    bookmark_seconds: between the bookmarks of a watch. logs: the output of a pod's container.
    """

    store: ObjectStore = field(default_factory=ObjectStore)
    users: dict[str, User] = field(default_factory=dict)
    bookmark_seconds: float = 60.0
    logs: Callable[[str, str], bytes] = lambda namespace, name: b""
    fault: Fault = lambda request: None
    requests: list[Request] = field(default_factory=list)
    _closing: threading.Event = field(default_factory=threading.Event)
    _connections: set[socket.socket] = field(default_factory=set)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"api": self})

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._http = Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self.break_connections()

    def break_connections(self) -> None:
        """End all connections, watches among them, as a server that is restarted does."""
        for each in list(self._connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        with self.store.changed:
            self.store.changed.notify_all()

    def kubeconfig(self, folder: Path, *, token: str = "", namespace: str = "default") -> Path:
        """A file with which clients find this server."""
        user: Object = {"token": token} if token else {}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "fake",
            "contexts": [
                {
                    "name": "fake",
                    "context": {"cluster": "fake", "user": "fake", "namespace": namespace},
                }
            ],
            "clusters": [{"name": "fake", "cluster": {"server": self.url}}],
            "users": [{"name": "fake", "user": user}],
        }
        file = folder / f"kubeconfig-{token or 'all'}"
        file.write_text(yaml.safe_dump(content))
        return file

    # ------------------------------------------------------------------ requests

    def understand(self, method: str, path: str, query: Mapping[str, str]) -> Request:
        """The request behind a path. Raises `ApiError`: 404."""
        parts = path.strip("/").split("/")
        core = parts[0] == "api"
        group, version, rest = (
            ("", parts[1], parts[2:]) if core else (parts[1], parts[2], parts[3:])
        )
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        kind = next(
            (
                each
                for each in self.store.kinds
                if (each.group, each.plural) == (group, plural) and version in each.versions
            ),
            None,
        )
        if kind is None:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        verbs = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
        verb = verbs.get(method, "get" if name else "list")
        if query.get("watch") in ("1", "true"):
            verb = "watch"
        return Request(verb, kind, version, namespace, name, subresource, query)

    def authorize(self, request: Request, authorization: str) -> None:
        """Raise `ApiError`: 401 or 403."""
        if not self.users:
            return
        user = self.users.get(authorization.removeprefix("Bearer "))
        if user is None:
            raise ApiError(401, "Unauthorized", "Unauthorized")
        kind, namespace = request.kind, request.namespace
        resource = kind.plural + (f"/{request.subresource}" if request.subresource else "")
        if any(rule.allows(request.verb, resource, namespace) for rule in user.rules):
            return
        name = f' "{request.name}"' if request.name else ""
        where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
        raise ApiError(
            403,
            "Forbidden",
            f'{kind.resource}{name} is forbidden: User "{user.name}" cannot {request.verb} resource '
            f'"{resource}" in API group "{kind.group}" {where}',
            {"name": request.name, "group": kind.group, "kind": kind.plural},
        )

    def answer(self, request: Request, content_type: str, body: Any) -> tuple[int, Object]:
        """The answer to all but a watch. Raises `ApiError`."""
        kind, namespace, name = request.kind, request.namespace, request.name
        manager = request.query.get("fieldManager", "unknown")
        match request.verb, request.subresource:
            case "list", _:
                return 200, self._list(request)
            case "get", _:
                return 200, _served(request, self.store.get(kind, namespace, name))
            case "create", "":
                metadata = body.setdefault("metadata", {})
                if kind.namespaced:
                    metadata["namespace"] = namespace
                return 201, self.store.create(kind, body, manager)
            case "create", "binding":
                bind = self.store.update
                node = body["target"]["name"]
                bind(kind, lambda pod: merged(pod, {"spec": {"nodeName": node}}), namespace, name)
                return 201, _success()
            case "create", "eviction":
                self.store.delete(kind, namespace, name, body.get("deleteOptions"))
                return 201, _success()
            case "delete", _:
                return 200, self.store.delete(kind, namespace, name, body)
            case "update" | "patch", ("" | "status") as part:
                return 200, self._change(request, content_type, body, manager, status=bool(part))
        raise ApiError(405, "MethodNotAllowed", "the server does not allow this method")

    def _change(
        self, request: Request, content_type: str, body: Any, manager: str, *, status: bool
    ) -> Object:
        kind, namespace, name = request.kind, request.namespace, request.name

        def change(by: Callable[[Object], Object]) -> Object:
            return self.store.update(kind, by, namespace, name, manager=manager, status=status)

        if request.verb == "update":
            return change(lambda thing: body)
        match content_type:
            case "application/json-patch+json":
                return change(lambda thing: json_patched(thing, body))
            case "application/merge-patch+json":
                return change(lambda thing: merged(thing, body))
            case "application/apply-patch+yaml":
                if "fieldManager" not in request.query:
                    raise ApiError(
                        400,
                        "BadRequest",
                        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: '
                        "Required value: is required for apply patch",
                    )
                force = request.query.get("force") == "true"
                return self.store.apply(kind, body, namespace, name, manager, force=force)
        raise ApiError(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )

    def _list(self, request: Request) -> Object:
        query, kind = request.query, request.kind
        matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        with self.store.changed:
            found = self.store.listed(kind.plural, request.namespace)
            version = self.store.version
        found = [each for each in found if matches(each)]
        metadata: Object = {"resourceVersion": str(version)}
        if token := query.get("continue"):
            then, first = json.loads(base64.b64decode(token))
            if then < self.store.compacted:
                raise _expired(then, self.store.compacted)
            metadata["resourceVersion"] = str(then)
        else:
            then, first = version, 0
        if (limit := int(query.get("limit", 0))) and len(found) > first + limit:
            token = base64.b64encode(json.dumps([then, first + limit]).encode()).decode()
            metadata |= {"continue": token, "remainingItemCount": len(found) - first - limit}
        items = found[first : first + limit] if limit else found[first:]
        if kind.builtin:  # what all of them have is not repeated
            for each in items:
                del each["kind"], each["apiVersion"]
        else:
            items = [_served(request, each) for each in items]
        listed: Object = {"kind": f"{kind.kind}List", "metadata": metadata, "items": items}
        return _served(request, listed)

    # ------------------------------------------------------------------ watches

    def watch(self, request: Request) -> Iterator[Object | None]:
        """The events of a watch; None while there are none."""
        query, store = request.query, self.store
        matches = matcher(query.get("labelSelector", ""), query.get("fieldSelector", ""))
        end = time.monotonic() + float(query.get("timeoutSeconds", 3600))
        bookmark_at = time.monotonic() + self.bookmark_seconds
        last = int(query.get("resourceVersion") or 0)
        with store.changed:
            if last == 0:  # all that is there comes first
                last = store.version
                pending = [
                    _event("ADDED", _served(request, each))
                    for each in store.listed(request.kind.plural, request.namespace)
                    if matches(each)
                ]
            else:
                pending = []
        yield from pending
        while not self._closing.is_set() and time.monotonic() < end:
            with store.changed:
                if last < store.compacted:
                    yield _event("ERROR", _expired(last, store.compacted).status)
                    return
                new = store.events_since(last)
                if not new:
                    store.changed.wait(min(0.2, self.bookmark_seconds))
                    new = store.events_since(last)
                last = max(last, store.version if last >= store.compacted else last)
            for event in new:
                if (seen := _seen(event, request, matches)) is not None:
                    yield seen
            if time.monotonic() >= bookmark_at and query.get("allowWatchBookmarks") == "true":
                bookmark_at = time.monotonic() + self.bookmark_seconds
                mark = {"kind": request.kind.kind, "metadata": {"resourceVersion": str(last)}}
                yield _event("BOOKMARK", _served(request, mark))
            if not new:
                yield None

    def discovery(self, path: str) -> Object:
        """The kinds of a group, or what versions there are. Raises `ApiError`: 404."""
        if path == "/version":
            return {"major": "1", "minor": "36", "gitVersion": "v1.36.0-fake"}
        parts = path.strip("/").split("/")
        if path == "/apis":
            groups = {kind.group: kind.versions for kind in self.store.kinds if kind.group}
            listed = [
                {
                    "name": group,
                    "versions": [{"groupVersion": f"{group}/{v}", "version": v} for v in versions],
                    "preferredVersion": {
                        "groupVersion": f"{group}/{versions[0]}",
                        "version": versions[0],
                    },
                }
                for group, versions in groups.items()
            ]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        found = [
            {"name": kind.plural, "kind": kind.kind, "namespaced": kind.namespaced}
            for kind in self.store.kinds
            if kind.group == group and version in kind.versions
        ]
        if not found:
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        group_version = f"{group}/{version}" if group else version
        return {"kind": "APIResourceList", "groupVersion": group_version, "resources": found}


def _success() -> Object:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _event(type: str, thing: Object) -> Object:
    return {"type": type, "object": thing}


def _expired(version: int, oldest: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


def _seen(event: Event, request: Request, matches: Callable[[Object], bool]) -> Object | None:
    """An event as a watch with selectors sees it: what it selects no more is deleted for it."""
    namespace = event.object["metadata"].get("namespace", "")
    if event.kind is not request.kind or request.namespace not in ("", namespace):
        return None
    now = matches(event.object) and event.type != "DELETED"
    before = event.before is not None and matches(event.before)
    if not now and not before:
        return None
    type = "MODIFIED" if now and before else "ADDED" if now else "DELETED"
    return _event(type, _served(request, event.object))


def _served(request: Request, thing: Object) -> Object:
    """An object in the version that was asked for; fields are not converted."""
    group = f"{request.kind.group}/" if request.kind.group else ""
    return thing | {"apiVersion": f"{group}{request.version}"}


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    api: FakeApiServer

    def setup(self) -> None:
        """A client has come."""
        super().setup()
        self.api._connections.add(self.connection)

    def handle(self) -> None:
        """Serve it until one of the two breaks the connection."""
        with contextlib.suppress(ConnectionError):
            super().handle()

    def finish(self) -> None:
        """It has gone."""
        self.api._connections.discard(self.connection)
        with contextlib.suppress(OSError):  # it may have gone while something was written
            super().finish()

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""

    def _handle(self) -> None:
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length) if length else b""
        try:
            if url.path in ("/version", "/apis") or (
                url.path.count("/") < 4 and _is_group(url.path)
            ):
                self._send(200, self.api.discovery(url.path))
                return
            request = self.api.understand(self.command, url.path, query)
            self.api.requests.append(request)
            fault = self.api.fault(request)
            if isinstance(fault, ApiError):
                raise fault
            if fault == -1.0:
                self._break()
                return
            time.sleep(max(fault or 0.0, 0.0))
            self.api.authorize(request, self.headers.get("Authorization") or "")
            if request.verb == "watch":
                self._stream(request)
            elif request.subresource == "log":
                self.api.store.get(request.kind, request.namespace, request.name)
                content = self.api.logs(request.namespace, request.name)
                if "limitBytes" in query:
                    content = content[: int(query["limitBytes"])]
                self._send_bytes(200, "text/plain", content)
            else:
                content_type = (self.headers.get("Content-Type") or "").partition(";")[0]
                body = _parsed(content_type, raw) if raw else {}
                answer = self.api.answer(request, content_type, body)
                if fault == -2.0:
                    self._break()
                    return
                self._send(*answer)
        except ApiError as error:
            self._send(error.code, error.status)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - as the library calls them

    def _break(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _send(self, code: int, thing: Object) -> None:
        self._send_bytes(code, "application/json", json.dumps(thing).encode())

    def _send_bytes(self, code: int, content_type: str, content: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, request: Request) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        for event in self.api.watch(request):
            if event is None:
                if select.select([self.connection], [], [], 0)[0]:
                    self.close_connection = True
                    return  # the client has gone
            else:
                line = json.dumps(event).encode() + b"\n"
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")


def _is_group(path: str) -> bool:
    parts = path.strip("/").split("/")
    return len(parts) == (2 if parts[0] == "api" else 3)


def _parsed(content_type: str, raw: bytes) -> Any:
    try:
        return yaml.safe_load(raw) if "yaml" in content_type else json.loads(raw)
    except ValueError:
        raise ApiError(400, "BadRequest", "the object provided is unrecognized") from None
