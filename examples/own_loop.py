import torch
from torch_geometric.nn import GraphSAGE

import ocgl

stream = ocgl.class_stream(ocgl.load_dataset("digits"))
loop = ocgl.batches(stream, ocgl.NeighborSampling(hops=2, fanout=10))
evaluator = ocgl.Evaluator(stream, every=10)
model = GraphSAGE(in_channels=64, hidden_channels=64, num_layers=2, out_channels=10)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


@torch.no_grad()
def predict(ids):
    asked = loop.sample(ids)
    return model(asked.x, asked.edge_index)[: asked.batch_size].argmax(1).numpy()


for step, batch in loop:
    if batch is not None:  # labels may come later
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(batch.x, batch.edge_index)[: batch.batch_size], batch.y).backward()
        optimizer.step()
    evaluator.after(step, predict)
print(evaluator.result())
