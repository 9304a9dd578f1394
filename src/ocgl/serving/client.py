"""A client of a service, over HTTP."""

import ssl
import time
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec
import numpy as np

from ocgl.errors import ConfigError, ServiceError
from ocgl.types import Json

_JSON = {"content-type": "application/json"}


class RefusedError(ServiceError):
    """A service has refused a request.

    Attributes:
        status: the HTTP status.
        problem: the problem as the service tells it.
    """

    def __init__(self, status: int, problem: Json) -> None:
        self.status, self.problem = status, problem
        line = f" (event {problem['line']})" if problem.get("line") else ""
        super().__init__(f"{problem.get('title', status)}: {problem.get('detail', '')}{line}")


class Client:
    """Sends events to a service and asks it.

    A request that may not have arrived is sent again with the same idempotency key, so nothing is taken twice.

    Args:
        url: address of the service.
        key: API key.
        timeout: seconds to wait for an answer.
        retries: how often a request is repeated when the service is overloaded or not reached.
        ca: file with the certificates that are trusted, for a proxy with a certificate of your own; the usual ones if
            None.
    """

    def __init__(
        self, url: str, key: str | None = None, timeout: float = 60.0, retries: int = 5, ca: str | None = None
    ) -> None:
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        verify: ssl.SSLContext | bool = True if ca is None else ssl.create_default_context(cafile=ca)
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False, verify=verify)
        self._retries = retries

    def send(self, events: Iterable[Json], idempotency_key: str | None = None) -> int:
        """Send events, all or nothing; return the sequence number once they are durable.

        Features may be lists, or numpy arrays, which are sent as packed 32-bit numbers: smaller and faster.
        """
        headers = {"idempotency-key": idempotency_key or uuid.uuid4().hex} | _JSON
        return int(self._call("POST", "/v1/events", content=_json(list(events)), headers=headers)["sequence"])

    def predict(self, ids: Iterable[Any], min_sequence: int = 0) -> list[Any]:
        """Return the class of each node."""
        return [one["label"] for one in self.ask(ids, min_sequence)["predictions"]]

    def ask(self, ids: Iterable[Any], min_sequence: int = 0, scores: bool = False) -> Json:
        """Return the whole answer about nodes."""
        question = {"ids": list(ids), "min_sequence": min_sequence, "scores": scores}
        return self._call("POST", "/v1/predict", content=_json(question), headers=_JSON)

    def ask_new(self, x: Iterable[float], neighbors: Iterable[Any] = (), scores: bool = False) -> Json:
        """Return the answer about a node that is not there."""
        node = {"x": [float(value) for value in x], "neighbors": list(neighbors)}
        return self._call("POST", "/v1/predict", content=_json({"node": node, "scores": scores}), headers=_JSON)

    def node(self, id: Any) -> Json:
        """Return what the service knows of a node."""
        return self._call("GET", f"/v1/nodes/{id}")

    def status(self) -> Json:
        """Return how the service is."""
        return self._call("GET", "/v1/status")

    def state_hash(self) -> tuple[int, str]:
        """Return the last record and the hash of the whole state."""
        found = self._call("GET", "/v1/admin/hash")
        return int(found["sequence"]), str(found["hash"])

    def promote(self, strategy: str) -> None:
        """Let a shadow strategy answer from now on."""
        self._call("POST", "/v1/admin/promote", json={"strategy": strategy})

    def snapshot(self) -> int:
        """Let the service take a snapshot; return its sequence number."""
        return int(self._call("POST", "/v1/admin/snapshot")["sequence"])

    def wait_until_ready(self, seconds: float = 60.0) -> None:
        """Wait until the service takes requests."""
        end = time.monotonic() + seconds
        while True:
            try:
                if self._http.get("/readyz").status_code == 200:
                    return
            except httpx.TransportError:
                pass
            if time.monotonic() > end:
                raise ServiceError(f"the service at {self._http.base_url} is not ready after {seconds:g} seconds")
            time.sleep(0.05)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, **options: Any) -> Json:
        for attempt in range(self._retries + 1):
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                if attempt == self._retries:
                    raise ServiceError(f"{self._http.base_url} cannot be reached: {error!r}") from error
                time.sleep(min(0.1 * 2**attempt, 2))
                continue
            if answer.status_code in (429, 503) and attempt < self._retries:
                time.sleep(min(float(answer.headers.get("retry-after", 1)), 5))
                continue
            break
        try:
            body: Json = answer.json()
        except ValueError as error:
            raise ServiceError(f"{self._http.base_url} gave no JSON, status {answer.status_code}") from error
        if answer.status_code >= 400:
            raise RefusedError(answer.status_code, body if isinstance(body, dict) else {})
        return body


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Return features as bytes, which JSON holds in base64, and numpy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value, "<f4").tobytes()
    if isinstance(value, np.generic):
        return value.item()
    raise ConfigError(f"{value!r} cannot be sent: events hold text, numbers, lists and numpy arrays")
