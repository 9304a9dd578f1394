"""Every method again, slowly and obviously: dense matrices, autograd, Adam by its formula, lists for memories."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, leaky_relu, log_softmax, softmax
from torch_geometric.nn import SAGEConv

from ocgl.graph import Batch, Neighborhood
from ocgl.nn.head import glorot
from ocgl.rng import generator, seeded_torch


def matrix_of(neighborhood: Neighborhood) -> Tensor:
    """Write a look's aggregation as a dense matrix over its nodes."""
    expanded = len(neighborhood.indptr) - 1
    dense = torch.eye(len(neighborhood.nodes))
    for v in range(expanded):
        if len(neighborhood.self_weight):
            dense[v, v] = float(neighborhood.self_weight[v])
        for e in range(neighborhood.indptr[v], neighborhood.indptr[v + 1]):
            dense[v, neighborhood.indices[e]] = (
                float(neighborhood.edge_weight[e]) if len(neighborhood.edge_weight) else 1.0
            )
    return dense


def rows_of(neighborhood: Neighborhood) -> Tensor:
    rows = neighborhood.rows()
    assert isinstance(rows, np.ndarray)
    return torch.from_numpy(rows)


class SlowAdam:
    """Kingma and Ba's formula, parameter by parameter; new rows start with zero moments."""

    def __init__(self, lr: float) -> None:
        self.lr, self.step = lr, 0
        self.m: list[Tensor] = []
        self.v: list[Tensor] = []

    def apply(self, parameters: list[Tensor], grads: list[Tensor]) -> None:
        self.step += 1
        for i, (p, g) in enumerate(zip(parameters, grads, strict=True)):
            if i == len(self.m):
                self.m.append(torch.zeros_like(p))
                self.v.append(torch.zeros_like(p))
            missing = len(p) - len(self.m[i])
            if missing:
                self.m[i] = torch.cat([self.m[i], torch.zeros(missing, *p.shape[1:])])
                self.v[i] = torch.cat([self.v[i], torch.zeros(missing, *p.shape[1:])])
            self.m[i] = 0.9 * self.m[i] + 0.1 * g
            self.v[i] = 0.999 * self.v[i] + 0.001 * g * g
            unbiased = self.m[i] / (1 - 0.9**self.step), self.v[i] / (1 - 0.999**self.step)
            with torch.no_grad():
                p -= self.lr * unbiased[0] / (unbiased[1].sqrt() + 1e-8)


class Slow:
    """A two-layer GCN trained plainly; subclasses change the gradient and what happens after a batch."""

    def __init__(self, width: int, hidden: int, lr: float, passes: int, seed: int, kaiming: bool = False) -> None:
        self.rng, self.kaiming = generator(seed, "init"), kaiming
        self.first = (
            self.normal(width, hidden, width) if kaiming else glorot(width, hidden, width, self.rng)
        ).requires_grad_()
        self.head = torch.empty(0, hidden)
        self.labels: list[int] = []
        self.passes, self.adam = passes, SlowAdam(lr)
        self.batches = 0

    def normal(self, rows: int, columns: int, inputs: int) -> Tensor:
        drawn = [[self.rng.standard_normal() for _ in range(columns)] for _ in range(rows)]
        scaled: Tensor = torch.tensor(drawn, dtype=torch.float64) * (2 / inputs) ** 0.5
        return scaled.float()

    @property
    def parameters(self) -> list[Tensor]:
        return [self.first, self.head]

    def grow(self, labels: list[int]) -> None:
        new = sorted(set(labels) - set(self.labels))
        if new:
            self.labels += new
            inputs = self.head.shape[1]
            fresh = (
                self.normal(len(new), inputs, inputs)
                if self.kaiming
                else glorot(len(new), inputs, len(self.labels), self.rng)
            )
            self.head = torch.cat([self.head.detach(), fresh]).requires_grad_()

    def forward(self, neighborhood: Neighborhood, parameters: list[Tensor] | None = None) -> Tensor:
        first, head = parameters or self.parameters
        a = matrix_of(neighborhood)
        hidden = torch.relu(a @ (rows_of(neighborhood) @ first))
        return (a @ (hidden @ head.t()))[: neighborhood.seeds]

    def isolated(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.first) @ self.head.t()

    def targets(self, labels: Any) -> Tensor:
        return torch.tensor([self.labels.index(int(label)) for label in labels])

    def grad(self, loss: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True))

    def gradient(self, batch: Batch) -> list[Tensor]:
        return self.grad(cross_entropy(self.forward(batch.neighborhood), self.targets(batch.labels)))

    def after(self, batch: Batch) -> None:
        pass

    def learn(self, batch: Batch) -> None:
        self.grow(batch.labels.tolist())
        for _ in range(self.passes):
            self.adam.apply(self.parameters, self.gradient(batch))
        self.batches += 1
        self.after(batch)


class SlowReplay(Slow):
    """A memory that never overflows: (x, y) of every node in a list; draws as the run's replay generator makes them."""

    def __init__(
        self, width: int, hidden: int, lr: float, passes: int, seed: int, mp: int, one_mean: bool = False
    ) -> None:
        super().__init__(width, hidden, lr, passes, seed)
        self.mp, self.draws, self.one_mean = mp, generator(seed, "replay"), one_mean
        self.memory: list[tuple[Tensor, int]] = []

    def recall(self, count: int) -> tuple[Tensor, Tensor] | None:
        count = min(self.mp * count, len(self.memory))
        slots = self.draws.choice(len(self.memory), size=count, replace=False, shuffle=False)
        if not count:
            return None
        drawn = [self.memory[int(s)] for s in slots]
        return torch.stack([x for x, _ in drawn]), self.targets([y for _, y in drawn])

    def after(self, batch: Batch) -> None:
        rows = rows_of(batch.neighborhood)
        self.memory += [(rows[i], int(y)) for i, y in enumerate(batch.labels)]


class SlowER(SlowReplay):
    def gradient(self, batch: Batch) -> list[Tensor]:
        logits, targets = self.forward(batch.neighborhood), self.targets(batch.labels)
        recalled = self.recall(len(targets))
        if recalled is None:
            return self.grad(cross_entropy(logits, targets))
        if not self.one_mean:
            by_batch = self.grad(cross_entropy(logits, targets))
            by_memory = self.grad(cross_entropy(self.isolated(recalled[0]), recalled[1]))
            return [a + b for a, b in zip(by_batch, by_memory, strict=True)]
        logits = torch.cat([logits, self.isolated(recalled[0])])
        return self.grad(cross_entropy(logits, torch.cat([targets, recalled[1]])))


class SlowAGEM(SlowReplay):
    def gradient(self, batch: Batch) -> list[Tensor]:
        g = super().gradient(batch)
        recalled = self.recall(len(batch.labels))
        if recalled is None:
            return g
        r = self.grad(cross_entropy(self.isolated(recalled[0]), recalled[1]))
        flat_g, flat_r = (torch.cat([t.flatten() for t in part]) for part in (g, r))
        if flat_g @ flat_r < 0:
            flat_g = flat_g - (flat_g @ flat_r) / (flat_r @ flat_r) * flat_r
        parts = torch.split(flat_g, [p.numel() for p in self.parameters])
        return [part.view_as(p) for part, p in zip(parts, self.parameters, strict=True)]


class SlowImportance(Slow):
    """Keeps every batch's terms, and averages them anew each time, weighted by the examples."""

    def __init__(self, *args: Any, strengths: list[float], terms: Callable[..., list[list[Tensor]]], **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.strengths, self.terms = strengths, terms
        self.history: list[tuple[int, list[list[Tensor]]]] = []
        self.anchor: list[Tensor] | None = None

    def importance(self, kind: int, i: int) -> Tensor:
        total = sum(count for count, _ in self.history)
        out = torch.zeros_like(self.parameters[i])
        for count, terms in self.history:
            out[: len(terms[kind][i])] += count / total * terms[kind][i]
        return out

    def gradient(self, batch: Batch) -> list[Tensor]:
        loss = cross_entropy(self.forward(batch.neighborhood), self.targets(batch.labels))
        if self.anchor is not None:
            for kind, strength in enumerate(self.strengths):
                for i, p in enumerate(self.parameters):
                    anchor = torch.cat([self.anchor[i], p.detach()[len(self.anchor[i]) :]])
                    loss = loss + strength * (self.importance(kind, i) * (p - anchor) ** 2).sum()
        return self.grad(loss)

    def after(self, batch: Batch) -> None:
        self.history.append((len(batch.labels), self.terms(self, batch)))
        self.anchor = [p.detach().clone() for p in self.parameters]


def fisher(slow: Slow, batch: Batch) -> list[list[Tensor]]:
    return [[g**2 for g in Slow.gradient(slow, batch)]]


def sensitivity(slow: Slow, batch: Batch) -> list[list[Tensor]]:
    lengths = [(row**2).sum() for row in slow.forward(batch.neighborhood)]
    return [[g.abs() for g in slow.grad(torch.stack(lengths).mean())]]


def topology(slow: Slow, batch: Batch) -> list[list[Tensor]]:
    neighborhood = batch.neighborhood
    a = matrix_of(neighborhood)
    h = a @ (rows_of(neighborhood) @ slow.first)
    alphas = []
    for v in range(len(h)):
        senders = [u for u in range(len(h)) if u == v or a[v, u] != 0]
        scores = torch.stack([leaky_relu((h[u] * torch.tanh(h[v])).sum(), 0.2) for u in senders])
        alphas.append(softmax(scores, 0))
    return [*fisher(slow, batch), [g**2 for g in slow.grad(torch.cat(alphas).norm())]]


class SlowLwF(Slow):
    """Over what the teacher knows (`known`), the same against the whole student (`whole`), or what the batch lacks."""

    def __init__(
        self,
        width: int,
        hidden: int,
        lr: float,
        passes: int,
        seed: int,
        dist: float,
        temperature: float,
        every: int,
        over: str,
    ) -> None:
        super().__init__(width, hidden, lr, passes, seed, kaiming=over == "absent")
        self.over = over
        self.dist, self.temperature, self.every = dist, temperature, every
        self.teacher: list[Tensor] | None = None

    def gradient(self, batch: Batch) -> list[Tensor]:
        logits = self.forward(batch.neighborhood)
        loss = cross_entropy(logits, self.targets(batch.labels))
        if self.teacher is not None:
            taught = self.forward(batch.neighborhood, self.teacher).detach()
            present = [self.labels.index(int(label)) for label in batch.labels] if self.over == "absent" else []
            columns = [c for c in range(taught.shape[1]) if c not in present]
            if not columns:
                return self.grad(loss)
            q = softmax(taught[:, columns] / self.temperature, 1)
            p = log_softmax((logits if self.over == "whole" else logits[:, columns]) / self.temperature, 1)
            loss = loss + self.dist * sum(-(q[v] * p[v, : len(columns)]).sum() for v in range(len(q))) / len(q)
        return self.grad(loss)

    def after(self, batch: Batch) -> None:
        if self.batches % self.every == 0:
            self.teacher = [p.detach().clone() for p in self.parameters]


class SlowPDGNN(SlowReplay):
    """z by powers of the dense matrix; then an MLP with biases."""

    def __init__(
        self, width: int, hidden: int, lr: float, passes: int, seed: int, mp: int, one_mean: bool = False
    ) -> None:
        super().__init__(width, hidden, lr, passes, seed, mp, one_mean)
        self.rng = generator(seed, "init")
        self.first = glorot(hidden, width, hidden, self.rng).requires_grad_()
        self.hidden_bias = torch.zeros(hidden, requires_grad=True)
        self.head_bias = torch.zeros(0)

    @property
    def parameters(self) -> list[Tensor]:
        return [self.first, self.hidden_bias, self.head, self.head_bias]

    def grow(self, labels: list[int]) -> None:
        before = len(self.labels)
        super().grow(labels)
        added = torch.zeros(len(self.labels) - before)
        self.head_bias = torch.cat([self.head_bias.detach(), added]).requires_grad_()

    def embedding(self, neighborhood: Neighborhood) -> Tensor:
        a = matrix_of(neighborhood)
        return (a @ a @ rows_of(neighborhood))[: neighborhood.seeds]

    def isolated(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.first.t() + self.hidden_bias) @ self.head.t() + self.head_bias

    def forward(self, neighborhood: Neighborhood, parameters: list[Tensor] | None = None) -> Tensor:
        return self.isolated(self.embedding(neighborhood))

    gradient = SlowER.gradient

    def after(self, batch: Batch) -> None:
        z = self.embedding(batch.neighborhood).detach()
        self.memory += [(z[i], int(y)) for i, y in enumerate(batch.labels)]


class Sage(Slow):
    """GraphSAGE instead of the GCN: means over neighbours by dense matrices; a head with bias on top.

    The initial weights are those that PyG's layers draw.
    """

    def __init__(self, width: int, hidden: int, lr: float, passes: int, seed: int, **extra: Any) -> None:
        super().__init__(width, hidden, lr, passes, seed, **extra)
        self.rng = generator(seed, "init")
        with seeded_torch(seed):
            layers = [SAGEConv(width, hidden), SAGEConv(hidden, hidden)]
        drawn = [(layer.lin_l.weight, layer.lin_l.bias, layer.lin_r.weight) for layer in layers]
        self.layers = [[part.detach().clone().requires_grad_() for part in layer] for layer in drawn]
        self.bias = torch.empty(0)

    @property
    def parameters(self) -> list[Tensor]:
        return [*(part for layer in self.layers for part in layer), self.head, self.bias]

    def grow(self, labels: list[int]) -> None:
        super().grow(labels)
        missing = len(self.labels) - len(self.bias)
        if missing:
            self.bias = torch.cat([self.bias.detach(), torch.zeros(missing)]).requires_grad_()

    def forward(self, neighborhood: Neighborhood, parameters: list[Tensor] | None = None) -> Tensor:
        sums = matrix_of(neighborhood) - torch.eye(len(neighborhood.nodes))
        means = sums / sums.sum(1, keepdim=True).clamp(min=1)
        h = rows_of(neighborhood)
        for left, bias, right in self.layers:
            h = torch.relu(means @ h @ left.t() + bias + h @ right.t())
        return (h @ self.head.t() + self.bias)[: neighborhood.seeds]

    def isolated(self, x: Tensor) -> Tensor:
        for _, bias, right in self.layers:
            x = torch.relu(bias + x @ right.t())
        return x @ self.head.t() + self.bias


class SageER(Sage, SlowER):
    pass


class SageAGEM(Sage, SlowAGEM):
    pass


class SageImportance(Sage, SlowImportance):
    pass
