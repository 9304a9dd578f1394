"""Checks that every running service must pass, run by `ocgl check --service URL`.

A check gets a `Visit`: a client, and ids that nobody else has. It sees the service from outside only, over HTTP. It
adds nodes and removes them again; labels are sent only where the service may be taught.
"""

import json
import math
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from ocgl.errors import ConfigError
from ocgl.serving.client import Client, RefusedError
from ocgl.testing.strategies import require
from ocgl.types import Json

Check = Callable[["Visit"], None]
PROBLEM = "application/problem+json"


class SkippedCheck(Exception):
    """A check does not apply to this visit."""


class Visit:
    """A client at a running service, which it leaves as it was.

    Args:
        url: address of the service.
        key: an API key with scope admin, if the service has keys.
        teach: whether labels may be sent: what is learned from them stays.
    """

    def __init__(self, url: str, key: str | None = None, teach: bool = False) -> None:
        self.url, self.key, self.teach = url.rstrip("/"), key, teach
        self.client = Client(self.url, key)
        self.http = httpx.Client(base_url=self.url, timeout=60, trust_env=False)
        if key is not None:
            self.http.headers["authorization"] = f"Bearer {key}"
        status = self.client.status()
        if status["ids"] is None and not teach:
            self.client.close()
            self.http.close()
            raise ConfigError(
                "the service is new: the first node would set its kind of ids; give --teach to allow that"
            )
        self.width: int = status["features"]
        self.integers = status["ids"] == "integer"
        self.limits: Json = status["limits"]
        self._run, self._count = secrets.token_hex(6), 0
        self._made: set[Any] = set()

    def id(self) -> Any:
        """Return an id that no node has."""
        self._count += 1
        if self.integers:
            return (1 << 62) + int(self._run, 16) * 4096 + self._count
        return f"check-{self._run}-{self._count}"

    def node(self, *neighbors: Any, x: float = 1.0, id: Any = None) -> Json:
        """Return the event of a node; its features are `x`, 0, 0, ..."""
        wanted = self.id() if id is None else id
        return {
            "type": "node",
            "id": wanted,
            "x": [x, *[0.0] * (self.width - 1)],
            "neighbors": list(neighbors),
        }

    def send(self, *events: Json, key: str | None = None) -> int:
        """Send events; nodes that they add are removed at the end."""
        sequence = self.client.send(events, key)
        self._made |= {event["id"] for event in events if event["type"] == "node"}
        self._made -= {event["id"] for event in events if event["type"] == "remove"}
        return sequence

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        """Send a body as it is, or as JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(path, content=content, headers={"content-type": "application/json"} | headers)

    def is_there(self, id: Any) -> bool:
        """Return whether the service has a node."""
        return self.http.get(f"/v1/nodes/{id}").status_code == 200

    def leave(self) -> None:
        """Remove the nodes that were added."""
        for id in sorted(self._made):
            if self.is_there(id):
                self.client.send([{"type": "remove", "id": id}])
        self._made.clear()
        self.client.close()
        self.http.close()


def is_healthy_and_says_what_it_is(visit: Visit) -> None:
    """Check health, readiness, status, metrics and the description of the API."""
    for path in ("/healthz", "/readyz"):
        require(visit.http.get(path).status_code == 200, f"{path} is not 200")
    status = visit.client.status()
    missing = {"sequence", "weights_sequence", "strategy", "nodes", "edges", "accuracy", "waiting_labels"} - set(status)
    require(not missing, f"the status lacks {', '.join(sorted(missing))}")
    require(status["weights_sequence"] <= status["sequence"], "the weights are ahead of the graph")
    paths = set(visit.http.get("/openapi.json").json()["paths"])
    require({"/v1/events", "/v1/predict", "/v1/status"} <= paths, "the description of the API lacks a path")
    names = {line.split("{")[0].split(" ")[0] for line in visit.http.get("/metrics").text.splitlines()}
    require({"ocgl_nodes", "ocgl_ready", "ocgl_records_total"} <= names, "the metrics lack a figure")


def answers_at_any_time_within_its_bound(visit: Visit) -> None:
    """Check that nodes can be asked about as soon as they are acknowledged, at a cost within the declared bound."""
    first = visit.node()
    others = [visit.node(first["id"]) for _ in range(40)]
    sequence = visit.send(first, *others)
    ids = [first["id"], *(other["id"] for other in others[:5])]
    answer = visit.client.ask([*ids, ids[0]], sequence, scores=True)
    require([one["id"] for one in answer["predictions"]] == [*ids, ids[0]], "answers are not in the order of the ids")
    require(answer["sequence"] >= sequence, "an answer with min_sequence rests on an older graph")
    require(answer["weights_sequence"] >= sequence, "an answer with min_sequence rests on older weights")
    bound = answer["bound"]
    over = [what for what, value in answer["cost"].items() if bound is not None and value > bound[what]]
    require(not over, f"the counted {', '.join(over)} of an answer are above the declared bound")
    same = [one for one in answer["predictions"] if one["id"] == ids[0]]
    require(same[0] == same[1], "a node that is asked about twice gets two answers")
    facts = visit.client.node(first["id"])
    require(facts["degree"] == 40, f"a node with 40 edges has degree {facts['degree']}")
    require(_is_number(visit.client.ask(ids)["weights_seconds"]), "an answer does not say how old its weights are")


def answers_about_a_node_that_is_not_there(visit: Visit) -> None:
    """Check questions about new nodes, which are not added, and about unknown ones."""
    known = visit.node()
    visit.send(known)
    before = visit.client.status()["arrived"]
    question = {"node": {"x": known["x"], "neighbors": [known["id"]]}}
    answer = visit.post("/v1/predict", question)
    require(answer.status_code == 200 and len(answer.json()["predictions"]) == 1, "a new node cannot be asked about")
    unknown = visit.post("/v1/predict", {"ids": [visit.id()]})
    require(unknown.status_code == 404, f"a node that is not there is answered with {unknown.status_code}, not 404")
    require(visit.client.status()["arrived"] >= before, "a node is lost")


def refuses_wrong_requests_as_a_whole(visit: Visit) -> None:
    """Check that one wrong event is named by its line, and that nothing of its request is applied."""
    there = visit.node()
    visit.send(there)
    wrong: dict[str, Json] = {
        "an unknown neighbour": visit.node(visit.id()),
        "a node that is there": there,
        "too few features": visit.node() | {"x": [1.0] * (visit.width + 1)},
        "an edge to itself": {"type": "edge", "source": there["id"], "target": there["id"]},
        "the label of nobody": {"type": "label", "id": visit.id(), "label": "x"},
        "an unknown type": {"type": "explode"},
        "an unknown field": visit.node() | {"y": 1},
    }
    for what, event in wrong.items():
        good = visit.node()
        answer = visit.post("/v1/events", [good, event])
        require(answer.status_code == 422, f"{what} is answered with {answer.status_code}, not 422")
        require(answer.headers["content-type"] == PROBLEM, f"{what} is not answered as problem+json")
        require(not visit.is_there(good["id"]), f"{what}: the event before it was applied")
    lines = "\n".join(json.dumps(event) for event in (visit.node(), wrong["too few features"])).encode()
    answer = visit.post("/v1/events", lines, **{"content-type": "application/x-ndjson"})
    require(answer.status_code == 422 and answer.json().get("line") == 2, "the line of a wrong event is not named")


def takes_a_repeated_request_once(visit: Visit) -> None:
    """Check idempotency keys: repeated, at the same time, and used for another request."""
    key, event = secrets.token_hex(8), visit.node()
    first = visit.send(event, key=key)
    require(visit.client.send([event], key) == first, "a repeated request gets another answer")
    try:
        visit.client.send([visit.node()], key)
    except RefusedError as error:
        require(error.status == 422, f"a key for another request is answered with {error.status}, not 422")
    else:
        require(False, "a key is taken for another request")
    key, event = secrets.token_hex(8), visit.node()
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: visit.send(event, key=key), range(16)))
    require(len(found) == 1, "requests with one key at the same time get several answers")


def follows_a_changing_graph(visit: Visit) -> None:
    """Check later edges, new features, removals, and an id that returns."""
    a, b = visit.node(), visit.node()
    ends = {"source": a["id"], "target": b["id"]}
    visit.send(a, b)
    for kind, degree in (("edge", 1), ("edge", 1), ("remove_edge", 0)):
        visit.send({"type": kind, **ends})
        found = visit.client.node(a["id"])["degree"]
        require(found == degree, f"after {kind} a node has degree {found}, not {degree}")
    answer = visit.post("/v1/events", [{"type": "remove_edge", **ends}])
    require(answer.status_code == 422, "an edge that is not there can be removed")
    visit.send({"type": "update", "id": b["id"], "x": [0.5] * visit.width}, {"type": "edge", **ends})
    visit.send({"type": "remove", "id": b["id"]})
    require(not visit.is_there(b["id"]), "a removed node is still there")
    answer = visit.post("/v1/predict", {"ids": [b["id"]]})
    require(answer.status_code == 404, "a removed node can be asked about")
    require(visit.client.node(a["id"])["degree"] == 0, "a removed node is still a neighbour")
    visit.send(visit.node(id=b["id"]))
    require(visit.client.node(b["id"])["degree"] == 0, "a node that returns has the edges of the old one")


def questions_change_nothing(visit: Visit) -> None:
    """Check that the hash of the state is the same after questions; where others write meanwhile, try again."""
    node = visit.node()
    visit.send(node)
    visit.client.ask([node["id"]], visit.client.status()["sequence"])
    for _ in range(20):
        before = visit.client.state_hash()
        visit.client.ask([node["id"]], scores=True)
        visit.post("/v1/predict", {"node": {"x": node["x"], "neighbors": [node["id"]]}})
        visit.client.node(node["id"])
        visit.client.status()
        after = visit.client.state_hash()
        if before[0] == after[0]:
            require(before[1] == after[1], "a question has changed the state")
            return
    require(False, "the sequence number rises with every question, or the service is never at rest")


def bounds_what_it_takes(visit: Visit) -> None:
    """Check that large, malformed and nested bodies are refused with a status of their own."""
    answer = visit.post("/v1/events", [{"type": "learn"}] * (visit.limits["events"] + 1))
    require(answer.status_code in (413, 422), f"too many events are answered with {answer.status_code}")
    answer = visit.post("/v1/events", b" " * (visit.limits["bytes"] + 1))
    require(answer.status_code == 413, f"too many bytes are answered with {answer.status_code}, not 413")
    for body in (b"", b"[", b"\xff", b"[" * 50_000, b"null", b"{}"):
        for path in ("/v1/events", "/v1/predict"):
            answer = visit.post(path, body)
            require(answer.status_code == 422, f"{path}: {body[:9]!r} is answered with {answer.status_code}, not 422")
    answer = visit.post("/v1/events", [], **{"content-type": "text/plain"})
    require(answer.status_code == 415, f"another content type is answered with {answer.status_code}, not 415")
    require(visit.http.get("/readyz").status_code == 200, "the service is not ready after wrong requests")


def needs_a_key_where_it_has_keys(visit: Visit) -> None:
    """Check that without a key nothing but the health can be asked, if this visit has one."""
    if visit.key is None:
        raise SkippedCheck("no key was given")
    for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": visit.key[:-1]}):
        with httpx.Client(base_url=visit.url, headers=headers, timeout=60, trust_env=False) as stranger:
            for path in ("/v1/status", "/metrics", "/openapi.json", "/v1/nodes/1", "/v1/stream"):
                found = stranger.get(path).status_code
                require(found == 401, f"{path} without a valid key is answered with {found}, not 401")
            found = stranger.post("/v1/events", json=[]).status_code
            require(found == 401, f"events without a valid key are answered with {found}, not 401")
            require(stranger.get("/healthz").status_code == 200, "the health needs a key")


def learns_from_labels(visit: Visit) -> None:
    """Check that labels are learned and scored, if the service may be taught."""
    if not visit.teach:
        raise SkippedCheck("--teach was not given")
    status = visit.client.status()
    names: tuple[Any, Any] = (0, 1) if status["labels"] == "integer" else ("check-a", "check-b")
    nodes = [visit.node(x=5.0 if i % 2 else -5.0) for i in range(60)]
    labels = [{"type": "label", "id": node["id"], "label": names[i % 2]} for i, node in enumerate(nodes)]
    scored = {name: one["scored"] for name, one in status["accuracy"].items()}
    for begin in range(0, 60, 10):
        visit.send(*nodes[begin : begin + 10])
        sequence = visit.send(*labels[begin : begin + 10], {"type": "learn"})
    after = visit.client.status()
    require(after["batches"] > status["batches"], "nothing was learned")
    for name, one in after["accuracy"].items():
        require(one["scored"] >= scored[name] + 60, f"{name}: not every answer at arrival was scored")
    found = visit.client.ask([node["id"] for node in nodes[-10:]], sequence)
    known = {one["label"] for one in found["predictions"]}
    require(None not in known, "after labels were learned, an answer has no class")
    node = visit.client.node(nodes[0]["id"])
    require(node["label"] == names[0], f"the label of a node is {node['label']!r}, not {names[0]!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and value >= 0


SERVICE_CHECKS: tuple[Check, ...] = (
    is_healthy_and_says_what_it_is,
    answers_at_any_time_within_its_bound,
    answers_about_a_node_that_is_not_there,
    refuses_wrong_requests_as_a_whole,
    takes_a_repeated_request_once,
    follows_a_changing_graph,
    questions_change_nothing,
    bounds_what_it_takes,
    needs_a_key_where_it_has_keys,
    learns_from_labels,
)
