"""The connection with a Kubernetes API server: jobs run there (`live`), and queues are read there.

Objects are plain JSON, as the server has them, so that nothing of a template or of a newer version is lost.
How a server is found and a user proven is lightkube's part: a kubeconfig file, or the account of a pod.
"""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from volvelle.model.extras import install
from volvelle.model.problems import Problem

Object = dict[str, Any]

_TIMEOUT_SECONDS = 30.0
_WATCH_SECONDS = 300
_SILENCE_SECONDS = 150.0
"""A watch without an event for so long is begun anew: bookmarks come once a minute."""

_FIRST_RETRY_SECONDS, _LAST_RETRY_SECONDS = 0.2, 10.0
_PATCHES = {dict: "application/merge-patch+json", list: "application/json-patch+json"}
_PAGE = "500"


class ApiRefusal(Exception):  # noqa: N818 - an answer, as the server words it
    """An answer that is a failure. code: of HTTP, also where it came as an event of a watch."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class KubernetesApi:
    """An API server. ``namespace``: of the context, or of the pod that this program runs in.

    kubeconfig: a file; empty: KUBECONFIG, ~/.kube/config, or the account of this pod. context: of that file.
    Methods raise `ApiRefusal` and OSError, the constructor `Problem`.
    """

    def __init__(self, kubeconfig: str = "", context: str = "") -> None:
        try:
            import httpx2  # noqa: PLC0415 - an extra, as lightkube
            from lightkube.config.client_adapter import Client, ConnectionParams  # noqa: PLC0415
            from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415
            from lightkube.core.exceptions import ConfigError  # noqa: PLC0415
            from yaml import YAMLError  # noqa: PLC0415 - of lightkube
        except ImportError:
            raise Problem(
                "for a Kubernetes cluster the package lightkube is needed",
                mend=f"install it: {install('kubernetes')}",
                usage=True,
            ) from None
        self._errors = httpx2.HTTPError
        self._silence = httpx2.Timeout(_TIMEOUT_SECONDS, read=_SILENCE_SECONDS)
        where = kubeconfig or "KUBECONFIG, ~/.kube/config or this pod's account"
        try:
            read = KubeConfig.from_file(kubeconfig) if kubeconfig else KubeConfig.from_env()
            config = read.get(context or None)
            if config is None:
                raise ValueError("it has no context")
            parameters = ConnectionParams(timeout=httpx2.Timeout(_TIMEOUT_SECONDS))
            self._client = Client(config, parameters)
        except (ConfigError, OSError, ValueError, YAMLError) as error:
            raise _not_found(where, " ".join(str(error).split())) from None
        except (LookupError, TypeError, AttributeError) as error:
            missing = f" without {error}" if isinstance(error, LookupError) else ""
            raise _not_found(where, f"it is no whole kubeconfig{missing}") from None
        self.namespace: str = config.namespace
        self.url: str = config.cluster.server

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    # ------------------------------------------------------------------ requests

    def get(self, path: str) -> Object:
        """An object."""
        return self._json("GET", path)

    def text(self, path: str) -> bytes:
        """A log."""
        return self._send("GET", path)

    def listed(self, path: str, **query: str) -> tuple[list[Object], str]:
        """The objects at a path, and the version of the list."""
        found: list[Object] = []
        more = {"limit": _PAGE}
        while True:
            answer = self._json("GET", path, query=query | more)
            found += map(_completed, answer.get("items") or ())
            if not (token := answer["metadata"].get("continue")):
                return found, str(answer["metadata"]["resourceVersion"])
            more["continue"] = token

    def create(self, path: str, thing: Object) -> Object:
        """A new object."""
        return self._json("POST", path, content=thing)

    def patch(self, path: str, change: Object | list[Object]) -> Object:
        """An object after a merge patch, which is a mapping, or a JSON patch, which is a list."""
        return self._json("PATCH", path, content=change, content_type=_PATCHES[type(change)])

    def delete(self, path: str, **options: object) -> None:
        """Delete an object; nothing happens where there is none."""
        with contextlib.suppress(_Absent):
            self._send("DELETE", path, content=options)

    def watch(
        self, path: str, version: str, opened: Callable[[Any], None], **query: str
    ) -> Iterator[Object]:
        """The events after a version, bookmarks among them, until the server ends the watch.

        opened: called with the socket, to be shut down by a thread that wants the watch to end.
        """
        asked = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        streaming = self._client.stream("GET", path, params=query | asked, timeout=self._silence)
        with self._translated(), streaming as answer:
            if answer.status_code >= 400:
                answer.read()
                raise _refusal(answer.status_code, answer.content)
            opened(answer.extensions["network_stream"].get_extra_info("socket"))
            for line in answer.iter_lines():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiRefusal(status["code"], status["reason"], status["message"])
                yield event

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (self._errors, ValueError, KeyError) as error:  # the last two of cut answers
            message = str(error) or type(error).__name__
            raise ConnectionError(f"the Kubernetes API at {self.url}: {message}") from error

    def _json(self, method: str, path: str, **asked: Any) -> Object:
        answer = self._send(method, path, **asked)
        with self._translated():
            found: Object = json.loads(answer)
            return found

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = {},
        content: object = None,
        content_type: str = "application/json",
    ) -> bytes:
        body = None if content is None else json.dumps(content).encode()
        headers = {} if body is None else {"Content-Type": content_type}
        with self._translated():
            answer = self._client.request(
                method, path, params=dict(query), content=body, headers=headers
            )
        if answer.status_code >= 400:
            raise _refusal(answer.status_code, answer.content)
        return bytes(answer.content)


class _Absent(ApiRefusal):
    """404."""


def _not_found(where: str, why: str) -> Problem:
    return Problem(
        f"no Kubernetes API server is found by {where}: {why}",
        mend="name a kubeconfig file, and a context of it",
    )


def _refusal(code: int, content: bytes) -> ApiRefusal:
    try:
        status = json.loads(content)
        reason, message = str(status.get("reason", "")), str(status.get("message", ""))
    except (ValueError, AttributeError):
        reason, message = "", content[:200].decode(errors="replace")
    return (_Absent if code == 404 else ApiRefusal)(code, reason, message or f"HTTP {code}")


_RIGHTS = "give the account this right (docs/how-to/run-on-kubernetes.md has the manifest)"


def as_problem(error: ApiRefusal | OSError, what: str, *, rights: str = _RIGHTS) -> Problem:
    """Problem of an error for an operator; ``what`` was asked, such as "list nodes".

    rights: the mend where the account may not.
    """
    match error:
        case ApiRefusal(code=401):
            mend = "give a token that is valid: the context's user, or the pod's account"
        case ApiRefusal(code=403):
            mend = rights
        case ApiRefusal():
            mend = ""
        case _:
            mend = "start the API server, or name another with kubeconfig and context"
    return Problem(f"cannot {what}: {error}", mend=mend)


@contextlib.contextmanager
def mistakes(what: str) -> Iterator[None]:
    """Errors of the API as a `Problem` (`as_problem`), whose cause they are."""
    try:
        yield
    except (ApiRefusal, OSError) as error:
        raise as_problem(error, what) from error


class Watched:
    """The objects at ``path`` by namespace and name, kept up to date by a thread until `close`.

    changed: called after every change. gone: called with an object that was deleted, and whether that is its
    last state: in a gap it may have changed before. Both from that thread. labels: a selector. ``problem``:
    why it is not up to date; empty: it is.
    """

    def __init__(
        self,
        api: KubernetesApi,
        path: str,
        changed: Callable[[], None] = lambda: None,
        gone: Callable[[Object, bool], None] = lambda thing, last: None,
        labels: str = "",
    ) -> None:
        self._api, self._path = api, path
        self._query = {"labelSelector": labels} if labels else {}
        self._changed, self._gone = changed, gone
        self.problem = ""
        self._objects: dict[tuple[str, str], Object] = {}
        self._version = ""
        self._closing = threading.Event()
        self._socket: Any = None
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Read all objects, and watch from now on. Raises `ApiRefusal`, OSError."""
        self._read()
        threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True).start()

    def close(self) -> None:
        """End the watch."""
        self._closing.set()
        with contextlib.suppress(OSError, AttributeError):  # none is open
            self._socket.shutdown(socket.SHUT_RDWR)

    @property
    def objects(self) -> dict[tuple[str, str], Object]:
        """All objects by namespace and name. They are not to be changed."""
        with self._lock:
            return dict(self._objects)

    def named(self, name: str, namespace: str = "") -> Object | None:
        """An object by its name."""
        return self._objects.get((namespace, name))

    def _read(self) -> None:
        found, version = self._api.listed(self._path, **self._query)
        objects = {_name_of(each): each for each in found}
        with self._lock:
            before, self._objects, self._version = self._objects, objects, version
        for name, last in before.items():
            now = objects.get(name)
            if now is None or now["metadata"]["uid"] != last["metadata"]["uid"]:
                self._gone(last, False)
        self.problem = ""
        self._changed()

    def _run(self) -> None:
        retry = _FIRST_RETRY_SECONDS
        while not self._closing.is_set():
            try:
                if not self._version:
                    self._read()
                self._follow()
                retry = _FIRST_RETRY_SECONDS
            except ApiRefusal as error:
                self._version = ""
                if error.code == 410:  # what happened meanwhile is not told any more
                    continue
                self.problem = str(error)
            except OSError as error:
                self.problem = str(error)
            except Exception as error:  # an object that is none: all are read again
                self._version = ""
                self.problem = f"{self._path} cannot be read: {type(error).__name__}: {error}"
            else:
                continue
            self._closing.wait(retry)
            retry = min(2 * retry, _LAST_RETRY_SECONDS)

    def _follow(self) -> None:
        for event in self._api.watch(self._path, self._version, self._opened, **self._query):
            if self._closing.is_set():
                return
            thing, self.problem = _completed(event["object"]), ""
            if event["type"] != "BOOKMARK":
                with self._lock:
                    if event["type"] == "DELETED":
                        self._objects.pop(_name_of(thing), None)
                    else:
                        self._objects[_name_of(thing)] = thing
                if event["type"] == "DELETED":
                    self._gone(thing, True)
                self._changed()
            self._version = thing["metadata"]["resourceVersion"]

    def _opened(self, connection: Any) -> None:
        self._socket = connection
        self.problem = ""


def _completed(thing: Object) -> Object:
    """An object with a spec and a status, which it may lack when it is new."""
    for part in ("spec", "status"):
        thing.setdefault(part, {})
    return thing


def _name_of(thing: Object) -> tuple[str, str]:
    return thing["metadata"].get("namespace", ""), thing["metadata"]["name"]
